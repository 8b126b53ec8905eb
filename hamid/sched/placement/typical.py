"""Which pods usually come: a decayed histogram of arrivals, and the shapes that make up most of it.

A *shape* is what one container asks for, with its part of what the pod asks of the host. Every
arrival counts once, and half as much as one `HALF_LIFE` arrivals later: the histogram follows
what a cluster is used for, and needs no clock.

At a cold start the histogram holds `PRIOR`, with the weight of `PRIOR_WEIGHT` arrivals: whole
cards, parts of cards, and a few whole nodes. It is forgotten as real pods come.

Typical shapes are the most frequent ones until they cover `COVERED` of the arrivals; which ones
they are changes only when the histogram has moved away by `DRIFT` (total variation distance): a
change makes all that was computed with them void.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.node import NO_HOST, HostAmount
from hamid.model.quantities import WHOLE_CARD, MemoryMib, MemoryPercent
from hamid.model.request import ANY_DEVICE, ContainerKind, DeviceSelection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hamid.model.allocation import PodAllocation
    from hamid.model.device import DeviceShare
    from hamid.model.quantities import MemoryRequest
    from hamid.model.request import ContainerRequest, PodRequest

HALF_LIFE: Final = 4_096
COVERED: Final = 0.98
MAX_SHAPES: Final = 64
DRIFT: Final = 0.10
PPM: Final = 1_000_000
PRIOR_WEIGHT: Final = 8.0
_UIDS_KEPT: Final = 4_096
_SHAPES_KEPT: Final = 4_096
_FORGOTTEN: Final = 0.01
_RESCALED_AT: Final = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class CardAsk:
    """What one container asks of cards, and of which."""

    device_count: int
    memory: MemoryRequest
    core_percent: int
    selection: DeviceSelection = ANY_DEVICE
    allowed_modes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What one container asks of cards, with its part of what its pod asks of the host."""

    cards: CardAsk
    host: HostAmount = NO_HOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """The shapes that usually come, and how often, in parts per million; the sum is a million.

    Attributes:
        generation: another number for another set of shapes.
    """

    shapes: tuple[tuple[Shape, int], ...]
    generation: int = 0


def _share(percent: int, core_percent: int, count: int = 1) -> Shape:
    memory = WHOLE_CARD if percent == WHOLE_DEVICE_PERCENT else MemoryPercent(percent=percent)
    return Shape(cards=CardAsk(device_count=count, memory=memory, core_percent=core_percent))


PRIOR: Final = (
    (_share(100, 100), 0.5),
    (_share(50, 50), 0.2),
    (_share(25, 25), 0.2),
    (_share(100, 100, 8), 0.1),
)


def shapes_of(request: PodRequest) -> tuple[Shape, ...]:
    """One shape for each container that runs with the pod; init containers alone count, too."""
    running = [r for r in request.requests if r.kind is not ContainerKind.INIT]
    asking = running or list(request.requests)
    part = HostAmount(
        cpu_milli=request.host.cpu_milli // len(asking),
        memory_mib=request.host.memory_mib // len(asking),
    )
    return tuple(Shape(cards=card_ask(request, container), host=part) for container in asking)


def shapes_held(allocation: PodAllocation, host: HostAmount) -> tuple[Shape, ...]:
    """The shapes of a pod that runs: what it was given is about what it asked for.

    After a start, they are all that is known of what usually comes.
    """
    running = [c for c in allocation.containers if c.kind is not ContainerKind.INIT]
    part = HostAmount(
        cpu_milli=host.cpu_milli // max(len(running), 1),
        memory_mib=host.memory_mib // max(len(running), 1),
    )
    return tuple(
        Shape(
            cards=CardAsk(
                device_count=len(container.shares),
                memory=_memory_held(container.shares[0]),
                core_percent=container.shares[0].core_percent,
            ),
            host=part,
        )
        for container in running
        if container.shares
    )


def _memory_held(share: DeviceShare) -> MemoryRequest:
    """Of a card held whole, all of it: nobody else can have the rest."""
    if share.core_percent >= WHOLE_DEVICE_PERCENT:
        return WHOLE_CARD
    return MemoryMib(mib=share.memory_mib)


def card_ask(request: PodRequest, container: ContainerRequest) -> CardAsk:
    """What this container of the pod asks of cards; UUIDs do not make a shape."""
    selection = request.selection
    return CardAsk(
        device_count=container.device_count,
        memory=container.memory,
        core_percent=container.core_percent,
        selection=DeviceSelection(
            use_models=selection.use_models, avoid_models=selection.avoid_models
        ),
        allowed_modes=request.allowed_modes,
    )


class Arrivals:
    """The histogram, and the typical shapes that it has last been asked for."""

    def __init__(self, prior: Iterable[tuple[Shape, float]] = PRIOR) -> None:
        self._weights: dict[Shape, float] = {shape: PRIOR_WEIGHT * w for shape, w in prior}
        self._total = sum(self._weights.values())
        self._unit = 1.0
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._since_look = 0
        self._look_after = 1
        self._typical = Typical(shapes=self._most_frequent())

    def observe(self, request: PodRequest) -> None:
        """Count the pod, unless it was counted before: a waiting pod is asked about again."""
        self.count(request.pod_uid, shapes_of(request))

    def count(self, pod_uid: str, shapes: tuple[Shape, ...]) -> None:
        """Count a pod of these shapes, unless it was counted before."""
        if pod_uid in self._seen:
            return
        self._seen[pod_uid] = None
        if len(self._seen) > _UIDS_KEPT:
            self._seen.popitem(last=False)
        # Instead of letting all others decay, let the newcomer weigh more.
        self._unit *= 2 ** (1 / HALF_LIFE)
        for shape in shapes:
            self._weights[shape] = self._weights.get(shape, 0.0) + self._unit
            self._total += self._unit
        self._since_look += 1
        if len(self._weights) > _SHAPES_KEPT:
            self._drop_rare()
        if self._unit > _RESCALED_AT:
            self._rescale()

    @property
    def typical(self) -> Typical:
        """The shapes that usually come; the same value until the histogram has moved away."""
        if self._since_look >= self._look_after:
            self._look_after = max(16, int(self._total / self._unit) // 8)
            self._since_look = 0
            fresh = self._most_frequent()
            if _distance(dict(fresh), dict(self._typical.shapes)) > DRIFT * PPM:
                self._typical = Typical(shapes=fresh, generation=self._typical.generation + 1)
        return self._typical

    def _most_frequent(self) -> tuple[tuple[Shape, int], ...]:
        kept: list[tuple[Shape, float]] = []
        covered = 0.0
        for shape, weight in self._by_weight():
            if covered >= COVERED * self._total or len(kept) == MAX_SHAPES:
                break
            kept.append((shape, weight))
            covered += weight
        return tuple((shape, round(weight / covered * PPM)) for shape, weight in kept)

    def _by_weight(self) -> Iterator[tuple[Shape, float]]:
        """The heaviest first; equal ones in an order that does not hang on who came first."""
        ordered = sorted(self._weights.items(), key=itemgetter(1), reverse=True)
        for _, alike in groupby(ordered, key=itemgetter(1)):
            found = list(alike)
            if len(found) > 1:  # rare, and texts are dear
                found.sort(key=lambda item: repr(item[0]))
            yield from found

    def _drop_rare(self) -> None:
        """Forget the rarest half of the shapes."""
        self._weights = dict(islice(self._by_weight(), _SHAPES_KEPT // 2))
        self._total = sum(self._weights.values())

    def _rescale(self) -> None:
        """Bring the weights back to ordinary numbers, and drop the shapes long out of use."""
        self._weights = {
            shape: weight / self._unit
            for shape, weight in self._weights.items()
            if weight / self._unit > _FORGOTTEN
        }
        self._total = sum(self._weights.values())
        self._unit = 1.0


def _distance(one: dict[Shape, int], other: dict[Shape, int]) -> int:
    """Total variation distance, in parts per million."""
    return sum(abs(one.get(s, 0) - other.get(s, 0)) for s in one.keys() | other.keys()) // 2
