"""What the operator may set of the scheduling decisions; the defaults are those of the chart."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

from hamid.errors import SettingsError
from hamid.model.names import ResourceNames
from hamid.model.request import PolicyError, PolicyName, RequestDefaults, parse_policy_chain
from hamid.sched.placement.policy import Policies
from hamid.sched.placement.score import RANK_STEP


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedSettings:
    """How pods are placed and how long decisions are kept.

    Attributes:
        node_policy: what counts for pods that ask for no other, as in the annotation: one word or
            several separated by commas, the first counting first; of `binpack`, `spread`,
            `fragmentation`, `mutex`, `numa`, `topology-aware`. See `placement.fragmentation` for the
            default.
        device_policy: the same for the devices of a node.
        resources: the names of the resources that containers ask for.
        defaults: what counts where a container says nothing.
        reservation_ttl_s: how long room is kept for a pod between filter and bind. Enough for
            the volumes of most pods; one that takes longer is placed anew at its bind.
        confirmation_ttl_s: how long room is kept after a bind that the watch has not shown; it ends
            earlier with the news that the pod is bound or gone.
        pod_wait_s: how long a call waits for the watch to show a pod that was just created,
            before the pod is read directly.
        sync_wait_s: how long a call waits for the first lists after a change of leader. With
            `pod_wait_s` it must stay below the extender's `httpTimeout` of kube-scheduler, 5 s.
        wakes_waiting_pods: whether pods that wait and fit now are annotated, so that kube-scheduler
            tries them again; see `waker`.
        wake_delay_s: how long kube-scheduler is given to try them by itself.
        preempts: whether pods of lower priority are evicted for a pod that is short of cards; see
            `preemptor`.
        preempt_delay_s: how long kube-scheduler is given to evict others by itself.
        verdict_count: how many decisions are kept for `/debug` and `explain`.
        event_after_s: how long a refused pod waits before an event tells its author what would
            make it fit.
        event_interval_s: how long such an event stays as it is where only amounts change.
        rank_step: the distance of two neighbours' scores; see `placement.score`.
        offered_count: how many of the nodes that fit kube-scheduler gets to see, the best first;
            0 is all of them. Ours wins in any case, so with 1 it comes out the same, and
            kube-scheduler scores nothing: a third of its work. All are needed where another
            extender or plugin may turn down nodes after hamid.
    """

    node_policy: str = PolicyName.FRAGMENTATION.value
    device_policy: str = PolicyName.FRAGMENTATION.value
    resources: ResourceNames = field(default_factory=ResourceNames)
    defaults: RequestDefaults = field(default_factory=RequestDefaults)
    reservation_ttl_s: float = 30.0
    confirmation_ttl_s: float = 600.0
    pod_wait_s: float = 1.0
    sync_wait_s: float = 3.0
    wakes_waiting_pods: bool = True
    wake_delay_s: float = 0.2
    preempts: bool = True
    preempt_delay_s: float = 0.3
    verdict_count: int = 1_000
    event_after_s: float = 10.0
    event_interval_s: float = 60.0
    rank_step: int = RANK_STEP
    offered_count: int = 0

    def __post_init__(self) -> None:
        policy_chain("node_policy", self.node_policy)
        policy_chain("device_policy", self.device_policy)
        for name in (
            "reservation_ttl_s",
            "confirmation_ttl_s",
            "pod_wait_s",
            "sync_wait_s",
            "wake_delay_s",
            "preempt_delay_s",
            "verdict_count",
            "event_after_s",
            "event_interval_s",
            "rank_step",
        ):
            if getattr(self, name) <= 0:
                raise SettingsError(
                    f"{name} is {getattr(self, name)}; it must be greater than 0",
                    hint="leave it out to get the default",
                )
        if self.offered_count < 0:
            raise SettingsError(
                f"offered_count is {self.offered_count}; it must not be negative",
                hint="0 offers all nodes that fit, 1 the best alone",
            )

    @property
    def policies(self) -> Policies:
        """The cluster's default policies."""
        return Policies(
            node=policy_chain("node_policy", self.node_policy),
            device=policy_chain("device_policy", self.device_policy),
        )


@lru_cache(maxsize=16)
def policy_chain(setting: str, text: str) -> tuple[PolicyName, ...]:
    """The policies that a setting (or an option) names.

    Raises:
        SettingsError: it names none, or one that there is not.
    """
    try:
        return parse_policy_chain(text)
    except PolicyError as error:
        raise SettingsError(
            f"{setting} is {text!r}: {error}", hint="name one, or several separated by commas"
        ) from error
