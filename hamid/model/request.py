"""What containers and pods ask for, after defaults.

The defaults, per container (`codec.pod_request` applies them):

| count | memory            | cores  | means                                                     |
|-------|-------------------|--------|-----------------------------------------------------------|
| given | none              | absent | whole cards: 100 % memory, 100 % cores                    |
| given | percentage 100    | absent | whole cards: 100 % memory, 100 % cores                    |
| given | MiB               | absent | that memory, default cores (0: neither limited nor held)  |
| given | percentage < 100  | absent | that share, default cores                                 |
| given | any or none       | given  | those cores; no memory given means 100 % of it            |
| absent| any               | any    | as above with the default count (1), if anything is asked |
| 0     | none              | absent | no request                                                |

Where both MiB and a percentage are given, MiB count, as in HAMi.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from hamid.errors import SettingsError
from hamid.model.device import WHOLE_DEVICE_PERCENT
from hamid.model.node import NO_HOST
from hamid.model.quantities import MAX_DEVICE_COUNT, MAX_MEMORY_MIB

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hamid.model.node import HostAmount
    from hamid.model.quantities import MemoryRequest


class ContainerKind(StrEnum):
    """When a container of a pod runs."""

    INIT = "init"
    """Before the app containers, one after another."""
    SIDECAR = "sidecar"
    """A restartable init container: from its turn on, until the pod ends."""
    APP = "app"


class PolicyName(StrEnum):
    """The preference by which a node, or devices of it, are chosen; see `sched.placement`."""

    BINPACK = "binpack"
    """The fullest first."""
    SPREAD = "spread"
    """The emptiest first."""
    FRAGMENTATION = "fragmentation"
    """What leaves the most room for the pods that usually come."""
    MUTEX = "mutex"
    """What nobody else uses at the time, and nothing else: a device, or all those of a node."""
    NUMA = "numa"
    """Devices of as few NUMA nodes as can be."""
    TOPOLOGY_AWARE = "topology-aware"
    """Devices that are linked best; for one device alone, the one that is linked worst."""


class PolicyError(ValueError):
    """A word that is no policy; says which are.

    Not a `HamidError`: only the caller knows where the word stands.
    """


def parse_policies(words: Iterable[str]) -> tuple[PolicyName, ...]:
    """Return the policies of these names, each once; blanks around them do not count, nor do empty ones.

    Raises:
        PolicyError: one of them is no policy.
    """
    found: dict[PolicyName, None] = {}
    for word in filter(None, map(str.strip, words)):
        try:
            found[PolicyName(word)] = None
        except ValueError as error:
            raise PolicyError(
                f"{word!r} is unknown; allowed are {', '.join(PolicyName)}"
            ) from error
    return tuple(found)


def parse_policy_chain(text: str) -> tuple[PolicyName, ...]:
    """Return the policies that are named, separated by commas; there must be one.

    Raises:
        PolicyError: one of them is no policy, or there is none.
    """
    found = parse_policies(text.split(","))
    if not found:
        raise PolicyError(f"{text!r} names no policy; allowed are {', '.join(PolicyName)}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWeights:
    """How much each resource counts in the load of a device, or of a node.

    Attributes:
        cpu, host_memory: those of the node; no device has any.
    """

    slots: int = 1
    memory: int = 1
    cores: int = 1
    cpu: int = 0
    host_memory: int = 0


EVEN_WEIGHTS: Final = LoadWeights()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRequest:
    """What one container asks for; each of its devices gives the same.

    Attributes:
        device_count: at least 1; a container that asks for none has no request.
        core_percent: 0 to 100 of each device; 0 is neither limited nor promised.
        priority: 0 is high, 1 is low; None where nothing was said.
    """

    container_name: str
    kind: ContainerKind
    device_count: int
    memory: MemoryRequest
    core_percent: int
    priority: int | None = None

    @property
    def is_exclusive(self) -> bool:
        """Whether each of its devices must be its alone."""
        return self.core_percent >= WHOLE_DEVICE_PERCENT


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSelection:
    """Which devices the pod's author allows; empty tuples allow all.

    Models match by word (see `model.device.model_matches`), UUIDs and indices exactly.
    """

    use_models: tuple[str, ...] = ()
    avoid_models: tuple[str, ...] = ()
    use_uuids: tuple[str, ...] = ()
    avoid_uuids: tuple[str, ...] = ()
    use_indices: tuple[int, ...] = ()

    @property
    def names_single_devices(self) -> bool:
        """Whether it tells devices of one kind apart."""
        return bool(self.use_uuids or self.avoid_uuids or self.use_indices)


ANY_DEVICE: Final = DeviceSelection()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """What one pod asks for.

    Attributes:
        pod_uid, namespace, pod_name: who asks.
        container_names: all containers, init first, as in the spec; HAMi's text needs them.
        requests: of the containers that ask for devices, in the same order.
        node_policies, device_policies: the first counts, each next one where those before it
            find two places equal; empty where the cluster's default counts.
        load_weights, node_weights: for `binpack` and `spread`, among devices and among nodes.
        is_numa_bound: all devices of a container must be of one NUMA node.
        allowed_modes: device modes; empty allows all.
        host: processor time and main memory, as kube-scheduler counts them for the pod.
    """

    pod_uid: str
    namespace: str
    pod_name: str
    container_names: tuple[str, ...]
    requests: tuple[ContainerRequest, ...]
    selection: DeviceSelection = ANY_DEVICE
    node_policies: tuple[PolicyName, ...] = ()
    device_policies: tuple[PolicyName, ...] = ()
    load_weights: LoadWeights = EVEN_WEIGHTS
    node_weights: LoadWeights = EVEN_WEIGHTS
    is_numa_bound: bool = False
    allowed_modes: tuple[str, ...] = ()
    host: HostAmount = NO_HOST

    @property
    def pod_key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.pod_name}"

    @property
    def anonymous(self) -> PodRequest:
        """The same without who asks: equal for all pods that ask for the same."""
        return replace(self, pod_uid="", namespace="", pod_name="", container_names=())


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestDefaults:
    """What counts where a container says nothing.

    Attributes:
        device_count: cards for a container that asks for memory or cores only; 0 refuses it.
        memory_mib: memory for a container that gives none; 0 means the whole card.
        core_percent: cores for a container that takes part of a card's memory and gives none.
    """

    device_count: int = 1
    memory_mib: int = 0
    core_percent: int = 0

    def __post_init__(self) -> None:
        most = {
            "device_count": MAX_DEVICE_COUNT,
            "memory_mib": MAX_MEMORY_MIB,
            "core_percent": WHOLE_DEVICE_PERCENT,
        }
        for name, limit in most.items():
            if not 0 <= (value := getattr(self, name)) <= limit:
                raise SettingsError(
                    f"{name} is {value}, not 0 to {limit}", hint="leave it out to get the default"
                )
