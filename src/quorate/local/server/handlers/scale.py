"""The scale subresource: desired and current replicas, at the paths that the kind declares."""

import dataclasses
from typing import Any

from quorate.api.codec import Json
from quorate.local.objects.errors import StatusError, conflict, internal, invalid, invalid_value
from quorate.local.objects.patch.apply import apply
from quorate.local.objects.tables.cells import labels_text, selector_text
from quorate.local.server.admission import webhooks as webhooks
from quorate.local.server.handlers import patch as patches
from quorate.local.server.handlers import update
from quorate.local.server.registry.builtin import typed
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation.field_rules import NOT_NEGATIVE
from quorate.local.server.requests import body, responses
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.requests.media_types import APPLY_PATCH
from quorate.local.server.requests.responses import ApiResponse

ATTEMPTS = 6  # of a patch, while other writes come between: Kubernetes repeats it five times
LABEL_SELECTOR = {"matchLabels", "matchExpressions"}
SCALE = typed(Kind("autoscaling", "v1", "Scale", "scales", True))


async def get(context: RequestContext) -> ApiResponse:
    return responses.document(context, _to_scale(context.kind, context.decode(await context.current())))


async def replace(context: RequestContext) -> ApiResponse:
    dry_run = context.dry_run("UpdateOptions")
    scale = await body.read_object(context, SCALE)
    update.check_name(context, scale.get("metadata", {}).get("name"))
    return await _change(context, lambda _: scale, dry_run)


async def patch(context: RequestContext) -> ApiResponse:
    """Patch the scale.  Raises StatusError as other patches do; 409 if the patch names an older version."""
    of_scale, dry_run = dataclasses.replace(context, kind=SCALE), patches.dry_run(context)
    if patches.media_type_of(context) == APPLY_PATCH:
        await context.current()  # a missing object is reported before a wrong configuration
        return await _apply(context, patches.applied_configuration(of_scale), dry_run)
    patched = await patches.patch_function(of_scale)
    for _ in range(ATTEMPTS - 1):
        try:
            return await _change(context, patched, dry_run)
        except StatusError as error:
            if error.reason != "Conflict":
                raise
    return await _change(context, patched, dry_run)


async def _apply(context: RequestContext, scale: Json, dry_run: bool) -> ApiResponse:
    """Apply the replicas of a Scale to the object as the manager of this subresource."""
    kind, paths = context.kind, context.kind.scale
    assert paths is not None, "only a kind with paths lists the subresource"
    configuration: Json = {
        "apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": context.name}
    }  # fmt: skip
    replicas = (scale.get("spec") or {}).get("replicas")
    if replicas is not None:
        _set_value(configuration, paths.spec_replicas, replicas)
    application = patches.application_of(context, configuration)
    changed: list[Json] = []

    def scaled(obj: Json) -> Json:
        new = apply(obj, application, kind.type, context.server.timestamp())
        changed[:] = [patches.converted(context, new, configuration)]
        return changed[0]

    await update.guaranteed_update(context, scaled, dry_run, fields_tracked=True, admitted=True)
    return await _scale_of(context, changed[0], dry_run)


async def _scale_of(context: RequestContext, changed: Json, dry_run: bool) -> ApiResponse:
    obj = changed if dry_run else context.decode(await context.current())
    return responses.document(context, _to_scale(context.kind, obj))


async def _change(
    context: RequestContext, update_function: update.UpdateFunction, dry_run: bool
) -> ApiResponse:
    """Update the replicas of the object from a change of its Scale."""
    paths = context.kind.scale
    assert paths is not None, "only a kind with paths lists the subresource"
    old = _to_scale(context.kind, context.decode(await context.current()))
    scale = await webhooks.mutate(context, "UPDATE", update_function(old), old, kind=SCALE)
    replicas = scale.get("spec", {}).get("replicas", 0)
    if replicas < 0:
        cause = invalid_value("spec.replicas", replicas, NOT_NEGATIVE)
        raise invalid("autoscaling", "Scale", context.name, [cause])
    await webhooks.validate(context, "UPDATE", scale, old, kind=SCALE)
    changed: list[Json] = []

    def scaled(obj: Json) -> Json:
        metadata = scale.get("metadata", {})
        update.check_uid(context, metadata.get("uid"), obj["metadata"]["uid"])
        version = metadata.get("resourceVersion")
        if version and version != obj["metadata"]["resourceVersion"]:
            raise conflict(context.kind.group, context.kind.plural, context.name)
        _set_value(obj, paths.spec_replicas, replicas)
        changed[:] = [obj]
        return obj

    await update.guaranteed_update(context, scaled, dry_run, admitted=True)
    return await _scale_of(context, changed[0], dry_run)


def _to_scale(kind: Kind, obj: Json) -> Json:
    paths = kind.scale
    assert paths is not None, "only a kind with paths lists the subresource"
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: obj["metadata"][name] for name in names if name in obj["metadata"]}
    status: Json = {"replicas": _replicas(obj, paths.status_replicas)}
    selector = _value_at(obj, paths.label_selector) if paths.label_selector else None
    if selector:
        status["selector"] = _selector_text(selector)
    replicas = _replicas(obj, paths.spec_replicas)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    """Return a label selector, the plain labels of a ReplicationController or a text as text.

    Raises StatusError(500) for any other value, which a custom resource may have.
    """
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        raise internal("the label selector is not a string")
    return selector_text(selector) if selector.keys() <= LABEL_SELECTOR else labels_text(selector)


def _replicas(obj: Json, path: str) -> int:
    """Return the integer at a path; 0 if there is none.

    Raises StatusError(500) for any other value, which a custom resource may have.
    """
    value = _value_at(obj, path)
    if value is not None and type(value) is not int:
        raise internal(f"{path} is not an integer")
    return value or 0


def _value_at(obj: Json, path: str) -> Any:
    value: Any = obj
    for name in path.removeprefix(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _set_value(obj: Json, path: str, value: Any) -> None:
    """Set the value at a path.  Raises StatusError(500) if a field on the path is not an object."""
    *above, last = path.removeprefix(".").split(".")
    for name in above:
        obj = obj.setdefault(name, {})
        if not isinstance(obj, dict):
            raise internal(f"{name} in {path} is not an object")
    obj[last] = value


HANDLERS = {"get": get, "update": replace, "patch": patch}
"""By verb."""
