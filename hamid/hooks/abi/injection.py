"""What enters a container so that its limits hold. Pure.

Limits live in the control page, in a directory that the host owns and the container mounts
read-only. The environment repeats them for programs and people that look there, under the names
that HAMi gave them; the library does not read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from hamid.hooks.abi import contract
from hamid.hooks.abi.pages import ContainerLimits, CoreMode, DeviceLimit
from hamid.model import names
from hamid.model.quantities import MIB
from hamid.model.sharing import SharingMode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import PurePath

    from hamid.model.device import DeviceShare, DeviceUuid

CONTROL_NODES: Final = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
)
"""Device nodes that every container with a card needs, where the host has them."""

DEFAULT_PRIORITY: Final = 1
"""Low, as in HAMi, where nothing was said: who wants to come before others must ask for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPaths:
    """Where the host has what a container mounts.

    Attributes:
        library, preload: the installed library and the `ld.so.preload` that names it.
        limits: the container's private directory.
        usage_page: the one file that it writes.
        node_by_uuid, control_nodes: the node of each card, and the control nodes that exist.
    """

    library: PurePath
    preload: PurePath
    limits: PurePath
    usage_page: PurePath
    node_by_uuid: Mapping[DeviceUuid, str] = field(default_factory=dict)
    control_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedMount:
    """A path of the host in the container."""

    container_path: str
    host_path: str
    is_read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """Environment, mounts and device nodes of one container; nodes keep their host's path."""

    envs: Mapping[str, str]
    mounts: tuple[InjectedMount, ...]
    device_nodes: tuple[str, ...]


def injection(
    shares: Sequence[DeviceShare], *, priority: int | None, grant_id: str, paths: HostPaths
) -> Injection:
    """What enters the container that gets these shares."""
    mounts = (
        InjectedMount(
            container_path=contract.LIBRARY_PATH, host_path=str(paths.library), is_read_only=True
        ),
        InjectedMount(
            container_path=contract.PRELOAD_PATH, host_path=str(paths.preload), is_read_only=True
        ),
        InjectedMount(
            container_path=contract.LIMITS_DIR, host_path=str(paths.limits), is_read_only=True
        ),
        InjectedMount(
            container_path=contract.USAGE_PAGE_PATH,
            host_path=str(paths.usage_page),
            is_read_only=False,
        ),
    )
    cards = [
        paths.node_by_uuid[s.device_uuid] for s in shares if s.device_uuid in paths.node_by_uuid
    ]
    return Injection(
        envs=environment(shares, priority=priority, grant_id=grant_id),
        mounts=mounts,
        device_nodes=(*cards, *(paths.control_nodes if cards else ())),
    )


def environment(
    shares: Sequence[DeviceShare], *, priority: int | None, grant_id: str
) -> dict[str, str]:
    """The environment of the container that gets these shares; HAMi's names, and the grant's id."""
    envs = {names.ENV_VISIBLE_DEVICES: ",".join(share.device_uuid for share in shares)}
    for position, share in enumerate(shares):
        envs[f"{names.ENV_MEMORY_LIMIT}{position}"] = f"{share.memory_mib}m"
    cores = shares[0].core_percent if shares else 0
    if cores > 0:
        envs[names.ENV_CORE_LIMIT] = str(cores)
    if priority is not None:
        envs[names.ENV_PRIORITY] = str(priority)
    envs[contract.ENV_GRANT_ID] = grant_id
    return envs


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryTerms:
    """How a node counts device memory, besides each container's limit.

    Attributes:
        context_mib: what each CUDA context is charged; 0: contexts take no part of the limit.
        scaling: promised memory over real memory; above 1, so much of a limit as the card has for
            it may be held fast, and the rest be managed memory only.
    """

    context_mib: int = 0
    scaling: float = 1.0

    def fixed_bytes(self, memory_bytes: int) -> int | None:
        """Of this limit what may be held fast; None: all of it."""
        if self.scaling <= 1:
            return None
        return int(memory_bytes / Decimal(str(self.scaling)))


NO_TERMS: Final = MemoryTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeTerms:
    """How a container shares the time of its devices.

    Attributes:
        mode: what becomes of time that is idle.
        weight: its share of what is lent.
        priority: None where its pod did not say.
        trusts_mps: the node runs MPS.
    """

    mode: SharingMode = SharingMode.HARD
    weight: int = 1
    priority: int | None = None
    trusts_mps: bool = False


NO_TIME_TERMS: Final = TimeTerms()

_MODES: Final = {
    SharingMode.HARD: CoreMode.HARD,
    SharingMode.LEND: CoreMode.LEND,
    SharingMode.PRIORITY: CoreMode.PRIORITY,
}


def container_limits(
    shares: Sequence[DeviceShare],
    *,
    generation: int,
    terms: MemoryTerms = NO_TERMS,
    time: TimeTerms = NO_TIME_TERMS,
) -> ContainerLimits:
    """The limits of the container that gets these shares, as its control page states them."""
    return ContainerLimits(
        devices=tuple(
            DeviceLimit(
                device_uuid=share.device_uuid,
                memory_bytes=share.memory_mib * MIB,
                core_percent=share.core_percent,
                weight=time.weight,
                context_bytes=terms.context_mib * MIB,
                fixed_bytes=terms.fixed_bytes(share.memory_mib * MIB),
            )
            for share in shares
        ),
        priority=DEFAULT_PRIORITY if time.priority is None else time.priority,
        generation=generation,
        mode=_MODES[time.mode],
        trusts_mps=time.trusts_mps,
    )
