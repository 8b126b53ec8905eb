"""What the operator may choose about who leads."""

from __future__ import annotations

from dataclasses import dataclass

from hamid.errors import SettingsError, require_above_zero
from hamid.model.lease import LeaseTerms


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSettings:
    """The Lease that says who leads.

    Attributes:
        namespace, name: of the Lease; in the pod's own namespace unless set.
        lease_duration_s, renew_deadline_s, retry_period_s: as in client-go; see `LeaseTerms`.
        can_lead: whether this replica may lead at all; if not, it only learns who does.
        standby_count: how many followers watch the lease closely.
        slow_poll_s: how often each of the others looks at it.
        standby_term_s: after this, the standbys have to sign up again; those that are gone
            thereby make room.
    """

    namespace: str = "kube-system"
    name: str = "hamid-scheduler"
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    can_lead: bool = True
    standby_count: int = 3
    slow_poll_s: float = 500.0
    standby_term_s: float = 600.0

    def __post_init__(self) -> None:
        _ = self.terms
        require_above_zero(self, "standby_term_s")
        if self.standby_count < 1:
            raise SettingsError(
                f"standby_count is {self.standby_count}, not 1 or more",
                hint="without a standby nobody notices soon that the leader is gone",
            )
        if self.slow_poll_s < self.lease_duration_s:
            raise SettingsError(
                f"slow_poll_s {self.slow_poll_s} is shorter than lease_duration_s "
                f"{self.lease_duration_s}",
                hint="raise slow_poll_s; the standbys are those that look often",
            )

    @property
    def request_deadline_s(self) -> float:
        """How long one request may take: one that hangs leaves time for another, as in client-go."""
        return self.renew_deadline_s / 2

    @property
    def terms(self) -> LeaseTerms:
        """The three times, which have been found to fit together."""
        return LeaseTerms(
            lease_duration_s=self.lease_duration_s,
            renew_deadline_s=self.renew_deadline_s,
            retry_period_s=self.retry_period_s,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """The Service that leads kube-scheduler to the leader.

    Attributes:
        namespace: of the Service; the pod's own unless set.
        service_name: a Service without selector, in `namespace`; its slice has the same name.
        port_name: as that Service names its port.
        interval_s: how often the leader looks whether its address still stands.
    """

    namespace: str = "kube-system"
    service_name: str = "hamid-scheduler"
    port_name: str = "extender"
    interval_s: float = 30.0

    def __post_init__(self) -> None:
        require_above_zero(self, "interval_s")
