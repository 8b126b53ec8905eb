"""Whom to evict so that a pod of higher priority fits: one concrete set of cards on one node.

Of all sets of pods whose end makes room for it on some node, the one is chosen that has, the first
difference counting,

    1. the fewest pods that a disruption budget protects,
    2. the lowest priority of its most important pod,
    3. the fewest pods, those of lower priority where that is equal:
       the smallest Σ (priority + 2³¹), as kube-scheduler has it,
    4. the least work lost: Σ cards x seconds since the start,
    5. the first node by name.

Pods that hold no cards and are evicted in any case count as of priority 0: theirs is not known.

Invariants:

1. Nobody is evicted who has not a lower priority; nobody of `is_protected`.
2. Nobody is evicted in vain: with all victims gone, the pod has its cards; with any one of them
   left, it has not. Where no set helps there is none.
3. Pods that leave already count as gone: nobody is evicted where waiting for them is enough.

The choice is exact, but for two bounds that only large nodes reach: `TRIES` sets are tried on a
node, from the cheapest on, before the set is taken that is left when those pods stay, the most
important first, that can; and of nodes on which the same priorities are enough, no more than
`NODES` are looked at so closely. Pods of one container that asks for one card are searched card
by card: their victims are all on one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import chain, count
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.model.request import PolicyName
from hamid.sched.placement.capacity import freed
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import NodePlacement, place_on_node
from hamid.sched.placement.typical import Arrivals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hamid.model.allocation import PodAllocation
    from hamid.model.device import DeviceUuid
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import PodRequest
    from hamid.sched.placement.policy import Policies

TRIES: Final = 1_000
NODES: Final = 16
_OFFSET: Final = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A pod that holds cards.

    Attributes:
        started_at_s: seconds since the epoch.
        budgets: the disruption budgets that count it.
        is_leaving: it ends soon, whatever is decided here.
        is_protected: it is never evicted.
    """

    pod_uid: str
    allocation: PodAllocation
    is_initialized: bool = False
    priority: int = 0
    started_at_s: float = 0.0
    budgets: frozenset[str] = frozenset()
    is_leaving: bool = False
    is_protected: bool = False

    @property
    def devices(self) -> frozenset[DeviceUuid]:
        """The cards that it holds anything of."""
        return self.allocation.device_uuids


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldNode:
    """A node on which the pod might go, and who holds its cards.

    Attributes:
        given: pods, by UID, that are evicted in any case if the pod goes there; they need not hold
            cards.
        violations: how many of them a budget protects, at least.
    """

    node: NodeSnapshot
    holders: tuple[Holder, ...]
    given: frozenset[str] = frozenset()
    violations: int = 0


class Cost(NamedTuple):
    """What a set of victims costs; the smaller the better."""

    violations: int = 0
    highest: int = -_OFFSET
    weight: int = 0
    work: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Whom to evict, and what the pod then gets.

    Attributes:
        victims: beside those given. Empty where those, or others that leave anyway, are enough.
    """

    placement: NodePlacement
    victims: tuple[Holder, ...]
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """The pod that is to get room, and by which rules.

    Attributes:
        allowed: by budget, how many of its pods may be evicted now.
        may_violate: whether a set that a budget forbids may be chosen at all.
        now_s: seconds since the epoch.
    """

    request: PodRequest
    priority: int
    policies: Policies
    allowed: Mapping[str, int] = field(default_factory=dict)
    may_violate: bool = False
    now_s: float = 0.0


def eviction(preemptor: Preemptor, nodes: Iterable[HeldNode]) -> Eviction | None:
    """Return whom to evict, or None where nothing helps."""
    measure = Fragmentation(Arrivals().typical)
    left = [_Arena(preemptor, held, measure) for held in nodes]
    left.sort(key=lambda arena: arena.name)
    best: Eviction | None = None
    # Who has to evict somebody of a level costs more than who has not: level by level.
    for level in sorted({level for arena in left for level in arena.levels}):
        if best is not None and not best.cost.violations and best.cost.highest < level:
            break
        enough: list[_Arena] = []
        others: list[_Arena] = []
        for arena in left:
            (enough if arena.is_enough(level) else others).append(arena)
        left = others
        for arena in enough[:NODES]:
            outcome = arena.cheapest()
            if outcome is not None and (best is None or outcome.cost < best.cost):
                best = outcome
    return best


class _Arena:
    """One node with those who may have to leave it."""

    def __init__(self, preemptor: Preemptor, held: HeldNode, measure: Fragmentation) -> None:
        self._preemptor = preemptor
        self._measure = measure
        self.name = held.node.node_name
        self._cleared = held.node
        self._movable: list[Holder] = []
        self._given: list[Holder] = []
        self._violations = held.violations
        for holder in held.holders:
            if holder.pod_uid in held.given:
                self._given.append(holder)
            elif not holder.is_leaving:
                if holder.priority < preemptor.priority and not holder.is_protected:
                    self._movable.append(holder)
                continue
            self._cleared = _without(self._cleared, holder)
        self._stranger_count = len(held.given) - len(self._given)
        self._movable.sort(key=self._importance)
        # The lowest is that of nobody: there may be room by now.
        self.levels = {-_OFFSET, *(holder.priority for holder in self._movable)}
        self._tries = TRIES

    def is_enough(self, level: int) -> bool:
        """Whether there is room when all up to this priority are gone, one of it among them."""
        if level not in self.levels:
            return False
        return self._placed(h for h in self._movable if h.priority <= level) is not None

    def cheapest(self) -> Eviction | None:
        """The best set of this node; None if only forbidden ones would help."""
        best: Eviction | None = None
        for candidates in self._parts():
            found = self._search(candidates, best.cost if best is not None else None)
            best = found or best
        if best is None and self._tries <= 0:
            best = self._reprieved()
        return best

    def _parts(self) -> Iterator[Sequence[Holder]]:
        """Sets of pods of which some must have all victims."""
        request = self._preemptor.request
        is_node_mutex = PolicyName.MUTEX in self._preemptor.policies.for_request(request).node
        if is_node_mutex or len(request.requests) != 1 or request.requests[0].device_count != 1:
            yield self._movable
            return
        for usage in self._cleared.usages:
            uuid = usage.device.device_uuid
            yield [holder for holder in self._movable if uuid in holder.devices]

    def _search(self, candidates: Sequence[Holder], bound: Cost | None) -> Eviction | None:
        """From the cheapest set on, the first that helps, if it costs less than the bound."""
        order = count()
        queue: list[tuple[Cost, int, tuple[int, ...]]] = [(self._cost(()), next(order), ())]
        while queue and self._tries > 0:
            cost, _, chosen = heapq.heappop(queue)
            if bound is not None and cost >= bound:
                return None
            victims = tuple(candidates[index] for index in chosen)
            self._tries -= 1
            if (placement := self._placed(victims)) is not None:
                return Eviction(placement=placement, victims=victims, cost=cost)
            for index in range(chosen[-1] + 1 if chosen else 0, len(candidates)):
                more = (*chosen, index)
                cost = self._cost(tuple(candidates[i] for i in more))
                if self._preemptor.may_violate or not cost.violations:
                    heapq.heappush(queue, (cost, next(order), more))
        return None

    def _reprieved(self) -> Eviction | None:
        """What is left when all who can stay do, the most important first."""
        gone = list(self._movable)
        for holder in sorted(self._movable, key=self._importance, reverse=True):
            others = [each for each in gone if each is not holder]
            if self._placed(others) is not None:
                gone = others
        cost, placement = self._cost(gone), self._placed(gone)
        if placement is None or (cost.violations and not self._preemptor.may_violate):
            return None
        return Eviction(placement=placement, victims=tuple(gone), cost=cost)

    def _placed(self, victims: Iterable[Holder]) -> NodePlacement | None:
        node = self._cleared
        for holder in victims:
            node = _without(node, holder)
        outcome = place_on_node(
            self._preemptor.request,
            node,
            policies=self._preemptor.policies,
            measure=self._measure,
        )
        return outcome if isinstance(outcome, NodePlacement) else None

    def _importance(self, holder: Holder) -> tuple[int, int, str]:
        return holder.priority, self._work(holder), holder.pod_uid

    def _work(self, holder: Holder) -> int:
        return len(holder.devices) * max(0, int(self._preemptor.now_s - holder.started_at_s))

    def _cost(self, victims: Sequence[Holder]) -> Cost:
        evicted = (*self._given, *victims)
        hit: dict[str, int] = {}
        for budget in chain.from_iterable(holder.budgets for holder in evicted):
            hit[budget] = hit.get(budget, 0) + 1
        allowed = self._preemptor.allowed
        broken = sum(max(0, n - max(0, allowed.get(name, 0))) for name, n in hit.items())
        return Cost(
            violations=max(self._violations, broken),
            highest=max((holder.priority for holder in evicted), default=-_OFFSET),
            weight=sum(holder.priority + _OFFSET for holder in evicted)
            + self._stranger_count * _OFFSET,
            work=sum(map(self._work, evicted)),
        )


def _without(node: NodeSnapshot, holder: Holder) -> NodeSnapshot:
    return freed(node, holder.allocation, is_initialized=holder.is_initialized)
