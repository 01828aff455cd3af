"""Self-managed certificates: a certificate authority, and server and client certificates that it signs.

Keys are P-256: small, fast to generate, and supported by every client.
"""

import ipaddress
import warnings
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from quorate.api.meta import at_epoch
from quorate.kube.serving.tls import KeyPair, UnusableCertificate

AUTHORITY_LIFETIME: Final = timedelta(days=3650)
LEAF_LIFETIME: Final = timedelta(days=365)
# A client's clock may be a little behind ours.
_BACKDATED: Final = timedelta(hours=1)


def new_authority(name: str, now: float) -> KeyPair:
    """Return a CA that may sign leaf certificates only."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _common_name(name)
    builder = _builder(subject, subject, key.public_key(), at_epoch(now), AUTHORITY_LIFETIME)
    certificate = (
        builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def new_server_certificate(authority: KeyPair, name: str, hosts: Iterable[str], now: float) -> KeyPair:
    """Return a certificate signed by ``authority`` for a server with ``hosts``, names or IP addresses.

    Raises ``UnusableCertificate``.
    """
    names = x509.SubjectAlternativeName([_host(host) for host in hosts])
    return _leaf(authority, name, ExtendedKeyUsageOID.SERVER_AUTH, names, now)


def new_client_certificate(authority: KeyPair, name: str, now: float) -> KeyPair:
    """Return a certificate signed by ``authority`` for client ``name``.  Raises ``UnusableCertificate``."""
    return _leaf(authority, name, ExtendedKeyUsageOID.CLIENT_AUTH, None, now)


def _leaf(
    authority: KeyPair,
    name: str,
    purpose: x509.ObjectIdentifier,
    names: x509.SubjectAlternativeName | None,
    now: float,
) -> KeyPair:
    signer, signing_key = _certificate(authority.certificate), _key(authority.key)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_common_name(name), signer.subject, key.public_key(), at_epoch(now), LEAF_LIFETIME)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False
        )
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return _pair(builder.sign(signing_key, hashes.SHA256()), key)


def expires_within(certificate: bytes, margin: timedelta, now: float) -> bool:
    """Return True if the certificate expires within ``margin``.  Raises ``UnusableCertificate``."""
    return _certificate(certificate).not_valid_after_utc - margin <= at_epoch(now)


def is_valid_for(authority: bytes, server: KeyPair, hosts: Iterable[str]) -> bool:
    """Return True if clients that trust ``authority`` accept ``server`` under each of ``hosts``.

    Expiry is not checked.  Raises ``UnusableCertificate``.
    """
    certificate, key = _certificate(server.certificate), _key(server.key)
    try:
        certificate.verify_directly_issued_by(_certificate(authority))
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (InvalidSignature, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    return certificate.public_key() == key.public_key() and set(map(_host, hosts)) <= set(extension.value)


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        with warnings.catch_warnings():  # of a serial number of zero, as Kueue's own authority has
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise UnusableCertificate(f"not a PEM certificate: {error}") from error


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise UnusableCertificate(f"not a PEM private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise UnusableCertificate("a private key that is neither ECDSA nor RSA")
    return key


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


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
