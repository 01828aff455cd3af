"""Where the certificate comes from: a Secret that the replicas share, or files of somebody else."""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists, Conflict, NotFound
from quorate.kube.log import logger
from quorate.kube.resources import Json, untyped
from quorate.kube.serving.certificates import KeyPair
from quorate.webhooks.ca_injection import CaInjector
from quorate.webhooks.certificate_rotation import Certificates, renew

SECRETS: Final = untyped("", "v1", "secrets", "Secret", True)
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


class NoCertificate(Exception):
    """There is nothing to show to clients; the text says what would help."""


class CertificateSource(Protocol):
    async def current(self) -> KeyPair:
        """The pair to show now.  Raises ``NoCertificate``, and what requests to the API server raise."""
        ...


class CertificateFiles:
    """``tls.crt`` and ``tls.key`` in a directory that somebody else fills, as cert-manager does."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def current(self) -> KeyPair:
        try:
            return KeyPair(*((self._directory / name).read_bytes() for name in ("tls.crt", "tls.key")))
        except OSError as error:
            raise NoCertificate(
                f"{error.filename}: {(error.strerror or '').lower()} (put tls.crt and tls.key into "
                "webhook.certDir, or set internalCertManagement.enable)"
            ) from error


class CertificateSecret:
    """A Secret that any replica may fill or renew; of two at once the one that is first wins."""

    def __init__(self, client: Client, clock: Clock, configuration: Configuration) -> None:
        rules = configuration.certificates
        self._client = client
        self._clock = clock
        self._key = Key(configuration.namespace, rules.secret)
        self._hosts = service_hosts(rules.service, configuration.namespace)
        self._ca_injector = CaInjector(client, Key(configuration.namespace, rules.service))

    async def current(self) -> KeyPair:
        """The pair; and everybody who is to trust it has been told when this returns."""
        certificates = await self._stored()
        await self._ca_injector.inject(certificates.bundle)
        return certificates.server

    async def _stored(self) -> Certificates:
        while True:
            try:
                return await self._renew()
            except (Conflict, AlreadyExists):
                logger(__name__).debug("another replica was faster", secret=self._key)

    async def _renew(self) -> Certificates:
        try:
            secret = await self._client.get(SECRETS, self._key)
        except NotFound:
            return await self._created()
        stored = _data(secret)
        certificates = renew(stored, self._hosts, self._clock.now())
        if certificates.as_secret() != stored:
            metadata = {"resourceVersion": secret["metadata"]["resourceVersion"]}
            await self._client.patch(
                SECRETS, self._key, {"metadata": metadata, "data": _encoded(certificates)}
            )
            logger(__name__).info("certificates renewed", secret=self._key)
        return certificates

    async def _created(self) -> Certificates:
        certificates = renew({}, self._hosts, self._clock.now())
        metadata = {"name": self._key.name, "namespace": self._key.namespace}
        try:
            await self._client.create(
                SECRETS, {"metadata": metadata, "type": "Opaque", "data": _encoded(certificates)}
            )
        except NotFound as error:
            raise NoCertificate(
                f"namespace {self._key.namespace} does not exist, so certificates cannot be kept in its "
                f"Secret {self._key.name} (create it, or set internalCertManagement.enable to false)"
            ) from error
        logger(__name__).info("certificates made", secret=self._key)
        return certificates


def service_hosts(service: str, namespace: str) -> Sequence[str]:
    """By what names a webhook server is called: that of its Service, and on the same machine."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", *LOOPBACK)


def _data(secret: Json) -> dict[str, bytes]:
    """The Secret's content; a value that is no base64 is as good as none."""
    content: dict[str, bytes] = {}
    for name, value in (secret.get("data") or {}).items():
        try:
            content[name] = base64.b64decode(value, validate=True)
        except binascii.Error:
            content[name] = b""
    return content


def _encoded(certificates: Certificates) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in certificates.as_secret().items()}
