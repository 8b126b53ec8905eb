"""Nodes, cards and pods as benchmarks want them: always the same, and of a real cluster's size.

Objects carry what real ones do and we do not need (managedFields, statuses, volumes, conditions):
reading over it is part of the cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from hamid.codec.allocation_record import encode_allocation
from hamid.codec.node_annotation import encode_node_inventory
from hamid.kube.port import (
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    PatchKind,
)
from hamid.model.allocation import ContainerAllocation, PodAllocation
from hamid.model.device import Device, DeviceShare
from hamid.model.names import NODE_REGISTER, POD_ALLOCATION, SCHEDULER_NAME, ResourceNames
from hamid.model.node import NodeInventory
from hamid.model.quantities import MIB
from hamid.model.request import ContainerKind
from hamid.nvml.profiles import simulated_cards

if TYPE_CHECKING:
    from hamid.kube.port import JsonObject, KubePort
    from hamid.model.device import DeviceUuid

MODEL: Final = "A100-80GB"
CARDS: Final = 8
NAMESPACE: Final = "default"
OWN_NAMESPACE: Final = "hamid"
LEASE: Final = "hamid-scheduler"
CONTAINER: Final = "train"
MEMORY_MIB: Final = 3_000
CORE_PERCENT: Final = 5
RESOURCE: Final = ResourceNames().count


def node_object(name: str, inventory: NodeInventory | None = None) -> JsonObject:
    """A node; with an inventory, as its daemon would have registered it."""
    slots = sum(device.slot_count for device in inventory.devices) if inventory else 0
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "250", RESOURCE: str(slots)}
    registered = {NODE_REGISTER: encode_node_inventory(inventory)} if inventory else {}
    return {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "gpu": "on"},
            "annotations": registered,
        },
        "spec": {"podCIDR": "10.42.0.0/24", "providerID": f"bench://{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [
                {"type": kind, "status": "False", "reason": "KubeletIsWell", "message": "m" * 60}
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure")
            ],
            # The kubelet lists up to 50 images.
            "images": [
                {"names": [f"registry.example/team/image-{n}@sha256:{n:064x}"], "sizeBytes": n}
                for n in range(50)
            ],
        },
    }


def pod_object(
    name: str, *, cards: int = 1, memory_mib: int = MEMORY_MIB, core_percent: int = CORE_PERCENT
) -> JsonObject:
    """A pod that asks for a slice of one card, or of several."""
    limits = {
        RESOURCE: str(cards),
        "nvidia.com/gpumem": str(memory_mib),
        "nvidia.com/gpucores": str(core_percent),
    }
    container = {
        "name": CONTAINER,
        "image": "registry.example/team/train:1",
        "command": ["python", "train.py"],
        "env": [{"name": f"SETTING_{n}", "value": "x" * 20} for n in range(10)],
        "resources": {"limits": limits, "requests": {"cpu": "1", "memory": "4Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    fields: JsonObject = {
        f"f:{key}": {} for key in ("containers", "volumes", "schedulerName", "tolerations")
    }
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"app": "train", "pod-template-hash": "6d4cf56db6"},
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:labels": fields}, "f:spec": fields},
                }
            ],
        },
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


def registered(node_name: str) -> NodeInventory:
    """The cards of another node, as its daemon would register them."""
    cards = simulated_cards([(MODEL, CARDS)], node_name=node_name)
    return NodeInventory(
        node_name=node_name,
        devices=tuple(
            Device(
                device_uuid=card.device.device_uuid,
                device_index=card.device.device_index,
                model=f"NVIDIA-{card.device.model}",
                memory_mib=card.device.memory_bytes // MIB,
                slot_count=10,
                numa_node=card.device.numa_node,
            )
            for card in cards
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPod:
    """A pod bound to a node, as its kubelet needs to know it."""

    name: str
    uid: str


async def bind_pod(kube: KubePort, name: str, *, node_name: str, device: DeviceUuid) -> BoundPod:
    """Create a pod and bind it, with a slice of this card decided for it."""
    created = await kube.create(PODS, pod_object(name))
    uid = created["metadata"]["uid"]
    share = DeviceShare(device_uuid=device, memory_mib=MEMORY_MIB, core_percent=CORE_PERCENT)
    allocation = PodAllocation(
        pod_uid=uid,
        node_name=node_name,
        containers=(
            ContainerAllocation(container_name=CONTAINER, kind=ContainerKind.APP, shares=(share,)),
        ),
    )
    await kube.bind(
        namespace=NAMESPACE,
        name=name,
        uid=uid,
        node_name=node_name,
        annotations={POD_ALLOCATION: encode_allocation(allocation)},
    )
    return BoundPod(name=name, uid=uid)


async def report_running(kube: KubePort, pod: BoundPod) -> None:
    """Write the status that the kubelet of a running pod writes."""
    status: dict[str, Any] = {
        "phase": "Running",
        "hostIP": "10.0.0.1",
        "podIP": "10.42.0.7",
        "startTime": "2026-01-01T00:00:00Z",
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": CONTAINER,
                "image": "registry.example/team/train:1",
                "imageID": f"registry.example/team/train@sha256:{1:064x}",
                "containerID": f"containerd://{1:064x}",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
        ],
    }
    await kube.patch(
        PODS,
        pod.name,
        {"status": status},
        kind=PatchKind.MERGE,
        namespace=NAMESPACE,
        subresource="status",
    )


async def create_node(kube: KubePort, name: str, inventory: NodeInventory | None = None) -> None:
    """Create the node, with its cards registered if they are given."""
    await kube.create(NODES, node_object(name, inventory))


async def install(kube: KubePort) -> None:
    """Create what the chart creates and a daemon expects: all of it empty."""
    await kube.create(NAMESPACES, {"metadata": {"name": OWN_NAMESPACE}})
    for resource, name, rest in (
        (LEASES, LEASE, {}),
        (SERVICES, "hamid-scheduler", {"spec": {"ports": [{"name": "extender", "port": 443}]}}),
        (SECRETS, "hamid-tls", {"type": "Opaque"}),
        (SECRETS, "hamid-scheduler-client", {"type": "Opaque"}),
    ):
        await kube.create(resource, {"metadata": {"name": name}, **rest}, namespace=OWN_NAMESPACE)
    client = {"service": {"name": "hamid", "namespace": OWN_NAMESPACE, "path": "/webhook"}}
    # No rules: the API server here asks nobody.
    webhook = {"name": "pods.hamid.io", "clientConfig": client, "rules": []}
    await kube.create(MUTATING_WEBHOOKS, {"metadata": {"name": "hamid"}, "webhooks": [webhook]})
