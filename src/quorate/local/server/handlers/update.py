"""PUT and PATCH: a stored object changed, also through /status."""

import copy
from collections.abc import Callable
from typing import Any

from quorate.local.objects.patch import managed_fields
from quorate.local.server.admission.webhooks import dispatch as webhooks
from quorate.local.server.auth.escalation import require_rights
from quorate.local.server.errors import bad_request, conflict, internal, invalid, invalid_value
from quorate.local.server.handlers import create, field_tracking
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation import metadata
from quorate.local.server.requests import responses
from quorate.local.server.requests.body import read_object
from quorate.local.server.requests.context import Call
from quorate.local.server.requests.responses import Answer
from quorate.local.server.storage.store import Entry, Stale

Json = dict[str, Any]
Change = Callable[[Json], Json]
"""From a copy of the object as it is to what the client wants it to be."""

KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)
"""Metadata that only the server changes."""


async def replace(call: Call) -> Answer:
    dry_run = call.dry_run("UpdateOptions")
    wanted = read_object(call, call.kind, "UpdateOptions")
    _check_address(call, wanted)
    if call.context.store.get(call.key) is None and call.kind.create_on_update:
        call.require("create")
        wanted["metadata"].pop("resourceVersion", None)
        return await create.create_object(call, wanted, dry_run)
    if call.kind.update_names_version and not wanted["metadata"].get("resourceVersion"):
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(call.kind.group, call.kind.plural, call.name, [cause])
    return await change(call, lambda _: copy.deepcopy(wanted), dry_run)


def _check_address(call: Call, wanted: Json) -> None:
    meta = wanted.setdefault("metadata", {})
    name = meta.get("name") or ""
    if not name:
        why = f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        raise bad_request(why)
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")
    if call.kind.namespaced and meta.setdefault("namespace", call.namespace) != call.namespace:
        why = "the namespace of the provided object does not match the namespace sent on the request"
        raise bad_request(why)


async def change(
    call: Call, wanted: Change, dry_run: bool, *, tracked: bool = False, reviewed: bool = False
) -> Answer:
    """Carry out a change on the newest state, again if somebody else was faster.

    A change that names a resourceVersion is for that version only.  One that changes nothing writes nothing.
    ``tracked``: the change has said itself who owns which field.  ``reviewed``: webhooks have seen it, in
    another form.
    """
    while True:
        entry = await call.current()
        old = call.decode(entry)
        new = wanted(call.decode(entry))
        _require_version(call, new, entry)
        if not reviewed:
            new = await webhooks.mutated(call, "UPDATE", new, old)
        merged = settle(call, new, old)
        require_rights(call, merged, old)
        if not tracked:
            field_tracking.track(call, merged, old)
        if not reviewed:
            await webhooks.admitted(call, "UPDATE", merged, old)
        if managed_fields.is_equal_except_times(old, merged):
            return responses.stored(call, entry)
        if dry_run:
            return responses.single(call, merged)
        try:
            return await _write(call, merged, entry)
        except Stale:
            continue


async def rewrite(call: Call, rewritten: Change, dry_run: bool) -> Answer:
    """A change by the server itself, carried out on the newest state; it obeys no rules but its own."""
    while True:
        entry = await call.current()
        new = rewritten(call.decode(entry))
        if dry_run or new == call.decode(entry):
            return responses.single(call, new)
        try:
            return await _write(call, new, entry)
        except Stale:
            continue


async def _write(call: Call, obj: Json, entry: Entry) -> Answer:
    """Store the change; an object that waits for deletion goes with its last finalizer."""
    if is_gone(obj):
        await call.context.store.delete(entry.key, entry.revision)
        return responses.single(call, obj)
    return responses.stored(call, await call.update(entry, obj))


def is_gone(obj: Json) -> bool:
    """Whether an object that was to be deleted has nothing left to wait for."""
    meta = obj["metadata"]
    waits = (
        meta.get("finalizers"),
        meta.get("deletionGracePeriodSeconds"),
        (obj.get("spec") or {}).get("finalizers"),
    )
    return "deletionTimestamp" in meta and not any(waits)


def _require_version(call: Call, new: Json, entry: Entry) -> None:
    """Raises StatusError(409) if the change was made for another version, or another object of this name."""
    kind, version = call.kind, new["metadata"].get("resourceVersion") or "0"
    if not version.isdecimal():
        raise internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version != "0" and int(version) != entry.revision:
        raise conflict(kind.group, kind.plural, call.name)
    uid, known = new["metadata"].get("uid"), entry.decode()["metadata"]["uid"]
    if uid and uid != known:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {known}"
        raise conflict(kind.group, kind.plural, call.name, why)


def settle(call: Call, new: Json, old: Json) -> Json:
    """The object that the change makes: what it may not touch put back, defaults, generation; checked."""
    kind = call.kind
    if call.asked.subresource == "status":
        new = {**old, "metadata": new["metadata"], "status": new.get("status", {})}
    elif kind.has_status:
        new = {name: value for name, value in new.items() if name != "status"}
        if "status" in old:
            new["status"] = old["status"]
    _keep_metadata(new["metadata"], old["metadata"])
    if call.asked.subresource == "status":
        kind.rules.carry_status(new, old)
    else:
        kind.rules.carry(new, old)
    kind.rules.default(new)
    if kind.counts_generations and _contents(kind, new) != _contents(kind, old):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    # Twice, as kube-apiserver lists them: once for the object, once for the kind.
    findings = metadata.validate(kind, new) + metadata.validate_update(kind, new, old) * 2
    if call.asked.subresource == "status":
        findings += kind.rules.validate_status(new, old)
    else:
        findings += kind.rules.validate(new) + kind.rules.validate_update(new, old)
        call.warnings.extend(kind.rules.warn(new))
    if findings:
        raise invalid(kind.group, kind.kind, call.name, findings)
    return new


def _keep_metadata(new: Json, old: Json) -> None:
    for name in (*KEPT, "resourceVersion"):
        new.pop(name, None)
        if name in old:
            new[name] = old[name]


def _contents(kind: Kind, obj: Json) -> Json:
    """What generations count: all but metadata, and the status where it has a path of its own."""
    apart = ("metadata", "status") if kind.has_status else ("metadata",)
    return {name: value for name, value in obj.items() if name not in apart}
