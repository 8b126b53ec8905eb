"""What would make a pod fit that fits nowhere: the smallest change of each kind, found by trying.

    memory        so much less on each card, of one container
    cores         so many percent fewer on each card, of one container
    cards         so many cards fewer, of one container
    part          less memory and fewer cores of one container, where neither alone would do:
                  as much memory as can be had at all, then as many cores as go with it
    annotations   the fewest that can be dropped together, where one alone does not do
    uncordon      the fewest cards of one node

Invariants:

1. A change that is returned was placed with; a smaller one of its kind was tried and refused.
2. Nothing is suggested for a pod that fits.

Trying all amounts on all nodes would take minutes. Each container alone is refused by a node for
shortfalls that say by how much at least it must change: nodes are tried in this order, and a node
that cannot do better than what was found already is left out.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from hamid.model.shortfall import Resource
from hamid.sched.placement.change import (
    DROPPABLE,
    Amount,
    Change,
    ChangeKind,
    Lowered,
    amount_of,
    applied,
    asked_of,
    with_amount,
    without,
)
from hamid.sched.placement.distance import HELPED, Distance, heals_any, smaller_cores, without_cores
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.place import NodePlacement, in_order, place_on_node
from hamid.sched.placement.search import Search
from hamid.sched.placement.typical import Arrivals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hamid.model.node import NodeSnapshot
    from hamid.model.request import ContainerRequest, PodRequest
    from hamid.sched.placement.distance import Helped
    from hamid.sched.placement.policy import Policies
    from hamid.sched.placement.refusal import Refusal


def smallest_changes(
    request: PodRequest,
    nodes: Iterable[NodeSnapshot],
    policies: Policies,
    *,
    refusals: Mapping[str, Refusal] | None = None,
) -> tuple[Change, ...]:
    """The smallest change of each kind that would make the pod fit on one of the nodes.

    Args:
        request: asks for at least one device.
        nodes: those that may take it.
        policies: of the cluster; those of the pod count before them.
        refusals: of `place` for the same, where they are at hand: that saves time.
    """
    trials = _Trials(request, nodes, policies, refusals or {})
    if trials.has_room:
        return ()
    found = [
        trials.less(kind, container)
        for container in request.requests
        for kind in (ChangeKind.MEMORY, ChangeKind.CORES, ChangeKind.CARDS)
    ]
    if not any(found):
        found = [trials.part(container) for container in request.requests]
    found += [trials.dropped(), trials.uncordoned()]
    return tuple(change for change in found if change is not None)


class _Tried(NamedTuple):
    """A node, and why it refuses each container alone; None where it would take it."""

    node: NodeSnapshot
    refusals: tuple[Distance | None, ...]


class _Trials:
    """Tries changes of one pod."""

    def __init__(
        self,
        request: PodRequest,
        nodes: Iterable[NodeSnapshot],
        policies: Policies,
        known: Mapping[str, Refusal],
    ) -> None:
        self._request = request
        self._policies = policies
        self._measure = Fragmentation(Arrivals().typical)
        self._tried: list[_Tried] = []
        self.has_room = False
        alone = [replace(request, requests=(container,)) for container in request.requests]
        for node in sorted(nodes, key=lambda n: n.node_name):
            if not node.usages:
                continue
            ordered = in_order(node)
            found: tuple[Refusal | None, ...]
            if len(alone) == 1 and node.node_name in known:
                found = (known[node.node_name],)
            else:
                found = tuple(self._refusal(each, ordered) for each in alone)
            refusals = tuple(None if each is None else Distance(each) for each in found)
            self._tried.append(_Tried(ordered, refusals))
            if not any(refusals) and self._fits(request, ordered):
                self.has_room = True
                return

    def _refusal(self, request: PodRequest, node: NodeSnapshot) -> Refusal | None:
        # Preferences cost time and change nothing here.
        search = Search(
            request=request,
            node=node,
            policies=self._policies.for_request(request).conditions,
            measure=self._measure,
        )
        return search.refusal if search.run() is None else None

    def _fits(self, request: PodRequest, node: NodeSnapshot) -> bool:
        return self._refusal(request, node) is None

    def _is_placed(self, change: Change) -> bool:
        """By the same function as the pod will be."""
        tried = next(t for t in self._tried if t.node.node_name == change.node_name)
        request, (node,) = applied(change, self._request, (tried.node,))
        outcome = place_on_node(request, node, policies=self._policies, measure=self._measure)
        return isinstance(outcome, NodePlacement)

    def less(self, kind: ChangeKind, container: ContainerRequest) -> Change | None:
        """Less of one amount of the container."""
        found = self._lowest(self._request, container, amount_of(kind, container))
        return None if found is None else self._change(kind, found[1], found[0])

    def part(self, container: ContainerRequest) -> Change | None:
        """Less memory and fewer cores: as much memory as can be had, then as many cores."""
        name, memory = container.container_name, amount_of(ChangeKind.MEMORY, container)
        if not container.core_percent or asked_of(container, memory) <= 1:
            return None
        coreless = with_amount(self._request, name, Amount.CORES, 0)
        of_memory = self._lowest(coreless, container, memory, helped=without_cores(HELPED[memory]))
        if of_memory is None:
            return None
        smaller = with_amount(self._request, name, memory, of_memory[0].fitting)
        of_cores = self._lowest(smaller, container, Amount.CORES, helped=smaller_cores)
        if of_cores is None:
            return None
        return self._change(ChangeKind.PART, of_cores[1], of_memory[0], of_cores[0])

    def _change(self, kind: ChangeKind, node_name: str, *lowered: Lowered) -> Change | None:
        change = Change(kind=kind, node_name=node_name, lowered=lowered)
        return change if self._is_placed(change) else None

    def _lowest(
        self,
        request: PodRequest,
        container: ContainerRequest,
        amount: Amount,
        *,
        helped: Helped | None = None,
    ) -> tuple[Lowered, str] | None:
        """The most of the amount that fits anywhere, and where.

        Args:
            request: the pod, maybe changed otherwise already.
            container: to be lowered, as it is in the pod.
            amount: of which to lower.
            helped: by how much it must be lowered at least for the sake of one shortfall of the
                unchanged pod; by default, where nothing else is changed.
        """
        asked = asked_of(container, amount)
        name, limit = container.container_name, asked - _LEAST[amount]
        best: tuple[int, str] | None = None

        def fits(node: NodeSnapshot, less: int) -> bool:
            return self._fits(with_amount(request, name, amount, asked - less), node)

        index = self._request.requests.index(container)
        for bound, node in self._candidates(index, helped or HELPED.get(amount)):
            most = limit if best is None else best[0] - 1
            if bound > most:
                break
            if fits(node, most):
                best = _first(partial(fits, node), bound, most), node.node_name
        if best is None:
            return None
        lowered = Lowered(container_name=name, amount=amount, asked=asked, fitting=asked - best[0])
        return lowered, best[1]

    def _candidates(self, index: int, helped: Helped | None) -> list[tuple[int, NodeSnapshot]]:
        """Nodes that may take the pod with less, and how much less at least; the least first."""
        found: list[tuple[int, NodeSnapshot]] = []
        for node, refusals in self._tried:
            if any(refusal is not None for i, refusal in enumerate(refusals) if i != index):
                continue
            refusal = refusals[index]
            if refusal is None:
                found.append((1, node))
            elif helped is None:
                found.append((max(refusal.missing_count, 1), node))
            elif (bound := refusal.bound(helped)) is not None:
                found.append((bound, node))
        found.sort(key=lambda item: item[0])
        return found

    def dropped(self) -> Change | None:
        """The annotations without which the pod fits."""
        given = tuple(n for n in DROPPABLE if without(self._request, (n,)) != self._request)
        names = next(
            (names for names in (*((n,) for n in given), given) if self._taker_without(names)), ()
        )
        for name in names:
            fewer = tuple(n for n in names if n != name)
            if fewer and self._taker_without(fewer):
                names = fewer
        node_name = self._taker_without(names) if names else None
        if node_name is None:
            return None
        change = Change(kind=ChangeKind.ANNOTATIONS, node_name=node_name, annotations=names)
        return change if self._is_placed(change) else None

    def _taker_without(self, names: tuple[str, ...]) -> str | None:
        request = without(self._request, names)
        resources = {resource for name in names for resource in DROPPABLE[name]}
        for node, refusals in self._tried:
            if all(
                refusal is None or refusal.bound(heals_any(resources)) is not None
                for refusal in refusals
            ) and self._fits(request, node):
                return node.node_name
        return None

    def uncordoned(self) -> Change | None:
        """The fewest cards of one node."""
        best: Change | None = None
        heals = heals_any({Resource.CORDON})
        for node, refusals in self._tried:
            if not node.cordoned or any(r is not None and not r.bound(heals) for r in refusals):
                continue
            uuids = sorted(node.cordoned)
            if not self._fits(self._request, replace(node, cordoned=frozenset())):
                continue
            for uuid in reversed(uuids):
                fewer = [other for other in uuids if other != uuid]
                if self._fits(
                    self._request, replace(node, cordoned=node.cordoned.difference(fewer))
                ):
                    uuids = fewer
            if best is None or len(uuids) < len(best.device_uuids):
                best = Change(
                    kind=ChangeKind.UNCORDON, node_name=node.node_name, device_uuids=tuple(uuids)
                )
        return best if best is not None and self._is_placed(best) else None


def _first(is_true: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number from `low` on for which it is true; it is for `high`, and from it on."""
    while low < high:
        middle = (low + high) // 2
        if is_true(middle):
            high = middle
        else:
            low = middle + 1
    return high


_LEAST: Final = {
    Amount.MEMORY_MIB: 1,
    Amount.MEMORY_PERCENT: 1,
    Amount.CORES: 0,
    Amount.CARDS: 1,
}
