"""The serving certificate of the webhook server, from a shared Secret or from files.

In the Secret the certificates are renewed automatically.  Its keys have the names that Kueue writes, so
Quorate and Kueue can each continue with the Secret of the other.  ``ca.crt`` is what clients trust: the
current CA certificate, and the previous one as long as a replica may still serve a certificate that it
signed.  ``CaInjector`` writes it into the configurations of webhooks.
"""

import base64
import binascii
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Protocol

from quorate.api.configuration import Configuration
from quorate.api.kueue import GROUP
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.api.meta import Key
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from quorate.kube.log import logger
from quorate.kube.resources import Json, Resource, untyped
from quorate.kube.serving.certificates import (
    expires_within,
    is_valid_for,
    new_authority,
    new_server_certificate,
)
from quorate.kube.serving.tls import KeyPair, UnusableCertificate

SECRETS: Final = untyped("", "v1", "secrets", "Secret", True)
LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
RENEW_CA: Final = timedelta(days=365)  # a server certificate must not outlive the CA that signed it
RENEW_SERVER: Final = timedelta(days=30)
_CA_NAME: Final = "quorate-webhook-ca"
_SERVER_NAME: Final = "quorate-webhook"
_END: Final = b"-----END CERTIFICATE-----"

_ADMISSION: Final = "admissionregistration.k8s.io"
MUTATING: Final = untyped(
    _ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False
)
VALIDATING: Final = untyped(
    _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
DEFINITIONS: Final = untyped(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
INSTALLERS: Final = ("kueue", "quorate")  # prefixes of the names of webhook configurations


@dataclass(frozen=True, slots=True)
class Certificates:
    """``bundle`` starts with the certificate that belongs to ``ca_key``."""

    bundle: bytes
    ca_key: bytes
    server: KeyPair

    def as_secret(self) -> dict[str, bytes]:
        return {
            "ca.crt": self.bundle,
            "ca.key": self.ca_key,
            "tls.crt": self.server.certificate,
            "tls.key": self.server.key,
        }


def renew(stored: Mapping[str, bytes], hosts: Sequence[str], now: float) -> Certificates:
    """Return the desired content of the Secret; keep what is valid in ``stored``."""
    try:
        ca = KeyPair(stored["ca.crt"], stored["ca.key"])
        if not expires_within(ca.certificate, RENEW_CA, now):
            return _signed_by(ca, stored, hosts, now)
        previous = _first_certificate(stored["ca.crt"])
    except (KeyError, UnusableCertificate):
        previous = b""
    ca = new_authority(_CA_NAME, now)
    server = new_server_certificate(ca, _SERVER_NAME, hosts, now)
    return Certificates(ca.certificate + previous, ca.key, server)


def _signed_by(ca: KeyPair, stored: Mapping[str, bytes], hosts: Sequence[str], now: float) -> Certificates:
    with suppress(KeyError, UnusableCertificate):  # replaced as if it were missing
        server = KeyPair(stored["tls.crt"], stored["tls.key"])
        if is_valid_for(ca.certificate, server, hosts) and not expires_within(
            server.certificate, RENEW_SERVER, now
        ):
            return Certificates(ca.certificate, ca.key, server)
    server = new_server_certificate(ca, _SERVER_NAME, hosts, now)
    return Certificates(ca.certificate, ca.key, server)


def _first_certificate(bundle: bytes) -> bytes:
    """Return the first certificate of a bundle: of several CAs only the latest stays trusted."""
    certificate, end, _ = bundle.partition(_END)
    return certificate + end + b"\n"


class NoCertificate(Exception):
    """There is no certificate to serve; the text says how to provide one."""


class CertificateSource(Protocol):
    async def current(self) -> KeyPair:
        """Return the pair to serve now.  Raises ``NoCertificate``, and the errors of API requests."""
        ...


class ClientAuthority:
    """The CA of client certificates, by which the API server proves its identity; it is read again."""

    def __init__(self, path: Path, context: ssl.SSLContext) -> None:
        self._path = path
        self._context = context
        self._loaded = b""

    def load(self) -> None:
        """Verify client certificates with the content of the file.  Raises ``NoCertificate``.

        A replaced authority stays trusted until the process ends: it cannot be unloaded.
        """
        try:
            content = self._path.read_bytes()
            if content == self._loaded:
                return
            self._context.load_verify_locations(cadata=content.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError) as error:
            problem = f"{error} (write CA certificates in PEM)"
            raise NoCertificate(f"webhook.clientCAFile: {self._path}: {problem}") from error
        except OSError as error:
            raise NoCertificate(
                f"webhook.clientCAFile: {self._path}: {(error.strerror or '').lower()}"
            ) from error
        self._loaded = content
        self._context.verify_mode = ssl.CERT_OPTIONAL  # conversions come without a certificate


class CertificateFiles:
    """``tls.crt`` and ``tls.key`` in a directory that cert-manager or the like fills."""

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
    """A Secret that any replica may fill or renew; of two concurrent writes the first wins."""

    def __init__(self, client: Client, clock: Clock, configuration: Configuration) -> None:
        rules = configuration.certificates
        self._client = client
        self._clock = clock
        self._key = Key(configuration.namespace, rules.secret)
        self._hosts = service_hosts(rules.service, configuration.namespace)
        self._ca_injector = CaInjector(client, Key(configuration.namespace, rules.service))

    async def current(self) -> KeyPair:
        """Return the pair, after its CA bundle has been written into all webhook configurations."""
        certificates = await self._read_and_renew()
        await self._ca_injector.inject(certificates.bundle)
        return certificates.server

    async def _read_and_renew(self) -> Certificates:
        while True:
            try:
                return await self._renew()
            except (Conflict, AlreadyExists):
                logger(__name__).debug("another replica was faster", secret=self._key)

    async def _renew(self) -> Certificates:
        secret = await self._client.find(SECRETS, self._key)
        if secret is None:
            return await self._create()
        stored = _decoded(secret)
        certificates = renew(stored, self._hosts, self._clock.now())
        if certificates.as_secret() != stored:
            metadata = {"resourceVersion": secret["metadata"]["resourceVersion"]}
            await self._client.patch(
                SECRETS, self._key, {"metadata": metadata, "data": _encoded(certificates)}
            )
            logger(__name__).info("certificates renewed", secret=self._key)
        return certificates

    async def _create(self) -> Certificates:
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
        logger(__name__).info("certificates created", secret=self._key)
        return certificates


def service_hosts(service: str, namespace: str) -> Sequence[str]:
    """Return the host names of the webhook server: of its Service, and of loopback."""
    return (f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", *LOOPBACK)


def _decoded(secret: Json) -> dict[str, bytes]:
    """Return the Secret's data; a value that is not base64 is empty."""
    content: dict[str, bytes] = {}
    for name, value in (secret.get("data") or {}).items():
        try:
            content[name] = base64.b64decode(value, validate=True)
        except binascii.Error:
            content[name] = b""
    return content


def _encoded(certificates: Certificates) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in certificates.as_secret().items()}


def _configurations() -> Iterator[tuple[Resource[Json], str]]:
    for installer in INSTALLERS:
        yield MUTATING, f"{installer}-mutating-webhook-configuration"
        yield VALIDATING, f"{installer}-validating-webhook-configuration"
    for kind in CONVERTED_KINDS:
        yield DEFINITIONS, f"{kind.lower()}s.{GROUP}"


class CaInjector:
    """Injection of the CA bundle into every configuration that names our Service as a webhook.

    A configuration is recognized by that Service, whether Kueue or Quorate installed it.  Webhooks with a URL
    or another Service are not changed.
    """

    def __init__(self, client: Client, service: Key) -> None:
        self._client = client
        self._service = service
        self._problems: dict[str, str] = {}  # by configuration: the last problem that was logged

    async def inject(self, bundle: bytes) -> None:
        """Set ``bundle`` in every webhook configuration that names our Service.

        A configuration that cannot be changed is logged and skipped.
        """
        encoded = base64.b64encode(bundle).decode()
        for resource, name in _configurations():
            problem = ""
            try:
                await self._inject(resource, name, encoded)
            except Conflict:
                continue  # it is being changed; the next call retries
            except (Forbidden, ApiError) as error:
                problem = str(error)
            if problem and self._problems.get(name) != problem:
                logger(__name__).warning("CA bundle not injected", name=name, error=problem)
            self._problems[name] = problem

    async def _inject(self, resource: Resource[Json], name: str, bundle: str) -> None:
        stored = await self._client.find(resource, Key("", name))
        if stored is None:
            return  # not installed
        changes = [
            {"op": "add", "path": f"{path}/caBundle", "value": bundle}
            for path, config in _client_configs(stored)
            if self._is_ours(config) and config.get("caBundle") != bundle
        ]
        if changes:
            version = stored["metadata"]["resourceVersion"]
            unchanged = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
            await self._client.patch(resource, Key("", name), [unchanged, *changes], kind=PatchKind.JSON)
            logger(__name__).info("CA bundle injected", name=name, webhooks=len(changes))

    def _is_ours(self, config: Mapping[str, Any]) -> bool:
        service = config.get("service") or {}
        return Key(service.get("namespace", ""), service.get("name", "")) == self._service


def _client_configs(stored: Json) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each clientConfig of a configuration or a CRD, with its path as a JSON pointer."""
    for at, webhook in enumerate(stored.get("webhooks") or ()):
        yield f"/webhooks/{at}/clientConfig", webhook.get("clientConfig") or {}
    conversion = (stored.get("spec") or {}).get("conversion") or {}
    if conversion.get("strategy") == "Webhook":
        config = (conversion.get("webhook") or {}).get("clientConfig") or {}
        yield "/spec/conversion/webhook/clientConfig", config
