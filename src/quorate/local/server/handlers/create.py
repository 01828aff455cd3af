"""POST: a new object."""

from typing import Any

from quorate.local.objects import schema_types
from quorate.local.server.admission import plugins, resource_quota
from quorate.local.server.admission.webhooks import dispatch as webhooks
from quorate.local.server.auth.escalation import require_rights
from quorate.local.server.errors import already_exists, bad_request, internal, invalid
from quorate.local.server.handlers import field_tracking
from quorate.local.server.registry.validation import metadata
from quorate.local.server.requests import responses
from quorate.local.server.requests.body import read_object
from quorate.local.server.requests.context import Call
from quorate.local.server.requests.responses import Answer
from quorate.local.server.storage.store import Key, Stale

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
    address(call, obj)
    return await create_object(call, obj, dry_run)


def address(call: Call, obj: Json) -> None:
    """Put the object where the request says.  Raises StatusError."""
    meta = obj.setdefault("metadata", {})
    if not call.kind.namespaced:
        meta.pop("namespace", None)
    elif meta.setdefault("namespace", call.namespace) != call.namespace:
        why = "the namespace of the provided object does not match the namespace sent on the request"
        raise bad_request(why)
    if meta.get("resourceVersion"):
        raise internal("resourceVersion should not be set on objects to be created")


async def create_object(call: Call, obj: Json, dry_run: bool, tracked: bool = False) -> Answer:
    """Complete, check and store an object whose namespace is known.

    ``tracked``: it is said already who owns which field.
    """
    for name in ONLY_THE_SERVER_SAYS:
        obj["metadata"].pop(name, None)
    plugins.require_namespace(call, obj)
    call.kind.rules.default(obj)
    if not tracked:
        field_tracking.track(call, obj, schema_types.empty_object(call.kind.type))
    plugins.complete(call, obj)
    obj = await webhooks.mutated(call, "CREATE", obj)
    require_rights(call, obj)
    _begin(call, obj)
    await webhooks.admitted(call, "CREATE", obj)
    call.kind.rules.read_back(obj)
    key = Key(call.kind.resource, call.namespace, obj["metadata"]["name"])
    refuse_existing(call, key)
    await resource_quota.charge(call, obj, dry_run)
    if dry_run:
        return responses.single(call, obj, 201)
    try:
        return responses.stored(call, await call.create(key, obj), 201)
    except Stale:
        refuse_existing(call, key)
        raise


def _begin(call: Call, obj: Json) -> None:
    """What a new object gets from the server alone; then its rules.  Raises StatusError(422)."""
    kind, meta = call.kind, obj["metadata"]
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = _unused_name(call, meta["generateName"])
    meta |= {"uid": call.context.new_uid(), "creationTimestamp": call.context.timestamp()}
    if kind.counts_generations:
        meta["generation"] = 1
    plugins.allocate(call, obj)
    kind.rules.begin(obj)
    findings = metadata.validate(kind, obj) + kind.rules.validate(obj) + kind.rules.validate_new(obj)
    if findings:
        raise invalid(kind.group, kind.kind, meta.get("name", ""), findings)
    call.warnings.extend(kind.rules.warn(obj))


def _unused_name(call: Call, base: str) -> str:
    """A generated name that nothing has yet; the last of several tries may be somebody's."""
    name = ""
    for _ in range(NAME_ATTEMPTS):
        name = call.context.generate_name(base)
        if call.context.store.get(Key(call.kind.resource, call.namespace, name)) is None:
            break
    return name


def refuse_existing(call: Call, key: Key) -> None:
    entry = call.context.store.get(key)
    if entry is None:
        return
    error = already_exists(call.kind.group, call.kind.plural, key.name)
    if entry.decode()["metadata"].get("deletionTimestamp"):
        error.message = f"object is being deleted: {error.message}"
    raise error
