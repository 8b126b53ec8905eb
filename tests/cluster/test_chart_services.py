"""What the chart sets up between processes: who is reached, by which certificates.

A stand-in for the daemon answers; it notes who asked for what.
"""

import base64
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hamid.web.pki import issue_client, issue_server, make_authority
from tests.cluster.harness import Cluster, helm, skipped_without_cluster
from tests.deploy.rendering import NAMESPACE, rendered, scheduler_configuration

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  schedulerName: hamid-scheduler
  terminationGracePeriodSeconds: 0
  containers:
  - {{name: main, image: "localhost/busybox:1", imagePullPolicy: Never, resources: {{limits: {limits}}}}}
"""


class StandIn(http.server.ThreadingHTTPServer):
    """Answers as the daemon would to a pod that fits everywhere; keeps what it was asked."""

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext) -> None:
        super().__init__(address, Answer)
        self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.asked: list[tuple[str, object]] = []


class Answer(http.server.BaseHTTPRequestHandler):
    server: StandIn

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        self.server.asked.append((path, body))
        data = json.dumps(answer(path, body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments: object) -> None:
        """Not into the tests' output."""


def answer(path, body):
    match path:
        case "/webhook":
            response = {"uid": body["request"]["uid"], "allowed": True}
            kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
            return {**kind, "response": response}
        case "/filter":
            return {"NodeNames": body["NodeNames"]}
        case "/prioritize":
            return []
        case "/bind":
            return {"Error": "this is only a stand-in"}
    raise AssertionError(path)


@contextmanager
def stand_in(address: str, tls: ssl.SSLContext) -> Iterator[StandIn]:
    server = StandIn((address, 0), tls)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.crt, tls.crt and tls.key of a client, server.crt and server.key of the daemon."""
    folder = tmp_path_factory.mktemp("certificates")
    valid = {"now_s": time.clock_gettime(time.CLOCK_REALTIME), "lifetime_s": 3600.0}
    authority = make_authority("test", **valid)
    names = [f"{service}.{NAMESPACE}.svc" for service in ("hamid-webhook", "hamid-scheduler")]
    server = issue_server(authority, names=names, **valid)
    client = issue_client(authority, common_name="kube-scheduler", **valid)
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    (folder / "tls.crt").write_bytes(client.certificate_pem)
    (folder / "tls.key").write_bytes(client.key_pem)
    (folder / "server.crt").write_bytes(server.certificate_pem)
    (folder / "server.key").write_bytes(server.key_pem)
    return folder


def server_tls(folder: Path, *, wants_client: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    if wants_client:
        context.load_verify_locations(folder / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.fixture(scope="module")
def cluster(real_cluster: Cluster) -> Cluster:
    with skipped_without_cluster():
        helm()
    return real_cluster


def test_the_api_server_asks_the_webhook_by_its_service(cluster: Cluster, folder: Path):
    objects = rendered()
    service = objects["Service", "hamid-webhook"]
    hook = objects["MutatingWebhookConfiguration", "hamid"]
    hook["webhooks"][0]["clientConfig"]["caBundle"] = _base64(folder / "ca.crt")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    with stand_in(cluster.host_address, server_tls(folder, wants_client=False)) as daemon:
        for item in (namespace, service, hook):
            cluster.apply(json.dumps(item))
        try:
            cluster.lead_service_here(
                "hamid-webhook",
                namespace=NAMESPACE,
                port_name="webhook",
                port=daemon.server_address[1],
            )
            until = time.monotonic() + 30
            while not daemon.asked:  # until the API server knows of both
                cluster.try_kubectl(
                    *("apply", "--dry-run=server", "-f", "-"),
                    stdin=POD.format(name="asks", limits="{nvidia.com/gpu: 1}"),
                )
                assert time.monotonic() < until
        finally:
            for item in (hook, namespace):
                cluster.kubectl("delete", "-f", "-", stdin=json.dumps(item))

    path, review = daemon.asked[0]
    assert path == "/webhook"
    assert review["request"]["object"]["metadata"]["name"] == "asks"


def test_kube_scheduler_asks_the_extender_about_pods_of_ours_only(cluster: Cluster, folder: Path):
    """And shows its certificate, and takes that of the Service for the extender's."""
    with stand_in("127.0.0.1", server_tls(folder, wants_client=True)) as daemon:
        url = f"https://127.0.0.1:{daemon.server_address[1]}"
        cluster.restart_scheduler(scheduler_configuration(url=url, client_folder=folder))
        try:
            cluster.apply(POD.format(name="plain", limits="{cpu: 1m}"))
            cluster.apply(POD.format(name="asks", limits="{nvidia.com/gpu: 1}"))
            cluster.wait_for_phase("plain", "Running")
            message = cluster.wait_for_event("asks", "FailedScheduling")
        finally:
            cluster.kubectl("delete", "pods", "plain", "asks", "--ignore-not-found")
            cluster.restart_scheduler()

    assert "this is only a stand-in" in message
    assert {path for path, _ in daemon.asked} == {"/filter", "/bind"}
    arguments = daemon.asked[0][1]
    assert arguments["Pod"]["metadata"]["name"] == "asks"
    assert arguments["NodeNames"] == ["node-1"]
    assert arguments["Nodes"] is None


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
