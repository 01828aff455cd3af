"""Server-side apply: merge a configuration into an object and update field ownership.

The steps are those of Kubernetes' structured merge (KEP-555): merge, prune, then take ownership or report
conflicts. If a configuration omits a field that the same manager applied before, the field is removed, unless
another manager owns it too.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from quorate.api.codec import Json
from quorate.local.objects.errors import Cause, StatusError, internal
from quorate.local.objects.patch import field_set, managed_fields
from quorate.local.objects.patch.field_set import FieldSet, Path
from quorate.local.objects.patch.managed_fields import Manager, Owners, Ownership
from quorate.local.objects.schema_types import ListOf, MapOf, Scalar, Type, Untyped


@dataclass(frozen=True, slots=True)
class Application:
    """An apply request."""

    manager: Manager
    api_version: str
    config: Json
    force: bool = False
    ignored: tuple[Path, ...] = ()
    """fields that this (sub)resource does not write: neither merged nor owned"""
    empty: Json = field(default_factory=dict)
    """the server's form of an empty object"""


BEFORE_FIRST_APPLY = "before-first-apply"
"""the owner of all fields of an object that had no owners"""


def apply(live: Json, application: Application, kind: MapOf, now: str) -> Json:
    """Return the object with the configuration applied, including managedFields.

    For a new object, `live` is the server's form of an empty object plus name and kind. `now` is RFC 3339.
    Raises StatusError: 409 with a cause per field that another manager owns with another value, 500 for a
    configuration that does not match the type.
    """
    check_types(application.config, kind, application.api_version)
    owners = managed_fields.decode_managers((live.get("metadata") or {}).get("managedFields") or [])
    bare = managed_fields.without_managed_fields(live)
    if not owners and "uid" in bare["metadata"]:
        fields = field_set.compare(application.empty, bare, kind).changed
        owners[managed_fields.updater(BEFORE_FIRST_APPLY, application.api_version)] = Ownership(
            managed_fields.trackable(fields, application.ignored), application.api_version, now
        )
    config = _writable(application.config, kind, application.ignored)

    merged: Json = merge(bare, config, kind)
    last = owners.get(application.manager)
    claimed = managed_fields.trackable(field_set.applied_fields(config, kind), application.ignored)
    owners[application.manager] = Ownership(claimed, application.api_version, last.time if last else None)
    if last and last.fields:
        merged = _prune(merged, kind, owners, last.fields)

    difference = managed_fields.trackable_difference(
        field_set.compare(bare, merged, kind), application.ignored
    )
    if not application.force:
        conflicts = _conflicts(owners, application.manager, difference.changed)
        if conflicts and not _only_last_applied(application.manager, bare, conflicts, kind):
            raise _conflict_error(conflicts)
    owners = managed_fields.transfer_ownership(owners, application.manager, difference)
    if merged != bare:
        owners[application.manager] = replace(owners[application.manager], time=now)
    if not claimed:
        del owners[application.manager]
    metadata = dict(merged.get("metadata", {}))
    if entries := managed_fields.encode_managers(owners):
        metadata["managedFields"] = entries
    if application.manager == managed_fields.applier("kubectl") and LAST_APPLIED in metadata.get(
        "annotations", {}
    ):
        metadata["annotations"] = metadata["annotations"] | {LAST_APPLIED: _last_applied(application.config)}
    merged["metadata"] = metadata
    return merged


def _last_applied(configuration: Json) -> str:
    """Return the text of a configuration that kubectl compares with in a later client-side apply."""
    metadata = configuration.get("metadata", {})
    annotations = metadata.get("annotations") or {}
    if LAST_APPLIED in annotations:
        kept = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        configuration = configuration | {"metadata": metadata | {"annotations": kept}}
    return msgspec.json.encode(configuration, order="sorted").decode() + "\n"


def _writable(config: Json, kind: MapOf, ignored: Iterable[Path]) -> Json:
    left = field_set.remove_fields(config, kind, frozenset(ignored))
    return left if isinstance(left, dict) else {}


def _conflicts(owners: Owners, applier: Manager, changed: FieldSet) -> list[tuple[Manager, Path]]:
    conflicts = [
        (manager, path)
        for manager, ownership in owners.items()
        if manager != applier
        for path in ownership.fields & changed
    ]
    return sorted(conflicts, key=lambda conflict: (conflict[0], _members_first(conflict[1])))


def _members_first(path: Path) -> tuple[tuple[bool, str], ...]:
    """Return the key of an order in which the fields of an object come before the parts of its fields."""
    return tuple((depth < len(path), element) for depth, element in enumerate(path, 1))


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _only_last_applied(
    applier: Manager, live: Json, conflicts: list[tuple[Manager, Path]], kind: MapOf
) -> bool:
    """Return True if kubectl changes only fields that a client-side apply set and nothing changed since."""
    text = (live.get("metadata") or {}).get("annotations", {}).get(LAST_APPLIED)
    if applier != managed_fields.applier("kubectl") or not text:
        return False
    try:
        last_applied = msgspec.json.decode(text, type=dict[str, Any])
        last_fields = field_set.applied_fields(last_applied, kind)
        difference = field_set.compare(last_applied, live, kind)
    except (msgspec.MsgspecError, KeyError, TypeError, RecursionError):
        return False  # not a configuration of this kind
    unchanged = last_fields - difference.changed - difference.removed
    return all(path in unchanged for _, path in conflicts)


def _conflict_error(conflicts: list[tuple[Manager, Path]]) -> StatusError:
    causes = [
        Cause(field_set.format_path(path), "FieldManagerConflict", f"conflict with {describe(manager)}")
        for manager, path in conflicts
    ]
    return StatusError(
        409, "Conflict", _conflict_message(conflicts), {"causes": [cause.to_json() for cause in causes]}
    )


def _conflict_message(conflicts: list[tuple[Manager, Path]]) -> str:
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        return (
            f"Apply failed with 1 conflict: conflict with {describe(manager)}: {field_set.format_path(path)}"
        )
    lines: dict[str, list[str]] = {}
    for manager, path in conflicts:
        lines.setdefault(f"conflicts with {describe(manager)}:", []).append(
            f"- {field_set.format_path(path)}"
        )
    text = "\n".join("\n".join([head, *paths]) for head, paths in lines.items())
    return f"Apply failed with {len(conflicts)} conflicts: {text}"


def describe(manager: Manager) -> str:
    """Return a manager's description for conflict messages."""
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    return f"{text} using {manager.api_version}" if manager.operation == "Update" else text


def merge(live: Any, config: Any, kind: Type) -> Any:
    """Merge a configuration into the live value; lists keep the live order, new items follow."""
    kind = field_set.resolve_type(kind, config)
    live_parts, config_parts = field_set.parts(kind, live), field_set.parts(kind, config)
    if config_parts is None or live_parts is None:
        return config
    merged = {element: part for element, (_, part) in live_parts.items()}
    if isinstance(kind, ListOf):
        merged = dict.fromkeys(_interleave(list(live_parts), list(config_parts)))
    for element, (part_kind, part) in config_parts.items():
        merged[element] = merge(live_parts[element][1], part, part_kind) if element in live_parts else part
    for element in merged:
        if element not in config_parts:
            merged[element] = live_parts[element][1]
    if isinstance(kind, ListOf):
        return list(merged.values())
    return {element[2:]: part for element, part in merged.items()}


def _interleave(live: list[str], config: list[str]) -> list[str]:
    """Merge both orders: items that only the object has stay before the items they preceded."""
    order: list[str] = []
    wanted, placed = iter(config), set[str]()
    in_config = set(config)
    for element in live:
        if element not in in_config:
            order.append(element)
        while element in in_config and element not in placed:
            following = next(wanted)
            placed.add(following)
            order.append(following)
    return [*order, *wanted]


def _prune(merged: Json, kind: MapOf, owners: Owners, last: FieldSet) -> Json:
    """Remove fields that the manager applied before, unless owned by a manager or never owned."""
    everything = field_set.with_declared_ancestors(field_set.applied_fields(merged, kind), kind)
    # The identity of an object has no owner but is never removed.
    claimed = managed_fields.NEVER_OWNED.union(*(ownership.fields for ownership in owners.values()))
    claimed = field_set.with_declared_ancestors(claimed, kind)
    last = field_set.with_declared_ancestors(last, kind)

    stripped = _contained_fields(field_set.remove_fields(merged, kind, last), kind)
    stripped = _contained_fields(field_set.remove_fields(merged, kind, everything - stripped - claimed), kind)
    pruned = field_set.remove_fields(merged, kind, (everything - stripped) & last)
    assert isinstance(pruned, dict), "identity is never owned, so something is left"
    return pruned


def _contained_fields(value: Any, kind: MapOf) -> FieldSet:
    return field_set.with_declared_ancestors(field_set.applied_fields(value, kind), kind)


def check_types(config: Json, kind: MapOf, api_version: str) -> None:
    """Raise StatusError (500, as kube-apiserver) if the configuration does not match the type."""
    findings = list(_type_errors(config, kind, ""))
    if findings:
        metadata = config["metadata"] if isinstance(config.get("metadata"), dict) else {}
        version = api_version if "/" in api_version else f"/{api_version}"
        where = (
            f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {version}, Kind={config['kind']}"
        )
        text = (
            findings[0]
            if len(findings) == 1
            else "errors:\n" + "\n".join(f"  {finding}" for finding in findings)
        )
        raise internal(f"failed to create typed patch object ({where}): {text}")


_SCALAR_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "time": (str,),
    "micro-time": (str,),
    "bytes": (str,),
    "integer": (int, float),
    "int32": (int, float),
    "int64": (int, float),
    "number": (int, float),
    "boolean": (bool,),
}


def _type_errors(value: Any, kind: Type, path: str) -> Iterable[str]:
    if value is None or isinstance(kind, Untyped):
        return
    match kind:
        case Scalar(name):
            wanted = _SCALAR_TYPES.get(name, (str, int, float))
            if not isinstance(value, wanted) or (isinstance(value, bool) and name != "boolean"):
                expected = "numeric (int or float)" if wanted == (int, float) else name
                yield f"{path}: expected {expected}, got {_go_value(value)}"
        case ListOf():
            yield from _list_type_errors(value, kind, path)
        case MapOf():
            if not isinstance(value, dict):
                yield f"{path}: expected map, got {_go_value(value)}"
                return
            for name, part in value.items():
                part_kind = kind.field_type(name)
                if part_kind is None:
                    yield f"{path}.{name}: field not declared in schema"
                else:
                    yield from _type_errors(part, part_kind, f"{path}.{name}")


def _list_type_errors(value: Any, kind: ListOf, path: str) -> Iterable[str]:
    if not isinstance(value, list):
        yield f"{path}: expected list, got {_go_value(value)}"
        return
    seen = set[str]()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if kind.keys or kind.relation.value == "set":
            try:
                element = field_set.item_element(kind, item)
            except KeyError:
                names = " ".join(f'"{key}"' for key in kind.keys)
                yield (
                    f"{path}: element {index}: associative list with keys has an element that omits all key"
                    f" fields [{names}] (and doesn't have default values for any key fields)"
                )
                continue
            except TypeError:
                yield f"{path}: element {index}: expected map, got {_go_value(item)}"
                continue
            if element in seen:
                yield f"{path}: duplicate entries for key {field_set.format_path((element,))}"
            seen.add(element)
        yield from _type_errors(item, kind.item, f"{path}{field_set.format_path((element,))}")


def _go_value(value: Any) -> str:
    """Return a value as Go prints it."""
    text = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else str(value)
    return f"&value.valueUnstructured{{Value:{text}}}"
