"""Injection of the CA bundle into every configuration that names our Service as a webhook.

A configuration is recognized by that Service, whether Kueue or Quorate installed it.  Webhooks with a URL or
another Service are not changed.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from quorate.api.kueue import GROUP
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.api.meta import Key
from quorate.kube.client import Client, PatchKind
from quorate.kube.errors import ApiError, Conflict, Forbidden
from quorate.kube.log import logger
from quorate.kube.resources import Json, Resource, untyped

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


def _configurations() -> Iterator[tuple[Resource[Json], str]]:
    for installer in INSTALLERS:
        yield MUTATING, f"{installer}-mutating-webhook-configuration"
        yield VALIDATING, f"{installer}-validating-webhook-configuration"
    for kind in CONVERTED_KINDS:
        yield DEFINITIONS, f"{kind.lower()}s.{GROUP}"


class CaInjector:
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
