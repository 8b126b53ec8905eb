"""How long a person waits who asks why a pod waits, or how many more fit: over HTTP, at 1,213 nodes.

The nodes are those of the openb trace. Half of the cards are held whole, most others nearly full,
so that the pods asked about fit nowhere and each amount has to be searched for. Nothing is
remembered from one question to the next.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from prometheus_client import CollectorRegistry

from benchmarks.report import Stopwatch, asked, emit, say
from benchmarks.scenarios import NAMESPACE, node_object
from benchmarks.stand import BenchmarkFailed
from benchmarks.traces import nodes_of
from hamid.aiokit.services import running
from hamid.codec.allocation_record import encode_allocation
from hamid.codec.node_annotation import encode_node_inventory
from hamid.daemon.compose import Clocks
from hamid.daemon.explain_pages import ExplainPages
from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import WHOLE_DEVICE_PERCENT, DeviceShare
from hamid.model.names import NODE_REGISTER, POD_ALLOCATION
from hamid.model.node import NodeInventory
from hamid.model.request import ContainerKind
from hamid.sched.cache import ClusterCache
from hamid.sched.explainer import Explainer
from hamid.sched.leadership import FixedLeadership
from hamid.sched.settings import SchedSettings
from hamid.sched.verdicts import Verdicts
from hamid.web.middleware import RequestMetrics
from hamid.web.server import WebServer, WebSite
from hamid.web.settings import WebSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hamid.kube.port import JsonObject
    from hamid.sim.workload import SimNode

BENCH: Final = "explain"
SEED: Final = 42
CONTAINER_COUNTS: Final = (2, 4, 8)
"""Each asks for 1,000 MiB more than the one before, so that no two are alike."""
WAITING: Final[dict[str, dict[str, Any]]] = {
    "part-of-a-card": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 30_000, "nvidia.com/gpucores": 50},
    "whole-card": {"nvidia.com/gpu": 1},
    "eight-cards": {"nvidia.com/gpu": 8},
    **{
        f"{count}-containers": {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 20_000}
        for count in CONTAINER_COUNTS
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    node_count: int = 1_213
    samples: int = 20


def node_of(node: SimNode) -> JsonObject:
    """The node as the API server has it."""
    inventory = NodeInventory(node_name=node.name, devices=node.devices)
    item = node_object(node.name)
    item["metadata"]["annotations"] = {NODE_REGISTER: encode_node_inventory(inventory)}
    item["status"]["allocatable"] = {"cpu": "128", "memory": "1Ti"}
    return item


def pods_on(node: SimNode, rng: random.Random) -> Iterator[JsonObject]:
    """A pod on each card: half of them hold it whole, the others leave up to a third."""
    for device in node.devices:
        is_whole = rng.random() < 1 / 2
        part = 1.0 if is_whole else rng.uniform(2 / 3, 0.98)
        share = DeviceShare(
            device_uuid=device.device_uuid,
            memory_mib=int(part * device.memory_mib),
            core_percent=WHOLE_DEVICE_PERCENT if is_whole else rng.randint(60, 95),
        )
        uid = f"of-{device.device_uuid}"
        container = ContainerAllocation(
            container_name="main", kind=ContainerKind.APP, shares=(share,)
        )
        allocation = PodAllocation(pod_uid=uid, node_name=node.name, containers=(container,))
        yield {
            "metadata": {
                "name": uid,
                "namespace": NAMESPACE,
                "uid": uid,
                "annotations": {POD_ALLOCATION: encode_allocation(allocation)},
            },
            "spec": {"nodeName": node.name, "containers": [{"name": "main"}]},
            "status": {"phase": "Running"},
        }


def waiting_pod(name: str) -> JsonObject:
    """A pod that waits."""
    count = int(name.split("-", maxsplit=1)[0]) if name.endswith("-containers") else 1
    containers = []
    for number in range(count):
        asked = dict(WAITING[name])
        if number:
            asked["nvidia.com/gpumem"] += 1_000 * number
        limits = {resource: str(amount) for resource, amount in asked.items()}
        containers.append({"name": f"c{number}", "resources": {"limits": limits}})
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": name},
        "spec": {"containers": containers},
    }


def full_cluster(size: Size) -> ClusterCache:
    """The nodes, their cards held, and the pods that wait."""
    clock = Clocks().monotonic
    cache = ClusterCache(settings=SchedSettings(), clock=clock, registry=CollectorRegistry())
    rng = random.Random(SEED)
    nodes = list(islice((node for node in nodes_of() if node.devices), size.node_count))
    cache.take_quotas(())
    cache.take_nodes(node_of(node) for node in nodes)
    pods = [pod for node in nodes for pod in pods_on(node, rng)]
    cache.take_pods([*pods, *(waiting_pod(name) for name in WAITING)])
    return cache


async def measure(size: Size) -> None:
    """Ask over HTTP, and print the lines."""
    cache = full_cluster(size)
    node_names = [snapshot.node_name for snapshot in cache.snapshots()]
    say(f"{BENCH}: {len(node_names)} nodes, {len(cache.pod_records())} pods")
    pages = ExplainPages(
        explainer=Explainer(
            cache=cache,
            verdicts=Verdicts(capacity=1),
            leadership=FixedLeadership(),
            settings=SchedSettings(),
        )
    )
    server = WebServer(
        sites=(WebSite(name="status", host="127.0.0.1", port=0, routes=tuple(pages.routes())),),
        metrics=RequestMetrics(CollectorRegistry()),
        clock=Clocks().monotonic,
        settings=WebSettings(),
    )
    watch = Stopwatch()
    async with running(server), aiohttp.ClientSession() as session:
        port = (await server.ports.wait_for(bool))["status"]
        for _ in range(size.samples):
            for name in WAITING:
                with watch.timing(f"pending/{name}"):
                    found = await _ask(session, port, f"explain/{NAMESPACE}/{name}")
                if found["state"] != "pending" or not found["reasons"]:
                    raise BenchmarkFailed(f"{name} is {found['state']}: {found['sentence']}")
            for case, what_if in (("fit", ""), ("fit/drained", f"&without-node={node_names[0]}")):
                with watch.timing(case):
                    await _ask(session, port, f"fit?gpu=1&gpumem=1000&gpucores=5{what_if}")
    for case in sorted(watch.taken_ms):
        samples = [taken / 1_000 for taken in watch.taken_ms[case]]
        emit(BENCH, case, unit="s", samples=samples)


async def _ask(session: aiohttp.ClientSession, port: int, path: str) -> JsonObject:
    async with session.get(f"http://127.0.0.1:{port}/{path}") as answer:
        answer.raise_for_status()
        found: JsonObject = await answer.json()
        return found


if __name__ == "__main__":
    is_smallest = asked(__doc__)
    asyncio.run(measure(Size(node_count=20, samples=1) if is_smallest else Size()))
