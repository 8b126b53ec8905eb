"""Quotas and what is used of them, recomputed from the pods as the cache books them.

Invariants:

1. What is used of a quota is the sum of the charges of the pods that it binds, at any moment: a
   pod is charged by the same call that books it, so that nothing can leak or be charged twice.
2. Asking what is left costs a look at the quotas of one namespace; booking a pod does, too. A
   quota that is new or changed is summed up from the pods of its namespace.
3. Whoever charges before the next await has decided alone, as with the books of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hamid.codec.quota import LIMITS_PREFIX, decode_quota
from hamid.model.quota import NO_CHARGE, tightest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client import CollectorRegistry

    from hamid.kube.port import JsonObject
    from hamid.model.names import ResourceNames
    from hamid.model.quota import Bound, Charge, Payer, Quota

log = structlog.get_logger(__name__)

_HAMI_ZONE: Final = "vGPU"

_Key = tuple[str, str]
"""Namespace and name of a quota."""


class _Entry(NamedTuple):
    """What one pod is charged."""

    payer: Payer
    charge: Charge


@dataclass(slots=True)
class _Counted:
    """A quota and the sum of what it binds."""

    quota: Quota
    used: Charge


class QuotaBooks:
    """All quotas, and all charges.

    Args:
        names: of the resources that quotas speak of.
        freed: told the namespace whenever a quota of it may leave more than it did.
    """

    def __init__(self, *, names: ResourceNames, freed: Callable[[str], None]) -> None:
        self._names = names
        self._freed = freed
        self._counted: dict[str, dict[str, _Counted]] = {}
        self._remarks: dict[_Key, tuple[str, ...]] = {}
        self._entries: dict[str, dict[str, _Entry]] = {}
        self._namespace_of: dict[str, str] = {}

    # What is left.

    def bounds(self, payer: Payer) -> tuple[Bound, ...]:
        """The tightest bound of each resource for a pod of this payer; empty where none binds it."""
        counted = self._counted.get(payer.namespace)
        if not counted:
            return ()
        return tightest((c.quota, c.used) for c in counted.values() if c.quota.binds(payer))

    def all(self) -> Iterator[tuple[Quota, Charge]]:
        """Each quota and what is used of it, by namespace and name."""
        for _, counted in sorted(self._counted.items()):
            for _, found in sorted(counted.items()):
                yield found.quota, found.used

    def remarks(self) -> Mapping[str, tuple[str, ...]]:
        """`namespace/name` of a quota → what its author should know."""
        return {"/".join(key): said for key, said in sorted(self._remarks.items())}

    # What is charged.

    def charge(self, pod_uid: str, payer: Payer, amount: Charge) -> None:
        """Let the pod be charged this, instead of what it was charged."""
        entry = _Entry(payer, amount)
        if self._entry(pod_uid) == entry:
            return
        self.release(pod_uid)
        self._namespace_of[pod_uid] = payer.namespace
        self._entries.setdefault(payer.namespace, {})[pod_uid] = entry
        for counted in self._binding(payer):
            counted.used += amount

    def release(self, pod_uid: str) -> None:
        """Let the pod be charged nothing."""
        namespace = self._namespace_of.pop(pod_uid, None)
        if namespace is None:
            return
        entry = self._entries[namespace].pop(pod_uid)
        if not self._entries[namespace]:
            del self._entries[namespace]
        is_counted = False
        for counted in self._binding(entry.payer):
            counted.used -= entry.charge
            is_counted = True
        if is_counted:
            self._freed(namespace)

    def _entry(self, pod_uid: str) -> _Entry | None:
        namespace = self._namespace_of.get(pod_uid)
        return None if namespace is None else self._entries[namespace][pod_uid]

    def _binding(self, payer: Payer) -> Iterator[_Counted]:
        for counted in self._counted.get(payer.namespace, {}).values():
            if counted.quota.binds(payer):
                yield counted

    # News from the watch, by way of the cache.

    def take_all(self, items: Iterable[JsonObject]) -> None:
        """Take these for all quotas there are."""
        gone = {(q.namespace, q.name) for q, _ in self.all()} | set(self._remarks)
        for item in items:
            gone.discard((item["metadata"]["namespace"], item["metadata"]["name"]))
            self.take(item)
        for namespace, name in gone:
            self.drop(namespace, name)

    def take(self, item: JsonObject) -> None:
        """Take the news of one quota; that only its status is new is none."""
        note = decode_quota(item, names=self._names)
        self._remark((note.namespace, note.name), note.remarks)
        if note.quota is None:
            self._uncount(note.namespace, note.name)
            return
        counted = self._counted.setdefault(note.namespace, {})
        before = counted.get(note.name)
        if before is not None and before.quota == note.quota:
            return
        used = sum(
            (
                entry.charge
                for entry in self._entries.get(note.namespace, {}).values()
                if note.quota.binds(entry.payer)
            ),
            NO_CHARGE,
        )
        counted[note.name] = _Counted(note.quota, used)
        if before is not None:
            self._freed(note.namespace)

    def drop(self, namespace: str, name: str) -> None:
        """The quota is gone."""
        self._remarks.pop((namespace, name), None)
        self._uncount(namespace, name)

    def _uncount(self, namespace: str, name: str) -> None:
        counted = self._counted.get(namespace, {})
        if counted.pop(name, None) is not None:
            if not counted:
                del self._counted[namespace]
            self._freed(namespace)

    def _remark(self, key: _Key, remarks: tuple[str, ...]) -> None:
        if remarks == self._remarks.get(key, ()):
            return
        for said in remarks:
            log.warning("quota key not counted", quota="/".join(key), reason=said)
        if remarks:
            self._remarks[key] = remarks
        else:
            del self._remarks[key]

    def reset(self) -> None:
        """Know nothing any more."""
        for known in (self._counted, self._remarks, self._entries, self._namespace_of):
            known.clear()


class QuotaCollector(Collector):
    """What each quota allows and what is used of it, as metrics of the leader."""

    def __init__(self, quotas: QuotaBooks, registry: CollectorRegistry) -> None:
        self._quotas = quotas
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample for each limit."""
        labels = ("namespace", "quota", "key")
        hard = GaugeMetricFamily(
            "hamid_sched_quota_hard", "What a ResourceQuota allows of cards.", labels=labels
        )
        used = GaugeMetricFamily(
            "hamid_sched_quota_used",
            "What pods with a decision are charged of it: cards, MiB, or percent of cores.",
            labels=labels,
        )
        for quota, charged in self._quotas.all():
            for limit in quota.limits:
                values = (quota.namespace, quota.name, limit.key)
                hard.add_metric(values, limit.hard)
                used.add_metric(values, charged.of(limit.resource))
        yield hard
        yield used


class HamiQuotaCollector(Collector):
    """The same under HAMi's names, which have one series for each resource of a namespace.

    HAMi knows one quota a namespace; of several, the one that leaves least is shown.
    """

    def __init__(self, quotas: QuotaBooks, registry: CollectorRegistry) -> None:
        self._quotas = quotas
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample for each resource of a namespace that any quota limits."""
        labels = ("zone", "namespace", "quota_name")
        hard = GaugeMetricFamily(
            "hami_resource_quota_limit",
            "What the namespace may have of the resource.",
            labels=labels,
        )
        used = GaugeMetricFamily(
            "hami_resource_quota_used",
            "What the namespace has of the resource: cards, MiB, or percent of cores.",
            labels=(*labels, "limit"),
        )
        for namespace, name, bound in _hami_quotas(self._quotas):
            values = (_HAMI_ZONE, namespace, name)
            hard.add_metric(values, bound.limit.hard)
            used.add_metric((*values, str(bound.limit.hard)), bound.used)
        yield hard
        yield used


class LegacyQuotaCollector(Collector):
    """What of it HAMi had before its names began with `hami_`."""

    def __init__(self, quotas: QuotaBooks, registry: CollectorRegistry) -> None:
        self._quotas = quotas
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One sample for each resource of a namespace that any quota limits."""
        used = GaugeMetricFamily(
            "QuotaUsed",
            "What the namespace has of the resource: cards, MiB, or percent of cores.",
            labels=("zone", "quotanamespace", "quotaName", "limit"),
        )
        for namespace, name, bound in _hami_quotas(self._quotas):
            used.add_metric((_HAMI_ZONE, namespace, name, str(bound.limit.hard)), bound.used)
        yield used


def _hami_quotas(quotas: QuotaBooks) -> Iterator[tuple[str, str, Bound]]:
    """Namespace, HAMi's name of the quota, and what it leaves."""
    by_namespace: dict[str, list[tuple[Quota, Charge]]] = {}
    for quota, charged in quotas.all():
        by_namespace.setdefault(quota.namespace, []).append((quota, charged))
    for namespace, counted in by_namespace.items():
        for bound in tightest(counted):
            yield namespace, bound.limit.key.removeprefix(LIMITS_PREFIX), bound
