"""PATCH: JSON patch, merge patch, strategic merge patch and server-side apply."""

from typing import Any

from quorate.api.codec import Json
from quorate.local.objects import errors
from quorate.local.objects.patch import managed_fields
from quorate.local.objects.patch.apply import Application, apply, check_types
from quorate.local.objects.patch.json_patches import json_patch, merge_patch
from quorate.local.objects.patch.strategic_merge import strategic_merge
from quorate.local.server.handlers import create, field_tracking, update
from quorate.local.server.handlers.update import UpdateFunction
from quorate.local.server.parameters import boolean
from quorate.local.server.registry import object_encoding
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests import media_types
from quorate.local.server.requests.body import field_validation
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.requests.media_types import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from quorate.local.server.requests.responses import ApiResponse

OPTIONS = "PatchOptions"


async def patch(context: RequestContext) -> ApiResponse:
    """Patch the requested object.  Raises StatusError: 415 for an unsupported patch type."""
    is_dry_run, media_type = dry_run(context), media_type_of(context)
    if media_type == APPLY_PATCH:
        return await _apply(context, is_dry_run)
    if media_type == STRATEGIC_PATCH and context.kind.custom:
        accepted = f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
        message = (
            f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        )
        raise errors.StatusError(415, "UnsupportedMediaType", message)
    return await update.guaranteed_update(context, await patch_function(context), is_dry_run)


async def patch_function(context: RequestContext) -> UpdateFunction:
    """Return the update function of a patch other than apply.  Raises StatusError: 400, 415, 422."""
    media_type = media_type_of(context)
    if media_type not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH):
        raise errors.StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    strictness = field_validation(context)
    content = (await context.compute(context.body_size, media_types.parse_json, context.body)).document

    def patched(old: Json) -> Json:
        return _check_patched(context, _apply_patch(media_type, old, content, context.kind), old, strictness)

    return patched


def media_type_of(context: RequestContext) -> str:
    return context.content_type.partition(";")[0].strip().lower()


def dry_run(context: RequestContext) -> bool:
    """Return True if the patch is a dry run.  Raises StatusError(422) for wrong options."""
    if media_type_of(context) != APPLY_PATCH:
        is_forced = "force" in context.query
        message = "may not be specified for non-apply patch"
        return context.dry_run(OPTIONS, *([errors.forbidden_field("force", message)] if is_forced else ()))
    if not context.query.get("fieldManager"):
        return context.dry_run(OPTIONS, errors.required("fieldManager", "is required for apply patch"))
    return context.dry_run(OPTIONS)


def _apply_patch(media_type: str, old: Json, content: Any, kind: Kind) -> Json:
    match media_type:
        case "application/json-patch+json":
            return json_patch(old, content)
        case "application/merge-patch+json":
            return merge_patch(old, content)
        case _:
            return strategic_merge(old, content, kind.type)


def _check_patched(context: RequestContext, new: Json, old: Json, strictness: str) -> Json:
    """Decode and check a patched object.  Raises StatusError: 400, 422."""
    kind = context.kind
    meta = new.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    update.check_name(context, name)
    if (new.get("kind"), new.get("apiVersion")) != (kind.kind, kind.api_version):
        raise _invalid_patch(new, "apiVersion and kind of an object cannot be patched")
    restored = _restored_parts(context, new, old)
    try:
        decoded = kind.strategy.decode({name: part for name, part in new.items() if name not in restored})
    except errors.StatusError as error:
        raise _invalid_patch(new, error.message) from error
    if strictness == "Strict" and decoded.warnings:
        raise _invalid_patch(new, f"strict decoding error: {', '.join(decoded.warnings)}")
    if strictness == "Warn":
        context.warnings[:] = decoded.warnings
    _check_uid(context, decoded.object, old)
    return decoded.object | restored


def _restored_parts(context: RequestContext, new: Json, old: Json) -> Json:
    """Return the parts that the patch keeps and the update restores: they are not decoded again."""
    if context.info.subresource in update.STATUS_SUBRESOURCES:
        names = old.keys() - {"apiVersion", "kind", "metadata", "status"}
    else:
        names = {"status"} if context.kind.has_status and not context.info.subresource else set[str]()
    return {name: old[name] for name in names if name in old and new.get(name) is old[name]}


def _invalid_patch(patched: Json, detail: str) -> errors.StatusError:
    """Return the error for a patch that does not result in an object of the kind."""
    cause = errors.invalid_value("patch", errors.format_value(patched), detail)
    message = f' "" is invalid: {cause.field}: {cause.message}'
    return errors.StatusError(422, "Invalid", message, {"causes": [cause.to_json()]})


def _check_uid(context: RequestContext, new: Json, old: Json) -> None:
    """Check that the uid is unchanged.

    Raises StatusError(422) with the cause twice, as kube-apiserver does.
    """
    uid = new["metadata"].get("uid")
    if uid and uid != old["metadata"]["uid"]:
        cause = errors.invalid_value("metadata.uid", uid, "field is immutable")
        raise errors.invalid(context.kind.group, context.kind.kind, context.name, [cause, cause])


async def _apply(context: RequestContext, dry_run: bool) -> ApiResponse:
    """Run server-side apply, which creates a missing object."""
    configuration = await context.compute(context.body_size, applied_configuration, context)
    application = application_of(context, configuration)

    def applied(old: Json) -> Json:
        new = apply(old, application, context.kind.type, context.server.timestamp())
        if context.info.subresource:  # which ignores parts of the configuration, but not their form
            converted(context, configuration, configuration)
        return converted(context, new, configuration)

    def changed(old: Json) -> Json:
        new = applied(old)
        _check_uid(context, new, old)
        return new

    if context.server.store.get(context.key) is not None:
        return await update.guaranteed_update(context, changed, dry_run, fields_tracked=True)
    if context.info.subresource:
        raise context.not_found()
    context.require("create")
    update.check_name(context, (configuration.get("metadata") or {}).get("name"))
    create.refuse_uid(context, (configuration.get("metadata") or {}).get("uid"))
    bare = object_encoding.empty_object(context.kind) | {
        "apiVersion": context.kind.api_version,
        "kind": context.kind.kind,
    }
    bare["metadata"] = {"name": context.name} | (
        {"namespace": context.namespace} if context.namespace else {}
    )
    new = await context.compute(context.body_size, applied, bare)
    for name in ("resourceVersion", "uid"):
        new["metadata"].pop(name, None)  # of a deleted object
    create.check_namespace(context, new)
    return await create.create_object(context, new, dry_run, fields_tracked=True)


def converted(context: RequestContext, applied: Json, configuration: Json) -> Json:
    """Return an applied object in the form of its kind.  Raises StatusError(500), as kube-apiserver does."""
    try:
        return context.kind.strategy.decode(applied).object
    except errors.StatusError as error:
        meta, version = configuration.get("metadata") or {}, context.kind.api_version
        kind = f"{version if '/' in version else f'/{version}'}, Kind={context.kind.kind}"
        name = f"{meta.get('namespace', '')}/{meta.get('name', '')}"
        detail = error.message.rpartition(": ")[2]
        raise errors.internal(
            f"failed to convert new object ({name}; {kind}) to proper version:"
            f" unable to convert unstructured object to {kind}: {detail}"
        ) from error


def application_of(context: RequestContext, configuration: Json) -> Application:
    """Return the apply request of a configuration."""
    return Application(
        managed_fields.applier(context.query["fieldManager"], context.info.subresource),
        context.kind.api_version,
        configuration,
        boolean(context.query, "force"),
        field_tracking.reset_fields(context),
        object_encoding.empty_object(context.kind),
    )


def applied_configuration(context: RequestContext) -> Json:
    """Return the applied configuration.  Raises StatusError(400) if it is for another object."""
    try:
        body = media_types.parse_yaml(context.body)
    except errors.StatusError as error:
        raise errors.bad_request(f"error decoding YAML: {error.message}") from error
    config = body.document
    strictness = field_validation(context)
    if strictness == "Strict" and body.duplicates:
        problem = "error strict decoding YAML: error converting YAML to JSON"
        raise errors.bad_request(f"{problem}: {', '.join(body.strict_findings)}")
    if strictness == "Warn":
        context.warnings.extend(body.duplicates)
    if not isinstance(config, dict):
        raise errors.bad_request("error decoding YAML: not an object")
    kind, api_version, name = context.kind, config.get("apiVersion") or "", config.get("kind") or ""
    if (api_version, name) != (kind.api_version, kind.kind):
        group, _, version = str(api_version).rpartition("/")
        raise errors.bad_request(f"invalid object type: {group}/{version}, Kind={name}")
    meta = config.get("metadata") or {}
    if not isinstance(meta, dict):
        check_types(config, kind.type, kind.api_version)
    if meta.get("name", context.name) != context.name:
        mismatch = f"does not match the name on the URL ({context.name})"
        raise errors.bad_request(f"the name of the object ({meta['name']}) {mismatch}")
    if meta.get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    return config
