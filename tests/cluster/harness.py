"""A running Kubernetes cluster of real parts, and what a test may do with it.

`running_cluster` starts what `up/` builds and stops it again, whatever happens to the
tests. Everything waits on a watch or on a port, nothing sleeps. Commands are blocking:
a test that shares its thread with an event loop calls them through a thread.
"""

import base64
import http.client
import json
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlencode

import pytest

UP = Path(__file__).parent / "up"
BUSYBOX = "localhost/busybox:1"
GLIBC = "localhost/glibc:1"
CANNOT, NOT_BUILT = 3, 4  # exit codes of build.sh
LIST_TIMEOUT_S = 60

Object = dict[str, Any]
T = TypeVar("T")


class ClusterUnavailable(Exception):
    """This machine runs no cluster; the text says why, and what would help."""


def do_without(why: ClusterUnavailable) -> NoReturn:
    """Skip the test, which fails it where all must run (tests/conftest.py)."""
    pytest.skip(str(why))


@contextmanager
def skipped_without_cluster() -> Iterator[None]:
    """Skip the test where what the block starts cannot be had on this machine."""
    try:
        yield
    except ClusterUnavailable as why:
        do_without(why)


class CommandFailed(AssertionError):
    """A command of the harness failed; the text has its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePaths:
    """Where a node's kubelet and containerd keep what a daemon on the host needs."""

    name: str
    root: Path

    @property
    def kubelet(self) -> Path:
        """What the kubelet sees as /var/lib/kubelet."""
        return self.root / "kubelet"

    @property
    def device_plugins(self) -> Path:
        return self.kubelet / "device-plugins"

    @property
    def checkpoint(self) -> Path:
        return self.device_plugins / "kubelet_internal_checkpoint"

    @property
    def pod_resources_socket(self) -> Path:
        return self.kubelet / "pod-resources" / "kubelet.sock"

    @property
    def pods_api_socket(self) -> Path:
        return self.kubelet / "pods-api" / "pods-api.sock"

    @property
    def cdi(self) -> Path:
        return self.root / "cdi"

    @property
    def containerd_socket(self) -> Path:
        return self.root / "containerd.sock"


def binaries() -> Path:
    """The folder of kubectl, helm and the rest, up to date; raises ClusterUnavailable."""
    done = _run([str(UP / "build.sh"), "check"])
    if done.returncode in {CANNOT, NOT_BUILT}:
        raise ClusterUnavailable(done.stderr.strip().splitlines()[-1])
    if done.returncode != 0:
        raise CommandFailed(f"build.sh check: {done.stderr}")
    return Path(done.stdout.strip())


def helm() -> Path:
    """The helm of `build.sh helm`; raises ClusterUnavailable when it was never run."""
    found = _run(["bash", "-c", f". {UP}/lib.sh && echo $bin/helm"]).stdout.strip()
    if not Path(found).exists():
        raise ClusterUnavailable("no helm: run tests/cluster/up/build.sh helm (make cluster-build)")
    return Path(found)


@contextmanager
def running_cluster(
    *, nodes: int = 1, port: int = 16443, keep_logs_in: Callable[[], Path | None] = lambda: None
) -> Iterator["Cluster"]:
    """Start a cluster and stop it on leaving, even if this process is killed.

    `keep_logs_in` is asked at the end; the logs are moved to the folder it names.
    """
    folder = binaries()
    # Short, for unix sockets live in it.
    state = Path(tempfile.mkdtemp(prefix="hamid-", dir="/tmp"))
    holder = subprocess.Popen(
        ["env", f"HAMID_CLUSTER_PORT={port}", str(UP / "hold.sh"), str(state), str(nodes)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert holder.stdin
    assert holder.stdout
    said: list[str] = []
    try:
        for line in holder.stdout:
            said.append(line)
            if line in {"up\n", "failed\n"}:
                break
        if said[-1:] != ["up\n"]:
            raise CommandFailed(f"up.sh {nodes} failed:\n{''.join(said)}\n{_log_tails(state)}")
        yield Cluster(state=state, binaries=folder, port=port, node_count=nodes)
    finally:
        kept = keep_logs_in()
        if kept:
            holder.stdin.write("keep\n")
        holder.stdin.close()
        holder.wait(timeout=60)
        if kept and (state / "logs").is_dir():
            shutil.rmtree(kept, ignore_errors=True)
            shutil.move(state / "logs", kept)
        shutil.rmtree(state, ignore_errors=True)


class Cluster:
    """An API server, a scheduler, a controller manager and nodes `node-1`, `node-2`, …"""

    def __init__(self, *, state: Path, binaries: Path, port: int, node_count: int) -> None:
        self.state = state
        self.binaries = binaries
        self.port = port
        self.node_count = node_count
        self.kubeconfig = state / "kubeconfig"
        self.server = f"https://127.0.0.1:{port}"
        self.ca_file = state / "pki" / "ca.crt"
        self.tls = ssl.create_default_context(cafile=self.ca_file)
        self.tls.load_cert_chain(state / "pki" / "admin.crt", state / "pki" / "admin.key")

    def kubectl(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None
    ) -> str:
        """What kubectl prints; raises CommandFailed with what it complains about."""
        done = self.try_kubectl(*arguments, stdin=stdin, kubeconfig=kubeconfig)
        if done.returncode != 0:
            raise CommandFailed(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def try_kubectl(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The ended kubectl, whether it succeeded or not."""
        program = str(self.binaries / "kubectl")
        return _run(
            [program, "--kubeconfig", str(kubeconfig or self.kubeconfig), *arguments], stdin=stdin
        )

    def apply(self, manifests: str) -> None:
        """Apply YAML; what names no namespace goes into `default`."""
        self.kubectl("apply", "-f", "-", stdin=manifests)

    def get(self, resource: str, name: str, *, namespace: str = "default") -> Object:
        found: Object = json.loads(
            self.kubectl("get", resource, name, "--namespace", namespace, "-o", "json")
        )
        return found

    def wait_for(
        self,
        resource: str,
        wanted: Callable[[Mapping[str, Object]], T],
        *,
        namespace: str | None = "default",
        selector: str = "",
        timeout_s: float = 60,
    ) -> T:
        """Watch until `wanted(objects by name)` is true, and return what it returned.

        `resource` is `pods`, `leases.coordination.k8s.io`, …: the plural and the group,
        version v1. `namespace` None is the whole cluster, or for a resource that has none.
        """
        path, query = _collection(resource, namespace), {"labelSelector": selector}
        listing = self._read(path, query, until=time.monotonic() + LIST_TIMEOUT_S)
        listed = json.loads(b"".join(listing))
        until = time.monotonic() + timeout_s
        objects: dict[str, Object] = {item["metadata"]["name"]: item for item in listed["items"]}
        query |= {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
        lines = self._read(path, query, until=until)
        try:
            while not (answer := wanted(objects)):
                _take_in(json.loads(next(lines)), objects)
        except TimeoutError:
            seen = json.dumps({name: _state_of(item) for name, item in objects.items()})
            raise AssertionError(
                f"gave up on {resource} after {timeout_s} s; last seen: {seen[:4000]}"
            ) from None
        finally:
            lines.close()
        return answer

    def wait_for_phase(
        self, name: str, phase: str, *, namespace: str = "default", timeout_s: float = 60
    ) -> Object:
        """The pod, once it is in this phase."""

        def wanted(pods: Mapping[str, Object]) -> Object | None:
            pod = pods.get(name)
            return pod if pod and pod["status"].get("phase") == phase else None

        found = self.wait_for("pods", wanted, namespace=namespace, timeout_s=timeout_s)
        assert found
        return found

    def wait_for_event(
        self,
        name: str,
        reason: str,
        *,
        containing: str = "",
        namespace: str = "default",
        timeout_s: float = 60,
    ) -> str:
        """The message of an event of this reason about the object of this name, with these words."""

        def wanted(events: Mapping[str, Object]) -> str | None:
            return next(
                (
                    event["message"]
                    for event in events.values()
                    if event["involvedObject"].get("name") == name
                    and event["reason"] == reason
                    and containing in event["message"]
                ),
                None,
            )

        found = self.wait_for("events", wanted, namespace=namespace, timeout_s=timeout_s)
        assert found
        return found

    def node(self, number: int = 1) -> NodePaths:
        return NodePaths(name=f"node-{number}", root=self.state / f"node-{number}")

    def stop_kubelet(self, number: int = 1) -> None:
        self._shell(f"stop kubelet-node-{number}")

    def start_kubelet(self, number: int = 1) -> None:
        """Return when it answers; its Node may take a moment longer to say Ready."""
        self._shell(f"start_kubelet {number}")

    def restart_kubelet(self, number: int = 1) -> None:
        self.stop_kubelet(number)
        self.start_kubelet(number)

    def stop_scheduler(self) -> None:
        self._shell("stop kube-scheduler")

    def start_scheduler(self, configuration: str | None = None) -> None:
        """Start kube-scheduler, with a KubeSchedulerConfiguration if one is given.

        In it the word KUBECONFIG stands for its kubeconfig, PKI for the folder of keys.
        """
        path = self.state / "scheduler-asked.yaml"
        if configuration is not None:
            path.write_text(configuration)
        self._shell(f"start_scheduler {path if configuration is not None else ''}")

    def restart_scheduler(self, configuration: str | None = None) -> None:
        self.stop_scheduler()
        self.start_scheduler(configuration)

    def token(self, service_account: str, *, namespace: str, node: str | None = None) -> str:
        """A token of the ServiceAccount; with `node` it carries the node's name, as those
        that a kubelet mounts into a pod do."""
        bound = ("--bound-object-kind", "Node", "--bound-object-name", node) if node else ()
        return self.kubectl(
            "create", "token", service_account, "--namespace", namespace, *bound
        ).strip()

    def token_kubeconfig(
        self, service_account: str, *, namespace: str, node: str | None = None
    ) -> Path:
        """A kubeconfig for the ServiceAccount, optionally as a replica on this node."""
        token = self.token(service_account, namespace=namespace, node=node)
        path = self.state / "pki" / f"{namespace}-{service_account}-{node or 'any'}.kubeconfig"
        cluster = {"server": self.server, "certificate-authority": str(self.ca_file)}
        context = {"cluster": "cluster", "user": "user", "namespace": namespace}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "cluster",
            "contexts": [{"name": "cluster", "context": context}],
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "user", "user": {"token": token}}],
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))
        return path

    @property
    def host_address(self) -> str:
        """Where pods and the API server reach programs of this machine: node 1's address."""
        return "10.88.1.1"

    def lead_service_here(self, service: str, *, namespace: str, port_name: str, port: int) -> None:
        """Give the Service an endpoint on this machine, as if a pod of it ran here.

        That is how the API server reaches a webhook; nothing else follows Services here.
        """
        endpoint_slice = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{service}-here",
                "namespace": namespace,
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [self.host_address], "conditions": {"ready": True}}],
            "ports": [{"name": port_name, "port": port, "protocol": "TCP"}],
        }
        self.apply(json.dumps(endpoint_slice))

    def save_secret(self, name: str, *, namespace: str) -> Path:
        """A folder with a file per key of the Secret, as a pod would have it mounted."""
        folder = self.state / "pki" / f"{namespace}-{name}"
        folder.mkdir(mode=0o700, exist_ok=True)
        for key, value in (self.get("secret", name, namespace=namespace).get("data") or {}).items():
            (folder / key).write_bytes(base64.b64decode(value))
        return folder

    def log(self, part: str) -> str:
        """What `kube-apiserver`, `kubelet-node-1`, … has written so far."""
        return (self.state / "logs" / f"{part}.log").read_text(errors="replace")

    def _read(
        self, path: str, query: Mapping[str, str], *, until: float
    ) -> Generator[bytes, None, None]:
        """Yield the lines of the answer as they come; TimeoutError when none came in time."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=self.tls, timeout=until - time.monotonic()
        )
        try:
            connection.request("GET", f"{path}?{urlencode(query)}")
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                raise CommandFailed(f"GET {path}: {response.status} {response.read()[:256]!r}")
            while line := response.readline():
                yield line
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise TimeoutError
                if connection.sock:  # none any more once the answer is read to its end
                    connection.sock.settimeout(left_s)
        finally:
            connection.close()

    def _shell(self, command: str) -> None:
        variables = f"state={self.state} HAMID_CLUSTER_PORT={self.port}"
        script = f"set -euo pipefail; {variables}; . {UP}/lib.sh; {command}"
        done = _run(["bash", "-c", script])
        if done.returncode != 0:
            raise CommandFailed(f"{command}: {done.stderr}\n{_log_tails(self.state)}")


def _collection(resource: str, namespace: str | None) -> str:
    plural, _, group = resource.partition(".")
    prefix = f"/apis/{group}/v1" if group else "/api/v1"
    return f"{prefix}/namespaces/{namespace}/{plural}" if namespace else f"{prefix}/{plural}"


def _state_of(item: Object) -> object:
    """What says most about it; of an event, its words."""
    return item.get("status") or item.get("message")


def _take_in(event: Object, objects: dict[str, Object]) -> None:
    if event["type"] == "ERROR":
        raise CommandFailed(f"the watch ended: {event['object'].get('message')}")
    name = event["object"]["metadata"]["name"]
    if event["type"] == "DELETED":
        objects.pop(name, None)
    else:
        objects[name] = event["object"]


def _run(command: list[str], *, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


def _log_tails(state: Path, *, lines: int = 5) -> str:
    return "\n".join(
        f"--- {log.stem}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
        for log in sorted((state / "logs").glob("*.log"))
    )
