"""PUT, and the update loop of PATCH: change a stored object or its status."""

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from quorate.api.codec import Json
from quorate.local.objects.errors import bad_request, conflict, internal, invalid, invalid_value
from quorate.local.objects.patch import managed_fields
from quorate.local.server.admission import plugins, resource_quota, service_addresses
from quorate.local.server.admission import webhooks as webhooks
from quorate.local.server.admission.escalation import check_escalation
from quorate.local.server.handlers import create, field_tracking
from quorate.local.server.parameters import unsigned
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.strategies import SUBRESOURCE_STRATEGIES
from quorate.local.server.registry.validation import metadata
from quorate.local.server.requests import responses
from quorate.local.server.requests.body import read_object
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.requests.responses import ApiResponse
from quorate.local.server.storage.store import Entry, StaleRevision

UpdateFunction = Callable[[Json], Json]
"""Returns the updated object, given a copy of the current one."""

STATUS_SUBRESOURCES = ("status", "approval")
"""Subresources that change a part of the status and nothing else."""
METADATA_IN_GENERATION: Final = {
    "deployments.apps": "annotations",
    "endpointslices.discovery.k8s.io": "labels",
}
IMMUTABLE_METADATA = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
"""Metadata that only the server changes."""


async def replace(context: RequestContext) -> ApiResponse:
    dry_run = context.dry_run("UpdateOptions")
    obj = await read_object(context, context.kind)
    check_name(context, obj.setdefault("metadata", {}).get("name"))
    create.check_namespace(context, obj)
    if context.server.store.get(context.key) is None and context.kind.allow_create_on_update:
        context.require("create")
        create.refuse_uid(context, obj["metadata"].get("uid"))
        obj["metadata"].pop("resourceVersion", None)
        return await create.create_object(context, obj, dry_run)
    return await guaranteed_update(context, lambda _: copy.deepcopy(obj), dry_run)


def check_uid(context: RequestContext, uid: object, current: str) -> None:
    """Check the uid that a subresource names against that of its object.  Raises StatusError(409)."""
    if uid and uid != current:
        key = f"/registry/{context.kind.plural}/{context.namespace}/{context.name}"
        message = (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg:"
            f" Precondition failed: UID in precondition: {uid}, UID in object meta: {current}"
        )
        raise conflict(context.kind.group, context.kind.plural, context.name, message)


def check_name(context: RequestContext, name: object) -> None:
    """Check the name of an object against the request.  Raises StatusError(400)."""
    if not name:
        raise bad_request(
            f"the name of the object ({context.name} based on URL) was undeterminable: name must be provided"
        )
    if name != context.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({context.name})"
        )


async def guaranteed_update(
    context: RequestContext,
    update_function: UpdateFunction,
    dry_run: bool,
    *,
    fields_tracked: bool = False,
    admitted: bool = False,
) -> ApiResponse:
    """Apply an update function to the newest object, and again after a concurrent write.

    An update that names a resourceVersion applies to that version only.  An update without effect writes
    nothing.  ``fields_tracked``: managedFields are already set.  ``admitted``: webhooks have already reviewed
    the update in another form.
    """
    while True:
        entry = await context.current()
        size = context.body_size + len(entry.data)
        old = context.decode(entry)
        new = await context.compute(size, update_function, context.decode(entry))
        create.check_namespace(context, new)
        field_tracking.merge_owner_references(context, new)
        _check_preconditions(context, new, old, entry.revision)
        if not admitted:
            new = await webhooks.mutate(context, "UPDATE", new, old)
        updated = await context.check(size, prepare_update, context, new, old)
        check_escalation(context, updated, old)
        plugins.run_update_plugins(context, updated, old)
        if not fields_tracked:
            await context.compute(size, field_tracking.track_fields, context, updated, old)
        if not admitted:
            await webhooks.validate(context, "UPDATE", updated, old)
        if await context.compute(size, managed_fields.is_equal_except_times, old, updated):
            return responses.stored_object(context, entry)
        await resource_quota.charge_quota(context, updated, dry_run, old)
        if dry_run:
            return responses.single_object(context, updated)
        with suppress(StaleRevision):
            return await _write(context, updated, entry)


async def update_unchecked(
    context: RequestContext, update_function: UpdateFunction, dry_run: bool
) -> ApiResponse:
    """Update the newest object on behalf of the server, without admission and validation."""
    while True:
        entry = await context.current()
        new = update_function(context.decode(entry))
        if dry_run or new == context.decode(entry):
            return responses.single_object(context, new)
        with suppress(StaleRevision):
            return await _write(context, new, entry)


async def _write(context: RequestContext, obj: Json, entry: Entry) -> ApiResponse:
    """Store the update, or delete the object if its deletion is now complete."""
    if is_deletion_complete(obj):
        await context.server.store.delete(entry.key, entry.revision)
        return responses.single_object(context, obj)
    return responses.stored_object(context, await context.update(entry, obj))


def is_deletion_complete(obj: Json) -> bool:
    """Return True if a marked object has neither finalizers nor a grace period left."""
    meta, spec = obj["metadata"], obj.get("spec")
    pending = (
        meta.get("finalizers"),
        meta.get("deletionGracePeriodSeconds"),
        spec.get("finalizers") if isinstance(spec, dict) else None,  # without a schema it may be anything
    )
    return "deletionTimestamp" in meta and not any(pending)


def _check_preconditions(context: RequestContext, new: Json, old: Json, current: int) -> None:
    """Check resourceVersion and uid of the update.  Raises StatusError: 409, 422."""
    kind = context.kind
    try:
        revision = unsigned(new["metadata"].get("resourceVersion") or "0")
    except ValueError as error:
        raise internal(str(error)) from error
    if not revision and kind.require_resource_version:
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(kind.group, kind.plural, context.name, [cause])
    if revision not in (0, current):
        raise conflict(kind.group, kind.plural, context.name)
    uid, current_uid = new["metadata"].get("uid"), old["metadata"]["uid"]
    if uid and uid != current_uid:
        message = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current_uid}"
        raise conflict(kind.group, kind.plural, context.name, message)


def prepare_update(context: RequestContext, new: Json, old: Json) -> Json:
    """Restore immutable parts, set defaults and generation, and validate; return the object to store."""
    kind, subresource = context.kind, context.info.subresource
    strategy = SUBRESOURCE_STRATEGIES.get((kind.resource, subresource), kind.strategy)
    updates_status = subresource in STATUS_SUBRESOURCES
    if updates_status:
        new = {**old, "metadata": new["metadata"], "status": new.get("status", {})}
    elif kind.has_status:
        new = {name: value for name, value in new.items() if name != "status"}
        if "status" in old:
            new["status"] = old["status"]
    deletion_causes = metadata.validate_deletion(new["metadata"], old["metadata"])
    _restore_metadata(new["metadata"], old["metadata"])
    if updates_status:
        plugins.run_status_plugins(context, new, old)
        strategy.prepare_for_status_update(new, old)
    else:
        strategy.prepare_for_update(new, old)
    strategy.default(new)
    if (
        not updates_status
        and kind.tracks_generation
        and not kind.fixed_generation
        and _generation_fields(kind, new) != _generation_fields(kind, old)
    ):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    causes = [] if updates_status else service_addresses.allocate(context, new, old)
    # kube-apiserver validates metadata for the object and for the kind, and lists findings twice.
    findings = metadata.validate(kind, new)
    findings += (metadata.validate_update(kind, new, old) + deletion_causes) * 2
    if updates_status:
        findings += strategy.validate_status(new, old)
    else:
        findings += strategy.validate(new) + strategy.validate_update(new, old)
    if findings := findings or causes:
        raise invalid(kind.error_group, kind.kind, context.name, findings)
    generations = [obj["metadata"].get("generation") for obj in (new, old)]
    if not updates_status and kind.resource != "pods" and generations[0] != generations[1]:
        context.warnings.extend(strategy.warnings(new))
    return new


def _restore_metadata(new: Json, old: Json) -> None:
    for name in (*IMMUTABLE_METADATA, "resourceVersion"):
        new.pop(name, None)
        if name in old:
            new[name] = old[name]


def _generation_fields(kind: Kind, obj: Json) -> Json:
    """Return the fields that increment the generation on change: all but status, and little of metadata."""
    excluded = ("metadata", "status") if kind.has_status else ("metadata",)
    fields = {name: value for name, value in obj.items() if name not in excluded}
    if part := METADATA_IN_GENERATION.get(kind.resource):
        fields[part] = obj["metadata"].get(part) or {}
    return fields
