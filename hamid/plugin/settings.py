"""What the operator may set about the device plugin."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hamid.errors import SettingsError, require_above_zero


class GrantMode(StrEnum):
    """How devices reach the container."""

    ENV = "env"
    """Environment and device nodes in the Allocate answer: works with every runtime."""
    CDI = "cdi"
    """A CDI spec that is final only at PreStartContainer: even a wrong guess is repaired."""


class UndecidedPods(StrEnum):
    """What becomes of a pod that reached the node without a decision of the scheduler."""

    REFUSE = "refuse"
    SLICE = "slice"
    """It gets a default slice of the cards that the kubelet chose, if that is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSettings:
    """The device plugin's settings.

    Attributes:
        device_split_count: slots a card is advertised as; so many containers may share it.
        device_memory_scaling: promised memory over real memory; above 1 oversubscribes: a container
            may then hold so much of its limit as its real share is, the rest as managed memory.
        context_memory_mib: what each CUDA context of a container is charged; 0: contexts take no
            part of its limit, but room on the card beside all limits.
        device_core_scaling: promised cores over real cores.
        state_dir: where grants are journalled; must survive a restart of the daemon.
        device_plugin_dir, pod_resources_dir, pods_api_dir: the kubelet's sockets (k3s and k0s
            have them elsewhere).
        report_numa: tell the kubelet each card's NUMA node; off, as in HAMi, because the
            kubelet's single-numa-node policy then refuses pods that the scheduler placed.
        grant_mode: how devices reach the container. `cdi` makes a grant final only when the
            container starts, and so mends even a wrong guess; it needs a runtime with CDI (containerd
            2, or 1.7 with `enable_cdi`), and on kubelets before 1.29 is as `env`.
        cdi_dir: where the runtime looks for CDI specs.
        undecided_pods: pods that hamid's scheduler did not place; `slice` gives them a default
            slice of the cards that the kubelet chose, if that is free.
        default_slice_memory_mib: memory of a default slice, where undecided pods get one.
        advertise_amounts: state in the Node's status what its cards have in all of memory and cores,
            so that cluster autoscalers count them; the webhook then writes amounts out in full.
        excluded_uuids, excluded_indexes: cards kept out of hamid's hands.
        health_interval_s: between two looks at the cards; events of the driver are seen at once.
        recovery_s: how long a card must be free of faults before it counts as healthy again.
        reconcile_interval_s: between two comparisons of our books with the kubelet's.
    """

    device_split_count: int = 10
    device_memory_scaling: float = 1.0
    context_memory_mib: int = 0
    device_core_scaling: float = 1.0
    state_dir: Path = Path("/var/lib/hamid")
    device_plugin_dir: Path = Path("/var/lib/kubelet/device-plugins")
    pod_resources_dir: Path = Path("/var/lib/kubelet/pod-resources")
    pods_api_dir: Path = Path("/var/lib/kubelet/pods-api")
    report_numa: bool = False
    grant_mode: GrantMode = GrantMode.ENV
    cdi_dir: Path = Path("/var/run/cdi")
    undecided_pods: UndecidedPods = UndecidedPods.REFUSE
    default_slice_memory_mib: int = 1024
    advertise_amounts: bool = False
    excluded_uuids: tuple[str, ...] = ()
    excluded_indexes: tuple[int, ...] = ()
    health_interval_s: float = 5.0
    recovery_s: float = 60.0
    reconcile_interval_s: float = 15.0

    def __post_init__(self) -> None:
        if not 1 <= self.device_split_count <= 1000:  # noqa: PLR2004 - the message says it
            raise SettingsError(
                f"device_split_count is {self.device_split_count}, not 1 to 1000",
                hint="10 is usual; the kubelet lists every slot of every card",
            )
        for name in ("device_memory_scaling", "device_core_scaling"):
            value = getattr(self, name)
            if not 0 < value <= 10:  # noqa: PLR2004 - the message says it
                raise SettingsError(
                    f"{name} is {value}, not above 0 and up to 10",
                    hint="1 promises what the card has; 2 promises twice of it",
                )
        if not 0 <= self.context_memory_mib <= 65_536:  # noqa: PLR2004 - the message says it
            raise SettingsError(
                f"context_memory_mib is {self.context_memory_mib}, not 0 to 65536",
                hint="300 to 600 is what contexts take; 0 does not charge them",
            )
        if self.default_slice_memory_mib < 1:
            raise SettingsError(
                f"default_slice_memory_mib is {self.default_slice_memory_mib}, not at least 1",
                hint="it is the memory of a pod that was not placed by hamid's scheduler, in MiB",
            )
        require_above_zero(self, "health_interval_s", "reconcile_interval_s")
        self._require_paths()
        if self.recovery_s < 0:
            raise SettingsError(
                f"recovery_s is {self.recovery_s}, not at least 0",
                hint="0 trusts a card again as soon as no fault is seen",
            )

    def _require_paths(self) -> None:
        for name in (
            "state_dir",
            "cdi_dir",
            "device_plugin_dir",
            "pod_resources_dir",
            "pods_api_dir",
        ):
            path = getattr(self, name)
            if not path.is_absolute():
                raise SettingsError(
                    f"{name} is {path}, not an absolute path",
                    hint="kubelet and container runtime know it by this path, too",
                )
