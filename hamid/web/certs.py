"""TLS whose certificates can be exchanged while connections go on.

How: the listening context holds no certificate. Its SNI callback, which OpenSSL calls for each
new connection whether or not the client named a host, moves the connection to the context made
from the newest material. Connections that stand keep what they have. Loading into one live
context would do for certificates, but a CA can be added to a context and never taken away.

Invariants:

1. Material that cannot be used leaves the old in place.
2. Sessions are not resumed where clients show certificates: a resumed session would skip the
   proof, and outlive the CA that vouched for it.
3. Private keys are neither printed nor, on Linux, written to any file system.
"""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass, field
from typing import Final

from hamid.aiokit.memory_file import memory_file
from hamid.web.errors import CertificateError

_NO_CERTIFICATE_YET: Final = ssl.AlertDescription.ALERT_DESCRIPTION_INTERNAL_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """What one side of TLS needs, as PEM.

    Attributes:
        certificate_pem: ours, followed by intermediates if there are any.
        key_pem: the private key; never shown.
        client_ca_pem: the CAs whose clients are let in; empty where none is asked for one.
    """

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)
    client_ca_pem: bytes = b""

    @property
    def fingerprint(self) -> str:
        """What tells it from any other; of the key it says nothing."""
        return hashlib.sha256(self.certificate_pem + self.client_ca_pem).hexdigest()[:16]


class ServerTls:
    """The TLS of one site; `load` exchanges its material at any time.

    Args:
        wants_client_certificate: whether callers must show a certificate of `client_ca_pem`.
    """

    def __init__(self, *, wants_client_certificate: bool = False) -> None:
        self.wants_client_certificate = wants_client_certificate
        self.context = self._new_context()
        self.context.sni_callback = self._use_newest
        self._material: TlsMaterial | None = None
        self._newest: ssl.SSLContext | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether connections can be taken; until then, each fails in its handshake."""
        return self._newest is not None

    @property
    def fingerprint(self) -> str:
        """Of what new connections are served with; empty where there is nothing."""
        return "" if self._material is None else self._material.fingerprint

    def load(self, material: TlsMaterial) -> bool:
        """Use this material for all new connections; returns whether it differs from before.

        Raises `CertificateError`, and keeps what it had, if the material cannot be used.
        """
        if material == self._material:
            return False
        context = self._new_context()
        load_into(context, material)
        if self.wants_client_certificate and not material.client_ca_pem:
            raise CertificateError(
                "client certificates are asked for, but there is no CA to prove them with",
                hint="give the CA of the clients",
            )
        self._newest, self._material = context, material
        return True

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.wants_client_certificate:
            context.verify_mode = ssl.CERT_REQUIRED
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        return context

    def _use_newest(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _host: str | None, _context: object
    ) -> int | None:
        if self._newest is None:
            return _NO_CERTIFICATE_YET
        connection.context = self._newest
        return None


def load_into(context: ssl.SSLContext, material: TlsMaterial) -> None:
    """Give the context its certificate, key and CAs."""
    try:
        with memory_file(material.certificate_pem + b"\n" + material.key_pem) as path:
            # A password that is wrong, so that for a key that has one nobody is asked on the terminal.
            context.load_cert_chain(path, password="")
        if material.client_ca_pem:
            context.load_verify_locations(cadata=material.client_ca_pem.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise CertificateError(
            f"the certificate cannot be used: {reason}",
            hint="give a PEM certificate, the private key it was made for, without a password, and "
            "the CA's PEM",
        ) from error
