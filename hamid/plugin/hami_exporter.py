"""The node's figures under the names and labels of HAMi's metrics, for its dashboards.

HAMi's scheduler exports what is allocated, for the whole cluster, and its monitor what is used,
for one node. Here each node exports both for itself; sums over nodes are the same.

What HAMi's "ratio" means differs by name: `…_core_…_ratio` and `…_utilization_ratio` go from 0 to
100, `hami_node_gpu_memory_allocated_ratio` from 0 to 1. Cores are in percent of all that may be
promised of the card, so 100 also where cores are oversubscribed.

How busy a container is, is known where its time has a limit, and so shown only there. Left out: what
is in HAMi's shared region only (the parts of the memory, time since the last kernel), quotas (see
`hamid.sched.quotas`), MIG instances and build information.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import GaugeMetricFamily

from hamid.model.quantities import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from hamid.model.device import Device, DeviceUsage, DeviceUuid
    from hamid.nvml.port import DeviceSample
    from hamid.plugin.books import NodeBooks

ZONE: Final = "vGPU"
"""The label that all of HAMi's metrics carry."""

_GPU: Final = ("node", "device_uuid", "device_index", "device_type")
_VGPU: Final = ("namespace", "pod", "container", "vdevice_index", "device_uuid")
_ALLOCATED: Final = ("namespace", "node", "pod", "container_index", "device_uuid")

_USAGES: Final[tuple[tuple[str, str, Callable[[DeviceUsage], float]], ...]] = (
    (
        "hami_gpu_memory_limit_bytes",
        "Memory that may be promised of the card",
        lambda u: u.device.memory_mib * MIB,
    ),
    (
        "hami_gpu_core_limit_ratio",
        "Cores that may be promised of the card, normalized to 100",
        lambda u: _core_ratio(u.device.core_percent, u.device),
    ),
    (
        "hami_gpu_shared_count",
        "Containers that share the card",
        lambda u: u.slots_used,
    ),
    (
        "hami_gpu_core_allocated_ratio",
        "Cores allocated of the card, 0 to 100",
        lambda u: _core_ratio(u.core_used_percent, u.device),
    ),
    (
        "hami_node_gpu_memory_allocated_ratio",
        "Memory allocated of the card, 0 to 1",
        lambda u: u.memory_used_mib / u.device.memory_mib if u.device.memory_mib else 0.0,
    ),
)

_SAMPLES: Final[tuple[tuple[str, str, Callable[[DeviceSample], int | None]], ...]] = (
    (
        "hami_host_gpu_memory_used_bytes",
        "Memory of the card in use, as the driver says",
        lambda sample: sample.memory_used_bytes,
    ),
    (
        "hami_host_gpu_utilization_ratio",
        "Time with a kernel running, 0 to 100",
        lambda sample: sample.gpu_percent,
    ),
    (
        "hami_host_gpu_memory_controller_utilization_ratio",
        "Time with memory being read or written, 0 to 100",
        lambda sample: sample.memory_percent,
    ),
)


def hami_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    """All families, over all nodes."""
    for name, documentation, figure in _USAGES:
        family = _family(name, documentation, _GPU)
        for books in nodes:
            for usage in books.usages():
                family.add_metric(_gpu_labels(books, usage.device), figure(usage))
        yield family
    yield from _memory_families(nodes)
    yield from _sample_families(nodes)
    yield from _allocated_families(nodes)
    yield from _granted_families(nodes)


def _memory_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    """Allocated memory, twice, with the card's sizes as labels."""
    documentation = "Memory allocated of the card"
    allocated = _family("hami_gpu_memory_allocated_bytes", documentation, (*_GPU, "device_cores"))
    overview = _family(
        "hami_node_gpu_overview", documentation, (*_GPU, "device_cores", "device_memory_limit")
    )
    for books in nodes:
        for usage in books.usages():
            device = usage.device
            labels = [*_gpu_labels(books, device), str(device.core_percent)]
            allocated.add_metric(labels, usage.memory_used_mib * MIB)
            overview.add_metric([*labels, str(device.memory_mib)], usage.memory_used_mib * MIB)
    yield from (allocated, overview)


def _sample_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    for name, documentation, figure in _SAMPLES:
        family = _family(name, documentation, _GPU)
        for books in nodes:
            samples = books.samples()
            for device in books.inventory.devices:
                value = _figure_of(samples, device.device_uuid, figure)
                if value is not None:
                    family.add_metric(_gpu_labels(books, device), value)
        yield family


def _allocated_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    memory = _family(
        "hami_vgpu_memory_allocated_bytes", "Memory decided for the container", _ALLOCATED
    )
    cores = _family(
        "hami_vgpu_core_allocated_ratio", "Cores decided for the container, 0 to 100", _ALLOCATED
    )
    for books in nodes:
        devices = {device.device_uuid: device for device in books.inventory.devices}
        for allocated in books.allocated():
            pod, share = allocated.pod, allocated.share
            index = str(allocated.container.position)
            labels = [pod.namespace, books.node_name, pod.name, index, share.device_uuid]
            memory.add_metric([ZONE, *labels], share.memory_mib * MIB)
            device = devices.get(share.device_uuid)
            if device is not None:
                cores.add_metric([ZONE, *labels], _core_ratio(share.core_percent, device))
    yield from (memory, cores)


def _granted_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    limit = _family("hami_vgpu_memory_limit_bytes", "Memory that the container may use", _VGPU)
    used = _family("hami_vgpu_memory_used_bytes", "Memory that the container uses", _VGPU)
    same = _family("hami_container_device_memory_bytes", "Memory that the container uses", _VGPU)
    busy = _family(
        "hami_container_device_utilization_ratio", "Time of the card it uses, 0 to 100", _VGPU
    )
    for books in nodes:
        for granted in books.granted():
            grant = granted.grant
            container = [grant.namespace, grant.pod_name, grant.container_name]
            labels = [ZONE, *container, str(granted.position), granted.share.device_uuid]
            limit.add_metric(labels, granted.limit_bytes)
            used.add_metric(labels, granted.used_bytes)
            same.add_metric(labels, granted.used_bytes)
            if granted.used_percent is not None:
                busy.add_metric(labels, granted.used_percent)
    yield from (limit, used, same, busy)


def _figure_of(
    samples: dict[DeviceUuid, DeviceSample],
    device_uuid: DeviceUuid,
    figure: Callable[[DeviceSample], int | None],
) -> int | None:
    sample = samples.get(device_uuid)
    return None if sample is None else figure(sample)


def _core_ratio(core_percent: int, device: Device) -> int:
    """Cores in percent of all that may be promised of the device, rounded up as HAMi does."""
    return -(-core_percent * 100 // device.core_percent) if device.core_percent else 0


def _gpu_labels(books: NodeBooks, device: Device) -> list[str]:
    return [ZONE, books.node_name, device.device_uuid, str(device.device_index), device.model]


def _family(name: str, documentation: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, labels=("zone", *labels))
