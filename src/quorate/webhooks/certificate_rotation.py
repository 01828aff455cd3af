"""Certificates that renew themselves: what the Secret shared by all replicas must hold.

The keys are those that Kueue writes, so that either takes up what the other left.  ``ca.crt`` is what
clients are to trust: the authority that signs now, and the one before it while a replica may still show a
certificate of that one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from quorate.kube.serving.certificates import (
    KeyPair,
    UnusableCertificate,
    expires_within,
    is_valid_for,
    new_authority,
    new_server_certificate,
)

RENEW_AUTHORITY: Final = timedelta(days=365)  # a server certificate must not outlive who signed it
RENEW_SERVER: Final = timedelta(days=30)
_AUTHORITY_NAME: Final = "quorate-webhook-ca"
_SERVER_NAME: Final = "quorate-webhook"
_END: Final = b"-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Certificates:
    """``bundle`` begins with the certificate of the authority whose key is ``authority_key``."""

    bundle: bytes
    authority_key: bytes
    server: KeyPair

    def as_secret(self) -> dict[str, bytes]:
        return {
            "ca.crt": self.bundle,
            "ca.key": self.authority_key,
            "tls.crt": self.server.certificate,
            "tls.key": self.server.key,
        }


def renew(stored: Mapping[str, bytes], hosts: Sequence[str], now: float) -> Certificates:
    """What the Secret must hold by ``now``: what is ``stored`` as far as it is good, the rest made new."""
    try:
        authority = KeyPair(stored["ca.crt"], stored["ca.key"])
        if not expires_within(authority.certificate, RENEW_AUTHORITY, now):
            return _of_authority(stored, authority, hosts, now)
        previous = _first(stored["ca.crt"])
    except (KeyError, UnusableCertificate):
        previous = b""
    made = new_authority(_AUTHORITY_NAME, now)
    server = new_server_certificate(made, _SERVER_NAME, hosts, now)
    return Certificates(made.certificate + previous, made.key, server)


def _of_authority(
    stored: Mapping[str, bytes], authority: KeyPair, hosts: Sequence[str], now: float
) -> Certificates:
    try:
        server = KeyPair(stored["tls.crt"], stored["tls.key"])
        if is_valid_for(authority.certificate, server, hosts) and not expires_within(
            server.certificate, RENEW_SERVER, now
        ):
            return Certificates(authority.certificate, authority.key, server)
    except (KeyError, UnusableCertificate):
        pass  # it is as good as none
    server = new_server_certificate(authority, _SERVER_NAME, hosts, now)
    return Certificates(authority.certificate, authority.key, server)


def _first(bundle: bytes) -> bytes:
    """The certificate a bundle begins with: of several authorities only the last one is kept on."""
    certificate, end, _ = bundle.partition(_END)
    return certificate + end + b"\n"
