"""Custom resources: the kinds that stored CustomResourceDefinitions define.

The controller syncs the registry with the stored definitions, so a restarted server serves the same kinds.
A kind is served before the Established condition is set; after the definition is deleted, its objects are
deleted too.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from quorate.api.codec import Json
from quorate.kube.computations import Computations
from quorate.kube.object_faults import problem_of
from quorate.local.objects import decoding
from quorate.local.objects.crd import definition as definitions
from quorate.local.objects.crd.definition import Definition, Version
from quorate.local.objects.crd.schema import apply_defaults, prune
from quorate.local.objects.crd.validation import validate
from quorate.local.objects.errors import Cause, bad_request
from quorate.local.objects.schema_types import MapOf, Untyped, object_meta_type
from quorate.local.objects.tables.layout import custom_layout
from quorate.local.server.registry import object_encoding
from quorate.local.server.registry.kinds import (
    SCALE,
    STATUS,
    Decoded,
    Kind,
    Registry,
    StorageConversion,
    Strategy,
    no_change,
)
from quorate.local.server.registry.version_conversion import ConvertAll
from quorate.local.server.storage.store import Entry, StaleRevision, Store, first_of

RESOURCE = "customresourcedefinitions.apiextensions.k8s.io"

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
"""In the order of kube-apiserver's discovery for custom resources."""

_ENVELOPE = MapOf("", {"metadata": object_meta_type()}, Untyped())
"""The type for decoding: the fields of metadata are typed, all others belong to the schema."""


class CustomResourceController:
    """Syncs a registry with the CustomResourceDefinitions of a store."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        timestamp: Callable[[], str],
        conversion: Callable[[Definition], ConvertAll],
        computations: Computations,
    ) -> None:
        self._store, self._registry, self._timestamp = store, registry, timestamp
        self._conversion, self._computations = conversion, computations
        # By name of the definition; a new generation is compiled again.
        self._generations: dict[str, int] = {}
        self._served: dict[str, Definition] = {}
        self._problems: dict[str, str] = {}  # of the definitions that cannot be served
        self.is_synced = False
        """True once the kinds of all definitions that were stored at the start are registered."""

    async def run(self) -> None:
        """Sync after each change of a definition, until cancelled."""
        while True:
            watched = {RESOURCE, *self._registry.terminating}
            changed = [self._store.changed(resource) for resource in watched]
            await self.sync()
            if self._registry.terminating <= watched:
                await first_of(changed)

    async def sync(self) -> None:
        """Register the kinds of the stored definitions, and unregister those of deleted ones.

        A definition that cannot be served is not established, and holds up no other.
        """
        entries = {entry.key.name: entry for entry in self._store.entries(RESOURCE)}
        for name in self._generations.keys() - entries.keys():
            self._stop_serving(name)
            del self._generations[name]
            self._registry.terminating.discard(name)
            await self._delete_objects(name)
        for entry in entries.values():
            try:
                await self._sync_definition(entry)
            except Exception as error:
                self._store.report(entry, "custom resources", error)
        self.is_synced = True

    async def _sync_definition(self, entry: Entry) -> None:
        name, obj = entry.key.name, entry.decode()
        generation = obj["metadata"].get("generation", 0)
        if self._generations.get(name) != generation:
            self._generations[name] = generation
            await self._serve(entry, obj)
        if "deletionTimestamp" in obj["metadata"]:
            self._registry.terminating.add(name)
            await self._finalize(entry, obj)
        else:
            await self._update_status(entry, obj)

    async def _finalize(self, entry: Entry, obj: Json) -> None:
        """Delete the objects of a definition that is being deleted, then remove its finalizer."""
        await self._delete_objects(entry.key.name)
        if self._store.entries(entry.key.name):
            await self._update_status(entry, obj)  # objects with finalizers are left
            return
        finalizers = [name for name in obj["metadata"].get("finalizers", ()) if name != definitions.FINALIZER]
        with suppress(StaleRevision):  # changed meanwhile: the next sync handles it
            if not finalizers:
                await self._store.delete(entry.key, entry.revision)
            elif finalizers != obj["metadata"]["finalizers"]:
                obj["metadata"]["finalizers"] = finalizers
                await self._store.update(entry.key, obj, entry.revision)

    async def _serve(self, entry: Entry, obj: Json) -> None:
        """Register the kinds of a definition; none if it cannot be compiled.

        Compiling takes 15 ms for a definition of 60 KB, so a large one is compiled beside the event loop.
        """
        name = entry.key.name
        is_change = name in self._served
        self._stop_serving(name)
        try:
            compiled = await self._computations.run(len(entry.data), definitions.compile_definition, obj)
            storage = _storage_version(compiled, obj.get("status") or {})
            since = self._store.revision + 1 if is_change else entry.revision
            kinds = tuple(kinds_of(compiled, storage, self._conversion(compiled), since))
        except Exception as error:
            self._store.report(entry, "custom resources", error)
            self._problems[name] = problem_of(error)
            return
        self._served[name] = compiled
        self._registry.register(*kinds)

    def _stop_serving(self, name: str) -> None:
        self._problems.pop(name, None)
        if served := self._served.pop(name, None):
            self._registry.unregister(served.group, served.plural)

    async def _update_status(self, entry: Entry, obj: Json) -> None:
        served, problem = list(self._served.values()), self._problems.get(entry.key.name, "")
        status = definitions.naming_status(obj, served, self._timestamp(), problem)
        if status == obj.get("status"):
            return
        with suppress(StaleRevision):  # changed meanwhile: the next sync handles it
            await self._store.update(entry.key, obj | {"status": status}, entry.revision)

    async def _delete_objects(self, resource: str) -> None:
        """Delete all objects of a resource; mark those with finalizers for deletion."""
        for entry in self._store.entries(resource):
            obj = entry.decode()
            meta = obj["metadata"]
            with suppress(StaleRevision):  # changed meanwhile: the next sync handles it
                if not meta.get("finalizers"):
                    await self._store.delete(entry.key, entry.revision)
                elif "deletionTimestamp" not in meta:
                    meta |= {
                        "deletionTimestamp": self._timestamp(),
                        "deletionGracePeriodSeconds": 0,
                        "generation": meta.get("generation", 0) + 1,
                    }
                    await self._store.update(entry.key, obj, entry.revision)


def _storage_version(definition: Definition, status: Json) -> Version:
    """Return the version in which the store holds the objects: the first storage version ever.

    The current storage version has no effect outside the store, so no object is converted when it changes.
    Knowingly missing: removing a version from ``storedVersions`` does not rewrite objects.
    """
    first = next(iter(status.get("storedVersions") or ()), "")
    return definition.versions.get(first) or definition.versions[definition.storage_version]


def kinds_of(definition: Definition, storage: Version, convert: ConvertAll, since: int = 0) -> Iterator[Kind]:
    """Yield a kind for each served version; the store holds the objects in ``storage``.

    ``since``: the revision from which on objects were stored with the defaults of this definition.
    """
    for version in definition.versions.values():
        if version.served:
            kind = _kind(definition, version)
            yield (
                replace(kind, defaulted_since=since if version.schema.has_defaults else 0)
                if version is storage
                else replace(kind, convert=_storage_conversion(kind, version, storage, convert))
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
        selectable_fields=dict.fromkeys((path.removeprefix(".") for path in version.selectable), ""),
        tracks_generation=True,
        custom=True,
        require_resource_version=True,
        list_kind=definition.list_kind,
        table_layout=custom_layout(version.columns),
        warning=version.warning,
        scale=version.scale,
    )
    return replace(kind, strategy=_strategy(kind, version))


def _strategy(kind: Kind, version: Version) -> Strategy:
    schema = version.schema

    def check(new: Json, old: Json | None = None) -> list[Cause]:
        return validate(new, schema, old)

    return Strategy(
        decode=partial(_decode, kind, version),
        default=lambda obj: apply_defaults(obj, schema),
        prepare_for_create=_clear_status if version.has_status else no_change,
        prepare_for_status_update=_restore_metadata,
        validate_create=check,
        validate_update=check,
        validate_status=check,
        evaluates=schema.has_rules,
    )


def _decode(kind: Kind, version: Version, obj: Json) -> Decoded:
    """Decode a custom resource.  Raises StatusError(400) for metadata of the wrong type."""
    try:
        decoded, unknown = decoding.decode_object(obj, _ENVELOPE)
    except decoding.UndecodableObject as error:
        where = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise bad_request(f"{where}: {error}") from error
    if "metadata" in decoded:
        decoded["metadata"] = object_encoding.complete_metadata(decoded["metadata"])
    unknown += prune(decoded, version.schema)
    return Decoded(decoded, tuple(f'unknown field "{path}"' for path in sorted(unknown)))


def _clear_status(obj: Json) -> None:
    obj.pop("status", None)


def _restore_metadata(new: Json, old: Json) -> None:
    """Restore the metadata: an update of /status changes only the status of a custom resource."""
    kept = dict(old["metadata"])
    kept.pop("managedFields", None)
    if "managedFields" in new["metadata"]:
        kept["managedFields"] = new["metadata"]["managedFields"]
    new["metadata"] = kept


def _storage_conversion(
    kind: Kind, version: Version, storage: Version, convert: ConvertAll
) -> StorageConversion:
    """Return the conversion between a version and the stored one; unknown fields are pruned."""
    names = {True: f"{kind.group}/{storage.name}", False: kind.api_version}

    async def converted(objects: Sequence[Json], to_storage: bool) -> list[Json]:
        type_meta = {"apiVersion": names[not to_storage], "kind": kind.kind}
        schema = (storage if to_storage else version).schema
        results = await convert([obj | type_meta for obj in objects], names[to_storage])
        for result in results:
            prune(result, schema)
            apply_defaults(result, schema)
        return [
            {name: part for name, part in result.items() if name not in ("apiVersion", "kind")}
            for result in results
        ]

    return converted
