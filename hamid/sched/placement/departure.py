"""Whose departure would make room for a pod that fits nowhere: one single pod, the least important.

Pods are tried in the order in which one would rather do without them: the lowest priority first,
of equal ones the youngest, then by name. The first that makes room is the answer, so most others
are never looked at.

A pod can help only if, with what it holds given back, each container of the waiting pod finds as
many cards on the node as it asks for. That is quickly counted; only then the pod is placed on the
node as it would be. At most `MAX_TRIALS` are placed: where even so many come to nothing, as with
pods of several containers that get into each other's way, no answer is given.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hamid.model.request import PolicyName
from hamid.sched.placement.capacity import freed
from hamid.sched.placement.change import Change, ChangeKind
from hamid.sched.placement.fit import share_on, shortfalls
from hamid.sched.placement.fragmentation import Fragmentation
from hamid.sched.placement.mutex import is_in_use
from hamid.sched.placement.place import NodePlacement, place_on_node
from hamid.sched.placement.trials import MOST_KINDS, alike
from hamid.sched.placement.typical import Arrivals

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hamid.model.allocation import PodAllocation
    from hamid.model.device import DeviceUsage
    from hamid.model.node import NodeSnapshot
    from hamid.model.request import ContainerRequest, PodRequest
    from hamid.sched.placement.policy import Policies
    from hamid.sched.placement.refusal import Refusal

MAX_TRIALS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A pod that holds cards.

    Attributes:
        created_at: later ones compare greater.
    """

    pod_key: str
    allocation: PodAllocation
    is_initialized: bool = False
    priority: int = 0
    created_at: str = ""


def departure(
    request: PodRequest,
    nodes: Iterable[NodeSnapshot],
    tenants: Iterable[Tenant],
    policies: Policies,
    *,
    refusals: Mapping[str, Refusal] | None = None,
) -> Change | None:
    """The pod whose departure alone would make the waiting one fit, or None if there is none.

    Args:
        request: fits on none of the nodes.
        nodes: those that may take it.
        tenants: who holds cards there.
        policies: of the cluster; those of the pod count before them.
        refusals: of `place` for the same, where they are at hand: that saves time.
    """
    known = refusals or {}
    by_name = {
        node.node_name: node
        for node in nodes
        if (refusal := known.get(node.node_name)) is None or not refusal.is_hopeless
    }
    trials = _Trials(request, policies, known)
    most = max(1, MAX_TRIALS * MOST_KINDS // max(MOST_KINDS, len(request.requests)))
    # The youngest first among the least important: a stable sort after another.
    order = sorted(tenants, key=lambda tenant: (tenant.created_at, tenant.pod_key), reverse=True)
    order.sort(key=lambda tenant: tenant.priority)
    for tenant in order:
        node = by_name.get(tenant.allocation.node_name)
        if node is None or not trials.may_help(node, tenant):
            continue
        if trials.helps(node, tenant):
            return Change(
                kind=ChangeKind.DEPARTURE,
                node_name=node.node_name,
                pod_key=tenant.pod_key,
                pod_priority=tenant.priority,
            )
        if trials.count >= most:
            return None
    return None


class _Trials:
    """Looks at departures for one waiting pod."""

    def __init__(
        self, request: PodRequest, policies: Policies, known: Mapping[str, Refusal]
    ) -> None:
        self._request = request
        # One for all that are alike, and not all kinds: it is counted to leave pods out, no more.
        self._containers = [each[0] for each in alike(request)[:MOST_KINDS]]
        # A refusal counts the cards that would do for its container; bound to a NUMA node, not all.
        is_counted = len(request.requests) == 1 and not request.is_numa_bound
        self._known = known if is_counted else {}
        self._policies = policies
        wanted = policies.for_request(request)
        self._is_mutex = PolicyName.MUTEX in wanted.device
        self._is_node_mutex = PolicyName.MUTEX in wanted.node
        self._measure = Fragmentation(Arrivals().typical)
        self._fitting: dict[str, tuple[int, ...]] = {}
        self.count = 0

    def may_help(self, node: NodeSnapshot, tenant: Tenant) -> bool:
        """Whether each container alone would find enough cards without the tenant."""
        if self._is_node_mutex:
            return not is_in_use(_freed(node, tenant))
        found = self._fitting.get(node.node_name)
        if found is None:
            refusal = self._known.get(node.node_name)
            found = self._fitting[node.node_name] = (
                self._counts(node, node.usages) if refusal is None else (refusal.fitting_count,)
            )
        held = tenant.allocation.device_uuids
        wanted = [container.device_count for container in self._containers]
        if any(has + len(held) < needs for has, needs in zip(found, wanted, strict=True)):
            return False
        before = [usage for usage in node.usages if usage.device.device_uuid in held]
        after = _freed(replace(node, usages=tuple(before)), tenant).usages
        less, more = self._counts(node, before), self._counts(node, after)
        return all(
            has - lost + gained >= needs
            for has, lost, gained, needs in zip(found, less, more, wanted, strict=True)
        )

    def helps(self, node: NodeSnapshot, tenant: Tenant) -> bool:
        """Whether the pod fits without the tenant: by the same function as it will be placed."""
        self.count += 1
        outcome = place_on_node(
            self._request, _freed(node, tenant), policies=self._policies, measure=self._measure
        )
        return isinstance(outcome, NodePlacement)

    def _counts(self, node: NodeSnapshot, usages: Iterable[DeviceUsage]) -> tuple[int, ...]:
        """How many of the cards do for each container."""
        looked_at = tuple(usages)
        return tuple(
            sum(self._does(node, usage, container) for usage in looked_at)
            for container in self._containers
        )

    def _does(self, node: NodeSnapshot, usage: DeviceUsage, container: ContainerRequest) -> bool:
        if self._is_mutex and usage.slots_used:
            return False
        return not shortfalls(
            usage,
            share_on(usage.device, container),
            request=self._request,
            is_cordoned=usage.device.device_uuid in node.cordoned,
        )


def _freed(node: NodeSnapshot, tenant: Tenant) -> NodeSnapshot:
    return freed(node, tenant.allocation, is_initialized=tenant.is_initialized)
