"""What the operator may choose about the admission of pods."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hamid.errors import SettingsError
from hamid.model.names import SCHEDULER_NAME, SCHEDULER_NAME_4PD, SCHEDULER_NAME_HAMI


class Policy(StrEnum):
    """What becomes of a pod that does something questionable."""

    REFUSE = "refuse"
    WARN = "warn"
    """Admitted; who created it is shown a warning."""
    ALLOW = "allow"


class ForgeryPolicy(StrEnum):
    """What becomes of a new pod that carries annotations which only the scheduler writes."""

    STRIP = "strip"
    """They are taken away, with a warning. Pods made from the YAML of a running one carry them."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """The rules of admission. All but the last two concern only pods that ask for devices.

    Attributes:
        scheduler_name: what `spec.schedulerName` becomes.
        replaced_schedulers: names that count as "no choice made": the API server writes
            `default-scheduler` before webhooks run.
        foreign_scheduler: what to do about any other name. Such a pod is never changed; with
            WARN or ALLOW another scheduler places it, and nobody books what it takes.
        privileged_user: a privileged container that asks for devices. No limit holds in it.
        privileged_neighbour: a privileged container beside one that asks. It sees every device
            of the node, whatever its neighbours were given.
        host_pid: a pod in the host's process namespace. It sees, and may signal, other tenants.
        preset_node: a pod whose `spec.nodeName` is set already. No scheduler is asked, so no
            device is chosen.
        unknown_annotations: a pod with an annotation that looks like one of ours and is none: a
            word that is misspelt would have no effect, and nobody would know why.
        over_quota: a pod that asks for more than a quota of its namespace allows in all, so that
            it would wait for ever. What is used does not count here: such a pod waits.
        runtime_class_name: given to pods that name none; empty leaves them alone.
        forged_annotations: for new pods of any kind.
        own_usernames: who may change those annotations of pods that exist.
    """

    scheduler_name: str = SCHEDULER_NAME
    replaced_schedulers: tuple[str, ...] = (
        "default-scheduler",
        SCHEDULER_NAME_HAMI,
        SCHEDULER_NAME_4PD,
    )
    foreign_scheduler: Policy = Policy.WARN
    privileged_user: Policy = Policy.REFUSE
    privileged_neighbour: Policy = Policy.REFUSE
    host_pid: Policy = Policy.WARN
    preset_node: Policy = Policy.REFUSE
    unknown_annotations: Policy = Policy.WARN
    over_quota: Policy = Policy.REFUSE
    runtime_class_name: str = ""
    forged_annotations: ForgeryPolicy = ForgeryPolicy.STRIP
    own_usernames: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.scheduler_name:
            raise SettingsError(
                "scheduler_name is empty",
                hint="give the name under which kube-scheduler's profile asks hamid",
            )
