"""POST: a new object."""

from typing import Any

from quorate.local.objects import types
from quorate.local.server import admission, answers, quota, tracking
from quorate.local.server.answers import Answer
from quorate.local.server.bodies import read_object
from quorate.local.server.call import Call
from quorate.local.server.errors import (
    StatusError,
    already_exists,
    bad_request,
    internal,
    invalid,
)
from quorate.local.server.store import Key, Stale
from quorate.local.server.validation import metadata

Json = dict[str, Any]

ONLY_THE_SERVER_SAYS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "resourceVersion",
)
NAME_ATTEMPTS = 8


async def create(call: Call) -> Answer:
    dry_run = call.dry_run("CreateOptions")
    obj = read_object(call, call.kind, "CreateOptions")
    generated = address(call, obj)
    for attempt in range(NAME_ATTEMPTS):
        if generated:
            obj["metadata"]["name"] = call.context.generate_name(obj["metadata"]["generateName"])
        try:
            return await create_object(call, obj, dry_run)
        except StatusError as error:
            if not (generated and error.reason == "AlreadyExists" and attempt + 1 < NAME_ATTEMPTS):
                raise
    raise AssertionError("the loop returns or raises")


def address(call: Call, obj: Json) -> bool:
    """Put the object where the request says; whether its name is to be generated.  Raises StatusError."""
    meta = obj.setdefault("metadata", {})
    if not call.kind.namespaced:
        meta.pop("namespace", None)
    elif meta.setdefault("namespace", call.namespace) != call.namespace:
        why = "the namespace of the provided object does not match the namespace sent on the request"
        raise bad_request(why)
    if meta.get("resourceVersion"):
        raise internal("resourceVersion should not be set on objects to be created")
    return bool(meta.get("generateName")) and not meta.get("name")


async def create_object(call: Call, obj: Json, dry_run: bool, tracked: bool = False) -> Answer:
    """Complete, check and store an object whose name and namespace are known.

    ``tracked``: it is said already who owns which field.
    """
    kind, meta = call.kind, obj["metadata"]
    for name in ONLY_THE_SERVER_SAYS:
        meta.pop(name, None)
    meta |= {"uid": call.context.new_uid(), "creationTimestamp": call.context.timestamp()}
    if kind.counts_generations:
        meta["generation"] = 1
    admission.require_namespace(call, obj)
    kind.rules.default(obj)
    if not tracked:
        tracking.track(call, obj, types.empty(kind.type))
    admission.complete(call, obj)
    kind.rules.begin(obj)
    findings = metadata.validate(kind, obj) + kind.rules.validate(obj) + kind.rules.validate_new(obj)
    if findings:
        raise invalid(kind.group, kind.kind, meta.get("name", ""), findings)
    call.warnings.extend(kind.rules.warn(obj))
    key = Key(kind.resource, call.namespace, meta["name"])
    refuse_existing(call, key)
    await quota.charge(call, obj, dry_run)
    if dry_run:
        return answers.single(call, obj, 201)
    try:
        return answers.stored(call, await call.context.store.create(key, kind.stored(obj)), 201)
    except Stale:
        refuse_existing(call, key)
        raise


def refuse_existing(call: Call, key: Key) -> None:
    entry = call.context.store.get(key)
    if entry is None:
        return
    error = already_exists(call.kind.group, call.kind.plural, key.name)
    if entry.decode()["metadata"].get("deletionTimestamp"):
        error.message = f"object is being deleted: {error.message}"
    raise error
