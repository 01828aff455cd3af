"""DELETE: one object or a collection, at once or after grace periods and finalizers."""

from collections.abc import Mapping
from typing import Any

import msgspec

from quorate.local.server.admission.webhooks import dispatch as webhooks
from quorate.local.server.errors import StatusError, bad_request, conflict, invalid_value, not_supported
from quorate.local.server.handlers import listing, update
from quorate.local.server.requests import media_types, responses
from quorate.local.server.requests.context import Call, invalid_options, timestamp
from quorate.local.server.requests.responses import Answer, Page
from quorate.local.server.storage.store import Entry, Stale

Json = dict[str, Any]

POLICIES = ("Foreground", "Background", "Orphan")
FINALIZER_OF_POLICY = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
OPTIONS = "DeleteOptions"

JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove"
    " them or set propagationPolicy=Orphan to suppress this warning"
)


class Preconditions(msgspec.Struct, frozen=True, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class Options(msgspec.Struct, frozen=True, rename="camel"):
    """DeleteOptions, the body a deletion may have; the query may say most of it too."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: tuple[str, ...] | None = None


def read_options(call: Call) -> Options:
    """From the body if there is one, else from the query.  Raises StatusError: 400, 422."""
    return consistent(_from_body(call.body) if call.body.strip() else _from_query(call.query))


def _from_query(query: Mapping[str, str]) -> Options:
    grace, orphan, dry_run = (
        query.get(name) for name in ("gracePeriodSeconds", "orphanDependents", "dryRun")
    )
    if grace and not grace.removeprefix("-").isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax')
    return Options(
        int(grace) if grace else None,
        query.get("propagationPolicy") or None,
        orphan in ("true", "1") if orphan else None,
        dry_run=(dry_run,) if dry_run else None,
    )


def _from_body(body: bytes) -> Options:
    try:
        document = media_types.read_json(body).document
    except StatusError as error:
        raise bad_request(f"couldn't get version/kind; {error.message}") from error
    try:
        return msgspec.convert(document, Options)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions: {error}") from error


def consistent(options: Options) -> Options:
    """The options with one way to say what becomes of dependents.  Raises StatusError(422)."""
    policy, orphan = options.propagation_policy, options.orphan_dependents
    if options.dry_run not in (None, (), ("All",)):
        raise invalid_options(OPTIONS, [not_supported("dryRun", list(options.dry_run or ()), ["All"])])
    if orphan is not None and policy:
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options(OPTIONS, [invalid_value("propagationPolicy", policy, why)])
    if policy and policy not in POLICIES:
        raise invalid_options(OPTIONS, [not_supported("propagationPolicy", policy, (*POLICIES, "nil"))])
    if orphan is not None:
        return msgspec.structs.replace(options, propagation_policy="Orphan" if orphan else "Background")
    return options


async def delete(call: Call) -> Answer:
    return await delete_current(call, read_options(call))


async def delete_current(call: Call, options: Options, *, reviewed: bool = False) -> Answer:
    """``reviewed``: webhooks have been asked already, in another form."""
    while True:
        entry = await call.current()
        _require(call, options, entry)
        if not reviewed:
            await webhooks.deletion_admitted(call, call.decode(entry), _options_json(options))
        try:
            return await _delete_entry(call, options, entry)
        except Stale:
            continue


async def delete_collection(call: Call) -> Answer:
    """Each object as if it were deleted by itself; answers with the objects as they were."""
    options = read_options(call)
    page = await listing.page(call)
    for entry in page.entries:
        current: Entry | None = entry
        while current is not None:
            await webhooks.deletion_admitted(call, call.decode(current), _options_json(options))
            try:
                await _delete_entry(call, options, current)
                break
            except Stale as stale:
                current = stale.current and await call.served(stale.current)
    return responses.listed(call, Page(page.entries, call.context.store.revision))


def _require(call: Call, options: Options, entry: Entry) -> None:
    """Raises StatusError(409) if the object is not the one the client means."""
    uid = entry.decode()["metadata"]["uid"]
    wanted = options.preconditions or Preconditions()
    if wanted.uid and wanted.uid != uid:
        why = (
            f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({uid})."
            " The object might have been deleted and then recreated"
        )
        raise conflict(call.kind.group, call.kind.kind, call.name, why)
    if wanted.resource_version and wanted.resource_version != str(entry.revision):
        why = (
            f"the ResourceVersion in the precondition ({wanted.resource_version}) does not match the"
            f" ResourceVersion in record ({entry.revision}). The object might have been modified"
        )
        raise conflict(call.kind.group, call.kind.kind, call.name, why)


async def _delete_entry(call: Call, options: Options, entry: Entry) -> Answer:
    """Delete, or mark for deletion what has somebody to wait for.  Raises Stale."""
    store = call.context.store
    old = call.decode(entry)
    marked = mark(call, options, call.decode(entry))
    if update.is_gone(marked):
        if not options.dry_run:
            if "deletionTimestamp" in old["metadata"] and marked != old:
                # Whoever waited for the end of its grace period sees that it was cut short.
                entry = await call.update(entry, marked)
            await store.delete(entry.key, entry.revision)
        if call.kind.deletion_answers_object:
            return responses.single(call, marked if call.kind.resource == "pods" else old)
        return responses.deleted(call, entry.key.name, old["metadata"]["uid"])
    if marked == old or options.dry_run:
        return responses.single(call, marked)
    return responses.stored(call, await call.update(entry, marked))


def _options_json(options: Options) -> Json:
    given: Json = msgspec.to_builtins(options)
    return {name: value for name, value in given.items() if value is not None}


def mark(call: Call, options: Options, obj: Json) -> Json:
    """The object as its deletion leaves it while something waits: times, finalizers, phase."""
    meta = obj["metadata"]
    policy = options.propagation_policy
    if call.kind.resource == "jobs.batch" and not policy:
        policy = "Orphan"  # what clients older than the garbage collector expect
        call.warnings.append(JOB_WARNING)
    if policy:
        finalizers = [f for f in meta.get("finalizers", []) if f not in FINALIZER_OF_POLICY.values()]
        if policy in FINALIZER_OF_POLICY:
            finalizers.append(FINALIZER_OF_POLICY[policy])
        meta.pop("finalizers", None)
        if finalizers:
            meta["finalizers"] = finalizers
    if call.kind.resource == "namespaces":
        meta.setdefault("deletionTimestamp", call.context.timestamp())
        obj["status"] = (obj.get("status") or {}) | {"phase": "Terminating"}
        return obj
    grace = grace_period(call, options, obj)
    if "deletionTimestamp" in meta:
        if grace < meta.get("deletionGracePeriodSeconds", 0):
            meta["deletionGracePeriodSeconds"] = grace
            meta["deletionTimestamp"] = timestamp(call.context.clock.now() + grace)
        return obj
    meta["deletionTimestamp"] = timestamp(call.context.clock.now() + grace)
    meta["deletionGracePeriodSeconds"] = grace
    if meta.get("generation"):
        meta["generation"] += 1
    return obj


def grace_period(call: Call, options: Options, obj: Json) -> int:
    """Seconds a pod gets to stop; nothing else waits, nor does a pod on no node or one that has ended."""
    if call.kind.resource != "pods":
        return 0
    spec, phase = obj["spec"], obj.get("status", {}).get("phase")
    asked = options.grace_period_seconds
    grace = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    return int(grace) if grace >= 0 else 1
