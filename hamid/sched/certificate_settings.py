"""What the operator may choose about the certificates that the scheduler role makes."""

from __future__ import annotations

from dataclasses import dataclass

from hamid.errors import SettingsError, require_above_zero

DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
SHORTEST_LIFETIME_S = 18_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSettings:
    """Where the certificates are kept, and how long they last.

    Attributes:
        namespace: of the Secrets; the pod's own unless set.
        tls_secret: what every replica serves with. Replicas must be able to read it.
        client_secret: what kube-scheduler shows to the extender; `ca.crt`, `tls.crt`, `tls.key`.
            Only written, never read: replicas need no right to `get` it, and should have none.
        webhook_configuration: the MutatingWebhookConfiguration whose `caBundle` is kept right.
        server_names: DNS names of the webhook's and the extender's Services.
        authority_lifetime_s: kube-scheduler reads the CA's file when it starts, and never again.
            So a new CA is made known for a sixth of this before anything is signed with it.
        server_lifetime_s, client_lifetime_s: replaced after two thirds, without any restart.
        interval_s: how often the leader looks whether all of it is right. The others learn of a new
            certificate by the lease, so within `lease.slow_poll_s` or a little more.
    """

    namespace: str = "kube-system"
    tls_secret: str = "hamid-tls"  # noqa: S105 - the name of a Secret
    client_secret: str = "hamid-scheduler-client"  # noqa: S105 - the name of a Secret
    webhook_configuration: str = "hamid"
    server_names: tuple[str, ...] = ("localhost", "127.0.0.1")
    authority_lifetime_s: float = 10 * YEAR_S
    server_lifetime_s: float = 90 * DAY_S
    client_lifetime_s: float = 30 * DAY_S
    interval_s: float = 60.0

    def __post_init__(self) -> None:
        if not self.server_names:
            raise SettingsError(
                "server_names is empty", hint="name the Services by which the servers are reached"
            )
        require_above_zero(self, "interval_s")
        for name in ("authority_lifetime_s", "server_lifetime_s", "client_lifetime_s"):
            if getattr(self, name) < SHORTEST_LIFETIME_S:
                raise SettingsError(
                    f"{name} is {getattr(self, name):g}, less than {SHORTEST_LIFETIME_S:g}",
                    hint="replicas need time to read new certificates before the old ones expire",
                )
        if self.authority_lifetime_s < 6 * self.client_lifetime_s:
            raise SettingsError(
                f"authority_lifetime_s is {self.authority_lifetime_s:g}, less than six times "
                "client_lifetime_s",
                hint="a new CA is known for a sixth of its life before it signs; that must suffice "
                "to hand it to kube-scheduler with its next certificate",
            )
