"""PATCH: the four kinds of patch, each a change of the newest state."""

from typing import Any

from quorate.local.objects import schema_types
from quorate.local.objects.patch import managed_fields
from quorate.local.objects.patch.apply import Application, apply
from quorate.local.objects.patch.json_patches import json_patch, merge_patch
from quorate.local.objects.patch.strategic_merge import strategic_merge
from quorate.local.server.errors import (
    Cause,
    StatusError,
    bad_request,
    invalid,
    invalid_value,
    required,
    show,
)
from quorate.local.server.handlers import create, field_tracking, update
from quorate.local.server.handlers.update import Change
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests import media_types
from quorate.local.server.requests.body import field_validation
from quorate.local.server.requests.context import Call, invalid_options
from quorate.local.server.requests.responses import Answer

Json = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
OPTIONS = "PatchOptions"


async def patch(call: Call) -> Answer:
    """Raises StatusError: 415 for a body that is no patch this kind takes."""
    dry_run = call.dry_run(OPTIONS)
    media_type = call.content_type.partition(";")[0].strip().lower()
    if media_type == APPLY_PATCH:
        return await _apply(call, dry_run)
    if media_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    if media_type == STRATEGIC_PATCH and call.kind.custom:
        known = f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
        message = f"the body of the request was in an unknown format - accepted media types include: {known}"
        raise StatusError(415, "UnsupportedMediaType", message)
    if call.query.get("force"):
        raise invalid_options(OPTIONS, [_force_forbidden()])
    strictness = field_validation(call, OPTIONS)
    content = media_types.read_json(call.body).document

    def patched(old: Json) -> Json:
        return _checked(call, _merged(media_type, old, content, call.kind), old, strictness)

    return await update.change(call, patched, dry_run)


def change_of(call: Call, kind: Kind) -> Change:
    """A patch that is not an apply as a change of objects of a kind.  Raises StatusError: 400, 415."""
    media_type = call.content_type.partition(";")[0].strip().lower()
    if media_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        raise StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    content = media_types.read_json(call.body).document
    return lambda old: _merged(media_type, old, content, kind)


def _force_forbidden() -> Cause:
    return Cause("force", "FieldValueForbidden", "Forbidden: may not be specified for non-apply patch")


def _merged(media_type: str, old: Json, content: Any, kind: Kind) -> Json:
    match media_type:
        case "application/json-patch+json":
            return json_patch(old, content)
        case "application/merge-patch+json":
            return merge_patch(old, content)
        case _:
            return strategic_merge(old, content, kind.type)


def _checked(call: Call, new: Json, old: Json, strictness: str) -> Json:
    """What a patch made, read as an object of the kind, still the same one.  Raises StatusError: 400, 422."""
    kind = call.kind
    meta = new.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not name:
        why = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(why)
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if (new.get("kind"), new.get("apiVersion")) != (kind.kind, kind.api_version):
        raise _unreadable(new, "apiVersion and kind of an object cannot be patched")
    try:
        decoded = kind.rules.decode(new)
    except StatusError as error:
        raise _unreadable(new, error.message) from error
    if strictness == "Strict" and decoded.warnings:
        raise _unreadable(new, f"strict decoding error: {', '.join(decoded.warnings)}")
    if strictness == "Warn":
        call.warnings[:] = decoded.warnings
    _require_identity(call, decoded.object, old)
    return decoded.object


def _unreadable(patched: Json, why: str) -> StatusError:
    """The patch makes something that is no object of the kind; not even its name is told."""
    cause = invalid_value("patch", show(patched), why)
    message = f' "" is invalid: {cause.field}: {cause.message}'
    return StatusError(422, "Invalid", message, {"causes": [cause.to_json()]})


def _require_identity(call: Call, new: Json, old: Json) -> None:
    """Raises StatusError(422), with the finding twice as kube-apiserver has it, if the uid is another's."""
    uid = new["metadata"].get("uid")
    if uid and uid != old["metadata"]["uid"]:
        cause = invalid_value("metadata.uid", uid, "field is immutable")
        raise invalid(call.kind.group, call.kind.kind, call.name, [cause, cause])


async def _apply(call: Call, dry_run: bool) -> Answer:
    """Server-side apply, which also creates."""
    manager = call.query.get("fieldManager", "")
    if not manager:
        raise invalid_options(OPTIONS, [required("fieldManager", "is required for apply patch")])
    application = Application(
        managed_fields.applier(manager, call.asked.subresource),
        call.kind.api_version,
        _configuration(call),
        call.query.get("force") in ("true", "1"),
        field_tracking.unwritten(call),
    )

    def applied(old: Json) -> Json:
        new = apply(old, application, call.kind.type, call.context.timestamp())
        return call.kind.rules.decode(new).object

    def changed(old: Json) -> Json:
        new = applied(old)
        _require_identity(call, new, old)
        return new

    if call.context.store.get(call.key) is not None:
        return await update.change(call, changed, dry_run, tracked=True)
    if call.asked.subresource:
        raise call.not_found()
    call.require("create")
    bare = schema_types.empty_object(call.kind.type) | {
        "apiVersion": call.kind.api_version,
        "kind": call.kind.kind,
    }
    bare["metadata"] = {"name": call.name} | ({"namespace": call.namespace} if call.namespace else {})
    new = applied(bare)
    for name in ("resourceVersion", "uid"):
        new["metadata"].pop(name, None)  # of an object that is no more
    create.address(call, new)
    return await create.create_object(call, new, dry_run, tracked=True)


def _configuration(call: Call) -> Json:
    """The body of an apply request, for the object of the path.  Raises StatusError(400)."""
    try:
        config = media_types.read_yaml(call.body).document
    except StatusError as error:
        raise bad_request(f"error decoding YAML: {error.message}") from error
    if not isinstance(config, dict):
        raise bad_request("error decoding YAML: not an object")
    kind, api_version, name = call.kind, config.get("apiVersion") or "", config.get("kind") or ""
    if (api_version, name) != (kind.api_version, kind.kind):
        group, _, version = str(api_version).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={name}")
    meta = config.get("metadata") or {}
    if meta.get("name", call.name) != call.name:
        why = f"does not match the name on the URL ({call.name})"
        raise bad_request(f"the name of the object ({meta['name']}) {why}")
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    return config
