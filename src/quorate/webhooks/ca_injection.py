"""Telling the API server whom to trust: the bundle in everything that sends it to our Service.

Whoever installed the configurations, Kueue's or ours, they are recognised by that Service; those that name
a URL or another Service are somebody else's business.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from quorate.api.kueue import GROUP
from quorate.api.kueue.conversion import CONVERTED_KINDS
from quorate.api.meta import Key
from quorate.kube.client import Client, PatchKind
from quorate.kube.errors import ApiError, Conflict, Forbidden, NotFound
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
INSTALLERS: Final = ("kueue", "quorate")  # what the names of configurations begin with


def _trusting() -> Iterator[tuple[Resource[Json], str]]:
    for installer in INSTALLERS:
        yield MUTATING, f"{installer}-mutating-webhook-configuration"
        yield VALIDATING, f"{installer}-validating-webhook-configuration"
    for kind in CONVERTED_KINDS:
        yield DEFINITIONS, f"{kind.lower()}s.{GROUP}"


class CaInjector:
    def __init__(self, client: Client, service: Key) -> None:
        self._client = client
        self._service = service
        self._said: dict[str, str] = {}  # by object, what was last said to stand in the way

    async def inject(self, bundle: bytes) -> None:
        """Have every configuration that leads to our Service trust ``bundle``.

        What cannot be changed is logged and left: the rest is of use without it.
        """
        encoded = base64.b64encode(bundle).decode()
        for resource, name in _trusting():
            problem = ""
            try:
                await self._tell(resource, name, encoded)
            except Conflict:
                continue  # somebody is at work on it; we come by again
            except (Forbidden, ApiError) as error:
                problem = str(error)
            if problem and self._said.get(name) != problem:
                logger(__name__).warning("cannot be told whom to trust", name=name, problem=problem)
            self._said[name] = problem

    async def _tell(self, resource: Resource[Json], name: str, bundle: str) -> None:
        try:
            found = await self._client.get(resource, Key("", name))
        except NotFound:
            return  # not installed
        changes = [
            {"op": "add", "path": f"{path}/caBundle", "value": bundle}
            for path, config in _client_configs(found)
            if self._is_ours(config) and config.get("caBundle") != bundle
        ]
        if changes:
            version = found["metadata"]["resourceVersion"]
            unchanged = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
            await self._client.patch(resource, Key("", name), [unchanged, *changes], kind=PatchKind.JSON)
            logger(__name__).info("told whom to trust", name=name, places=len(changes))

    def _is_ours(self, config: Mapping[str, Any]) -> bool:
        service = config.get("service") or {}
        return Key(service.get("namespace", ""), service.get("name", "")) == self._service


def _client_configs(found: Json) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each place where an object says how to reach a webhook, as a JSON pointer, and what it says."""
    for at, webhook in enumerate(found.get("webhooks") or ()):
        yield f"/webhooks/{at}/clientConfig", webhook.get("clientConfig") or {}
    conversion = (found.get("spec") or {}).get("conversion") or {}
    if conversion.get("strategy") == "Webhook":
        config = (conversion.get("webhook") or {}).get("clientConfig") or {}
        yield "/spec/conversion/webhook/clientConfig", config
