"""Values for the tests of placement and books: one short keyword for what a test is about."""

from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import Device, DeviceShare, DeviceUsage, DeviceUuid
from hamid.model.node import NodeSnapshot
from hamid.model.quantities import WHOLE_CARD, MemoryMib
from hamid.model.request import ContainerKind, ContainerRequest, PodRequest

A100 = "NVIDIA A100-SXM4-40GB"


def make_device(name="card-a", **overrides):
    """A healthy A100 of 40,000 MiB with ten slots."""
    values = {
        "device_uuid": DeviceUuid(name),
        "device_index": 0,
        "model": A100,
        "memory_mib": 40_000,
        "slot_count": 10,
    }
    return Device(**{**values, **overrides})


def make_devices(count, **overrides):
    """Devices `card-0`, `card-1`, … with their index."""
    return tuple(make_device(f"card-{n}", device_index=n, **overrides) for n in range(count))


def make_share(name="card-a", *, memory_mib=1_000, core_percent=0):
    """A thousand MiB of `card-a`."""
    return DeviceShare(
        device_uuid=DeviceUuid(name), memory_mib=memory_mib, core_percent=core_percent
    )


def make_node(name="node-a", devices=None, *, usages=None, cordoned=(), host_free=None):
    """A node of one unused card, or of the devices or usages given."""
    if usages is None:
        usages = [DeviceUsage(device=d) for d in ((make_device(),) if devices is None else devices)]
    return NodeSnapshot(
        node_name=name, usages=tuple(usages), cordoned=frozenset(cordoned), host_free=host_free
    )


def make_container(name="main", **overrides):
    """An app container that asks for 1,000 MiB of one device."""
    values = {
        "container_name": name,
        "kind": ContainerKind.APP,
        "device_count": 1,
        "memory": MemoryMib(mib=1_000),
        "core_percent": 0,
    }
    return ContainerRequest(**{**values, **overrides})


def whole_card(name="main", **overrides):
    """An app container that asks for one whole card."""
    return make_container(name, **{"memory": WHOLE_CARD, "core_percent": 100, **overrides})


def make_request(*containers, uid="uid-1", **overrides):
    """What the pod `default/pod` asks for; one plain container unless some are given."""
    requests = containers or (make_container(),)
    values = {
        "pod_uid": uid,
        "namespace": "default",
        "pod_name": "pod",
        "container_names": tuple(c.container_name for c in requests),
        "requests": requests,
    }
    return PodRequest(**{**values, **overrides})


def make_allocation(*shares, uid="uid-1", node_name="node-a", kind=ContainerKind.APP):
    """The shares given to one container `main`."""
    container = ContainerAllocation(
        container_name="main", kind=kind, shares=shares or (make_share(),)
    )
    return PodAllocation(pod_uid=uid, node_name=node_name, containers=(container,))


def by_name(nodes):
    """As a placer takes them."""
    return {node.node_name: node for node in nodes}
