"""How long kube-scheduler waits for our filter and prioritize, by the cluster's size.

Over HTTP to the daemon's process, with node names only; half of the cards' room is taken. Pods of
a burst are as like each other as replicas are. Of each size, filter is called for every pod with
all nodes, as with `percentageOfNodesToScore: 100`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from benchmarks.report import Stopwatch, asked, emit, say
from benchmarks.scenarios import NAMESPACE, bind_pod, create_node, pod_object, registered
from benchmarks.stand import BenchmarkFailed, stand
from hamid.daemon.simulate.extender_client import ExtenderClient
from hamid.kube.port import PODS

BENCH: Final = "extender"
WARM_UP: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    nodes: tuple[int, ...] = (10, 100, 1000)
    pods_per_node: int = 8
    samples: int = 100


async def main(size: Size) -> None:
    """Measure each size of cluster on a daemon of its own."""
    for count in size.nodes:
        say(f"{BENCH}: {count} nodes")
        await _measure(count, size)


async def _measure(count: int, size: Size) -> None:
    names = [f"gpu-{number}" for number in range(count)]
    watch = Stopwatch()
    async with stand(has_plain_extender=True) as made:
        for name in names:
            cards = registered(name)
            await create_node(made.kube, name, cards)
            for number in range(size.pods_per_node):
                device = cards.devices[number % len(cards.devices)].device_uuid
                await bind_pod(made.kube, f"{name}-{number}", node_name=name, device=device)
        async with made.daemon() as daemon:
            await daemon.wait_until_leading()
            client = ExtenderClient(session=daemon.session, url=daemon.extender_url)
            for number in range(WARM_UP + size.samples):
                if number == WARM_UP:
                    watch.taken_ms.clear()
                pod = await made.kube.create(PODS, pod_object(f"new-{number}"))
                with watch.timing("filter"):
                    fits = await client.filter(pod, names)
                with watch.timing("prioritize"):
                    scores = await client.prioritize(pod, fits.node_names)
                if set(scores) != set(names):
                    raise BenchmarkFailed(f"of {count} nodes {len(scores)} are scored")
                await made.kube.delete(PODS, f"new-{number}", namespace=NAMESPACE, grace_period_s=0)
    for verb in ("filter", "prioritize"):
        emit(BENCH, f"{verb}/{count}-nodes", unit="ms", samples=watch.take(verb))


if __name__ == "__main__":
    is_smallest = asked(__doc__)
    asyncio.run(main(Size(nodes=(2,), pods_per_node=1, samples=3) if is_smallest else Size()))
