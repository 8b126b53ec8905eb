"""Pods and nodes as the watches would bring them to the scheduler."""

from hamid.codec.allocation_record import encode_allocation
from hamid.codec.node_annotation import encode_node_inventory
from hamid.kube.port import EventKind, WatchEvent
from hamid.model import names as wire
from hamid.model.node import NodeInventory
from tests.builders import container_object, node_object, pod_object
from tests.sched.builders import make_allocation, make_devices


def registered(name="node-a", devices=None, *, cordoned=()):
    """A node that registers the devices given, or one."""
    devices = make_devices(1) if devices is None else devices
    annotations = {
        wire.NODE_REGISTER: encode_node_inventory(
            NodeInventory(node_name=name, devices=tuple(devices))
        )
    }
    if cordoned:
        annotations[wire.DEVICE_CORDON] = ",".join(cordoned)
    return node_object(name, annotations=annotations)


def waiting(uid="uid-1", *, mib=1_000, name=None, **overrides):
    """A pod without a node that asks for so much memory of one card."""
    containers = overrides.pop("containers", (container_object("main", {"gpu": 1, "gpumem": mib}),))
    return pod_object(*containers, uid=uid, name=name or f"pod-{uid}", **overrides)


def bound(*shares, uid="uid-1", node_name="node-a", phase="Running", allocation=None, **overrides):
    """A pod on a node, with a record of these shares."""
    allocation = allocation or make_allocation(*shares, uid=uid, node_name=node_name)
    pod = waiting(
        uid,
        node_name=node_name,
        annotations={wire.POD_ALLOCATION: encode_allocation(allocation)},
        **overrides,
    )
    pod["status"] = {"phase": phase}
    return pod


def quota_object(name="cards", *, namespace="default", scopes=(), **hard):
    """A ResourceQuota on `gpu`, `gpumem` and `gpucores`."""
    limits = {f"limits.nvidia.com/{key}": str(value) for key, value in hard.items()}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"hard": limits, "scopes": list(scopes)},
    }


def initialized(pod):
    """The same pod after its init phase."""
    conditions = [{"type": "Initialized", "status": "True"}]
    return {**pod, "status": {**pod["status"], "conditions": conditions}}


def added(item):
    return WatchEvent(kind=EventKind.ADDED, object=item)


def modified(item):
    return WatchEvent(kind=EventKind.MODIFIED, object=item)


def deleted(item):
    return WatchEvent(kind=EventKind.DELETED, object=item)


def bookmark():
    return WatchEvent(kind=EventKind.BOOKMARK, object={"metadata": {"resourceVersion": "9"}})
