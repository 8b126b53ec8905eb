"""One replay: tasks come, are placed or turned away, and go.

A task that fits nowhere is turned away for good, as in the openb papers: what is measured is how
much of the cards a policy brings into use, not how long tasks wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from hamid.model.allocation import PodAllocation
from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.sched.books import NodeBook
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.typical import Arrivals
from hamid.sim.workload import MILLI

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hamid.model.device import DeviceHold, DeviceUuid
    from hamid.sim.chooser import Chooser
    from hamid.sim.workload import Arrival, SimNode

POINTS: Final = 100
"""How many points a curve has for each load of the size of the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The cluster at one moment, in percent of all its cards.

    Attributes:
        arrived_percent: asked for since the start, in cores.
        allocated_percent: in use: the mean of cores and memory.
        wasted_percent: free, and of no use to what usually comes; see `fragmentation`.
    """

    arrived_percent: float
    allocated_percent: float
    wasted_percent: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a replay ended.

    Attributes:
        core_percent, memory_percent: of all cards, in use at the end.
        choice_s: how long each choice took, the books' part included; empty without a clock.
    """

    points: tuple[Point, ...]
    placed_count: int
    refused_count: int
    core_percent: float
    memory_percent: float
    choice_s: tuple[float, ...]

    @property
    def allocated_percent(self) -> float:
        """The mean of both dimensions."""
        return (self.core_percent + self.memory_percent) / 2


class Replay:
    """A cluster in the books, and whoever chooses.

    Args:
        clock: seconds, to time choices; None for none.
    """

    def __init__(
        self,
        nodes: Sequence[SimNode],
        chooser: Chooser,
        *,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._chooser = chooser
        self._clock = clock
        self._books: dict[str, NodeBook] = {}
        self._arrivals = Arrivals()
        self._ends: list[tuple[float, str, str]] = []
        self._held_by_pod: dict[str, tuple[int, int]] = {}
        self._cores = self._memory_mib = 0
        for node in nodes:
            book = self._books[node.name] = NodeBook(node.name)
            book.register(node.devices)
            book.cordon(node.cordoned)
            book.link(node.links)
            book.offer(node.host)
            chooser.put(book.snapshot())
        devices = [device for node in nodes for device in node.devices]
        self._devices = {device.device_uuid: device for device in devices}
        self.capacity_milli = len(devices) * MILLI
        self._core_capacity = sum(d.core_percent for d in devices)
        self._memory_capacity_mib = sum(d.memory_mib for d in devices)

    def run(
        self,
        tasks: Iterable[Arrival],
        *,
        on_progress: Callable[[float], None] = lambda _: None,
        has_curve: bool = True,
    ) -> Outcome:
        """Place all of them.

        Args:
            tasks: in the order in which they come.
            on_progress: told the percentage that has arrived, now and then.
            has_curve: whether to take points on the way and at the end; each costs a look at all
                nodes.
        """
        arrived = placed = refused = 0
        is_seen = True
        next_point = step = max(self.capacity_milli // POINTS, 1)
        points: list[Point] = []
        taken_s: list[float] = []
        for number, task in enumerate(tasks):
            self._let_end(task.arrives_at_s)
            begun = self._clock() if self._clock else 0.0
            is_placed = self._place(task, f"{task.name}#{number}", has_curve=has_curve)
            if self._clock:
                taken_s.append(self._clock() - begun)
            placed += is_placed
            refused += not is_placed
            arrived += task.core_milli
            is_seen = False
            if arrived >= next_point:
                next_point = arrived - arrived % step + step
                on_progress(100 * arrived / self.capacity_milli)
                is_seen = True
                if has_curve:
                    points.append(self._point(arrived))
        if has_curve and not is_seen:
            points.append(self._point(arrived))
        return Outcome(
            points=tuple(points),
            placed_count=placed,
            refused_count=refused,
            core_percent=100 * self._cores / max(self._core_capacity, 1),
            memory_percent=100 * self._memory_mib / max(self._memory_capacity_mib, 1),
            choice_s=tuple(taken_s),
        )

    def _place(self, task: Arrival, pod_uid: str, *, has_curve: bool) -> bool:
        request = task.request(pod_uid)
        if has_curve and request.requests:
            self._arrivals.observe(request)
        found = self._chooser.choose(request)
        if found is None:
            return False
        node_name, containers = found
        book = self._books[node_name]
        allocation = PodAllocation(pod_uid=pod_uid, node_name=node_name, containers=containers)
        holds = allocation.holds()
        book.hold(pod_uid, holds)
        book.ask(pod_uid, task.host)
        self._chooser.put(book.snapshot())
        cores, memory_mib = self._in_use(holds)
        self._count(cores, memory_mib)
        if task.lasts_s is not None:
            self._held_by_pod[pod_uid] = cores, memory_mib
            heappush(self._ends, (task.arrives_at_s + task.lasts_s, pod_uid, node_name))
        return True

    def _in_use(self, holds: Mapping[DeviceUuid, DeviceHold]) -> tuple[int, int]:
        """Cores and memory; all of a card that is held whole, whatever its holder asked for."""
        cores = memory_mib = 0
        for uuid, hold in holds.items():
            device = self._devices[uuid]
            cores += device.core_percent if hold.is_exclusive else hold.core_percent
            memory_mib += device.memory_mib if hold.is_exclusive else hold.memory_mib
        return cores, memory_mib

    def _let_end(self, now_s: float) -> None:
        while self._ends and self._ends[0][0] <= now_s:
            _, pod_uid, node_name = heappop(self._ends)
            book = self._books[node_name]
            book.release(pod_uid)
            book.unask(pod_uid)
            self._chooser.put(book.snapshot())
            cores, memory_mib = self._held_by_pod.pop(pod_uid)
            self._count(-cores, -memory_mib)

    def _count(self, cores: int, memory_mib: int) -> None:
        self._cores += cores
        self._memory_mib += memory_mib

    def _point(self, arrived_milli: int) -> Point:
        measure = Fragmentation(self._arrivals.typical)
        wasted = sum(measure.value(book.snapshot()) for book in self._books.values())
        cores = self._cores / max(self._core_capacity, 1)
        memory = self._memory_mib / max(self._memory_capacity_mib, 1)
        return Point(
            arrived_percent=100 * arrived_milli / self.capacity_milli,
            allocated_percent=WHOLE_DEVICE_PERCENT * (cores + memory) / 2,
            wasted_percent=100 * wasted / self.capacity_milli,
        )
