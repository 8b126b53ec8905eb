"""Why a pod waits and what would make it fit, by what the cluster is now.

Judged are the nodes that kube-scheduler let us choose among when it last asked about the pod: what
it has against the others (taints, selectors, volumes, processors) no change of cards would heal.
Where it has not asked yet, as in a copy of a cluster, at least those are set aside whose processors
or main memory do not suffice.

A change that is told keeps within the quotas, too. Where there is none, a remark says why not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hamid.model.request import PolicyName
from hamid.sched.placement.departure import Tenant, departure
from hamid.sched.placement.explain import cluster_sentence
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.over_quota import QuotaRefusal, missing_clause
from hamid.sched.placement.place import Unplaceable, place
from hamid.sched.placement.smallest_change import Suggestions, suggestions
from hamid.sched.placement.typical import Arrivals
from hamid.sched.placement.within import quota_refusal, within

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hamid.model.node import NodeSnapshot
    from hamid.model.quota import Bound
    from hamid.model.request import PodRequest
    from hamid.sched.placement.change import Change
    from hamid.sched.placement.place import Placement
    from hamid.sched.placement.policy import Policies
    from hamid.sched.records import PodRecord

_PROBLEMS_SHOWN: Final = 2
_SHOWN_CHARS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomMade:
    """Others are evicted from this node for the pod.

    Attributes:
        leaving: those that are still there, as `namespace/name`.
    """

    node_name: str
    leaving: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What happens; names nobody, for not everybody may know who else is there."""
        count = len(self.leaving)
        if not count:
            return f"room was made on node {self.node_name}; kube-scheduler has yet to try again"
        who = "1 pod has" if count == 1 else f"{count} pods have"
        return f"room is being made on node {self.node_name}, where {who} yet to end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What was found.

    Attributes:
        changes: any one of them would make the pod fit; none where it fits.
        remark: why there is none; empty where there is one, or the pod fits.
        set_aside_count: nodes that were not judged.
        is_offered: whether kube-scheduler has set them aside.
        over_quota: what a quota has against the pod; None where that is nothing.
        room_made: whom it has only to wait for; None where nobody is evicted for it.
        problems: why nodes that may take it have no cards to give, and how many.
    """

    request: PodRequest
    outcome: Placement | Unplaceable
    over_quota: QuotaRefusal | None = None
    changes: tuple[Change, ...] = ()
    remark: str = ""
    set_aside_count: int = 0
    is_offered: bool = False
    room_made: RoomMade | None = None
    problems: tuple[tuple[str, int], ...] = ()

    @property
    def sentence(self) -> str:
        """Why the pod waits; empty where it fits."""
        if not isinstance(self.outcome, Unplaceable):
            return "" if self.over_quota is None else self.over_quota.sentence
        sentence = cluster_sentence(self.request, self.outcome.refusals)
        if self.over_quota is not None:
            sentence = f"{self.over_quota.sentence}. Besides, {sentence}"
        if self.room_made is not None:
            sentence = f"{self.room_made.sentence}. Until then, {sentence}"
        for problem, count in self.problems:
            sentence += f"; of {_nodes(count)}: {problem}"
        if not self.set_aside_count:
            return sentence
        nodes = _nodes(self.set_aside_count)
        why = (
            f"kube-scheduler did not offer {nodes}"
            if self.is_offered
            else f"{nodes} without the processors or the main memory"
        )
        return f"{sentence}; {why}"


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def outlook(
    request: PodRequest,
    nodes: Sequence[NodeSnapshot],
    policies: Policies,
    *,
    tenants: Iterable[Tenant] = (),
    offered: frozenset[str] = frozenset(),
    bounds: Sequence[Bound] = (),
    room_made: RoomMade | None = None,
    problems: Mapping[str, str] | None = None,
) -> Outlook:
    """Judge the pod.

    Args:
        request: of a pod that waits.
        nodes: all there are.
        policies: of the cluster.
        tenants: who holds cards.
        offered: the nodes that kube-scheduler let us choose among; empty where it has not asked.
        bounds: what quotas leave for the pod.
        room_made: for the pod, by evicting others.
        problems: by node, why it has no cards to give though it registered some.
    """
    if offered:
        judged = [node for node in nodes if node.node_name in offered]
    else:
        judged = [node for node in nodes if node.has_host_for(request.host)]
    outcome = _outcome(request, judged, policies)
    over_quota = _over_quota(request, outcome, judged, policies, bounds)
    found, going = Suggestions(), None
    if over_quota is not None:
        resort = missing_clause(over_quota.overdrafts)
        found = suggestions(request, judged, policies, bounds=bounds, last_resort=resort)
    elif isinstance(outcome, Unplaceable):
        refusals = outcome.refusals
        found = suggestions(request, judged, policies, refusals=refusals, bounds=bounds)
        going = departure(request, judged, tenants, policies, refusals=refusals)
    changes = (*found.changes, *(() if going is None else (going,)))
    return Outlook(
        request=request,
        outcome=outcome,
        changes=changes,
        remark="" if changes else found.remark,
        set_aside_count=len(nodes) - len(judged),
        is_offered=bool(offered),
        over_quota=over_quota,
        room_made=room_made,
        problems=_counted((problems or {}).get(node.node_name, "") for node in judged),
    )


def _counted(problems: Iterable[str]) -> tuple[tuple[str, int], ...]:
    """The most frequent first, each cut to what an event has room for."""
    found = Counter(problem[:_SHOWN_CHARS] for problem in problems if problem)
    return tuple(found.most_common(_PROBLEMS_SHOWN))


def _outcome(
    request: PodRequest, nodes: Sequence[NodeSnapshot], policies: Policies
) -> Placement | Unplaceable:
    """What `place` returns; sooner, where the pod fits nowhere.

    Preferences cost time, and have no say in why a pod of one container is refused: the cheapest
    one is tried first, beside the conditions.
    """
    if len(request.requests) == 1:
        conditions = policies.for_request(request).conditions
        plain = replace(
            request,
            node_policies=(*conditions.node, PolicyName.BINPACK),
            device_policies=(*conditions.device, PolicyName.BINPACK),
        )
        outcome = place(plain, nodes, policies=policies)
        if isinstance(outcome, Unplaceable):
            return outcome
    return place(request, nodes, policies=policies)


def _over_quota(
    request: PodRequest,
    outcome: Placement | Unplaceable,
    nodes: Sequence[NodeSnapshot],
    policies: Policies,
    bounds: Sequence[Bound],
) -> QuotaRefusal | None:
    """What keeps the pod from all nodes whose cards would do, or would keep it from any."""
    if (refusal := quota_refusal(request, bounds)) is not None:
        return refusal
    left = within(
        request,
        outcome,
        bounds=bounds,
        nodes={node.node_name: node for node in nodes},
        policies=policies,
        measure=Fragmentation(Arrivals().typical),
    )
    if not isinstance(left, Unplaceable):
        return None
    return next((r for r in left.refusals.values() if isinstance(r, QuotaRefusal)), None)


def tenants_of(records: Iterable[PodRecord]) -> Iterator[Tenant]:
    """The pods that hold cards; made where they are looked at, for there are thousands."""
    return (
        Tenant(
            pod_key=record.pod_key,
            allocation=record.allocation,
            is_initialized=record.is_initialized,
            priority=record.priority,
            created_at=record.created_at,
        )
        for record in records
        if record.allocation is not None
    )
