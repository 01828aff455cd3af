"""Custom resources: what each stored CustomResourceDefinition makes the server serve.

The registry follows the definitions in the store, so a restart serves what was defined before.  A definition
is served before its Established condition says so; once it is gone, its kinds and all objects of them go too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from quorate.local.objects import decoding
from quorate.local.objects.crd import definition as definitions
from quorate.local.objects.crd.defaulting import apply_defaults, prune
from quorate.local.objects.crd.definition import Definition, Version
from quorate.local.objects.crd.validation import validate
from quorate.local.objects.schema_types import MapOf, Untyped, object_meta_type
from quorate.local.objects.tables.layout import custom_layout
from quorate.local.server.errors import Cause, bad_request
from quorate.local.server.registry.kinds import (
    SCALE,
    STATUS,
    Conversion,
    Decoded,
    Kind,
    Registry,
    Rules,
    unchanged,
)
from quorate.local.server.storage.store import Entry, Stale, Store
from quorate.local.server.storage.version_conversion import Convert

Json = dict[str, Any]

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order in which discovery lists them for custom resources."""

_ENVELOPE = MapOf("", {"metadata": object_meta_type()}, Untyped())
"""A custom resource as it is read first: of metadata the fields are known, the rest is its schema's."""


class Definitions:
    """Serves the stored definitions, one store and one registry at a time."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        timestamp: Callable[[], str],
        conversion: Callable[[Definition], Convert],
    ) -> None:
        self._store, self._registry, self._timestamp = store, registry, timestamp
        self._conversion = conversion
        # By name of the definition; the generation says whether it has to be compiled again.
        self._served: dict[str, tuple[int, Definition]] = {}

    async def follow(self) -> None:
        """Serve every definition as it comes, changes and goes; until cancelled."""
        while True:
            moved = self._store.moved(RESOURCE)
            await self.catch_up()
            await moved.wait()

    async def catch_up(self) -> None:
        """Serve what is in the store now."""
        entries = {entry.key.name: entry for entry in self._store.entries(RESOURCE)}
        for name in self._served.keys() - entries.keys():
            _, gone = self._served.pop(name)
            self._registry.remove(gone.group, gone.plural)
            await self._empty(f"{gone.plural}.{gone.group}")
        for name, entry in entries.items():
            obj = entry.decode()
            generation = obj["metadata"]["generation"]
            if name not in self._served or self._served[name][0] != generation:
                self._serve(name, generation, definitions.compile_definition(obj), obj.get("status") or {})
            await self._establish(entry, obj)

    def _serve(self, name: str, generation: int, compiled: Definition, status: Json) -> None:
        self._served[name] = (generation, compiled)
        self._registry.remove(compiled.group, compiled.plural)
        self._registry.put(*kinds_of(compiled, _stored_in(compiled, status), self._conversion(compiled)))

    async def _establish(self, entry: Entry, obj: Json) -> None:
        taken = [compiled for _, compiled in self._served.values()]
        status = definitions.naming_status(obj, taken, self._timestamp())
        if status == obj.get("status"):
            return
        try:
            await self._store.update(entry.key, obj | {"status": status}, entry.revision)
        except Stale:
            return  # it has changed meanwhile, so it is looked at again

    async def _empty(self, resource: str) -> None:
        """Delete all objects of a kind that is no longer defined."""
        for entry in self._store.entries(resource):
            try:
                await self._store.delete(entry.key, entry.revision)
            except Stale:
                continue  # deleted by a request that was under way


def _stored_in(definition: Definition, status: Json) -> Version:
    """The version that the store holds the objects in: the first that was ever marked for storage.

    Which version is marked now makes no difference to anybody outside, so nothing has to be converted when
    the mark moves on.  Knowingly missing: taking a version off ``storedVersions`` by hand rewrites nothing.
    """
    first = next(iter(status.get("storedVersions") or ()), "")
    return definition.versions.get(first) or definition.versions[definition.storage_version]


def kinds_of(definition: Definition, storage: Version, convert: Convert) -> Iterator[Kind]:
    """A kind for each served version; the store holds the objects in ``storage``."""
    for version in definition.versions.values():
        if version.served:
            kind = _kind(definition, version)
            yield (
                kind
                if version is storage
                else replace(kind, convert=_conversion(kind, version, storage, convert))
            )


def _kind(definition: Definition, version: Version) -> Kind:
    subresources = [*([STATUS] if version.has_status else []), *([SCALE] if version.scale else [])]
    kind = Kind(
        definition.group,
        version.name,
        definition.kind,
        definition.plural,
        definition.namespaced,
        singular=definition.singular,
        short_names=definition.short_names,
        categories=definition.categories,
        verbs=VERBS,
        subresources=tuple(subresources),
        type=version.type,
        selectable=dict.fromkeys((path.removeprefix(".") for path in version.selectable), ""),
        counts_generations=True,
        custom=True,
        update_names_version=True,
        list_kind=definition.list_kind,
        layout=custom_layout(version.columns),
        warning=version.warning,
        scale=version.scale,
    )
    return replace(kind, rules=_rules(kind, version))


def _rules(kind: Kind, version: Version) -> Rules:
    schema = version.schema

    def check(new: Json, old: Json | None = None) -> list[Cause]:
        return validate(new, schema, old)

    return Rules(
        decode=partial(_decode, kind, version),
        default=lambda obj: apply_defaults(obj, schema),
        begin=_without_status if version.has_status else unchanged,
        carry_status=_keep_metadata,
        validate_new=check,
        validate_update=check,
        validate_status=check,
    )


def _decode(kind: Kind, version: Version, obj: Json) -> Decoded:
    """Raises StatusError(400) for metadata of the wrong type."""
    try:
        read, unknown = decoding.decode_object(obj, _ENVELOPE)
    except decoding.UndecodableObject as misfit:
        where = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{where}: {misfit}") from misfit
    unknown += prune(read, version.schema)
    return Decoded(read, tuple(f'unknown field "{path}"' for path in sorted(unknown)))


def _without_status(obj: Json) -> None:
    obj.pop("status", None)


def _keep_metadata(new: Json, old: Json) -> None:
    """Through /status only the status of a custom resource changes, not its labels."""
    kept = dict(old["metadata"])
    kept.pop("managedFields", None)
    if "managedFields" in new["metadata"]:
        kept["managedFields"] = new["metadata"]["managedFields"]
    new["metadata"] = kept


def _conversion(kind: Kind, version: Version, storage: Version, convert: Convert) -> Conversion:
    """Between a version and the stored one; what the other version does not know is lost."""
    names = {True: f"{kind.group}/{storage.name}", False: kind.api_version}

    async def converted(objects: Sequence[Json], to_storage: bool) -> list[Json]:
        was = {"apiVersion": names[not to_storage], "kind": kind.kind}
        schema = (storage if to_storage else version).schema
        results = await convert([obj | was for obj in objects], names[to_storage])
        for result in results:
            prune(result, schema)
            apply_defaults(result, schema)
        return [
            {name: part for name, part in result.items() if name not in ("apiVersion", "kind")}
            for result in results
        ]

    return converted
