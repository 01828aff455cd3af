"""TLS contexts of our servers; the certificate can be replaced while a server runs."""

import os
import ssl
import tempfile
from dataclasses import dataclass
from typing import Final

from quorate.api.configuration.webhooks import TlsOptions

_VERSIONS: Final = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class UnusableCertificate(ValueError):
    """PEM that is not a certificate or key, or a key of an unsupported type."""


def server_context(rules: TlsOptions) -> ssl.SSLContext:
    """Return a context without a certificate that requests no client certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[rules.minimum_version]
    if rules.ciphers:
        context.set_ciphers(":".join(rules.ciphers))
    if rules.curve:
        context.set_ecdh_curve(rules.curve)
    return context


def load_certificate(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Use ``pair`` for new handshakes; existing connections continue.  Raises ``UnusableCertificate``."""
    content = pair.certificate.rstrip() + b"\n" + pair.key
    # The ssl module loads files only; a file in memory leaves no key on a disk.
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("tls"), "wb") as file:
            _load(context, file.fileno(), content)
    else:
        with tempfile.NamedTemporaryFile() as named:
            _load(context, named.fileno(), content, named.name)


def _load(context: ssl.SSLContext, descriptor: int, content: bytes, name: str = "") -> None:
    os.write(descriptor, content)
    try:
        context.load_cert_chain(name or f"/proc/self/fd/{descriptor}")
    except ssl.SSLError as error:
        raise UnusableCertificate(f"certificate and key do not match: {error}") from error
