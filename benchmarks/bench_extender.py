"""How long kube-scheduler waits for our filter and prioritize, by the cluster's size.

Over HTTP to the daemon's process, with node names only, and pods as a real API server hands them on. Of each
size, filter is called for every pod with all nodes, as with `percentageOfNodesToScore: 100`.

Pods of a burst are as like each other as replicas are. At the largest size there are, too, pods of
`SHAPES` different shapes in random order (`mixed`), of which some fit on part of the nodes only.

`both` is the sum for one pod; `cpu_s` the processor time of the daemon's process for one pod, from its
creation over both calls to its deletion.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.bench_footprint import cpu_s
from benchmarks.report import Stopwatch, asked, emit, say
from benchmarks.scenarios import NAMESPACE, bind_pod, create_node, pod_object, registered
from benchmarks.stand import BenchmarkFailed, stand
from hamid.daemon.simulate.extender_client import ExtenderClient
from hamid.kube.port import PODS

if TYPE_CHECKING:
    from benchmarks.stand import DaemonProcess
    from hamid.kube.port import JsonObject, KubePort

BENCH: Final = "extender"
WARM_UP: Final = 5
SEED: Final = 42
SHAPES: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    nodes: tuple[int, ...] = (10, 100, 1000)
    pods_per_node: int = 8
    samples: int = 100
    mixed_samples: int = 300


def mixed_pods(count: int) -> list[JsonObject]:
    """Pods of different shapes; on a card in use there is no room for the largest."""
    rng = random.Random(SEED)
    shapes = [
        (rng.choice((1, 1, 1, 2, 4)), 1_000 * rng.randint(1, 80), 5 * rng.randint(0, 20))
        for _ in range(SHAPES)
    ]
    return [
        pod_object(f"mixed-{number}", cards=cards, memory_mib=mib, core_percent=percent)
        for number, (cards, mib, percent) in enumerate(rng.choices(shapes, k=count))
    ]


async def main(size: Size) -> None:
    """Measure each size of cluster on a daemon of its own."""
    for count in size.nodes:
        say(f"{BENCH}: {count} nodes")
        await _measure(count, size)


async def _measure(count: int, size: Size) -> None:
    names = [f"gpu-{number}" for number in range(count)]
    async with stand(has_plain_extender=True) as made:
        for name in names:
            cards = registered(name)
            await create_node(made.kube, name, cards)
            for number in range(size.pods_per_node):
                device = cards.devices[number % len(cards.devices)].device_uuid
                await bind_pod(made.kube, f"{name}-{number}", node_name=name, device=device)
        async with made.daemon() as daemon:
            await daemon.wait_until_leading()
            alike = [pod_object(f"new-{number}") for number in range(WARM_UP + size.samples)]
            for pod in alike[:WARM_UP]:
                await _ask(made.kube, daemon, pod, names, Stopwatch())
            await _ask_for_all(made.kube, daemon, alike[WARM_UP:], names, f"{count}-nodes")
            if count == max(size.nodes):
                mixed = mixed_pods(size.mixed_samples)
                await _ask_for_all(made.kube, daemon, mixed, names, f"{count}-nodes/mixed")


async def _ask_for_all(
    kube: KubePort, daemon: DaemonProcess, pods: list[JsonObject], names: list[str], case: str
) -> None:
    watch = Stopwatch()
    used_s = cpu_s(daemon.pid)
    for pod in pods:
        await _ask(kube, daemon, pod, names, watch)
    used_s = cpu_s(daemon.pid) - used_s
    for verb in ("filter", "prioritize", "both"):
        emit(BENCH, f"{verb}/{case}", unit="ms", samples=watch.take(verb))
    emit(BENCH, f"cpu_s/{case}", unit="s a pod", value=used_s / len(pods))


async def _ask(
    kube: KubePort, daemon: DaemonProcess, pod: JsonObject, names: list[str], watch: Stopwatch
) -> None:
    client = ExtenderClient(session=daemon.session, url=daemon.extender_url)
    pod = await kube.create(PODS, pod)
    with watch.timing("both"):
        with watch.timing("filter"):
            fits = await client.filter(pod, names)
        if fits.node_names:
            with watch.timing("prioritize"):
                scores = await client.prioritize(pod, fits.node_names)
            if not scores.keys() <= set(fits.node_names) or len(set(scores.values())) < len(scores):
                raise BenchmarkFailed(f"scores of {len(scores)} nodes have ties, or are of others")
    if len(fits.node_names) + len(fits.failed) != len(names):
        raise BenchmarkFailed(f"of {len(names)} nodes {len(fits.failed)} refuse without a word")
    await kube.delete(PODS, pod["metadata"]["name"], namespace=NAMESPACE, grace_period_s=0)


if __name__ == "__main__":
    is_smallest = asked(__doc__)
    smallest = Size(nodes=(2,), pods_per_node=1, samples=3, mixed_samples=3)
    asyncio.run(main(smallest if is_smallest else Size()))
