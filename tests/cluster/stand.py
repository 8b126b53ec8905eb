"""The whole of hamid on the real cluster: chart, kube-scheduler with our profile, daemons on the host.

The daemons are host processes with the chart's ServiceAccount and its rights, on simulated cards.
What a cluster would do between them and is not there is done here: a forwarder stands for
kube-proxy and leads kube-scheduler and the API server to where the EndpointSlices say.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import yaml

from benchmarks.stand import free_port
from hamid.model.names import LEASE_STANDBYS
from hamid.nvml.profiles import make_profile
from tests.cluster.books import books_of
from tests.cluster.forwarder import Forwarder
from tests.cluster.harness import helm
from tests.cluster.rawapi import raw_api
from tests.deploy.rendering import CHART, NAMESPACE, rendered, run_helm

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.cluster.books import Books
    from tests.cluster.harness import Cluster

NATIVE = Path(__file__).parents[2] / "native" / "build"
LEADER_LABEL = "node-restriction.kubernetes.io/hamid-leader"
SIM = "/usr/local/hamid-sim"
SERVICE_LABEL = "kubernetes.io/service-name"
VALUES = (
    *("--set", "scheduler.replicas=0"),
    *("--set", f"scheduler.leaders.nodeLabel={LEADER_LABEL}"),
    *("--set-string", "scheduler.leaders.nodeLabelValue=true"),
)


@dataclass(slots=True, kw_only=True)
class Daemon:
    """One daemon as a host process."""

    name: str
    config: Path
    log: Path
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None

    def status(self, path: str) -> str:
        """What its status site answers."""
        port = yaml.safe_load(self.config.read_text())["addresses"]["status_port"]
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            text: str = answer.read().decode()
            return text

    def start(self) -> None:
        """Start it; whoever needs it ready waits for what it does."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hamid", "run", "--config", str(self.config)],
                env={**os.environ, **self.environment},  # noqa: TID251 - of a test
                stdout=log,
                stderr=log,
            )

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """End it and return its exit code."""
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(with_signal)
        return process.wait(timeout=30)

    def kill(self) -> None:
        """End it without a farewell."""
        self.stop(signal.SIGKILL)


@dataclass(slots=True, kw_only=True)
class Stand:
    """The cluster with hamid on it."""

    cluster: Cluster
    root: Path
    webhook: Forwarder
    extender: Forwarder
    values: tuple[str, ...] = VALUES
    daemons: dict[str, Daemon] = field(default_factory=dict)

    @property
    def sim(self) -> Path:
        """What containers mount at `SIM`: drivers, cards, and the tenant program."""
        return self.root / "sim"

    @property
    def state(self) -> Path:
        """The daemon's state directory on node-1."""
        return self.root / "state"

    def add_daemon(
        self,
        name: str,
        node_name: str,
        *,
        number: int,
        has_plugin: bool,
        settings: dict[str, Any] | None = None,
    ) -> Daemon:
        """A daemon for a node, with settings of its own if need be; it is not started yet."""
        config = chart_config(self.values)
        node = self.cluster.node(1)
        address = bridge_address(self.cluster)
        overlay: dict[str, Any] = {
            "identity": {"node_name": node_name, "namespace": NAMESPACE, "pod_ip": address},
            "kube": {
                "kubeconfig": str(
                    self.cluster.token_kubeconfig("hamid", namespace=NAMESPACE, node=node_name)
                )
            },
            "roles": {"plugin": "always" if has_plugin else "never"},
            "addresses": {
                "status_host": "127.0.0.1",
                "status_port": free_port(),
                "webhook_host": "0.0.0.0",
                "webhook_port": 20443 + number,
                "extender_host": "0.0.0.0",
                "extender_port": 20543 + number,
            },
            "nvml": {"library": str(self.sim / "libnvidia-ml.so.1"), "host_root": str(self.root)},
            "hooks": {"library": str(NATIVE / "libhamid.so")},
            "plugin": {
                "state_dir": str(self.state),
                "cdi_dir": str(node.cdi),
                "device_plugin_dir": str(node.device_plugins),
                "pod_resources_dir": str(node.pod_resources_socket.parent),
                "pods_api_dir": str(node.pods_api_socket.parent),
                "reconcile_interval_s": 1.0,
                "health_interval_s": 1.0,
            },
            "lease": {"lease_duration_s": 5.0, "renew_deadline_s": 3.0, "retry_period_s": 1.0},
        }
        path = self.root / f"{name}.yaml"
        path.write_text(yaml.safe_dump(merged(merged(config, overlay), settings or {})))
        daemon = Daemon(
            name=name,
            config=path,
            log=self.cluster.state / "logs" / f"hamid-{name}.log",
            environment={
                "HAMID_SIM_DEVICES": str(self.sim / "devices"),
                "HAMID_SIM_STATE": str(self.sim / "state"),
            },
        )
        self.daemons[name] = daemon
        return daemon

    def books(self, name: str) -> Books:
        """What the annotations say, beside what the daemon of this name says; it has to lead."""
        daemon = self.daemons[name]
        with raw_api(self.cluster) as api:
            return books_of(api, lambda page: json.loads(daemon.status(f"/debug/{page}")))

    def wait_for_leader(self, *, other_than: str = "") -> str:
        """The identity on the lease, once there is one (another one than this)."""
        lease = lease_name()

        def held(leases: Mapping[str, Any]) -> str | None:
            holder = leases.get(lease, {}).get("spec", {}).get("holderIdentity") or ""
            return holder if holder and holder != other_than else None

        found = self.cluster.wait_for(
            "leases.coordination.k8s.io", held, namespace=NAMESPACE, timeout_s=60
        )
        assert found
        return found

    def wait_for_standby(self, node_name: str) -> None:
        """Wait until the replica on this node has signed up to follow."""
        lease = lease_name()
        self.cluster.wait_for(
            "leases.coordination.k8s.io",
            lambda leases: (
                node_name
                in leases[lease]["metadata"].get("annotations", {}).get(LEASE_STANDBYS, "")
            ),
            namespace=NAMESPACE,
        )

    def follow_leader(self, *, not_port: int = 0) -> None:
        """Lead kube-scheduler to where the EndpointSlice says, once it names another port."""

        def leads_to(slices: Mapping[str, Any]) -> tuple[str, int] | None:
            for each in slices.values():
                if each["metadata"].get("labels", {}).get(SERVICE_LABEL) != "hamid-scheduler":
                    continue
                port = each["ports"][0]["port"]
                if port != not_port and each.get("endpoints"):
                    return each["endpoints"][0]["addresses"][0], port
            return None

        found = self.cluster.wait_for(
            "endpointslices.discovery.k8s.io", leads_to, namespace=NAMESPACE
        )
        assert found
        self.extender.target = found

    def wait_until_admitting(self, manifest: str) -> None:
        """Wait until the API server takes this: one of its connections may lead to who is gone."""
        until = time.monotonic() + 60
        while True:
            done = self.cluster.try_kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifest)
            if done.returncode == 0:
                return
            assert time.monotonic() < until, done.stderr

    def wait_for_slots(self, count: int, *, timeout_s: float = 60) -> None:
        """Wait until node-1 has so many slots to give."""
        self.cluster.wait_for(
            "nodes",
            lambda nodes: (
                nodes["node-1"]["status"]["allocatable"].get("nvidia.com/gpu") == str(count)
            ),
            namespace=None,
            timeout_s=timeout_s,
        )


@contextmanager
def stand(
    cluster: Cluster,
    root: Path,
    *,
    cards: str = "A100-40GB",
    count: int = 2,
    settings: dict[str, Any] | None = None,
    chart: tuple[str, ...] = (),
) -> Iterator[Stand]:
    """hamid installed on the cluster, its daemon on node-1 leading and registered.

    `chart` are more values of the chart, as `name=value`.
    """
    helm()  # or the reason why there is none
    prepare_sim(root, cards=cards, count=count)
    address = bridge_address(cluster)
    with Forwarder("127.0.0.1") as webhook, Forwarder("127.0.0.1") as extender:
        values = (*VALUES, *chain.from_iterable(("--set", value) for value in chart))
        made = Stand(cluster=cluster, root=root, webhook=webhook, extender=extender, values=values)
        try:
            install(made)
            first = made.add_daemon("first", "node-1", number=1, has_plugin=True, settings=settings)
            webhook.target = (address, 20444)
            first.start()
            made.wait_for_leader()
            made.follow_leader()
            start_scheduler(made)
            made.wait_for_slots(count * 10)
            yield made
        finally:
            for daemon in made.daemons.values():
                daemon.stop()
            run_release(cluster, "uninstall", "--wait")
            cluster.try_kubectl("delete", "namespace", NAMESPACE, "--wait=true")


def install(made: Stand) -> None:
    """The chart, with everything but the pods that its images would run."""
    cluster = made.cluster
    # Another module's may still be on its way out.
    cluster.try_kubectl("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=60s")
    cluster.kubectl("label", "node", "node-1", f"{LEADER_LABEL}=true", "--overwrite")
    run_release(cluster, "install", "--create-namespace", values=made.values)
    cluster.kubectl("delete", "daemonset", "hamid", "-n", NAMESPACE)
    # The API server reaches the webhook by the address, as it would by the Service.
    hook = yaml.safe_load(
        cluster.kubectl("get", "mutatingwebhookconfiguration", "hamid", "-o", "yaml")
    )
    url = f"https://{made.webhook.address[0]}:{made.webhook.address[1]}/webhook"
    client = {"url": url}
    patch = [{"op": "replace", "path": "/webhooks/0/clientConfig", "value": client}]
    assert hook["webhooks"]
    cluster.kubectl(
        "patch", "mutatingwebhookconfiguration", "hamid", "--type=json", "-p", json.dumps(patch)
    )


def start_scheduler(made: Stand) -> None:
    """kube-scheduler with the chart's profile, and the certificate that the leader made for it."""
    cluster = made.cluster
    secret = cluster.wait_for(
        "secrets", lambda found: filled(found.get("hamid-scheduler-client")), namespace=NAMESPACE
    )
    folder = made.root / "extender-client"
    folder.mkdir(exist_ok=True)
    for name, content in secret["data"].items():
        (folder / name).write_bytes(base64.b64decode(content))
    objects = rendered(*made.values)
    profile = yaml.safe_load(objects["ConfigMap", "hamid-kube-scheduler"]["data"]["config.yaml"])
    profile["leaderElection"] = {"leaderElect": False}
    profile["clientConnection"] = {"kubeconfig": "KUBECONFIG", "qps": 1000, "burst": 2000}
    for extender in profile["extenders"]:
        # The path stays the chart's.
        path = urlsplit(extender["urlPrefix"]).path
        extender["urlPrefix"] = f"https://127.0.0.1:{made.extender.address[1]}{path}"
        extender["tlsConfig"] |= {
            "caFile": str(folder / "ca.crt"),
            "certFile": str(folder / "tls.crt"),
            "keyFile": str(folder / "tls.key"),
        }
    cluster.restart_scheduler(yaml.safe_dump(profile))


def prepare_sim(root: Path, *, cards: str, count: int) -> None:
    """The folder that containers mount: simulated drivers, cards, the tenant program."""
    sim = root / "sim"
    sim.mkdir(parents=True)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        shutil.copy(NATIVE / "sim" / name, sim / name)
    shutil.copy(NATIVE / "bin" / "alloc_mib", sim / "alloc_mib")
    (sim / "devices").write_text(make_profile([(cards, count)], node_name="node-1"))
    sim.chmod(0o777)


def chart_config(values: tuple[str, ...] = VALUES) -> dict[str, Any]:
    """The settings as the chart writes them."""
    text = rendered(*values)["ConfigMap", "hamid"]["data"]["config.yaml"]
    config = yaml.safe_load(text)
    assert isinstance(config, dict)
    return config


def lease_name() -> str:
    """The name of the lease in the chart."""
    return str(chart_config()["lease"]["name"])


def merged(base: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """The base with the overlay's values over it."""
    result = dict(base)
    for key, value in overlay.items():
        before = result.get(key)
        result[key] = (
            merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
        )
    return result


def filled(secret: Any) -> Any:
    """The secret, if it has what kube-scheduler needs."""
    data = (secret or {}).get("data") or {}
    return secret if {"ca.crt", "tls.crt", "tls.key"} <= data.keys() else None


def bridge_address(cluster: Cluster) -> str:
    """An address of this machine that is not loopback: EndpointSlices take no other."""
    node = cluster.get("node", "node-1")
    addresses = node["status"]["addresses"]
    return next(str(a["address"]) for a in addresses if a["type"] == "InternalIP")


def run_release(
    cluster: Cluster, verb: str, *options: str, values: tuple[str, ...] = VALUES
) -> str:
    """helm's install or uninstall."""
    what = [] if verb == "uninstall" else [str(CHART), *values]
    where = ("--namespace", NAMESPACE, "--kubeconfig", str(cluster.kubeconfig))
    return run_helm(verb, "hamid", *what, *where, *options)
