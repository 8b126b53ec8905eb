"""Values and objects for tests: boring defaults, and what a test is about by keyword.

`make_…` build the words of the domain; `pod_object`, `container_object` and `node_object` build
what the API server would send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import Device, DeviceHold, DeviceShare, DeviceUsage, DeviceUuid
from hamid.model.node import NodeInventory, NodeSnapshot, sorted_devices
from hamid.model.quantities import MemoryMib
from hamid.model.request import ContainerKind, ContainerRequest, PodRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hamid.model.quantities import MemoryRequest

UUID = DeviceUuid("GPU-00000000-0000-0000-0000-000000000001")
MODEL = "NVIDIA A100-SXM4-40GB"


def uuid(number: int) -> DeviceUuid:
    """The UUID of the number-th device; `UUID` is number 1."""
    return DeviceUuid(f"GPU-00000000-0000-0000-0000-{number:012d}")


def make_device(**overrides: Any) -> Device:
    values: dict[str, Any] = {
        "device_uuid": UUID,
        "device_index": 0,
        "model": MODEL,
        "memory_mib": 40_000,
        "slot_count": 10,
    }
    return Device(**(values | overrides))


def make_devices(count: int, **overrides: Any) -> tuple[Device, ...]:
    """Devices 1 to count of one node, which differ in UUID and index only."""
    return tuple(
        make_device(device_uuid=uuid(n + 1), device_index=n, **overrides) for n in range(count)
    )


def make_share(**overrides: Any) -> DeviceShare:
    values: dict[str, Any] = {"device_uuid": UUID, "memory_mib": 1_000, "core_percent": 10}
    return DeviceShare(**(values | overrides))


def make_hold(**overrides: Any) -> DeviceHold:
    values: dict[str, Any] = {
        "slots": 1,
        "memory_mib": 1_000,
        "core_percent": 10,
        "is_exclusive": False,
    }
    return DeviceHold(**(values | overrides))


def make_usage(device: Device | None = None, **overrides: Any) -> DeviceUsage:
    return DeviceUsage(device=device or make_device(), **overrides)


def make_inventory(node_name: str = "node-1", *devices: Device) -> NodeInventory:
    """A node with the given devices, or with one."""
    return NodeInventory(node_name=node_name, devices=sorted_devices(devices or (make_device(),)))


def make_node(node_name: str = "node-1", **overrides: Any) -> NodeSnapshot:
    """The snapshot of a node with one unused device."""
    values: dict[str, Any] = {"usages": (make_usage(),)}
    return NodeSnapshot(node_name=node_name, **(values | overrides))


def make_request(**overrides: Any) -> ContainerRequest:
    values: dict[str, Any] = {
        "container_name": "train",
        "kind": ContainerKind.APP,
        "device_count": 1,
        "memory": MemoryMib(mib=1_000),
        "core_percent": 10,
    }
    return ContainerRequest(**(values | overrides))


def make_pod(*requests: ContainerRequest, **overrides: Any) -> PodRequest:
    """What a pod asks for: the given requests, or one."""
    requests = requests or (make_request(),)
    values: dict[str, Any] = {
        "pod_uid": "uid-1",
        "namespace": "default",
        "pod_name": "pod-1",
        "container_names": tuple(request.container_name for request in requests),
        "requests": requests,
    }
    return PodRequest(**(values | overrides))


def make_container_allocation(*shares: DeviceShare, **overrides: Any) -> ContainerAllocation:
    """One container with the given shares, or with one."""
    values: dict[str, Any] = {
        "container_name": "train",
        "kind": ContainerKind.APP,
        "shares": shares or (make_share(),),
    }
    return ContainerAllocation(**(values | overrides))


def make_allocation(*containers: ContainerAllocation, **overrides: Any) -> PodAllocation:
    """What a pod was given: the given containers, or one."""
    values: dict[str, Any] = {
        "pod_uid": "uid-1",
        "node_name": "node-1",
        "containers": containers or (make_container_allocation(),),
    }
    return PodAllocation(**(values | overrides))


def make_memory(mib: int = 1_000) -> MemoryRequest:
    return MemoryMib(mib=mib)


def container_object(
    name: str = "train",
    limits: Mapping[str, object] | None = None,
    *,
    requests: Mapping[str, object] | None = None,
    **fields: object,
) -> dict[str, Any]:
    """A container as JSON; limits and requests appear as given, with short names spelled out.

    Short names: `gpu`, `gpumem`, `gpumem-percentage`, `gpucores`, `priority`.
    """
    resources: dict[str, Any] = {}
    if limits is not None:
        resources["limits"] = _spelled_out(limits)
    if requests is not None:
        resources["requests"] = _spelled_out(requests)
    return {"name": name, "image": "busybox", "resources": resources, **fields}


def pod_object(
    *containers: Mapping[str, Any],
    name: str = "pod-1",
    namespace: str = "default",
    uid: str = "uid-1",
    node_name: str | None = None,
    annotations: Mapping[str, str] | None = None,
    init_containers: Sequence[Mapping[str, Any]] = (),
    **spec: object,
) -> dict[str, Any]:
    """A pod as JSON, with one container that asks for one device unless some are given."""
    meta: dict[str, Any] = {"name": name, "namespace": namespace, "uid": uid}
    if annotations is not None:
        meta["annotations"] = dict(annotations)
    body: dict[str, Any] = {
        "containers": list(containers or (container_object(limits={"gpu": 1}),))
    }
    if init_containers:
        body["initContainers"] = list(init_containers)
    if node_name is not None:
        body["nodeName"] = node_name
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**body, **spec}}


def node_object(
    name: str = "node-1", *, annotations: Mapping[str, str] | None = None, **fields: object
) -> dict[str, Any]:
    """A node as JSON."""
    meta: dict[str, Any] = {"name": name, "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, **fields}


def _spelled_out(amounts: Mapping[str, object]) -> dict[str, object]:
    short = {"gpu", "gpumem", "gpumem-percentage", "gpucores", "priority"}
    return {
        (f"nvidia.com/{key}" if key in short else key): (
            value if isinstance(value, str) else str(value)
        )
        for key, value in amounts.items()
    }
