"""The node's figures under the names that HAMi had before `hami_…`, with the labels of then.

HAMi exports them with `--legacy-metrics`, beside the new ones; some it has dropped (`vGPU…Percentage`,
`vGPUPodsDeviceAllocated`), which dashboards of older releases still ask for. Unlike those of
`hami_exporter`, figures of cores are percent as they are promised: over 100 where cores are
oversubscribed. What is called percentage of memory goes from 0 to 1.

Left out: time since the last kernel, MIG instances. `Device_memory_desc_of_container` says of what
the memory consists in labels; nobody knows, and they are 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from prometheus_client.metrics_core import GaugeMetricFamily

from hamid.model.quantities import MIB
from hamid.plugin.hami_exporter import ZONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.metrics_core import Metric

    from hamid.model.device import Device, DeviceUsage
    from hamid.nvml.port import DeviceSample
    from hamid.plugin.books import AllocatedShare, GrantedShare, NodeBooks

_Said = TypeVar("_Said")


class _Row(NamedTuple, Generic[_Said]):
    """One name: of what it speaks, by which labels, and the figure; None where there is none."""

    name: str
    documentation: str
    labels: tuple[str, ...]
    figure: Callable[[_Said], float | None]


class _Allocated(NamedTuple):
    """What was decided for a container, and the card, while it is there."""

    share: AllocatedShare
    device: Device | None


_CARD: Final = ("nodeid", "deviceuuid", "deviceidx")
_TYPED: Final = (*_CARD, "devicetype")
_HOST: Final = ("deviceidx", "deviceuuid", "devicetype")
_OF_POD: Final = ("podnamespace", "nodename", "podname", "containeridx", "deviceuuid")
_OF_CONTAINER: Final = ("podnamespace", "podname", "ctrname", "vdeviceid", "deviceuuid")
_PARTS: Final = ("context", "module", "data", "offset")

_USAGES: Final[tuple[_Row[DeviceUsage], ...]] = (
    _Row(
        "GPUDeviceMemoryLimit",
        "Memory that may be promised of the card",
        _TYPED,
        lambda u: u.device.memory_mib * MIB,
    ),
    _Row(
        "GPUDeviceCoreLimit",
        "Cores that may be promised of the card, in percent",
        _TYPED,
        lambda u: u.device.core_percent,
    ),
    _Row(
        "GPUDeviceMemoryAllocated",
        "Memory allocated of the card",
        (*_CARD, "devicecores", "devicetype"),
        lambda u: u.memory_used_mib * MIB,
    ),
    _Row("GPUDeviceSharedNum", "Containers that share the card", _TYPED, lambda u: u.slots_used),
    _Row(
        "GPUDeviceCoreAllocated",
        "Cores allocated of the card, in percent",
        _TYPED,
        lambda u: u.core_used_percent,
    ),
    _Row(
        "nodeGPUOverview",
        "Memory allocated of the card",
        (*_CARD, "devicecores", "sharedcontainers", "devicememorylimit", "devicetype"),
        lambda u: u.memory_used_mib * MIB,
    ),
    _Row(
        "nodeGPUMemoryPercentage",
        "Memory allocated of the card, 0 to 1",
        _CARD,
        lambda u: _part(u.memory_used_mib, u.device),
    ),
)

_SAMPLES: Final[tuple[_Row[DeviceSample], ...]] = (
    _Row(
        "HostGPUMemoryUsage",
        "Memory of the card in use, as the driver says",
        _HOST,
        lambda sample: sample.memory_used_bytes,
    ),
    _Row(
        "HostCoreUtilization",
        "Time with a kernel running, 0 to 100",
        _HOST,
        lambda sample: sample.gpu_percent,
    ),
)

_DECIDED: Final[tuple[_Row[_Allocated], ...]] = (
    _Row(
        "vGPUMemoryAllocated",
        "Memory decided for the container",
        _OF_POD,
        lambda a: a.share.share.memory_mib * MIB,
    ),
    _Row(
        "vGPUCoreAllocated",
        "Cores decided for the container, in percent",
        _OF_POD,
        lambda a: a.share.share.core_percent,
    ),
    _Row(
        "vGPUPodsDeviceAllocated",
        "Memory decided for the container",
        (*_OF_POD, "deviceusedcore"),
        lambda a: a.share.share.memory_mib * MIB,
    ),
    _Row(
        "vGPUMemoryPercentage",
        "Memory decided for the container, of the card's, 0 to 1",
        _OF_POD,
        lambda a: None if a.device is None else _part(a.share.share.memory_mib, a.device),
    ),
    _Row(
        "vGPUCorePercentage",
        "Cores decided for the container, in percent",
        _OF_POD,
        lambda a: a.share.share.core_percent,
    ),
)

_GRANTED: Final[tuple[_Row[GrantedShare], ...]] = (
    _Row(
        "vGPU_device_memory_limit_in_bytes",
        "Memory that the container may use",
        _OF_CONTAINER,
        lambda g: g.limit_bytes,
    ),
    _Row(
        "vGPU_device_memory_usage_in_bytes",
        "Memory that the container uses",
        _OF_CONTAINER,
        lambda g: g.used_bytes,
    ),
    _Row(
        "Device_memory_desc_of_container",
        "Memory that the container uses",
        (*_OF_CONTAINER, *_PARTS),
        lambda g: g.used_bytes,
    ),
    _Row(
        "Device_utilization_desc_of_container",
        "Time of the card that the container uses, 0 to 100",
        _OF_CONTAINER,
        lambda g: g.used_percent,
    ),
)


def legacy_families(nodes: tuple[NodeBooks, ...]) -> Iterator[Metric]:
    """All families, over all nodes."""
    yield from _families(_USAGES, list(_usages(nodes)))
    yield from _families(_SAMPLES, list(_samples(nodes)))
    yield from _families(_DECIDED, list(_decided(nodes)))
    yield from _families(_GRANTED, list(_granted(nodes)))


def _families(
    rows: Iterable[_Row[_Said]], found: Iterable[tuple[dict[str, str], _Said]]
) -> Iterator[Metric]:
    for row in rows:
        family = GaugeMetricFamily(row.name, row.documentation, labels=("zone", *row.labels))
        for labels, said in found:
            value = row.figure(said)
            if value is not None:
                family.add_metric([ZONE, *(labels[label] for label in row.labels)], value)
        yield family


def _usages(nodes: tuple[NodeBooks, ...]) -> Iterator[tuple[dict[str, str], DeviceUsage]]:
    for books in nodes:
        for usage in books.usages():
            device = usage.device
            yield (
                {
                    "nodeid": books.node_name,
                    "sharedcontainers": str(usage.slots_used),
                    "devicecores": str(device.core_percent),
                    "devicememorylimit": str(device.memory_mib),
                    **_card(device),
                },
                usage,
            )


def _samples(nodes: tuple[NodeBooks, ...]) -> Iterator[tuple[dict[str, str], DeviceSample]]:
    for books in nodes:
        samples = books.samples()
        for device in books.inventory.devices:
            if device.device_uuid in samples:
                yield _card(device), samples[device.device_uuid]


def _decided(nodes: tuple[NodeBooks, ...]) -> Iterator[tuple[dict[str, str], _Allocated]]:
    for books in nodes:
        devices = {device.device_uuid: device for device in books.inventory.devices}
        for allocated in books.allocated():
            labels = {
                "podnamespace": allocated.pod.namespace,
                "nodename": books.node_name,
                "podname": allocated.pod.name,
                "containeridx": str(allocated.container.position),
                "deviceuuid": allocated.share.device_uuid,
                "deviceusedcore": str(allocated.share.core_percent),
            }
            yield labels, _Allocated(allocated, devices.get(allocated.share.device_uuid))


def _granted(nodes: tuple[NodeBooks, ...]) -> Iterator[tuple[dict[str, str], GrantedShare]]:
    for books in nodes:
        for granted in books.granted():
            labels = {
                "podnamespace": granted.grant.namespace,
                "podname": granted.grant.pod_name,
                "ctrname": granted.grant.container_name,
                "vdeviceid": str(granted.position),
                "deviceuuid": granted.share.device_uuid,
            }
            yield labels | dict.fromkeys(_PARTS, "0"), granted


def _card(device: Device) -> dict[str, str]:
    return {
        "deviceuuid": device.device_uuid,
        "deviceidx": str(device.device_index),
        "devicetype": device.model,
    }


def _part(memory_mib: int, device: Device) -> float:
    return memory_mib / device.memory_mib if device.memory_mib else 0.0
