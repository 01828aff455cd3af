"""The certificates of a one-machine cluster: its own authority and one server certificate for loopback.

Nothing outside the data directory trusts the authority; the kubeconfig carries it.  Keys are P-256: small,
fast to make, and understood by every client.
"""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from quorate.api.meta import at_epoch

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
SERVER_LIFETIME: Final = timedelta(days=365)
RENEW_BEFORE: Final = timedelta(days=30)
# A client's clock may be a little behind ours.
_BACKDATED: Final = timedelta(hours=1)

_LOOPBACK: Final = (
    x509.DNSName("localhost"),
    x509.DNSName("kubernetes.default.svc"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


def new_authority(now: float) -> KeyPair:
    """An authority that may sign server certificates and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "quorate-local-ca")])
    builder = _builder(name, name, key.public_key(), at_epoch(now), AUTHORITY_LIFETIME)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def new_server_certificate(authority: KeyPair, now: float, *names: str) -> KeyPair:
    """A certificate of ``authority`` for a server on loopback, also under further DNS names."""
    signer = x509.load_pem_x509_certificate(authority.certificate)
    signing_key = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey), "the authority's key is one of ours"
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "quorate-local")])
    builder = _builder(name, signer.subject, key.public_key(), at_epoch(now), SERVER_LIFETIME)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*_LOOPBACK, *map(x509.DNSName, names)]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False
        )
        .sign(signing_key, hashes.SHA256())
    )
    return _pair(certificate, key)


def new_signing_key() -> bytes:
    """A private key for tokens, PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def expires_soon(certificate: bytes, now: float) -> bool:
    """Whether the PEM ``certificate`` ends within ``RENEW_BEFORE``, or has ended."""
    ends = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
    return ends - RENEW_BEFORE <= at_epoch(now)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    starts: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts - _BACKDATED)
        .not_valid_after(starts + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
