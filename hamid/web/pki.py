"""Making certificates: a CA of our own, servers and clients that it vouches for.

Pure but for the random numbers: the time is an argument, and nothing is stored. Keys are ECDSA
P-256, which every Go and OpenSSL client takes and which are cheap to make. Server certificates
cannot be used as clients', nor the other way round.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hamid.web.errors import CertificateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DAY_S: Final = 86_400.0
BACKDATED_S: Final = 3_600.0
"""Certificates are valid from a little before now: clocks of nodes differ."""

AWAITED_S: Final = DAY_S
"""One that begins within this is waited for: a new CA has kube-scheduler restarted by hand."""

ROTATE_AFTER: Final = 2 / 3
"""The part of its life after which a certificate is replaced; so one that fails to be replaced
works on for the last third."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A certificate and its private key, as PEM; the key is never shown."""

    certificate_pem: bytes
    key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """From when until when a certificate is valid, in Unix seconds."""

    not_before_s: float
    not_after_s: float


def make_authority(common_name: str, *, now_s: float, lifetime_s: float) -> Credential:
    """A new CA. Its name carries a part of its serial: during a change of CAs two are in use."""
    serial = x509.random_serial_number()
    name = _name(f"{common_name} {serial & 0xFFFFFF:06x}")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(name, key.public_key(), now_s=now_s, lifetime_s=lifetime_s, serial=serial)
        .issuer_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_authority=True), critical=True)
    )
    return _signed(builder, key, signer=key)


def issue_server(
    authority: Credential, *, names: Sequence[str], now_s: float, lifetime_s: float
) -> Credential:
    """A certificate for a server reached by these DNS names and IP addresses."""
    return _issue(
        authority,
        common_name=names[0],
        usage=ExtendedKeyUsageOID.SERVER_AUTH,
        names=names,
        validity=(now_s, lifetime_s),
    )


def issue_client(
    authority: Credential, *, common_name: str, now_s: float, lifetime_s: float
) -> Credential:
    """A certificate by which a client proves who it is."""
    return _issue(
        authority,
        common_name=common_name,
        usage=ExtendedKeyUsageOID.CLIENT_AUTH,
        names=(),
        validity=(now_s, lifetime_s),
    )


def validity_of(certificate_pem: bytes) -> Validity:
    """When the first certificate in the PEM is valid."""
    certificate = _parse_all(certificate_pem)[0]
    return Validity(
        not_before_s=certificate.not_valid_before_utc.timestamp(),
        not_after_s=certificate.not_valid_after_utc.timestamp(),
    )


def is_due_for_rotation(certificate_pem: bytes, *, now_s: float) -> bool:
    """Whether two thirds of the certificate's life have passed, or it is long before it begins."""
    return has_passed(certificate_pem, ROTATE_AFTER, now_s=now_s)


def has_passed(certificate_pem: bytes, share: float, *, now_s: float) -> bool:
    """Whether this share of the certificate's life has passed, or it is long before it begins.

    Who made such a one had a clock that was ahead, and nobody accepts it before that time.
    """
    validity = validity_of(certificate_pem)
    life_s = validity.not_after_s - validity.not_before_s
    return not -AWAITED_S <= now_s - validity.not_before_s < life_s * share


def is_issued_by(certificate_pem: bytes, authority_pem: bytes) -> bool:
    """Whether the first CA in the PEM signed the certificate."""
    certificate, authority = _parse_all(certificate_pem)[0], _parse_all(authority_pem)[0]
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def names_of(certificate_pem: bytes) -> tuple[str, ...]:
    """The DNS names and addresses that a server's certificate is for, sorted."""
    certificate = _parse_all(certificate_pem)[0]
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return tuple(sorted([*names.get_values_for_type(x509.DNSName), *addresses]))


def bundle(pems: Iterable[bytes], *, now_s: float) -> bytes:
    """All certificates of the PEMs in order, each once, without those that have expired.

    A PEM may be empty.
    """
    seen: dict[bytes, x509.Certificate] = {}
    for pem in filter(None, pems):
        for certificate in _parse_all(pem):
            seen.setdefault(certificate.fingerprint(hashes.SHA256()), certificate)
    return b"".join(
        certificate.public_bytes(serialization.Encoding.PEM)
        for certificate in seen.values()
        if certificate.not_valid_after_utc.timestamp() > now_s
    )


def split(pem: bytes) -> tuple[bytes, ...]:
    """Each certificate of a bundle by itself."""
    return tuple(c.public_bytes(serialization.Encoding.PEM) for c in _parse_all(pem))


def key_matches(credential: Credential) -> bool:
    """Whether the private key is that of the certificate."""
    try:
        key = serialization.load_pem_private_key(credential.key_pem, password=None)
    except (ValueError, TypeError):
        return False
    return key.public_key() == _parse_all(credential.certificate_pem)[0].public_key()


def _issue(
    authority: Credential,
    *,
    common_name: str,
    usage: x509.ObjectIdentifier,
    names: Sequence[str],
    validity: tuple[float, float],
) -> Credential:
    now_s, lifetime_s = validity
    issuer = _parse_all(authority.certificate_pem)[0]
    issuer_key = _parse_key(authority.key_pem)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_name(common_name), key.public_key(), now_s=now_s, lifetime_s=lifetime_s)
        .issuer_name(issuer.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if names:
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    return _signed(builder, key, signer=issuer_key)


def _builder(
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    *,
    now_s: float,
    lifetime_s: float,
    serial: int | None = None,
) -> x509.CertificateBuilder:
    now = datetime.fromtimestamp(now_s, tz=UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(public_key)
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(now - timedelta(seconds=BACKDATED_S))
        .not_valid_after(now + timedelta(seconds=lifetime_s))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    *,
    signer: ec.EllipticCurvePrivateKey,
) -> Credential:
    certificate = builder.sign(signer, hashes.SHA256())
    return Credential(
        certificate_pem=certificate.public_bytes(serialization.Encoding.PEM),
        key_pem=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _name(common_name: str) -> x509.Name:
    # X.520 allows 64 characters; the DNS name of a service may be longer and is in the SANs.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _parse_all(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CertificateError(
            "this is no certificate in PEM form",
            hint="give the text between BEGIN CERTIFICATE and END CERTIFICATE, both included",
        ) from error


def _parse_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError(
            "this is no private key in PEM form", hint="give the key unencrypted, in PKCS #8 PEM"
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(
            "the CA's key is not an elliptic-curve key", hint="let hamid make a CA of its own"
        )
    return key
