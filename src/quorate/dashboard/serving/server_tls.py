"""The TLS context of the server: from files, which are read again when they change, or self-signed."""

import asyncio
import ssl
from pathlib import Path
from typing import Final

from quorate.api.configuration.webhooks import TlsOptions
from quorate.dashboard.limits import RELOAD_S
from quorate.kube.clock import Clock
from quorate.kube.log import logger
from quorate.kube.serving.certificates import new_authority, new_server_certificate
from quorate.kube.serving.tls import KeyPair, UnusableCertificate, load_certificate, server_context

_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class CertificateFiles:
    """A certificate and its key in PEM, as a Secret of type kubernetes.io/tls mounts them."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises ``UnusableCertificate`` or ``OSError``."""
        self._certificate, self._key = certificate, key
        self._loaded = self._read()
        self.context = server_context(TlsOptions())
        load_certificate(self.context, self._loaded)

    async def follow(self, clock: Clock) -> None:
        """Load the files again whenever they have changed, until cancelled."""
        while True:
            await clock.steady.sleep_until(clock.steady.now() + RELOAD_S)
            try:
                pair = await asyncio.to_thread(self._read)
                if pair != self._loaded:
                    load_certificate(self.context, pair)
                    self._loaded = pair
                    logger(__name__).info("certificate loaded", file=self._certificate)
            except (OSError, UnusableCertificate) as error:  # files in the middle of a change
                logger(__name__).warning("certificate not loaded", file=self._certificate, problem=str(error))

    def _read(self) -> KeyPair:
        return KeyPair(self._certificate.read_bytes(), self._key.read_bytes())


def self_signed_context(now: float) -> ssl.SSLContext:
    """Return a context with a certificate that clients cannot verify."""
    context = server_context(TlsOptions())
    load_certificate(context, new_server_certificate(new_authority("quorate", now), "quorate", _HOSTS, now))
    return context
