"""A thousand nodes without machines: real API server and kube-scheduler, hamid's daemon leading.

By hand, until Ctrl-C:

    python -m tests.cluster.fleet --nodes 1000 --port 18443

In a test or a benchmark, everything blocking, nothing needs an event loop:

    with running_fleet(nodes=1000, port=18443) as fleet:
        names = fleet.create_pods(gpu_pod(f"train-{n}", memory_mib=3000) for n in range(100))
        fleet.watch.wait_bound(names)                # fleet.watch.pods[name] is the object now
        fleet.delete_pods(names)                     # gone at once: there is no kubelet
        fleet.books().check()                        # annotations against /debug/cache
        fleet.replicas["1"].page("leases")           # any page of /debug

What is real: API server, etcd, kube-scheduler with the chart's profile and mutual TLS to the
extender, the chart itself (rights, policies, lease), the daemon with the chart's settings and its
ServiceAccount's token. What is not: nodes are objects with a registration and the heartbeats of
`heartbeats.py`; nothing runs, so a bound pod stays Pending unless `report_running` says otherwise,
and one deleted with a grace period stays until `delete_pods` is called again with none.
The webhook is left out unless asked for (`has_webhook=True`): pods state their scheduler.

More replicas: `fleet.add_replica("2").start()`; `fleet.replicas["1"].kill()`, `.stop()`, `.freeze()`.
kube-scheduler finds the leader through `fleet.forwarder` where `is_forwarded=True`; then
`fleet.follow_leader()` leads it to where the EndpointSlice says, as kube-proxy would.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import yaml

from benchmarks.scenarios import node_object, registered
from benchmarks.stand import free_port
from hamid.aiokit.ticker import every
from hamid.model.names import SCHEDULER_NAME, ResourceNames
from tests.cluster.books import books_of
from tests.cluster.forwarder import Forwarder
from tests.cluster.harness import helm, running_cluster
from tests.cluster.heartbeats import heartbeats
from tests.cluster.rawapi import (
    Call,
    CallFailed,
    patch_call,
    pod_watch,
    pods_path,
    raw_api,
)
from tests.cluster.stand import LEADER_LABEL, Daemon, filled, merged
from tests.deploy.rendering import CHART, NAMESPACE, rendered, run_helm, scheduler_configuration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.cluster.books import Books
    from tests.cluster.harness import Cluster
    from tests.cluster.rawapi import (
        Object,
        PodWatch,
        RawApi,
    )

PORT: Final = 18443
SLOTS: Final = 10
RESOURCES: Final = ResourceNames()
DEADLINE_S: Final = 60
VALUES: Final = (
    *("--set", "scheduler.replicas=0"),
    *("--set", f"scheduler.leaders.nodeLabel={LEADER_LABEL}"),
    *("--set-string", "scheduler.leaders.nodeLabelValue=true"),
)


def gpu_pod(
    name: str,
    *,
    count: int = 1,
    memory_mib: int | None = 3000,
    cores: int | None = None,
    cpu: str = "100m",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A pod that asks for cards, as it is after admission; `spec` adds to its spec."""
    asks = {RESOURCES.count: count, RESOURCES.memory: memory_mib, RESOURCES.cores: cores}
    amounts = {key: str(amount) for key, amount in asks.items() if amount is not None}
    resources = {"limits": amounts, "requests": {**amounts, "cpu": cpu, "memory": "256Mi"}}
    container = {"name": "main", "image": "localhost/none:1", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container], **spec},
    }


@dataclass(slots=True, kw_only=True, eq=False)
class Replica:
    """A daemon as a host process, and what it says of itself."""

    name: str
    daemon: Daemon
    config: dict[str, Any]
    api: RawApi

    @property
    def extender_port(self) -> int:
        """Where its extender listens."""
        return int(self.config["addresses"]["extender_port"])

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.daemon.process is not None
        return self.daemon.process.pid

    def start(self) -> None:
        """Start it, and return at once."""
        self.daemon.start()

    def stop(self) -> None:
        """End it with a farewell."""
        self.daemon.stop()

    def kill(self) -> None:
        """End it without one."""
        self.daemon.kill()

    def freeze(self) -> None:
        """Let it stand still until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def page(self, name: str) -> Any:
        """A page of /debug."""
        return self.api.run(self._get(f"/debug/{name}"))

    def wait_until_leading(self) -> None:
        """Return once it leads and knows the cluster."""
        self._wait_for("leads")

    def wait_until_following(self) -> None:
        """Return once it knows of another leader."""
        self._wait_for("follows ")

    def log(self) -> str:
        """What it has written so far."""
        return self.daemon.log.read_text(errors="replace")

    def _signal(self, number: signal.Signals) -> None:
        assert self.daemon.process is not None
        self.daemon.process.send_signal(number)

    def _wait_for(self, reason: str) -> None:
        if not self.api.run(self._is_soon(reason), timeout_s=DEADLINE_S + 5):
            raise AssertionError(f"replica {self.name} never {reason}:\n{self.log()[-3000:]}")

    async def _is_soon(self, reason: str) -> bool:
        loops = int(DEADLINE_S / 0.05)
        async for _ in every(0.05):
            loops -= 1
            assert self.daemon.process is not None
            if loops == 0 or self.daemon.process.poll() is not None:
                return False
            try:
                found = (await self._get("/readyz"))["conditions"].get("scheduler", {})
            except aiohttp.ClientError:
                continue
            if str(found.get("reason", "")).startswith(reason):
                return "nobody" not in str(found["reason"])
        return False

    async def _get(self, path: str) -> Any:
        url = f"http://127.0.0.1:{self.config['addresses']['status_port']}{path}"
        timeout = aiohttp.ClientTimeout(total=30)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            return await answer.json()


@dataclass(slots=True, kw_only=True)
class Fleet:
    """The cluster with hamid and its nodes."""

    cluster: Cluster
    api: RawApi
    watch: PodWatch
    root: Path
    has_webhook: bool
    settings: dict[str, Any]
    chart: tuple[str, ...] = ()
    forwarder: Forwarder | None = None
    replicas: dict[str, Replica] = field(default_factory=dict)

    def values(self) -> tuple[str, ...]:
        """The chart's values."""
        flag = str(self.has_webhook).lower()
        webhook = f"scheduler.admissionWebhook.enabled={flag}"
        return (*VALUES, "--set", webhook, *(f"--set={value}" for value in self.chart))

    # Nodes.

    def create_nodes(
        self, names: Sequence[str], *, is_registered: bool = True, slots: int = SLOTS
    ) -> None:
        """Nodes of 8 cards; each of them with so many slots, if they are registered."""
        objects = (fleet_node(name, is_registered=is_registered, slots=slots) for name in names)
        path = "/api/v1/nodes"
        self.api.call_all(Call(method="POST", path=path, body=node) for node in objects)
        # The API server taints what is new, and no controller is here to take the taint away.
        untainted = {"spec": {"taints": None}}
        self.api.call_all(patch_call(f"{path}/{name}", untainted) for name in names)

    def annotate_node(self, name: str, annotations: dict[str, str | None]) -> None:
        """Set, or with None remove, annotations of a node."""
        self.api.call_all(
            [patch_call(f"/api/v1/nodes/{name}", {"metadata": {"annotations": annotations}})]
        )

    # Pods.

    def create_pods(self, pods: Iterable[Object], *, namespace: str = "default") -> list[str]:
        """Create these, many at once; returns their names."""
        calls = [Call(method="POST", path=pods_path(namespace), body=pod) for pod in pods]
        self.api.call_all(calls)
        return [call.body["metadata"]["name"] for call in calls if call.body]

    def delete_pods(
        self, names: Iterable[str], *, namespace: str = "default", grace_s: int = 0
    ) -> None:
        """Delete these, if they are still there; with a grace they stay until deleted without."""
        gone, body = frozenset({HTTPStatus.NOT_FOUND}), {"gracePeriodSeconds": grace_s}
        self.api.call_all(
            Call(method="DELETE", path=pods_path(namespace, name), body=body, expected=gone)
            for name in names
        )

    def clear_pods(self) -> None:
        """Delete all pods, and keep no record of any: names come again."""
        self.delete_pods(list(self.watch.pods))
        self.watch.clear()

    def report_running(self, names: Iterable[str], *, namespace: str = "default") -> None:
        """Write the statuses that kubelets of running pods write."""
        kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        status = {
            "phase": "Running",
            "conditions": [{"type": kind, "status": "True"} for kind in kinds],
        }
        self.api.call_all(
            patch_call(f"{pods_path(namespace, name)}/status", {"status": status}) for name in names
        )

    # What pods may name.

    def create_priority_class(self, name: str, value: int, *options: str) -> None:
        """Create it, and return once the API server takes pods of it, which may be a moment later."""
        self.cluster.kubectl("create", "priorityclass", name, f"--value={value}", *options)
        probe = gpu_pod("probe", priorityClassName=name)
        call = Call(method="POST", path=f"{pods_path()}?dryRun=All", body=probe)
        self.api.run(self._until_taken(call), timeout_s=DEADLINE_S)

    async def _until_taken(self, call: Call) -> None:
        async for _ in every(0.05):
            with suppress(CallFailed):
                await self.api.ask(call)
                return

    # hamid.

    def add_replica(self, name: str, *, settings: dict[str, Any] | None = None) -> Replica:
        """A daemon on a control node of its own (a plain number is its name); not yet started."""
        node = f"control-{name}"
        self.create_nodes([node], is_registered=False)
        self.cluster.kubectl("label", "node", node, f"{LEADER_LABEL}=true", "--overwrite")
        overlay: dict[str, Any] = {
            # The address only has to look like one that an EndpointSlice takes.
            "identity": {"node_name": node, "namespace": NAMESPACE, "pod_ip": f"10.99.0.{name}"},
            "kube": {
                "kubeconfig": str(
                    self.cluster.token_kubeconfig("hamid", namespace=NAMESPACE, node=node)
                )
            },
            "roles": {"plugin": "never"},
            "addresses": {
                "status_host": "127.0.0.1",
                "status_port": free_port(),
                "webhook_host": "127.0.0.1",
                "webhook_port": free_port(),
                "extender_host": "127.0.0.1",
                "extender_port": free_port(),
            },
        }
        chart = rendered(*self.values())
        config = yaml.safe_load(chart["ConfigMap", "hamid"]["data"]["config.yaml"])
        config = merged(merged(merged(config, overlay), self.settings), settings or {})
        path = self.root / f"replica-{name}.yaml"
        path.write_text(yaml.safe_dump(config))
        log = self.cluster.state / "logs" / f"hamid-{name}.log"
        daemon = Daemon(name=name, config=path, log=log, environment={})
        replica = Replica(name=name, daemon=daemon, config=config, api=self.api)
        self.replicas[name] = replica
        return replica

    def leader(self) -> Replica:
        """The replica that leads; waits until one does."""
        try:
            return self.api.run(self._leader(), timeout_s=DEADLINE_S)
        except TimeoutError:
            said = "\n".join(
                f"{each.name}: {each.log()[-2000:]}" for each in self.replicas.values()
            )
            raise AssertionError(f"nobody leads after {DEADLINE_S} s:\n{said}") from None

    async def _leader(self) -> Replica:
        async for _ in every(0.05):
            for replica in self.replicas.values():
                if replica.daemon.process is None:
                    continue
                try:
                    async with aiohttp.ClientSession(
                        timeout=aiohttp.ClientTimeout(total=1)
                    ) as session:
                        port = replica.config["addresses"]["status_port"]
                        url = f"http://127.0.0.1:{port}/debug/leases"
                        async with session.get(url) as answer:
                            if (await answer.json())["may_act"]:
                                return replica
                except (aiohttp.ClientError, TimeoutError):
                    continue
        raise AssertionError("not reached")

    def follow_leader(self) -> Replica:
        """Lead kube-scheduler to the leader, as the EndpointSlice and kube-proxy would."""
        leader = self.leader()
        self.lead_to(leader)
        return leader

    def lead_to(self, replica: Replica) -> None:
        """Lead kube-scheduler's new connections to this replica."""
        if self.forwarder is not None:
            self.forwarder.target = ("127.0.0.1", replica.extender_port)

    def books(self) -> Books:
        """What the annotations say, beside what the leader says."""
        return books_of(self.api, self.leader().page)

    # kube-scheduler.

    def profile(self) -> dict[str, Any]:
        """The chart's profile, with our extender at the leader."""
        self.cluster.wait_for(
            "secrets",
            lambda found: filled(found.get("hamid-scheduler-client")),
            namespace=NAMESPACE,
        )
        folder = self.cluster.save_secret("hamid-scheduler-client", namespace=NAMESPACE)
        port = self.forwarder.address[1] if self.forwarder else self.leader().extender_port
        url = f"https://127.0.0.1:{port}/scheduler"
        text = scheduler_configuration(*self.values(), url=url, client_folder=folder)
        configuration = yaml.safe_load(text)
        assert isinstance(configuration, dict)
        return configuration

    def start_scheduler(self, configuration: dict[str, Any] | None = None) -> None:
        """(Re)start kube-scheduler, with the chart's profile unless another one is given."""
        self.cluster.restart_scheduler(yaml.safe_dump(configuration or self.profile()))


def fleet_node(name: str, *, is_registered: bool, slots: int) -> Object:
    """A node as kubelet and daemon would have made it."""
    cards = registered(name)
    if slots != SLOTS:
        devices = tuple(replace(device, slot_count=slots) for device in cards.devices)
        cards = replace(cards, devices=devices)
    node = node_object(name, cards if is_registered else None)
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "is ready"}
    node["status"]["conditions"].append(ready)
    node["status"]["nodeInfo"] = {"kubeletVersion": "v1.37.2"}
    return node


@contextmanager
def running_fleet(
    *,
    nodes: int,
    port: int = PORT,
    replicas: int = 1,
    slots: int = SLOTS,
    has_webhook: bool = False,
    is_forwarded: bool = False,
    heartbeat_s: float = 10.0,
    settings: dict[str, Any] | None = None,
    chart: tuple[str, ...] = (),
    has_scheduler: bool = True,
) -> Iterator[Fleet]:
    """All of it, for as long as the block lasts: nodes `gpu-0000`, …, replicas `1`, `2`, …

    Args:
        nodes: how many GPU nodes there are from the beginning.
        port: the first of five; a fleet beside another one has other ports.
        replicas: how many daemons are started; the first one is given time to lead.
        slots: of each card.
        has_webhook: pods go through the webhook of replica 1.
        is_forwarded: kube-scheduler reaches the extender through `Fleet.forwarder`.
        heartbeat_s: between two renewals of a node's lease; 0 renews none.
        settings: of the daemons, over the chart's.
        chart: more values of the chart, `name=value`.
        has_scheduler: start kube-scheduler with the chart's profile once the first one leads.
    """
    helm()  # or the reason why there is none
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(nodes=0, port=port))
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hamid-fleet-")))
        api = stack.enter_context(raw_api(cluster))
        fleet = Fleet(
            cluster=cluster,
            api=api,
            watch=stack.enter_context(pod_watch(api)),
            root=root,
            has_webhook=has_webhook,
            settings=settings or {},
            chart=chart,
            forwarder=stack.enter_context(Forwarder("127.0.0.1")) if is_forwarded else None,
        )
        _install(fleet)
        names = [f"gpu-{number:04}" for number in range(nodes)]
        fleet.create_nodes(names, slots=slots)
        if heartbeat_s:
            stack.enter_context(heartbeats(api, names, interval_s=heartbeat_s))
        stack.callback(_stop_replicas, fleet)
        for number in range(1, replicas + 1):
            replica = fleet.add_replica(str(number))
            replica.start()
            if number == 1:
                replica.wait_until_leading()
        if has_webhook:
            _lead_webhook(fleet)
        fleet.follow_leader()
        if has_scheduler:
            fleet.start_scheduler()
        yield fleet


def _stop_replicas(fleet: Fleet) -> None:
    for replica in fleet.replicas.values():
        if replica.daemon.process is not None:
            replica.resume()
            replica.stop()


def _install(fleet: Fleet) -> None:
    """The chart, with everything but the pods that its images would run."""
    where = ("--namespace", NAMESPACE, "--kubeconfig", str(fleet.cluster.kubeconfig))
    chosen = fleet.values()
    run_helm("install", "hamid", str(CHART), *chosen, *where, "--create-namespace")
    fleet.cluster.kubectl("delete", "daemonset", "hamid", "-n", NAMESPACE)


def _lead_webhook(fleet: Fleet) -> None:
    """Let the API server reach replica 1's webhook by its address, not by a Service."""
    port = fleet.replicas["1"].config["addresses"]["webhook_port"]
    client = "/webhooks/0/clientConfig"
    # A patch, for the leader writes its certificate's authority there at the same time.
    patch = [
        {"op": "remove", "path": f"{client}/service"},
        {"op": "add", "path": f"{client}/url", "value": f"https://127.0.0.1:{port}/webhook"},
    ]
    configuration = "mutatingwebhookconfiguration/hamid"
    fleet.cluster.kubectl("patch", configuration, "--type=json", "-p", json.dumps(patch))


def main() -> None:
    """A fleet by hand."""
    parser = argparse.ArgumentParser(description="a cluster of simulated nodes, until Ctrl-C")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--slots", type=int, default=SLOTS)
    parser.add_argument("--webhook", action="store_true", help="pods go through the webhook")
    asked = parser.parse_args()
    with running_fleet(
        nodes=asked.nodes, port=asked.port, slots=asked.slots, has_webhook=asked.webhook
    ) as fleet:
        leader = fleet.leader()
        sys.stdout.write(
            f"export KUBECONFIG={fleet.cluster.kubeconfig}\n"
            f"# kubectl: {fleet.cluster.binaries / 'kubectl'}\n"
            f"# leader: pid {leader.pid}, config {leader.daemon.config}, log {leader.daemon.log},\n"
            f"#   http://127.0.0.1:{leader.config['addresses']['status_port']}/debug\n"
        )
        sys.stdout.flush()
        is_over = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: is_over.set())
        is_over.wait()


if __name__ == "__main__":
    main()
