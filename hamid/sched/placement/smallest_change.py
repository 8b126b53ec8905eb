"""What would make a pod fit that fits nowhere: the smallest change of each kind, found by trying.

    memory        so much less on each card, of one container
    cores         so many percent fewer on each card, of one container
    cards         so many cards fewer, of one container
    part          less memory and fewer cores of one container, where neither alone would do:
                  as much memory as can be had at all, then as many cores as go with it
    the same      of several containers, where no change of one would do (see `together`)
    annotations   the fewest that can be dropped together, where one alone does not do
    uncordon      the fewest cards of one node

Of containers that are alike the first is told. Where there is no such change, a remark says why not:
what would have to be changed beside each other, or that nothing of all this helps.

Invariants:

1. A change that is returned was placed with, and keeps within the quotas; a smaller one of its kind
   was tried and refused.
2. Nothing is suggested for a pod that fits.
3. There is a change or a remark for each pod that does not.

Trying all amounts on all nodes would take minutes. Nodes are tried in the order of how much at
least must change there (`distance`), and a node that cannot do better than what was found already
is left out.
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
    asked_of,
    with_amount,
    without,
)
from hamid.sched.placement.distance import HELPED, heals_any, smaller_cores, without_cores
from hamid.sched.placement.together import LEAST, together
from hamid.sched.placement.trials import MOST_KINDS, Trials

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from hamid.model.node import NodeSnapshot
    from hamid.model.quota import Bound
    from hamid.model.request import ContainerRequest, PodRequest
    from hamid.sched.placement.distance import Helped
    from hamid.sched.placement.policy import Policies
    from hamid.sched.placement.refusal import Refusal


class Suggestions(NamedTuple):
    """What would make a pod fit.

    Attributes:
        changes: any one of them.
        remark: why there is none; empty where there is one.
    """

    changes: tuple[Change, ...] = ()
    remark: str = ""


def suggestions(
    request: PodRequest,
    nodes: Iterable[NodeSnapshot],
    policies: Policies,
    *,
    refusals: Mapping[str, Refusal] | None = None,
    bounds: Sequence[Bound] = (),
    last_resort: str = "",
) -> Suggestions:
    """The smallest change of each kind that would make the pod fit on one of the nodes.

    Args:
        request: asks for at least one device.
        nodes: those that may take it.
        policies: of the cluster; those of the pod count before them.
        refusals: of `place` for the same, where they are at hand: that saves time.
        bounds: what quotas leave for the pod.
        last_resort: what has to happen where no change of the pod helps.
    """
    given = tuple(nodes)
    trials = Trials(request, given, policies, bounds=bounds, known=refusals)
    if trials.has_room:
        return Suggestions()
    changes = tuple(_changes(trials))
    if changes:
        return Suggestions(changes)
    remark = _several(trials, given, policies, bounds) or _nothing(trials, last_resort)
    return Suggestions(remark=remark)


def _changes(trials: Trials) -> Iterator[Change]:
    yield from _amounts(trials)
    others = _OnePart(trials)
    for change in (others.dropped(), others.uncordoned()):
        if change is not None:
            yield change


_LAST_RESORT: Final = "room comes when other pods end, cards heal or nodes are added"
_ONE_OF: Final = (ChangeKind.MEMORY, ChangeKind.CORES, ChangeKind.CARDS)


def _amounts(trials: Trials) -> list[Change]:
    """What can be asked less of: of one container, else of several, else of several amounts."""
    one = _OnePart(trials)
    containers = [alike[0] for alike in trials.kinds] if len(trials.kinds) <= MOST_KINDS else []
    # Each way is gone only where those before it lead to nothing.
    ways: tuple[Iterator[Change | None], ...] = (
        (one.less(kind, each) for each in containers for kind in _ONE_OF),
        (one.part(each) for each in containers),
        (together(trials, (kind,)) for kind in _ONE_OF),
        (together(trials, kinds) for kinds in (_ONE_OF[:2],)),
        (together(trials, kinds) for kinds in (_ONE_OF,)),
    )
    for way in ways:
        if found := [change for change in way if change is not None]:
            return found
    return []


def _several(
    trials: Trials, nodes: Sequence[NodeSnapshot], policies: Policies, bounds: Sequence[Bound]
) -> str:
    """Which changes of different kinds would do together; empty where none would."""
    request, given = trials.request, _given(trials.request)
    least = _at_its_least(request)
    if not any(trials.may_fit(least, each.node) for each in trials.tried):
        return ""
    free = [replace(node, cordoned=frozenset()) for node in nodes]
    is_cordoned = any(node.cordoned for node in nodes)
    for drops, frees in ((True, False), (False, True), (True, True)):
        if (drops and not given) or (frees and not is_cordoned):
            continue
        after = Trials(
            without(request, given) if drops else request,
            free if frees else nodes,
            policies,
            bounds=bounds,
        )
        less = None if after.has_room else next(iter(_amounts(after)), None)
        if less is None and not after.has_room:
            continue
        node_name = after.tried[-1].node.node_name if less is None else less.node_name
        dropped = Change(kind=ChangeKind.ANNOTATIONS, node_name=node_name, annotations=given)
        said = [dropped.sentence] if drops else []
        said += [f"uncordon the cards of node {node_name}"] if frees else []
        said += [] if less is None else [less.sentence]
        return f"No single change would make it fit, but these together: {', and '.join(said)}"
    return ""


def _at_its_least(request: PodRequest) -> PodRequest:
    for container in request.requests:
        for amount in (amount_of(kind, container) for kind in _ONE_OF):
            request = with_amount(request, container.container_name, amount, LEAST[amount])
    return request


def _nothing(trials: Trials, last_resort: str) -> str:
    """What has to happen where no change of the pod helps."""
    if trials.is_partial:
        return "What would make it fit was not found among the changes that were tried"
    if not trials.tried:
        return "No change of the pod would make it fit: no node that may take it registers a card"
    return f"No change of the pod would make it fit: {last_resort or _LAST_RESORT}"


def smallest_changes(
    request: PodRequest,
    nodes: Iterable[NodeSnapshot],
    policies: Policies,
    *,
    refusals: Mapping[str, Refusal] | None = None,
) -> tuple[Change, ...]:
    """The changes alone; see `suggestions`."""
    return suggestions(request, nodes, policies, refusals=refusals).changes


def _given(request: PodRequest) -> tuple[str, ...]:
    """Annotations that narrow the choice."""
    return tuple(name for name in DROPPABLE if without(request, (name,)) != request)


class _OnePart:
    """Changes of one container, of annotations, of one node."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials

    def less(self, kind: ChangeKind, container: ContainerRequest) -> Change | None:
        """Less of one amount of the container."""
        found = self._lowest(self._trials.request, container, amount_of(kind, container))
        return None if found is None else self._change(kind, found[1], found[0])

    def part(self, container: ContainerRequest) -> Change | None:
        """Less memory and fewer cores: as much memory as can be had, then as many cores."""
        name, memory = container.container_name, amount_of(ChangeKind.MEMORY, container)
        if not container.core_percent or asked_of(container, memory) <= 1:
            return None
        coreless = with_amount(self._trials.request, name, Amount.CORES, 0)
        of_memory = self._lowest(coreless, container, memory, helped=without_cores(HELPED[memory]))
        if of_memory is None:
            return None
        smaller = with_amount(self._trials.request, name, memory, of_memory[0].fitting)
        of_cores = self._lowest(smaller, container, Amount.CORES, helped=smaller_cores)
        if of_cores is None:
            return None
        return self._change(ChangeKind.PART, of_cores[1], of_memory[0], of_cores[0])

    def _change(self, kind: ChangeKind, node_name: str, *lowered: Lowered) -> Change | None:
        change = Change(kind=kind, node_name=node_name, lowered=lowered)
        return change if self._trials.is_placed(change) else None

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
        name, limit = container.container_name, asked - LEAST[amount]
        best: tuple[int, str] | None = None

        def fits(node: NodeSnapshot, less: int) -> bool:
            return self._trials.fits(with_amount(request, name, amount, asked - less), node)

        index = next(n for n, alike in enumerate(self._trials.kinds) if container in alike)
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
        for node, refusals in self._trials.tried:
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
        given = _given(self._trials.request)
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
        return change if self._trials.is_placed(change) else None

    def _taker_without(self, names: tuple[str, ...]) -> str | None:
        request = without(self._trials.request, names)
        resources = {resource for name in names for resource in DROPPABLE[name]}
        for node, refusals in self._trials.tried:
            if all(
                refusal is None or refusal.bound(heals_any(resources)) is not None
                for refusal in refusals
            ) and self._trials.fits(request, node):
                return node.node_name
        return None

    def uncordoned(self) -> Change | None:
        """The fewest cards of one node."""
        best: Change | None = None
        heals = heals_any({Resource.CORDON})
        for node, refusals in self._trials.tried:
            if not node.cordoned or any(r is not None and not r.bound(heals) for r in refusals):
                continue
            uuids = sorted(node.cordoned)
            if not self._trials.fits(self._trials.request, replace(node, cordoned=frozenset())):
                continue
            for uuid in reversed(uuids):
                fewer = [other for other in uuids if other != uuid]
                if self._trials.fits(
                    self._trials.request, replace(node, cordoned=node.cordoned.difference(fewer))
                ):
                    uuids = fewer
            if best is None or len(uuids) < len(best.device_uuids):
                best = Change(
                    kind=ChangeKind.UNCORDON, node_name=node.node_name, device_uuids=tuple(uuids)
                )
        return best if best is not None and self._trials.is_placed(best) else None


def _first(is_true: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number from `low` on for which it is true; it is for `high`, and from it on."""
    while low < high:
        middle = (low + high) // 2
        if is_true(middle):
            high = middle
        else:
            low = middle + 1
    return high
