"""Create objects of kinds that are known by name only, as ``kubectl create`` does.

Discovery tells which kinds the server serves; after a definition is created, wait until it is served.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final

from quorate.api import codec
from quorate.api.findings import Finding
from quorate.api.meta import Condition, Key, Struct, is_true
from quorate.inspect.configuration_files import InvalidFiles, compiler_lines
from quorate.kube.client import Client
from quorate.kube.discovery import ServedResource, served_resources
from quorate.kube.errors import ApiError
from quorate.kube.resources import Json, Resource, untyped
from quorate.processes.local.manifests import Manifest, document_finding

DEFINITION_KIND: Final = "CustomResourceDefinition"
DEFINITIONS: Final = untyped(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", DEFINITION_KIND, False
)
PROVIDED: Final = "local.quorate.dev/provided"  # annotation: the digest of what was applied
_KUBECTL: Final = "kubectl"  # the field manager of kubectl apply --server-side
_SERVED_WITHIN_S: Final = 60.0


class _Names(Struct):
    plural: str


class _Version(Struct):
    name: str
    served: bool = False


class _Spec(Struct):
    group: str
    names: _Names
    versions: tuple[_Version, ...]


class _Definition(Struct):
    class Status(Struct):
        conditions: tuple[Condition, ...] = ()

    spec: _Spec
    status: Status = Status()


class DefinitionNotServed(Exception):
    """The server stored a definition and does not serve it."""

    def __init__(self, name: str, within_s: float) -> None:
        super().__init__(name, within_s)
        self.name, self.within_s = name, within_s

    def __str__(self) -> str:
        return f"{DEFINITION_KIND} {self.name}: not served within {self.within_s:g} s"


async def install_definitions(client: Client, definitions: Iterable[dict[str, Any]]) -> None:
    """Provide the definitions and wait until the server serves their kinds.

    A definition that Kueue, Volcano or an administrator installed stays as it is.
    """
    definitions = tuple(definitions)
    await provide(client, DEFINITIONS, definitions)
    for definition in definitions:
        await _wait_until_served(client, Key("", definition["metadata"]["name"]))


async def provide(client: Client, resource: Resource[Json], objects: Iterable[Json]) -> None:
    """Apply cluster-scoped objects that an administrator may replace with ``kubectl apply --server-side``.

    They are applied as the field manager of that command, which then has no conflict, and removes the
    annotation of provided objects.  An object without it stays as it is, and so does one with the digest of
    what would be applied.
    """
    present = {obj["metadata"]["name"]: obj for obj in (await client.list(resource)).items}

    async def apply(metadata: Json, content: Json) -> None:
        digest = hashlib.sha256(codec.encode(content)).hexdigest()
        before = present.get(metadata["name"])
        if before is None or before["metadata"].get("annotations", {}).get(PROVIDED, digest) != digest:
            annotations = {**metadata.get("annotations", {}), PROVIDED: digest}
            provided = {**content, "metadata": {**metadata, "annotations": annotations}}
            await client.apply(resource, Key("", metadata["name"]), provided, field_manager=_KUBECTL)

    await asyncio.gather(*(apply(obj["metadata"], obj) for obj in objects))


async def withdraw_others(client: Client, resource: Resource[Json], objects: Iterable[Json]) -> None:
    """Delete the provided objects of a kind that are not in ``objects``."""
    kept = {obj["metadata"]["name"] for obj in objects}
    for obj in (await client.list(resource)).items:
        name = obj["metadata"]["name"]
        if name not in kept and PROVIDED in obj["metadata"].get("annotations", {}):
            await client.delete(resource, Key("", name))


async def create_manifests(client: Client, manifests: Sequence[Manifest]) -> None:
    """Create the objects in the order given.

    Refusals do not stop what follows; at the end ``InvalidFiles`` is raised with all of them.
    """

    async def create(resource: Resource[Json], manifest: Manifest) -> Json:
        namespace = manifest.effective_namespace if resource.namespaced else ""
        return await client.create(resource, manifest.body, namespace)

    await _send(client, manifests, create)


async def apply_manifests(client: Client, manifests: Sequence[Manifest], namespace: str) -> tuple[Json, ...]:
    """Apply the objects in the order given and return them as stored; create those with a generated name.

    ``namespace``: of namespaced objects that name none.  Refusals as in ``create_manifests``.
    """

    async def apply(resource: Resource[Json], manifest: Manifest) -> Json:
        key = Key((manifest.namespace or namespace) if resource.namespaced else "", manifest.name)
        if not key.name:
            return await client.create(resource, manifest.body, key.namespace)
        return await client.apply(resource, key, manifest.body)

    return await _send(client, manifests, apply)


async def _send(
    client: Client, manifests: Sequence[Manifest], send: Callable[[Resource[Json], Manifest], Awaitable[Json]]
) -> tuple[Json, ...]:
    served: dict[str, tuple[ServedResource, ...]] = {}
    refusals: list[str] = []
    stored: list[Json] = []
    for manifest in manifests:
        if manifest.api_version not in served:
            served[manifest.api_version] = await _served(client, manifest.api_version)
        match _resource(manifest, served[manifest.api_version]):
            case Finding() as finding:
                refusals += compiler_lines(manifest.file, [finding])
            case resource:
                try:
                    stored.append(await send(resource, manifest))
                except ApiError as error:
                    refusals.append(f"{manifest}: {error.message}")
        if manifest.kind == DEFINITION_KIND and not refusals:
            await _wait_until_served(client, Key("", manifest.name))
    if refusals:
        raise InvalidFiles(refusals)
    return tuple(stored)


async def _served(client: Client, api_version: str) -> tuple[ServedResource, ...]:
    """Return the kinds of a group version without subresources; none if it is not served."""
    return tuple(kind for kind in await served_resources(client, api_version) if "/" not in kind.name)


def _resource(manifest: Manifest, served: Sequence[ServedResource]) -> Resource[dict[str, Any]] | Finding:
    group, _, version = manifest.api_version.rpartition("/")
    for kind in served:
        if kind.kind == manifest.kind:
            return untyped(group, version, kind.name, kind.kind, kind.namespaced)
    if not served:
        rule = "is not served by this cluster (check group and version)"
        return document_finding(manifest.document, "apiVersion", manifest.api_version, rule)
    kinds = sorted(kind.kind for kind in served)
    near = get_close_matches(manifest.kind, kinds, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(kinds)}"
    rule = f"is no kind of {manifest.api_version} ({hint})"
    return document_finding(manifest.document, "kind", manifest.kind, rule)


async def _wait_until_served(client: Client, key: Key) -> None:
    """Return once discovery lists the kind, which happens a while after it is established."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + _SERVED_WITHIN_S
    while clock() < deadline:
        definition = await client.request_as(_Definition, "GET", DEFINITIONS.path(name=key.name))
        if is_true(definition.status.conditions, "Established") and await _is_listed(client, definition.spec):
            return
        await asyncio.sleep(0.05)
    raise DefinitionNotServed(key.name, _SERVED_WITHIN_S)


async def _is_listed(client: Client, spec: _Spec) -> bool:
    """Return True if discovery lists the kind in each version that is served."""
    for version in spec.versions:
        if version.served:
            listed = await _served(client, f"{spec.group}/{version.name}")
            if spec.names.plural not in {kind.name for kind in listed}:
                return False
    return True
