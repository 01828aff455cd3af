"""Certificates of a one-machine cluster: an authority, and a server certificate.

Only the cluster's kubeconfig trusts the authority.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quorate.kube.serving import certificates
from quorate.kube.serving.tls import KeyPair

RENEW_BEFORE: Final = timedelta(days=30)
SERVER_NAMES: Final = (
    *("localhost", "127.0.0.1", "::1"),
    *("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"),
    "10.96.0.1",  # of the service kubernetes
)


def new_authority(now: float) -> KeyPair:
    return certificates.new_authority("quorate-local-ca", now)


def new_server_certificate(authority: KeyPair, now: float, *names: str) -> KeyPair:
    """Issue a certificate for an API server, with additional DNS names."""
    return certificates.new_server_certificate(authority, "quorate-local", (*SERVER_NAMES, *names), now)


def names_server(authority: KeyPair, server: KeyPair) -> bool:
    """Return False for the certificate of an earlier version, which lacks a name of the API server."""
    return certificates.is_valid_for(authority.certificate, server, SERVER_NAMES)


def new_signing_key() -> bytes:
    """Return a new private key for signing tokens, PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def check_certificate(pem: bytes) -> None:
    """Raise ValueError for text that is not a certificate."""
    x509.load_pem_x509_certificate(pem)


def check_key(pem: bytes) -> None:
    """Raise ValueError for text that is not a private key on an elliptic curve."""
    if not isinstance(serialization.load_pem_private_key(pem, None), ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not on an elliptic curve")


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """The keys with which an API server signs."""

    tokens: bytes  # a private key for service account tokens, PEM
    front_proxy: KeyPair  # authority of the API server's client certificate for aggregated APIs


def new_server_keys(now: float) -> ServerKeys:
    return ServerKeys(new_signing_key(), new_authority(now))


def expires_soon(certificate: bytes, now: float) -> bool:
    """Return True if the PEM ``certificate`` expires within ``RENEW_BEFORE``, or has expired."""
    return certificates.expires_within(certificate, RENEW_BEFORE, now)
