"""Field ownership: the entries of `metadata.managedFields`, and their updates by writes.

A manager is identified by its field manager name, the operation (Apply or Update), for updates the API
version, and the subresource. An update takes ownership of the fields it changes; removed fields lose their
owners. The rules are those of Kubernetes' structured merge.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from quorate.api.codec import Json
from quorate.local.objects.patch import field_set
from quorate.local.objects.patch.field_set import Difference, FieldSet, Path
from quorate.local.objects.schema_types import MapOf

MAX_UPDATE_MANAGERS = 10
"""further updating managers are merged into one, as in kube-apiserver"""
ANCIENT_CHANGES = "ancient-changes"

NEVER_OWNED: FieldSet = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    }
)
"""identity and server-written fields, which no manager owns"""


@dataclass(frozen=True, slots=True, order=True)
class Manager:
    name: str
    operation: str
    """Apply or Update"""
    api_version: str
    """of updates; for Apply all versions are one manager"""
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Ownership:
    fields: FieldSet
    api_version: str
    time: str | None
    """time of the manager's last change, RFC 3339; None: it only shares ownership"""


Owners: TypeAlias = Mapping[Manager, Ownership]


def updater(name: str, api_version: str, subresource: str = "") -> Manager:
    return Manager(name, "Update", api_version, subresource)


def applier(name: str, subresource: str = "") -> Manager:
    return Manager(name, "Apply", "", subresource)


def decode_managers(entries: Iterable[Json]) -> dict[Manager, Ownership]:
    """Decode an object's `metadata.managedFields`; return no owners if an entry is malformed."""
    owners: dict[Manager, Ownership] = {}
    for entry in entries:
        operation, api_version = entry.get("operation", ""), entry.get("apiVersion", "")
        if operation not in ("Apply", "Update") or entry.get("fieldsType") != "FieldsV1":
            return {}
        manager = Manager(
            entry.get("manager", ""),
            operation,
            "" if operation == "Apply" else api_version,
            entry.get("subresource", ""),
        )
        try:
            fields = field_set.decode_fields_v1(entry.get("fieldsV1") or {})
        except ValueError:
            return {}
        owners[manager] = Ownership(fields, api_version, entry.get("time"))
    return owners


def encode_managers(owners: Owners) -> list[Json]:
    """Encode `metadata.managedFields`: Apply first, then by time and name."""

    def order(item: tuple[Manager, Ownership]) -> tuple[Any, ...]:
        manager, ownership = item
        return (
            manager.operation,
            ownership.time or "",
            manager.name,
            ownership.api_version,
            manager.subresource,
        )

    return [_entry(manager, ownership) for manager, ownership in sorted(owners.items(), key=order)]


def _entry(manager: Manager, ownership: Ownership) -> Json:
    entry: Json = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": ownership.api_version,
        "time": ownership.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": field_set.encode_fields_v1(ownership.fields),
        "subresource": manager.subresource,
    }
    return {key: value for key, value in entry.items() if value not in (None, "")}


def trackable(fields: FieldSet, ignored: Iterable[Path] = ()) -> FieldSet:
    """Return the fields that managers can own; the fields that the (sub)resource resets are left out."""
    prefixes = tuple(ignored)
    return frozenset(
        path for path in fields if path not in NEVER_OWNED and not any(path[: len(p)] == p for p in prefixes)
    )


def trackable_difference(difference: Difference, ignored: Iterable[Path] = ()) -> Difference:
    prefixes = tuple(ignored)
    return Difference(
        trackable(difference.added, prefixes),
        trackable(difference.modified, prefixes),
        trackable(difference.removed, prefixes),
    )


def transfer_ownership(owners: Owners, writer: Manager, difference: Difference) -> dict[Manager, Ownership]:
    """Return the owners after a write: other managers lose the fields that the write changed or removed."""
    left: dict[Manager, Ownership] = {}
    for manager, ownership in owners.items():
        remaining = ownership.fields - difference.changed - difference.removed
        if manager == writer:
            left[manager] = ownership
        elif remaining:
            left[manager] = replace(ownership, fields=remaining)
    return left


def track_update(
    old: Json, new: Json, kind: MapOf, writer: Manager, now: str, ignored: Iterable[Path] = ()
) -> list[Json]:
    """Return `metadata.managedFields` of `new` after a create, update or patch of `old`.

    Entries come from `new`, because clients may edit them; one empty entry or an empty list removes all
    owners. An object without owners gets none before the first apply. For a creation `old` is the server's
    form of an empty object. `now` is RFC 3339.
    """
    metadata = old.get("metadata") or {}
    entries = None if writer.subresource else (new.get("metadata") or {}).get("managedFields")
    owners = decode_managers(entries or ())
    if not owners and entries not in ([], [{}]):
        owners = decode_managers(metadata.get("managedFields") or ())
    if not owners and metadata.get("uid"):
        return []
    difference = trackable_difference(
        field_set.compare(without_managed_fields(old), without_managed_fields(new), kind), ignored
    )
    owners = transfer_ownership(owners, writer, difference)
    own = owners.pop(writer, None)
    kept = own.fields - difference.removed if own else frozenset()
    if difference.changed:
        owners[writer] = Ownership(kept | difference.changed, writer.api_version, now)
    elif own and kept:
        owners[writer] = replace(own, fields=kept)
    return encode_managers(cap_update_managers(owners, writer))


def cap_update_managers(owners: Owners, writer: Manager) -> dict[Manager, Ownership]:
    """Merge the oldest updating managers while there are too many."""
    left = dict(owners)
    updating = sorted(
        (manager for manager in left if manager.operation == "Update" and manager != writer),
        key=lambda manager: (left[manager].time or "", manager),
    )
    while len(updating) + (writer in left) > MAX_UPDATE_MANAGERS:
        first, second = updating[:2]
        merged = updater(ANCIENT_CHANGES, left[first].api_version)
        union = left.pop(first).fields | left[second].fields
        time = left.pop(second).time
        left[merged] = Ownership(union, merged.api_version, time)
        updating[:2] = [merged]
    return left


def without_managed_fields(value: Json) -> Json:
    """Return the object without its managedFields, which must not count as a difference."""
    metadata = value.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return value
    return {**value, "metadata": {key: part for key, part in metadata.items() if key != "managedFields"}}


def is_equal_except_times(old: Json, new: Json) -> bool:
    """Return True if only resourceVersion and managers' times differ, which needs no write."""
    return _without_times(old) == _without_times(new)


def _without_times(value: Json) -> Json:
    metadata = {
        key: part
        for key, part in value["metadata"].items()
        if key not in ("resourceVersion", "managedFields")
    }
    entries = value["metadata"].get("managedFields") or []
    metadata["managedFields"] = [
        {key: part for key, part in entry.items() if key != "time"} for entry in entries
    ]
    return {**value, "metadata": metadata}
