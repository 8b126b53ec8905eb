"""A certificate authority for one test, and what it signs."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

# Far enough around any clock.
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
END = BEGIN + timedelta(days=36500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key as PEM."""

    certificate: str
    key: str


class Authority:
    """Signs for localhost and for clients."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = _build(self._key, "test-ca", self._key, "test-ca", is_ca=True)
        self.pem = _pem(self._certificate)

    def sign(self, name: str, *, password: bytes = b"") -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _build(key, name, self._key, "test-ca")
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption(),
        ).decode()
        return Pair(certificate=_pem(certificate), key=text)

    def server_context(self, directory: Path, *, wants_client: bool = False) -> ssl.SSLContext:
        pair = self.sign("server")
        file = directory / "server.pem"
        file.write_text(pair.certificate + pair.key)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.pem)
        context.load_cert_chain(file)
        # These certificates have no key identifiers, as those of many a cluster.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.verify_mode = ssl.CERT_REQUIRED if wants_client else ssl.CERT_NONE
        return context


def _build(
    key: ec.EllipticCurvePrivateKey,
    name: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    issuer: str,
    *,
    is_ca: bool = False,
) -> x509.Certificate:
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN)
        .not_valid_after(END)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
