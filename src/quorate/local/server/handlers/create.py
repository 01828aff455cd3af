"""POST: create an object."""

import re

from quorate.api.codec import Json
from quorate.local.objects.errors import already_exists, bad_request, conflict, internal, invalid
from quorate.local.server.admission import plugins, resource_quota, service_addresses
from quorate.local.server.admission import webhooks as webhooks
from quorate.local.server.admission.escalation import check_escalation
from quorate.local.server.handlers import field_tracking
from quorate.local.server.registry import object_encoding
from quorate.local.server.registry.validation import metadata
from quorate.local.server.requests import responses
from quorate.local.server.requests.body import read_object
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.requests.responses import ApiResponse
from quorate.local.server.storage.store import Key, StaleRevision

SERVER_SET_METADATA = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "resourceVersion",
)
NAME_ATTEMPTS = 8


async def create(context: RequestContext) -> ApiResponse:
    dry_run = context.dry_run("CreateOptions")
    obj = await read_object(context, context.kind)
    check_namespace(context, obj)
    revision = obj["metadata"].get("resourceVersion", "")
    has_revision = re.fullmatch("[0-9]{1,19}", revision) is not None and int(revision) > 0
    return await create_object(context, obj, dry_run, has_revision=has_revision)


def check_namespace(context: RequestContext, obj: Json) -> None:
    """Set the namespace of the object, or check it against the request.  Raises StatusError."""
    meta = obj.setdefault("metadata", {})
    if not context.kind.namespaced:
        meta.pop("namespace", None)
    elif meta.setdefault("namespace", context.namespace) != context.namespace:
        message = "the namespace of the provided object does not match the namespace sent on the request"
        raise bad_request(message)


async def create_object(
    context: RequestContext,
    obj: Json,
    dry_run: bool,
    fields_tracked: bool = False,
    *,
    has_revision: bool = False,
) -> ApiResponse:
    """Admit, validate and store an object with a checked namespace.

    ``fields_tracked``: managedFields are already set.  ``has_revision``: the client has set the
    resourceVersion, which is refused after admission.
    """
    for name in SERVER_SET_METADATA:
        obj["metadata"].pop(name, None)
    plugins.require_namespace(context, obj)
    if context.kind.resource in context.server.registry.terminating:
        reason = "create not allowed while custom resource definition is terminating"
        raise context.forbidden(obj, reason)
    field_tracking.merge_owner_references(context, obj)
    context.kind.strategy.default(obj)
    if not fields_tracked:
        nothing = object_encoding.empty_object(context.kind)
        await context.compute(context.body_size, field_tracking.track_fields, context, obj, nothing)
    plugins.run_mutating_plugins(context, obj)
    obj = await webhooks.mutate(context, "CREATE", obj)
    check_namespace(context, obj)
    check_escalation(context, obj)
    await context.check(context.body_size, _prepare, context, obj)
    plugins.run_validating_plugins(context, obj)
    await webhooks.validate(context, "CREATE", obj)
    if has_revision and not dry_run:
        raise internal("resourceVersion should not be set on objects to be created")
    context.kind.strategy.default_on_read(obj)
    key = Key(context.kind.resource, context.namespace, obj["metadata"]["name"])
    require_absent(context, key)
    await resource_quota.charge_quota(context, obj, dry_run)
    if dry_run:
        return responses.single_object(context, obj, 201)
    try:
        return responses.stored_object(context, await context.create(key, obj), 201)
    except StaleRevision:
        require_absent(context, key)
        raise


def refuse_uid(context: RequestContext, uid: object) -> None:
    """Refuse to create an object for a request that names an existing one by its uid.

    Raises StatusError(409).
    """
    if uid:
        missing = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(context.kind.group, context.kind.plural, context.name, missing)


def _prepare(context: RequestContext, obj: Json) -> None:
    """Set server-owned metadata, run the strategy, and validate.  Raises StatusError(422)."""
    kind, meta = context.kind, obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _generate_unused_name(context, meta["generateName"])
    meta |= {"uid": context.server.new_uid(), "creationTimestamp": context.server.timestamp()}
    if kind.tracks_generation:
        meta["generation"] = 1
    causes = service_addresses.allocate(context, obj)
    kind.strategy.prepare_for_create(obj)
    findings = metadata.validate(kind, obj) + kind.strategy.validate(obj) + kind.strategy.validate_create(obj)
    if findings := findings or causes:
        raise invalid(kind.error_group, kind.kind, meta.get("name", ""), findings)
    context.warnings.extend(kind.strategy.warnings(obj))


def _generate_unused_name(context: RequestContext, base: str) -> str:
    """Return a generated name; after several attempts it may still be in use."""
    name = ""
    for _ in range(NAME_ATTEMPTS):
        name = context.server.generate_name(base)
        if context.server.store.get(Key(context.kind.resource, context.namespace, name)) is None:
            break
    return name


def require_absent(context: RequestContext, key: Key) -> None:
    entry = context.server.store.get(key)
    if entry is None:
        return
    error = already_exists(context.kind.group, context.kind.plural, key.name)
    if entry.decode()["metadata"].get("deletionTimestamp"):
        error.message = f"object is being deleted: {error.message}"
    raise error
