"""Who holds the cards of which node, as far as it matters for whom to evict; read from the books."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from hamid.sched.placement.preemption import HeldNode, Holder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hamid.codec.disruption_budget import Budget
    from hamid.codec.extender import NodeVictims
    from hamid.model.allocation import PodAllocation
    from hamid.model.node import NodeSnapshot
    from hamid.sched.cache import ClusterCache
    from hamid.sched.records import PodRecord

STUCK_S: Final = 60.0
"""A pod that is still there so long after its time will not go by waiting for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What is known of those that hold cards at one moment; worked up beside the loop.

    Attributes:
        records: of all pods.
        victims: those that are evicted for others already, by UID.
        budgets: those of the cluster.
        spared: whom the Eviction API has refused to evict; None where it is not asked. It refuses
            whom several budgets count, too, whatever these allow.
        fresh: nodes on which room was freed since the pod was tried: it may fit there as they are.
        now_s: seconds since the epoch.
    """

    records: Sequence[PodRecord]
    victims: frozenset[str] = frozenset()
    budgets: Sequence[Budget] = ()
    spared: frozenset[str] | None = None
    fresh: frozenset[str] = frozenset()
    now_s: float = 0.0

    def on(
        self, nodes: Mapping[str, NodeSnapshot], given: Mapping[str, NodeVictims]
    ) -> Iterator[HeldNode]:
        """The nodes with those that hold their cards; without those where nobody has to go.

        Worked up by whoever goes through them.

        Args:
            nodes: as the pod sees them that is to get room.
            given: by node, the pods that are evicted there in any case.
        """
        budgets: dict[str, list[Budget]] = {}
        for budget in self.budgets:
            budgets.setdefault(budget.namespace, []).append(budget)
        holders: dict[str, list[Holder]] = {name: [] for name in nodes}
        for each in self.records:
            if each.allocation is not None and each.node_name in holders:
                found = self._holder(each, each.allocation, budgets.get(each.namespace, ()))
                holders[each.node_name].append(found)
        for name, node in nodes.items():
            if holders[name] or given[name].pod_uids or name in self.fresh:
                yield HeldNode(
                    node=node,
                    holders=tuple(holders[name]),
                    given=frozenset(given[name].pod_uids),
                    violations=given[name].violations,
                )

    def _holder(
        self, record: PodRecord, allocation: PodAllocation, budgets: Sequence[Budget]
    ) -> Holder:
        counting = frozenset(b.key for b in budgets if b.counts(record.namespace, record.labels))
        is_stuck = bool(record.leaves_at) and self.now_s > time_of(record.leaves_at) + STUCK_S
        is_spared = self.spared is not None and (len(counting) > 1 or record.pod_uid in self.spared)
        return Holder(
            pod_uid=record.pod_uid,
            allocation=allocation,
            is_initialized=record.is_initialized,
            priority=record.priority,
            started_at_s=time_of(record.started_at),
            budgets=counting,
            is_leaving=record.pod_uid in self.victims or (bool(record.leaves_at) and not is_stuck),
            is_protected=record.is_protected or is_stuck or is_spared,
        )


@lru_cache(maxsize=16_384)
def time_of(text: str) -> float:
    """Seconds since the epoch; 0 where nothing is said."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


def longest_grace_s(
    cache: ClusterCache, pod_uids: Collection[str], node_name: str, now_s: float
) -> float:
    """How long until these pods, and those of the node that leave already, have to be gone."""
    left = [0.0]
    for pod_uid in pod_uids:
        record = cache.pod(pod_uid)
        if record is None or not record.leaves_at:
            left.append(cache.grace_s(pod_uid))
    left.extend(
        time_of(record.leaves_at) - now_s
        for record in cache.pod_records()
        if record.node_name == node_name and record.leaves_at
    )
    return max(left)
