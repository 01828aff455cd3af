"""The certificates of a one-machine cluster: its own authority and one server certificate for loopback.

Nothing outside the data directory trusts the authority; the kubeconfig carries it.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from quorate.kube.serving import certificates
from quorate.kube.serving.certificates import KeyPair

RENEW_BEFORE: Final = timedelta(days=30)
_LOOPBACK: Final = ("localhost", "kubernetes.default.svc", "127.0.0.1", "::1")


def new_authority(now: float) -> KeyPair:
    return certificates.new_authority("quorate-local-ca", now)


def new_server_certificate(authority: KeyPair, now: float, *names: str) -> KeyPair:
    """A certificate of ``authority`` for a server on loopback, also under further DNS names."""
    return certificates.new_server_certificate(authority, "quorate-local", (*_LOOPBACK, *names), now)


def new_signing_key() -> bytes:
    """A private key for tokens, PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@dataclass(frozen=True, slots=True)
class ServerKeys:
    """What an API server signs with."""

    tokens: bytes  # a private key, PEM
    front_proxy: KeyPair  # the authority for the certificate with which it speaks for its users


def new_server_keys(now: float) -> ServerKeys:
    return ServerKeys(new_signing_key(), new_authority(now))


def expires_soon(certificate: bytes, now: float) -> bool:
    """Whether the PEM ``certificate`` ends within ``RENEW_BEFORE``, or has ended."""
    return certificates.expires_within(certificate, RENEW_BEFORE, now)
