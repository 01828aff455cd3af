"""DELETE: delete an object or a collection, at once or after grace period and finalizers."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec
from multidict import MultiMapping

from quorate.api.codec import Json
from quorate.local.objects.crd import definition as definitions
from quorate.local.objects.errors import StatusError, bad_request, conflict, invalid_value, not_supported
from quorate.local.objects.protobuf.envelope import open_envelope
from quorate.local.objects.protobuf.reader import read_message
from quorate.local.objects.protobuf.table import Malformed, message_named
from quorate.local.server import parameters
from quorate.local.server.admission import plugins, priority
from quorate.local.server.admission import webhooks as webhooks
from quorate.local.server.handlers import listing, update
from quorate.local.server.registry import custom_resources
from quorate.local.server.requests import media_types, responses
from quorate.local.server.requests.body import SCHEME
from quorate.local.server.requests.context import RequestContext, invalid_options, timestamp
from quorate.local.server.requests.responses import ApiResponse
from quorate.local.server.storage.store import Entry, StaleRevision

PROPAGATION_POLICIES = ("Foreground", "Background", "Orphan")
FINALIZER_OF_POLICY = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
OPTIONS = "DeleteOptions"
MAX_GRACE_PERIOD_S = 2**31 - 1
"""The longest grace period: a timestamp must be able to hold the time of the deletion."""

ORPHANING = ("jobs.batch", "replicationcontrollers")
"""Kinds that orphan their pods by default."""
JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove"
    " them or set propagationPolicy=Orphan to suppress this warning"
)


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, frozen=True, rename="camel"):
    """DeleteOptions: the optional request body; most options may be query parameters instead."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: tuple[str, ...] | None = None


async def read_options(context: RequestContext) -> DeleteOptions:
    """Read the options from the body, or else from the query.  Raises StatusError: 400, 415, 422."""
    if not context.body.strip():
        return normalize_options(_from_query(context.query))
    return normalize_options(await context.compute(context.body_size, _from_body, context))


def _from_query(query: MultiMapping[str]) -> DeleteOptions:
    return DeleteOptions(
        parameters.integer(query, "gracePeriodSeconds"),
        query.get("propagationPolicy"),
        parameters.boolean(query, "orphanDependents") if "orphanDependents" in query else None,
        dry_run=tuple(query.getall("dryRun", ())) or None,
    )


def _from_body(context: RequestContext) -> DeleteOptions:
    document = _parse_options(media_types.body_media_type(context.content_type), context.body)
    if isinstance(document, dict) and document.get("kind") not in (None, "", OPTIONS):
        named = f'no kind "{document["kind"]}" is registered for version "{document.get("apiVersion", "")}"'
        raise bad_request(f'{named} in scheme "{SCHEME}')
    try:
        return msgspec.convert(document, DeleteOptions)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions: {error}") from error


def _parse_options(media_type: str, body: bytes) -> Any:
    """Return the body as JSON.  Raises StatusError(400)."""
    try:
        match media_type:
            case media_types.PROTOBUF:
                return _parse_protobuf_options(body)
            case media_types.YAML:
                return media_types.parse_yaml(body).document
            case _:
                return media_types.parse_json(body).document
    except StatusError as error:
        raise bad_request(f"couldn't get version/kind; {error.message}") from error
    except Malformed as error:
        raise bad_request(str(error)) from error


def _parse_protobuf_options(body: bytes) -> Json:
    """Return DeleteOptions of any API version.  Raises Malformed, also for any other kind."""
    envelope = open_envelope(body)
    if envelope.kind != OPTIONS:
        raise Malformed(f'no kind "{envelope.kind}" is registered for version "{envelope.api_version}"')
    return read_message(message_named(f"meta.{OPTIONS}"), envelope.message)


def normalize_options(options: DeleteOptions) -> DeleteOptions:
    """Validate options and replace orphanDependents by a propagation policy.  Raises StatusError(422)."""
    policy, orphan = options.propagation_policy, options.orphan_dependents
    findings = []
    if orphan is not None and policy is not None:
        message = "orphanDependents and deletionPropagation cannot be both set"
        findings.append(invalid_value("propagationPolicy", policy, message))
    elif policy is not None and policy not in PROPAGATION_POLICIES:
        findings.append(not_supported("propagationPolicy", policy, (*PROPAGATION_POLICIES, "nil")))
    if set(options.dry_run or ()) - {"All"}:
        findings.append(not_supported("dryRun", list(options.dry_run or ()), ["All"]))
    if findings:
        raise invalid_options(OPTIONS, findings)
    if orphan is not None:
        return msgspec.structs.replace(options, propagation_policy="Orphan" if orphan else "Background")
    return options


async def delete(context: RequestContext) -> ApiResponse:
    return await delete_current(context, await read_options(context))


async def delete_current(
    context: RequestContext, options: DeleteOptions, *, admitted: bool = False
) -> ApiResponse:
    """Delete the requested object.

    ``admitted``: webhooks have already reviewed the deletion in another form.
    """
    _warn(context, options)
    while True:
        entry = await context.current()
        _check_preconditions(context, options, entry)
        if not admitted:
            await webhooks.admit_deletion(context, context.decode(entry), _options_json(options))
        with suppress(StaleRevision):
            return await _delete_entry(context, options, entry)


async def delete_collection(context: RequestContext) -> ApiResponse:
    """Delete each object of a collection; return the objects as they were."""
    options = await read_options(context)
    page = await listing.list_page(context)
    if page.entries:
        _warn(context, options)
    for entry in page.entries:
        current: Entry | None = entry
        while current is not None:
            _check_preconditions(context, options, current)
            await webhooks.admit_deletion(context, context.decode(current), _options_json(options))
            try:
                await _delete_entry(context, options, current)
                break
            except StaleRevision as stale:
                current = stale.current and await context.converted(stale.current)
    return responses.object_list(context, replace(page, revision=context.server.store.revision))


def _warn(context: RequestContext, options: DeleteOptions) -> None:
    if context.kind.resource == "jobs.batch" and not options.propagation_policy:
        context.warnings.append(JOB_WARNING)


def _check_preconditions(context: RequestContext, options: DeleteOptions, entry: Entry) -> None:
    """Check the preconditions of the options.  Raises StatusError(409)."""
    uid = entry.decode()["metadata"]["uid"]
    preconditions = options.preconditions or Preconditions()
    if preconditions.uid and preconditions.uid != uid:
        message = (
            f"the UID in the precondition ({preconditions.uid}) does not match the UID in record ({uid})."
            " The object might have been deleted and then recreated"
        )
        raise conflict(context.kind.group, context.kind.kind, entry.key.name, message)
    if preconditions.resource_version and preconditions.resource_version != str(entry.revision):
        message = (
            f"the ResourceVersion in the precondition ({preconditions.resource_version}) does not match the"
            f" ResourceVersion in record ({entry.revision}). The object might have been modified"
        )
        raise conflict(context.kind.group, context.kind.kind, entry.key.name, message)


async def _delete_entry(context: RequestContext, options: DeleteOptions, entry: Entry) -> ApiResponse:
    """Delete the object, or mark it for deletion if finalizers or a grace period remain.

    Raises StaleRevision.
    """
    store = context.server.store
    old = context.decode(entry)
    priority.check_deletion(context, old)
    plugins.check_namespace_deletion(context, old)
    marked = mark_for_deletion(context, options, context.decode(entry))
    if update.is_deletion_complete(marked):
        if not options.dry_run:
            if context.kind.resource == "pods" and marked != old:
                # A client that waits for the end of the grace period must see that it is over.
                entry = await context.update(entry, marked)
            await store.delete(entry.key, entry.revision)
        if context.kind.return_deleted_object:
            return responses.single_object(context, marked if context.kind.resource == "pods" else old)
        return responses.deletion_status(context, entry.key.name, old["metadata"]["uid"])
    if marked == old or options.dry_run:
        return responses.single_object(context, marked)
    return responses.stored_object(context, await context.update(entry, marked))


def _options_json(options: DeleteOptions) -> Json:
    given: Json = msgspec.to_builtins(options)
    return {name: value for name, value in given.items() if value is not None}


def mark_for_deletion(context: RequestContext, options: DeleteOptions, obj: Json) -> Json:
    """Return the object marked for deletion: timestamp, grace period, finalizers, phase."""
    meta = obj["metadata"]
    policy = options.propagation_policy
    if context.kind.resource == "events":  # which the garbage collector ignores
        policy = None
    orphans = context.kind.resource in ORPHANING and not policy
    if orphans and "foregroundDeletion" not in meta.get("finalizers", ()):
        policy = "Orphan"  # the default of this API, kept for clients older than the garbage collector
    if policy:
        finalizers = [f for f in meta.get("finalizers", []) if f not in FINALIZER_OF_POLICY.values()]
        if policy in FINALIZER_OF_POLICY:
            finalizers.append(FINALIZER_OF_POLICY[policy])
        meta.pop("finalizers", None)
        if finalizers:
            meta["finalizers"] = finalizers
    if context.kind.resource == "namespaces":
        meta.setdefault("deletionTimestamp", context.server.timestamp())
        obj["status"] = (obj.get("status") or {}) | {"phase": "Terminating"}
        return obj
    if context.kind.resource == custom_resources.RESOURCE and "deletionTimestamp" not in meta:
        finalizers = meta.setdefault("finalizers", [])
        if definitions.FINALIZER not in finalizers:
            finalizers.append(definitions.FINALIZER)
        meta["deletionTimestamp"] = context.server.timestamp()
        return obj
    grace = grace_period(context, options, obj)
    if "deletionTimestamp" in meta:  # only a request that says so shortens the period
        is_requested = options.grace_period_seconds is not None
        if is_requested and grace < meta.get("deletionGracePeriodSeconds", 0):
            meta["deletionGracePeriodSeconds"] = grace
            meta["deletionTimestamp"] = timestamp(context.server.clock.now() + grace)
        return obj
    meta["deletionTimestamp"] = timestamp(context.server.clock.now() + grace)
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation"):
        meta["generation"] += 1
    return obj


def grace_period(context: RequestContext, options: DeleteOptions, obj: Json) -> int:
    """Return the grace period in seconds; 0 except for a pod that runs on a node."""
    if context.kind.resource != "pods":
        return 0
    spec, phase = obj["spec"], obj.get("status", {}).get("phase")
    requested = options.grace_period_seconds
    grace = requested if requested is not None else spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    return min(int(grace), MAX_GRACE_PERIOD_S) if grace >= 0 else 1
