"""What /metrics says of cards and containers, read from the books at each scrape.

From the moment a container is granted its shares, its limits show, with a use of 0 until it
reports one. What a tenant reports is clamped: it may show too little, never more than all it
could have. Series of a container end with its pod; there are none to go stale, and never two
for one container.

`with_hami_names` adds the same figures under the names that HAMi's dashboards ask for,
`with_legacy_names` under those that they asked for before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hamid.model.quantities import MIB
from hamid.plugin.hami_exporter import hami_families
from hamid.plugin.legacy_exporter import legacy_families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.metrics_core import Metric

    from hamid.plugin.books import GrantedShare, NodeBooks

_DEVICE: Final = ("node", "device_index", "device_uuid", "model")
_CONTAINER: Final = ("node", "namespace", "pod", "container", "device_uuid")


class NodeCollector(Collector):
    """Turns the books of nodes into metrics."""

    def __init__(
        self,
        books: Callable[[], Iterable[NodeBooks]],
        *,
        with_hami_names: bool = False,
        with_legacy_names: bool = False,
    ) -> None:
        self._books = books
        self._with_hami_names = with_hami_names
        self._with_legacy_names = with_legacy_names

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the registry must not collect in order to register."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All families, over all nodes."""
        nodes = tuple(self._books())
        yield from _promised_families(nodes)
        yield from _sampled_families(nodes)
        yield from _container_families(nodes)
        yield from _terms_families(nodes)
        if self._with_hami_names:
            yield from hami_families(nodes)
        if self._with_legacy_names:
            yield from legacy_families(nodes)


def _promised_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    healthy = _family(
        "hamid_device_healthy", "1 if the card may be given to new containers", _DEVICE
    )
    memory = _family("hamid_device_memory_bytes", "Memory that may be promised", _DEVICE)
    memory_given = _family(
        "hamid_device_memory_allocated_bytes", "Memory decided for pods of the node", _DEVICE
    )
    cores = _family("hamid_device_cores_percent", "Cores that may be promised", _DEVICE)
    cores_given = _family(
        "hamid_device_cores_allocated_percent", "Cores decided for pods of the node", _DEVICE
    )
    slots = _family("hamid_device_slots", "Containers that may be on the card at a time", _DEVICE)
    slots_given = _family(
        "hamid_device_slots_allocated", "Containers of the node's pods on the card", _DEVICE
    )
    for books in nodes:
        for usage in books.usages():
            device = usage.device
            labels = [books.node_name, str(device.device_index), device.device_uuid, device.model]
            healthy.add_metric(labels, int(device.is_healthy))
            memory.add_metric(labels, device.memory_mib * MIB)
            memory_given.add_metric(labels, usage.memory_used_mib * MIB)
            cores.add_metric(labels, device.core_percent)
            cores_given.add_metric(labels, usage.core_used_percent)
            slots.add_metric(labels, device.slot_count)
            slots_given.add_metric(labels, usage.slots_used)
    yield from (healthy, memory, memory_given, cores, cores_given, slots, slots_given)


def _sampled_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    used = _family("hamid_device_memory_used_bytes", "Memory in use, as the driver says", _DEVICE)
    busy = _family("hamid_device_utilization_percent", "Time with a kernel running", _DEVICE)
    for books in nodes:
        samples = books.samples()
        for device in books.inventory.devices:
            sample = samples.get(device.device_uuid)
            labels = [books.node_name, str(device.device_index), device.device_uuid, device.model]
            if sample is not None and sample.memory_used_bytes is not None:
                used.add_metric(labels, sample.memory_used_bytes)
            if sample is not None and sample.gpu_percent is not None:
                busy.add_metric(labels, sample.gpu_percent)
    yield from (used, busy)


def _container_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    limit = _family("hamid_container_memory_limit_bytes", "The container's share", _CONTAINER)
    used = _family("hamid_container_memory_used_bytes", "What its processes report", _CONTAINER)
    cores = _family(
        "hamid_container_cores_limit_percent", "The container's cores; 0 is no limit", _CONTAINER
    )
    for books in nodes:
        for granted in books.granted():
            labels, share = _labels(books, granted), granted.share
            limit.add_metric(labels, granted.limit_bytes)
            used.add_metric(labels, granted.used_bytes)
            cores.add_metric(labels, share.core_percent)
    yield from (limit, used, cores)


def _terms_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    """What the lender decides; nothing of containers that it has nothing to decide for."""
    rate = _family(
        "hamid_container_cores_rate_percent",
        "What it may use of the card's time now, with what others lend",
        _CONTAINER,
    )
    correction = _family(
        "hamid_container_cores_correction_ratio",
        "What its rate is multiplied by, for NVML sees more or less than the library measures",
        _CONTAINER,
    )
    uncounted = _family(
        "hamid_container_memory_uncounted_bytes",
        "Held beyond what is charged, by the driver's figures; it counts against the limit",
        _CONTAINER,
    )
    for books in nodes:
        for granted in books.granted():
            if granted.terms is None:
                continue
            labels = _labels(books, granted)
            uncounted.add_metric(labels, granted.terms.uncounted_bytes)
            if granted.terms.rate_percent is not None:
                rate.add_metric(labels, granted.terms.rate_percent)
                correction.add_metric(labels, granted.terms.correction)
    yield from (rate, correction, uncounted)


def _labels(books: NodeBooks, granted: GrantedShare) -> list[str]:
    grant = granted.grant
    container = [grant.namespace, grant.pod_name, grant.container_name]
    return [books.node_name, *container, granted.share.device_uuid]


def _family(name: str, documentation: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=labels)
