"""Every name that appears in the cluster, once: resources, annotations, labels, environment.

Names of the form `hami.io/…` and `4pd.io/…` are the field's; tools and dashboards read them.
Names of the form `hamid.io/…` are ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hamid.errors import SettingsError

VENDOR: Final = "NVIDIA"
"""The vendor key in HAMi's pod annotations (not the model of the card)."""


_RESOURCE: Final = re.compile(
    r"(?=.{1,253}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    r"/(?=.{1,63}$)[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNames:
    """The resources that containers ask for; all may be renamed by the operator.

    Attributes:
        count: cards, or parts of so many.
        memory, memory_percentage: of each card, in MiB, or in percent of what the card has.
        cores: computing time of each card, in percent.
        priority: of the container's work on its cards; 0 is high, 1 is low.
    """

    count: str = "nvidia.com/gpu"
    memory: str = "nvidia.com/gpumem"
    memory_percentage: str = "nvidia.com/gpumem-percentage"
    cores: str = "nvidia.com/gpucores"
    priority: str = "nvidia.com/priority"

    def __post_init__(self) -> None:
        for name in self.all():
            if not _RESOURCE.fullmatch(name) or "kubernetes.io/" in name:
                raise SettingsError(
                    f"{name!r} is no name for a resource of devices",
                    hint="write it as domain/name, such as nvidia.com/gpu",
                )
            if self.all().count(name) > 1:
                raise SettingsError(
                    f"{name!r} names two resources", hint="give each of the five another name"
                )

    def all(self) -> tuple[str, ...]:
        """All five, in the order in which messages name them."""
        return (self.count, self.memory, self.memory_percentage, self.cores, self.priority)


# What a node says of its devices.
NODE_REGISTER: Final = "hami.io/node-nvidia-register"
NODE_REGISTER_4PD: Final = "4pd.io/node-nvidia-register"
NODE_SCORE: Final = "hami.io/node-nvidia-score"
DEVICE_CORDON: Final = "hami.io/device-cordon"
NODE_AMOUNTS: Final = "hamid.io/amounts"
"""The resources beside slots that its status states because we do, separated by commas."""

# What a pod was promised: HAMi's record, for the field's tools, and ours, which our parts trust.
POD_NODE: Final = "hami.io/vgpu-node"
"""An annotation, and a label, too."""
POD_TIME: Final = "hami.io/vgpu-time"
POD_TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
POD_ALLOCATED: Final = "hami.io/vgpu-devices-allocated"
POD_BIND_TIME: Final = "hami.io/bind-time"
POD_BIND_PHASE: Final = "hami.io/bind-phase"
POD_ALLOCATION: Final = "hamid.io/allocation"

POD_ROOM_FREED: Final = "hamid.io/room-freed-at"
"""Written on a pod that waits, so that kube-scheduler tries it again."""

WRITTEN_BY_US: Final = (
    POD_NODE,
    POD_TIME,
    POD_TO_ALLOCATE,
    POD_ALLOCATED,
    POD_BIND_TIME,
    POD_BIND_PHASE,
    POD_ALLOCATION,
)
"""Pod annotations that only the scheduler writes; a user who sets one forges a decision."""

# What the author of a pod may ask for by annotation.
USE_MODEL: Final = "nvidia.com/use-gputype"
AVOID_MODEL: Final = "nvidia.com/nouse-gputype"
USE_UUID: Final = "nvidia.com/use-gpuuuid"
AVOID_UUID: Final = "nvidia.com/nouse-gpuuuid"
NODE_POLICY: Final = "hami.io/node-scheduler-policy"
DEVICE_POLICY: Final = "hami.io/gpu-scheduler-policy"
VGPU_MODE: Final = "nvidia.com/vgpu-mode"
NUMA_BIND: Final = "nvidia.com/numa-bind"
USE_INDEX: Final = "hamid.io/use-gpuindex"
LOAD_WEIGHTS: Final = "hami.io/device-scoring-weights"
NODE_WEIGHTS: Final = "hamid.io/node-scoring-weights"
CORE_MODE: Final = "hamid.io/core-mode"
"""How its containers share the time of devices: `hard`, `lend` or `priority`."""
CORE_WEIGHT: Final = "hamid.io/core-weight"
"""Their share of what is lent, in proportion to others; 1 to 1000."""

VGPU_MODES: Final = (VGPU_MODE, "hami.io/vgpu-mode")
"""The first that a pod carries counts."""

ASKED_BY_AUTHOR: Final = (
    USE_MODEL,
    AVOID_MODEL,
    USE_UUID,
    AVOID_UUID,
    NODE_POLICY,
    DEVICE_POLICY,
    *VGPU_MODES,
    NUMA_BIND,
    USE_INDEX,
    LOAD_WEIGHTS,
    NODE_WEIGHTS,
    CORE_MODE,
    CORE_WEIGHT,
)
"""All of these."""
OWN_PREFIXES: Final = ("hamid.io/", "hami.io/", "4pd.io/")
"""What begins like this on a pod and is no name of ours is a mistake."""

WEBHOOK_LABEL: Final = "hami.io/webhook"
"""`ignore` on a pod or namespace keeps the admission webhook away from it."""
WEBHOOK_LABEL_4PD: Final = "4pd.io/webhook"
"""The same, in manifests of before HAMi."""

LEASE_STANDBYS: Final = "hamid.io/standbys"
"""On the Lease: the replicas that watch it closely, ready to lead."""
LEASE_CANDIDATE: Final = "hamid.io/candidate"
"""A label of the Lease, put there by whoever writes it and does not hold it yet.

The chart's policy that asks each node that may not lead looks at Leases with it alone: to ask them at
each renewal took the API server 70 to 100 ms with 1,000 nodes.
"""
LEASE_CERTIFICATE: Final = "hamid.io/certificate"
"""On the Lease: the fingerprint of what the leader serves with."""

SCHEDULER_NAME: Final = "hamid-scheduler"
SCHEDULER_NAME_HAMI: Final = "hami-scheduler"
SCHEDULER_NAME_4PD: Final = "4pd-scheduler"

# What a container finds in its environment. Informative only: limits live in the control page.
ENV_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
NOT_VISIBLE: Final = "void"
"""Of it, where NVIDIA's runtime is to make none visible."""
ENV_MEMORY_LIMIT: Final = "CUDA_DEVICE_MEMORY_LIMIT_"
ENV_CORE_LIMIT: Final = "CUDA_DEVICE_SM_LIMIT"
ENV_PRIORITY: Final = "CUDA_TASK_PRIORITY"
ENV_CORE_POLICY: Final = "GPU_CORE_UTILIZATION_POLICY"
"""Read from the pod's spec: `force` is a hard cap, `disable` the next best thing, to lend."""
