"""Who holds the cards of which node, as far as it matters for whom to evict; read from the books."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from hamid.sched.placement.preemption import HeldNode, Holder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hamid.codec.disruption_budget import Budget
    from hamid.codec.extender import NodeVictims
    from hamid.model.allocation import PodAllocation
    from hamid.sched.cache import ClusterCache
    from hamid.sched.nominations import Nominations
    from hamid.sched.records import PodRecord

STUCK_S: Final = 60.0
"""A pod that is still there so long after its time will not go by waiting for it."""


def held_nodes(
    cache: ClusterCache,
    nominations: Nominations,
    *,
    record: PodRecord,
    given: Mapping[str, NodeVictims],
    budgets: Sequence[Budget],
    now_s: float,
) -> tuple[HeldNode, ...]:
    """The nodes as this pod sees them, with those that hold their cards.

    Args:
        cache: what is known.
        nominations: what is promised to others.
        record: the pod that is to get room.
        given: the nodes that it may go to, with the pods that are evicted there in any case.
        budgets: those of the cluster.
        now_s: seconds since the epoch.
    """
    nodes = nominations.laid_over(
        {name: node for name in given if (node := cache.snapshot(name)) is not None},
        pod_uid=record.pod_uid,
        priority=record.priority,
    )
    holders: dict[str, list[Holder]] = {name: [] for name in nodes}
    expected = nominations.victims()
    for each in cache.pod_records():
        if each.allocation is not None and each.node_name in holders:
            found = _holder(each, each.allocation, budgets, now_s)
            if each.pod_uid in expected:
                found = replace(found, is_leaving=True)
            holders[each.node_name].append(found)
    return tuple(
        HeldNode(
            node=node,
            holders=tuple(holders[name]),
            given=frozenset(given[name].pod_uids),
            violations=given[name].violations,
        )
        for name, node in nodes.items()
        if holders[name] or given[name].pod_uids
    )


def time_of(text: str) -> float:
    """Seconds since the epoch; 0 where nothing is said."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def longest_grace_s(
    cache: ClusterCache, pod_uids: Collection[str], node_name: str, now_s: float
) -> float:
    """How long until these pods, and those of the node that leave already, have to be gone."""
    left = [0.0]
    for record in cache.pod_records():
        if record.node_name == node_name and record.leaves_at:
            left.append(time_of(record.leaves_at) - now_s)
        elif record.pod_uid in pod_uids:
            left.append(record.grace_s)
    return max(left)


def _holder(
    record: PodRecord, allocation: PodAllocation, budgets: Sequence[Budget], now_s: float
) -> Holder:
    is_stuck = bool(record.leaves_at) and now_s > time_of(record.leaves_at) + STUCK_S
    return Holder(
        pod_uid=record.pod_uid,
        allocation=allocation,
        is_initialized=record.is_initialized,
        priority=record.priority,
        started_at_s=time_of(record.started_at),
        budgets=frozenset(b.key for b in budgets if b.counts(record.namespace, record.labels)),
        is_leaving=bool(record.leaves_at) and not is_stuck,
        is_protected=record.is_protected or is_stuck,
    )
