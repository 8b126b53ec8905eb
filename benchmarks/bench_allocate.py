"""How long the kubelet waits for us when it admits a pod: its calls through the plugin's socket.

Timed on the kubelet's side, the daemon being another process: socket, both codecs, the question
back to the kubelet whom it admits, the journal's fsync and the container's files are all in it.
While it waits, the kubelet admits no other pod of the node.

Cases are `CALL/WAITING-pods/HOW`: how many bound pods wait for their containers, and by which of
the kubelet's sockets the plugin finds out whom the call is for.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.report import Stopwatch, asked, emit, say
from benchmarks.scenarios import NAMESPACE, RESOURCE
from benchmarks.stand import BenchmarkFailed, fake_pod, stand
from hamid.aiokit.services import Background
from hamid.aiokit.ticker import every
from hamid.kube.port import PODS
from hamid.kubelet.fake import FakeFeatures, GetSupport, Phase

if TYPE_CHECKING:
    from benchmarks.scenarios import BoundPod
    from benchmarks.stand import DaemonProcess, Stand

BENCH: Final = "allocate"
CALLS: Final = {
    "Allocate": "allocate",
    "GetPreferredAllocation": "preferred",
    "PreStartContainer": "pre-start",
}
KUBELETS: Final = {
    "pods-api": FakeFeatures(),
    "pod-resources": FakeFeatures(has_pods_api=False),
    "list-only": FakeFeatures(has_pods_api=False, get_support=GetSupport.UNIMPLEMENTED),
}
"""1.37's kubelet; one without the Pods API; one whose pod resources have no Get either."""
WARM_UP: Final = 20
SEED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    samples: int = 300
    waiting: tuple[int, ...] = (1, 50)


async def main(size: Size) -> None:
    """Measure each kind of kubelet, with few and many pods waiting."""
    for how, features in KUBELETS.items():
        async with stand(features=features) as made, made.daemon() as daemon:
            watch = Stopwatch()
            made.kubelet.devices.around_call = watch.timing
            for waiting in size.waiting:
                say(f"{BENCH}: {waiting} waiting, {how}")
                queue = _Queue(made=made, daemon=daemon, length=waiting)
                await queue.fill()
                await queue.serve(min(WARM_UP, size.samples))
                watch.taken_ms.clear()
                await queue.serve(size.samples)
                for call, name in CALLS.items():
                    case = f"{name}/{waiting}-waiting/{how}"
                    emit(BENCH, case, unit="ms", samples=watch.take(call))
                await queue.clear()
            await _start_at_once(made, watch, max(size.waiting))
            case = f"pre-start/{max(size.waiting)}-at-once/{how}"
            emit(BENCH, case, unit="ms", samples=watch.take("PreStartContainer"))


async def _start_at_once(made: Stand, watch: Stopwatch, count: int) -> None:
    """Admit pods, one after another as ever, then start all their containers in one moment."""
    pods = [await made.bind(f"train-{number}", card=number) for number in range(count)]
    for pod in pods:
        await made.kubelet.admit(fake_pod(pod))
    watch.taken_ms.clear()
    async with Background() as background:
        starts = [background.start(_start(made, pod), name=f"start-{pod.name}") for pod in pods]
        await asyncio.wait(starts)


async def _start(made: Stand, pod: BoundPod) -> None:
    status = await made.kubelet.start_pod(pod.uid)
    if status.phase is not Phase.RUNNING:
        raise BenchmarkFailed(f"pod {pod.name} does not run: {status}")


class _Queue:
    """So many bound pods wait at any time; one after another is admitted, at random."""

    def __init__(self, *, made: Stand, daemon: DaemonProcess, length: int) -> None:
        self.made = made
        self.daemon = daemon
        self.length = length
        self._waiting: list[BoundPod] = []
        self._bound = 0
        self._rng = random.Random(SEED)

    async def fill(self) -> None:
        """Bind pods until as many wait as should, and the daemon has heard of them."""
        while len(self._waiting) < self.length:
            self._bound += 1
            name = f"train-{self.length}-{self._bound}"
            self._waiting.append(await self.made.bind(name, card=self._bound))
        await self._seen(self._waiting[-1])

    async def serve(self, count: int) -> None:
        """Run so many pods, each in the place of another that goes."""
        for _ in range(count):
            pod = self._waiting.pop(self._rng.randrange(len(self._waiting)))
            await self.made.run(pod)
            self.made.kubelet.remove(pod.uid)
            await self._delete(pod)
            await self.fill()

    async def clear(self) -> None:
        """Delete those that wait."""
        while self._waiting:
            await self._delete(self._waiting.pop())

    async def _delete(self, pod: BoundPod) -> None:
        await self.made.kube.delete(PODS, pod.name, namespace=NAMESPACE, grace_period_s=0)

    async def _seen(self, pod: BoundPod) -> None:
        async for _ in every(0.002):
            pods = (await self.daemon.page("allocations"))["pods"]
            if any(found["pod_uid"] == pod.uid for found in pods):
                return


async def check() -> None:
    """See once that what is timed does what it should: the grant names the decided card."""
    async with stand() as made, made.daemon():
        pod = await made.bind("train", card=3)
        await made.run(pod)
        slots = made.kubelet.slot_ids(pod.uid, "train")
        if not slots or not slots[0].startswith(made.device_uuids[3]):
            raise BenchmarkFailed(f"granted {slots} of {RESOURCE}, not one of card 3")


if __name__ == "__main__":
    is_smallest = asked(__doc__)
    asyncio.run(check())
    asyncio.run(main(Size(samples=3, waiting=(1, 2)) if is_smallest else Size()))
