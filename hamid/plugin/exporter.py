"""What /metrics says of cards and containers, read from the books at each scrape.

From the moment a container is granted its shares, its limits show, with a use of 0 until it
reports one. What a tenant reports is clamped: it may show too little, never more than all it
could have. Series of a container end with its grant; there are none to go stale.

`with_hami_names` adds the same figures under the names that HAMi's dashboards ask for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from hamid.model.quantities import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from prometheus_client.metrics_core import Metric

    from hamid.hooks.abi.pages import UsageReport
    from hamid.model.device import Device, DeviceShare
    from hamid.model.node import NodeInventory
    from hamid.nvml.port import DeviceSample
    from hamid.plugin.health import DeviceView
    from hamid.plugin.journal import Grant

_DEVICE: Final = ("node", "device_index", "device_uuid", "model")
_CONTAINER: Final = ("node", "namespace", "pod", "container", "device_uuid")
_HAMI_HOST: Final = ("zone", "node", "device_index", "device_uuid", "device_type")
_HAMI_VGPU: Final = ("zone", "namespace", "pod", "container", "vdevice_index", "device_uuid")
_ZONE: Final = "vGPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBooks:
    """What one node knows of its cards at this moment."""

    inventory: NodeInventory
    view: DeviceView
    grants: tuple[Grant, ...]
    usage_by_grant: Mapping[str, UsageReport]


class NodeCollector(Collector):
    """Turns the books of nodes into metrics."""

    def __init__(
        self, books: Callable[[], Iterable[NodeBooks]], *, with_hami_names: bool = False
    ) -> None:
        self._books = books
        self._with_hami_names = with_hami_names

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: the registry must not collect in order to register."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All families, over all nodes."""
        nodes = tuple(self._books())
        yield from _device_families(nodes)
        yield from _container_families(nodes)
        if self._with_hami_names:
            yield from _hami_families(nodes)


def _device_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    healthy = _family(
        "hamid_device_healthy", "1 if the card may be given to new containers", _DEVICE
    )
    memory = _family("hamid_device_memory_bytes", "Memory that may be promised", _DEVICE)
    promised = _family("hamid_device_memory_granted_bytes", "Memory granted to containers", _DEVICE)
    used = _family("hamid_device_memory_used_bytes", "Memory in use, as the driver says", _DEVICE)
    cores = _family("hamid_device_cores_granted_percent", "Cores granted to containers", _DEVICE)
    busy = _family("hamid_device_utilization_percent", "Time with a kernel running", _DEVICE)
    slots = _family("hamid_device_slots_granted", "Containers on the card", _DEVICE)
    for books in nodes:
        samples = {sample.device_uuid: sample for sample in books.view.samples}
        for device in books.inventory.devices:
            labels = _device_labels(books, device)
            shares = _shares_on(books, device)
            healthy.add_metric(labels, int(device.is_healthy))
            memory.add_metric(labels, device.memory_mib * MIB)
            promised.add_metric(labels, sum(s.memory_mib for s in shares) * MIB)
            cores.add_metric(labels, sum(s.core_percent for s in shares))
            slots.add_metric(labels, len(shares))
            sample = samples.get(device.device_uuid)
            if sample is not None and sample.memory_used_bytes is not None:
                used.add_metric(labels, sample.memory_used_bytes)
            if sample is not None and sample.gpu_percent is not None:
                busy.add_metric(labels, sample.gpu_percent)
    yield from (healthy, memory, promised, used, cores, busy, slots)


def _container_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    limit = _family("hamid_container_memory_limit_bytes", "The container's share", _CONTAINER)
    used = _family("hamid_container_memory_used_bytes", "What its processes report", _CONTAINER)
    cores = _family(
        "hamid_container_cores_limit_percent", "The container's cores; 0 is no limit", _CONTAINER
    )
    for books, grant, _, share in _granted(nodes):
        labels = [
            books.inventory.node_name,
            grant.namespace,
            grant.pod_name,
            grant.container_name,
            share.device_uuid,
        ]
        limit.add_metric(labels, share.memory_mib * MIB)
        used.add_metric(labels, _used_bytes(books, grant, share))
        cores.add_metric(labels, share.core_percent)
    yield from (limit, used, cores)


def _hami_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    host_used = _family("hami_host_gpu_memory_used_bytes", "Device memory in use", _HAMI_HOST)
    host_busy = _family("hami_host_gpu_utilization_ratio", "Utilization, 0 to 100", _HAMI_HOST)
    for books in nodes:
        devices = {device.device_uuid: device for device in books.inventory.devices}
        for sample in books.view.samples:
            device = next((d for u, d in devices.items() if u == sample.device_uuid), None)
            if device is not None:
                _add_host(books, device, sample, host_used, host_busy)
    yield from (host_used, host_busy)
    limit = _family("hami_vgpu_memory_limit_bytes", "The container's share", _HAMI_VGPU)
    used = _family("hami_vgpu_memory_used_bytes", "What the container uses", _HAMI_VGPU)
    total = _family("hami_container_device_memory_bytes", "What the container uses", _HAMI_VGPU)
    for books, grant, position, share in _granted(nodes):
        labels = [
            _ZONE,
            grant.namespace,
            grant.pod_name,
            grant.container_name,
            str(position),
            share.device_uuid,
        ]
        limit.add_metric(labels, share.memory_mib * MIB)
        for family in (used, total):
            family.add_metric(labels, _used_bytes(books, grant, share))
    yield from (limit, used, total)


def _add_host(
    books: NodeBooks,
    device: Device,
    sample: DeviceSample,
    used: GaugeMetricFamily,
    busy: GaugeMetricFamily,
) -> None:
    labels = [_ZONE, *_device_labels(books, device)]
    if sample.memory_used_bytes is not None:
        used.add_metric(labels, sample.memory_used_bytes)
    if sample.gpu_percent is not None:
        busy.add_metric(labels, sample.gpu_percent)


def _granted(
    nodes: tuple[NodeBooks, ...],
) -> Iterator[tuple[NodeBooks, Grant, int, DeviceShare]]:
    for books in nodes:
        for grant in books.grants:
            for position, share in enumerate(grant.shares):
                yield books, grant, position, share


def _used_bytes(books: NodeBooks, grant: Grant, share: DeviceShare) -> int:
    report = books.usage_by_grant.get(grant.grant_id)
    used = 0 if report is None else report.used_bytes(share.device_uuid)
    return min(used, share.memory_mib * MIB)


def _shares_on(books: NodeBooks, device: Device) -> tuple[DeviceShare, ...]:
    return tuple(
        share
        for grant in books.grants
        for share in grant.shares
        if share.device_uuid == device.device_uuid
    )


def _device_labels(books: NodeBooks, device: Device) -> list[str]:
    return [
        books.inventory.node_name,
        str(device.device_index),
        device.device_uuid,
        device.model,
    ]


def _family(name: str, documentation: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=labels)
