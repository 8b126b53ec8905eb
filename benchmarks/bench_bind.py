"""How often hamid calls the API server to place a pod: counted at the server, by who called.

Pods go through filter, prioritize and bind over HTTP, as kube-scheduler calls them, and those that
come to our node are admitted by its kubelet, so that the device plugin's calls are counted too.
What is called all the time, pods or none, is counted apart, per second.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.report import Stopwatch, asked, emit, say
from benchmarks.scenarios import NAMESPACE, BoundPod, create_node, pod_object, registered
from benchmarks.stand import NODE, BenchmarkFailed, stand, wall_clock
from hamid.codec.allocation_record import decode_allocation
from hamid.daemon.simulate.extender_client import ExtenderClient
from hamid.kube.port import PODS
from hamid.model.names import POD_ALLOCATION

if TYPE_CHECKING:
    from benchmarks.stand import DaemonProcess, Stand

BENCH: Final = "bind"
STANDING: Final = frozenset(
    {
        "leases.coordination.k8s.io",
        "secrets",
        "endpointslices.discovery.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    }
)
"""What the leader looks after by the clock, pods or none: counted while it stands idle."""
DAEMON: Final = "hamid"
"""As it names itself to the server."""
PER_POD: Final = (
    ("create", "pods/binding"),
    ("get", "pods"),
    ("patch", "pods"),
    ("patch", "nodes"),
    ("create", "events"),
)
"""Said in any case, also when it is none: what others spend on a pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    nodes: int = 10
    pods: int = 100
    window_s: int = 60


async def main(size: Size) -> None:
    """Count what placing pods costs, then what standing still costs."""
    async with stand(has_plain_extender=True) as made:
        for number in range(2, size.nodes + 1):
            await create_node(made.kube, f"node-{number}", registered(f"node-{number}"))
        async with made.daemon() as daemon:
            await daemon.wait_until_leading()
            made.server.requests.clear()
            say(f"{BENCH}: {size.pods} pods are placed")
            await _place(made, daemon, size)
            _report_pods(made, size)
            say(f"{BENCH}: idle for {size.window_s} s")
            made.server.requests.clear()
            begun_s = wall_clock()
            await asyncio.sleep(size.window_s)
            _report_idle(made, wall_clock() - begun_s)


async def _place(made: Stand, daemon: DaemonProcess, size: Size) -> None:
    watch = Stopwatch()
    names = [f"node-{number}" for number in range(1, size.nodes + 1)]
    client = ExtenderClient(session=daemon.session, url=daemon.extender_url)
    for number in range(size.pods):
        pod = await made.kube.create(PODS, pod_object(f"train-{number}"))
        with watch.timing("filter"):
            fits = await client.filter(pod, names)
        with watch.timing("prioritize"):
            scores = await client.prioritize(pod, fits.node_names)
        node = max(sorted(scores), key=scores.__getitem__)
        with watch.timing("bind"):
            await client.bind(pod, node)
        await _check(made, pod["metadata"]["name"], node)
        if node == NODE:
            bound = BoundPod(name=pod["metadata"]["name"], uid=pod["metadata"]["uid"])
            await made.run_and_report(bound)
    for verb in ("filter", "prioritize", "bind"):
        emit(BENCH, f"{verb}_ms/{size.nodes}-nodes", unit="ms", samples=watch.take(verb))


async def _check(made: Stand, name: str, node: str) -> None:
    """See that the binding carried the decision."""
    pod = await made.kube.get(PODS, name, namespace=NAMESPACE)
    record = decode_allocation(pod["metadata"]["annotations"][POD_ALLOCATION])
    if pod["spec"]["nodeName"] != node or record.node_name != node:
        raise BenchmarkFailed(f"pod {name} is not bound to {node} with its allocation")


def _report_pods(made: Stand, size: Size) -> None:
    counts = _counts(made)
    per_pod = {key: n for key, n in counts.items() if key[1] not in STANDING}
    emit(BENCH, "calls_per_pod", unit="calls", value=sum(per_pod.values()) / size.pods)
    for key in (*PER_POD, *sorted(per_pod.keys() - set(PER_POD))):
        case = f"calls_per_pod/{key[0]}-{key[1]}"
        emit(BENCH, case, unit="calls", value=per_pod.get(key, 0) / size.pods)


def _report_idle(made: Stand, seconds: float) -> None:
    counts = _counts(made)
    emit(BENCH, "idle_calls_per_s", unit="calls/s", value=sum(counts.values()) / seconds)
    for (verb, resource), count in sorted(counts.items()):
        emit(BENCH, f"idle_calls_per_s/{verb}-{resource}", unit="calls/s", value=count / seconds)


def _counts(made: Stand) -> dict[tuple[str, str], int]:
    """How often the daemon called, by verb and resource."""
    requests = made.server.requests
    counts = {
        (verb, resource): requests.count(verb=verb, resource=resource, caller=DAEMON)
        for verb, resource in requests.by()
    }
    return {key: count for key, count in counts.items() if count}


if __name__ == "__main__":
    is_smallest = asked(__doc__)
    asyncio.run(main(Size(nodes=2, pods=3, window_s=1) if is_smallest else Size()))
