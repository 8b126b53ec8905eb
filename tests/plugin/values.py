"""Values of the device plugin's own words, with boring defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hamid.model.request import ContainerKind
from hamid.nvml.port import NvmlDevice
from hamid.plugin.journal import Grant
from hamid.plugin.matching import AskingContainer, PodOnNode
from tests.builders import UUID, make_allocation, make_container_allocation, make_share, uuid

if TYPE_CHECKING:
    from hamid.model.device import DeviceShare

MIB = 1 << 20


def asking(name: str = "train", slot_count: int = 1, **overrides: Any) -> AskingContainer:
    values: dict[str, Any] = {"kind": ContainerKind.APP, "position": 0}
    return AskingContainer(name=name, slot_count=slot_count, **(values | overrides))


def pod_on_node(name: str = "pod-1", *containers: AskingContainer, **overrides: Any) -> PodOnNode:
    """A pod with the given containers, or with one, and one share for each of their slots."""
    containers = containers or (asking(),)
    uid = f"uid-of-{name}"
    decided = (
        make_container_allocation(
            *(make_share(device_uuid=uuid(n + 1)) for n in range(container.slot_count)),
            container_name=container.name,
            kind=container.kind,
        )
        for container in containers
    )
    values: dict[str, Any] = {
        "pod_uid": uid,
        "namespace": "default",
        "name": name,
        "created_at": "2026-01-01T00:00:00Z",
        "asking": containers,
        "allocation": make_allocation(*decided, pod_uid=uid),
    }
    return PodOnNode(**(values | overrides))


def make_grant(grant_id: str = "g1", *shares: DeviceShare, **overrides: Any) -> Grant:
    """A grant of container `train` of `pod_on_node()`, with the given shares or with one."""
    pod_name = overrides.get("pod_name", "pod-1")
    values: dict[str, Any] = {
        "grant_id": grant_id,
        "pod_uid": f"uid-of-{pod_name}",
        "namespace": "default",
        "pod_name": pod_name,
        "container_name": "train",
        "slot_ids": (f"{UUID}-0",),
        "shares": shares or (make_share(),),
    }
    return Grant(**(values | overrides))


def nvml_device(number: int = 1, **overrides: Any) -> NvmlDevice:
    """The number-th card, as the driver describes it."""
    values: dict[str, Any] = {
        "device_uuid": uuid(number),
        "device_index": number - 1,
        "minor": number - 1,
        "model": "Tesla T4",
        "memory_bytes": 15_360 * MIB,
        "pci_bus_id": f"0000:{number:02x}:00.0",
    }
    return NvmlDevice(**(values | overrides))
