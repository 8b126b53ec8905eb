"""The certificates that should be: decided from those that are, and the time.

Two authorities, because their keys are worth different things:

- that of the **servers** signs what replicas serve the webhook and the extender with. Its key is
  kept in the Secret that all replicas read: who has it gains little over a replica's own key.
  It must last, since kube-scheduler reads its certificate when it starts and never again; so a
  successor is made known long before anything is signed with it.
- that of the **clients** vouches for kube-scheduler, and so for the right to bind. Its key signs
  one certificate and is thrown away; a new client certificate comes with a new authority, and
  servers accept all of them that have not expired.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hamid.web import pki
from hamid.web.certs import TlsMaterial
from hamid.web.errors import CertificateError
from hamid.web.pki import Credential

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hamid.sched.certificate_settings import CertificateSettings

HAND_OVER_AT: Final = 5 / 6
"""The part of an authority's life after which its successor signs; it is made after 2/3."""

SERVER_AUTHORITY: Final = "hamid servers"
CLIENT_AUTHORITY: Final = "hamid clients"
CLIENT_NAME: Final = "kube-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsState:
    """What the Secret of all replicas holds.

    Attributes:
        authority: signs server certificates.
        successor: will; made known already.
        server: what replicas serve with.
        server_bundle_pem: all authorities of servers that clients should accept.
        client_bundle_pem: all authorities of clients that servers accept.
        client_pem: the client certificate in use, without its key.
        delivered_bundle_pem: the authorities of servers that went with it to kube-scheduler.
    """

    authority: Credential | None = None
    successor: Credential | None = None
    server: Credential | None = None
    server_bundle_pem: bytes = b""
    client_bundle_pem: bytes = b""
    client_pem: bytes = b""
    delivered_bundle_pem: bytes = b""

    @property
    def material(self) -> TlsMaterial | None:
        """What to serve with, or None as long as there is nothing."""
        if self.server is None or not self.client_bundle_pem:
            return None
        return TlsMaterial(
            certificate_pem=self.server.certificate_pem,
            key_pem=self.server.key_pem,
            client_ca_pem=self.client_bundle_pem,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewClient:
    """A client certificate that nobody knows yet, and the authority that vouches for it."""

    authority_pem: bytes
    credential: Credential


def decode_state(values: Mapping[str, bytes]) -> TlsState:
    """The state in the Secret's values; what is damaged counts as missing, and is made anew."""
    return TlsState(
        authority=_credential(values, "authority"),
        successor=_credential(values, "successor"),
        server=_credential(values, "tls"),
        server_bundle_pem=_certificates(values, "ca.crt"),
        client_bundle_pem=_certificates(values, "client-ca.crt"),
        client_pem=_certificates(values, "client.crt"),
        delivered_bundle_pem=_certificates(values, "delivered-ca.crt"),
    )


def encode_state(state: TlsState) -> dict[str, bytes]:
    """The Secret's values for the state."""
    values = {
        "ca.crt": state.server_bundle_pem,
        "client-ca.crt": state.client_bundle_pem,
        "client.crt": state.client_pem,
        "delivered-ca.crt": state.delivered_bundle_pem,
    }
    for name, credential in (
        ("authority", state.authority),
        ("successor", state.successor),
        ("tls", state.server),
    ):
        if credential is not None:
            values[f"{name}.crt"] = credential.certificate_pem
            values[f"{name}.key"] = credential.key_pem
    return {key: value for key, value in values.items() if value}


def with_servers_due(state: TlsState, *, settings: CertificateSettings, now_s: float) -> TlsState:
    """The state with its servers' certificates as they should be now."""
    authority, successor = _authorities(state, settings=settings, now_s=now_s)
    server = state.server
    if server is None or _is_stale(server, authority, settings=settings, now_s=now_s):
        left_s = pki.validity_of(authority.certificate_pem).not_after_s - now_s
        server = pki.issue_server(
            authority,
            names=settings.server_names,
            now_s=now_s,
            lifetime_s=min(settings.server_lifetime_s, left_s),
        )
    known = [c.certificate_pem for c in (authority, successor) if c is not None]
    return replace(
        state,
        authority=authority,
        successor=successor,
        server=server,
        server_bundle_pem=pki.bundle([*known, state.server_bundle_pem], now_s=now_s),
        client_bundle_pem=pki.bundle([state.client_bundle_pem], now_s=now_s),
    )


def is_client_due(state: TlsState, *, now_s: float) -> bool:
    """Whether kube-scheduler needs a new certificate, or has to be told of a new authority."""
    if not (state.client_pem and state.client_bundle_pem and state.delivered_bundle_pem):
        return True
    if pki.is_due_for_rotation(state.client_pem, now_s=now_s):
        return True
    accepted, delivered = pki.split(state.client_bundle_pem), pki.split(state.delivered_bundle_pem)
    return not (
        any(pki.is_issued_by(state.client_pem, authority) for authority in accepted)
        and all(
            known.certificate_pem in delivered
            for known in (state.authority, state.successor)
            if known is not None
        )
    )


def make_client(*, settings: CertificateSettings, now_s: float) -> NewClient:
    """A client certificate of an authority made for it alone, whose key is gone."""
    lifetime_s = settings.client_lifetime_s
    authority = pki.make_authority(CLIENT_AUTHORITY, now_s=now_s, lifetime_s=lifetime_s)
    credential = pki.issue_client(
        authority, common_name=CLIENT_NAME, now_s=now_s, lifetime_s=lifetime_s
    )
    return NewClient(authority_pem=authority.certificate_pem, credential=credential)


def with_client_announced(state: TlsState, client: NewClient, *, now_s: float) -> TlsState:
    """The state in which servers accept the new client, beside those they accept."""
    known = pki.bundle([client.authority_pem, state.client_bundle_pem], now_s=now_s)
    return replace(state, client_bundle_pem=known)


def with_client_delivered(state: TlsState, client: NewClient) -> TlsState:
    """The state in which the new client is the one in use."""
    return replace(
        state,
        client_pem=client.credential.certificate_pem,
        delivered_bundle_pem=state.server_bundle_pem,
    )


def _authorities(
    state: TlsState, *, settings: CertificateSettings, now_s: float
) -> tuple[Credential, Credential | None]:
    authority, successor = state.authority, state.successor
    if authority is not None and _is_over(authority, now_s=now_s):
        authority, successor = successor, None
    if authority is None or _is_over(authority, now_s=now_s):
        authority, successor = _new_authority(settings, now_s=now_s), None
    if successor is None and pki.is_due_for_rotation(authority.certificate_pem, now_s=now_s):
        successor = _new_authority(settings, now_s=now_s)
    return authority, successor


def _new_authority(settings: CertificateSettings, *, now_s: float) -> Credential:
    return pki.make_authority(
        SERVER_AUTHORITY, now_s=now_s, lifetime_s=settings.authority_lifetime_s
    )


def _is_stale(
    server: Credential, authority: Credential, *, settings: CertificateSettings, now_s: float
) -> bool:
    return (
        pki.is_due_for_rotation(server.certificate_pem, now_s=now_s)
        or not pki.is_issued_by(server.certificate_pem, authority.certificate_pem)
        or pki.names_of(server.certificate_pem) != tuple(sorted(settings.server_names))
    )


def _is_over(authority: Credential, *, now_s: float) -> bool:
    return pki.has_passed(authority.certificate_pem, HAND_OVER_AT, now_s=now_s)


def _credential(values: Mapping[str, bytes], name: str) -> Credential | None:
    credential = Credential(
        certificate_pem=_certificates(values, f"{name}.crt"),
        key_pem=values.get(f"{name}.key", b""),
    )
    if not credential.certificate_pem or not pki.key_matches(credential):
        return None
    return credential


def _certificates(values: Mapping[str, bytes], key: str) -> bytes:
    pem = values.get(key, b"")
    try:
        pki.validity_of(pem)
    except CertificateError:
        return b""
    return pem
