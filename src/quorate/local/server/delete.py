"""DELETE: one object or a collection, at once or after grace periods and finalizers."""

from dataclasses import dataclass
from typing import Any

from quorate.local.server import answers, listing, media, update
from quorate.local.server.answers import Answer, Page
from quorate.local.server.call import Call, invalid_options, timestamp
from quorate.local.server.errors import StatusError, bad_request, conflict, invalid_value, not_supported
from quorate.local.server.store import Entry, Stale

Json = dict[str, Any]

POLICIES = ("Foreground", "Background", "Orphan")
FINALIZER_OF_POLICY = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
OPTIONS = "DeleteOptions"

JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove"
    " them or set propagationPolicy=Orphan to suppress this warning"
)


@dataclass(frozen=True, slots=True)
class Options:
    grace_period_s: int | None = None
    policy: str = ""
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False


def read_options(call: Call) -> Options:
    """From the body if there is one, else from the query.  Raises StatusError: 400, 422."""
    body = _read_body(call) if call.body.strip() else {}
    dry_run = call.dry_run(OPTIONS)
    if body.get("dryRun") not in (None, [], ["All"]):
        raise invalid_options(OPTIONS, [not_supported("dryRun", body["dryRun"], ["All"])])
    grace = body.get("gracePeriodSeconds", _integer(call.query.get("gracePeriodSeconds")))
    policy = body.get("propagationPolicy", call.query.get("propagationPolicy")) or ""
    orphan = body.get("orphanDependents", _boolean(call.query.get("orphanDependents")))
    if orphan is not None and policy:
        why = "orphanDependents and deletionPropagation cannot be both set"
        raise invalid_options(OPTIONS, [invalid_value("propagationPolicy", policy, why)])
    if policy and policy not in POLICIES:
        raise invalid_options(OPTIONS, [not_supported("propagationPolicy", policy, (*POLICIES, "nil"))])
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = body.get("preconditions") or {}
    return Options(
        grace,
        policy,
        preconditions.get("uid") or "",
        preconditions.get("resourceVersion") or "",
        dry_run or body.get("dryRun") == ["All"],
    )


def _read_body(call: Call) -> Json:
    try:
        document = media.read_json(call.body).document
    except StatusError as error:
        raise bad_request(f"couldn't get version/kind; {error.message}") from error
    if not isinstance(document, dict):
        raise bad_request("couldn't get version/kind; json parse error: not an object")
    return document


def _integer(text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _boolean(text: str | None) -> bool | None:
    return None if text is None else text in ("true", "1")


async def delete(call: Call) -> Answer:
    return await delete_current(call, read_options(call))


async def delete_current(call: Call, options: Options) -> Answer:
    while True:
        entry = call.current()
        _require(call, options, entry)
        try:
            return await _delete_entry(call, options, entry)
        except Stale:
            continue


async def delete_collection(call: Call) -> Answer:
    """Each object as if it were deleted by itself; answers with the objects as they were."""
    options = read_options(call)
    page = listing.page(call)
    for entry in page.entries:
        current: Entry | None = entry
        while current is not None:
            try:
                await _delete_entry(call, options, current)
                break
            except Stale as stale:
                current = stale.current
    return answers.listed(call, Page(page.entries, call.context.store.revision))


def _require(call: Call, options: Options, entry: Entry) -> None:
    """Raises StatusError(409) if the object is not the one the client means."""
    uid = entry.decode()["metadata"]["uid"]
    if options.uid and options.uid != uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})."
            " The object might have been deleted and then recreated"
        )
        raise conflict(call.kind.group, call.kind.kind, call.name, why)
    if options.resource_version and options.resource_version != str(entry.revision):
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the"
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
            await store.delete(entry.key, entry.revision)
        if call.kind.resource == "pods":
            return answers.single(call, marked)
        return answers.deleted(call, entry.key.name, old["metadata"]["uid"])
    if marked == old or options.dry_run:
        return answers.single(call, marked)
    return answers.stored(call, await store.update(entry.key, marked, entry.revision))


def mark(call: Call, options: Options, obj: Json) -> Json:
    """The object as its deletion leaves it while something waits: times, finalizers, phase."""
    meta = obj["metadata"]
    policy = options.policy
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
    asked = options.grace_period_s
    grace = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 30)
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    return int(grace) if grace >= 0 else 1
