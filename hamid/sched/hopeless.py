"""Pods that are helped by nobody's eviction, for a while: it is not worked out again and again.

Thousands may wait that are alike. Pods of one kind are helped alike, or not at all: those that ask
for the same, are as important, are charged to the same quotas, and that kube-scheduler lets onto the
same nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection

    from hamid.model.quota import Payer
    from hamid.model.request import PodRequest
    from hamid.sched.records import PodRecord
    from hamid.sched.refused import LastTry


class _Kind(NamedTuple):
    """What pods have in common; the request is without who asks."""

    request: PodRequest | None
    priority: int
    payer: Payer | None
    node_names: frozenset[str]


class Hopeless:
    """Kinds of pods that could not be helped lately, each until a time of some clock."""

    def __init__(self) -> None:
        self._until_s: dict[_Kind, float] = {}
        self._kinds: dict[str, tuple[LastTry, _Kind]] = {}

    def add(self, record: PodRecord, last: LastTry, *, until_s: float) -> None:
        """The pod, as it was last tried, cannot be helped, and neither can those like it."""
        self._until_s[self._kind(record, last)] = until_s

    def has(self, record: PodRecord, last: LastTry) -> bool:
        """Whether the pod, as it was last tried, is of such a kind."""
        return bool(self._until_s) and self._kind(record, last) in self._until_s

    def forget(self, *, now_s: float, but: Collection[str]) -> None:
        """Forget kinds whose time is over, and what is known of other pods than these."""
        self._until_s = {kind: end_s for kind, end_s in self._until_s.items() if end_s > now_s}
        for pod_uid in [uid for uid in self._kinds if uid not in but]:
            del self._kinds[pod_uid]

    def _kind(self, record: PodRecord, last: LastTry) -> _Kind:
        known = self._kinds.get(record.pod_uid)
        if known is not None and known[0] is last:
            return known[1]
        request = None if record.request is None else record.request.anonymous
        kind = _Kind(request, record.priority, record.payer, last.node_names)
        self._kinds[record.pod_uid] = last, kind
        return kind
