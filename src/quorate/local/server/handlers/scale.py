"""The scale subresource: how many replicas an object wants and has, whatever its kind calls them."""

from typing import Any

from quorate.local.objects import schema_types
from quorate.local.objects.tables.builtin import selector_text
from quorate.local.server.admission.webhooks import dispatch as webhooks
from quorate.local.server.errors import conflict, invalid, invalid_value
from quorate.local.server.handlers import update
from quorate.local.server.handlers.patch import change_of
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation.field_rules import NOT_NEGATIVE
from quorate.local.server.requests import body, responses
from quorate.local.server.requests.context import Call
from quorate.local.server.requests.responses import Answer

Json = dict[str, Any]

_TYPE = schema_types.builtin_type("autoscaling/v1", "Scale")
assert _TYPE is not None
SCALE = Kind("autoscaling", "v1", "Scale", "scales", True, type=_TYPE)


async def get(call: Call) -> Answer:
    return responses.document(call, _scale(call.kind, call.decode(await call.current())))


async def replace(call: Call) -> Answer:
    wanted = body.read_object(call, SCALE, "UpdateOptions")
    return await _change(call, lambda _: wanted, call.dry_run("UpdateOptions"))


async def patch(call: Call) -> Answer:
    """Raises StatusError: as other patches do."""
    return await _change(call, change_of(call, SCALE), call.dry_run("PatchOptions"))


async def _change(call: Call, wanted: update.Change, dry_run: bool) -> Answer:
    """Set the number of replicas as a change of the object's Scale asks for."""
    paths = call.kind.scale
    assert paths is not None, "only a kind with paths lists the subresource"
    old = _scale(call.kind, call.decode(await call.current()))
    scale = await webhooks.mutated(call, "UPDATE", wanted(old), old, kind=SCALE)
    replicas = scale.get("spec", {}).get("replicas", 0)
    if replicas < 0:
        cause = invalid_value("spec.replicas", replicas, NOT_NEGATIVE)
        raise invalid("autoscaling", "Scale", call.name, [cause])
    await webhooks.admitted(call, "UPDATE", scale, old, kind=SCALE)
    changed: list[Json] = []

    def scaled(obj: Json) -> Json:
        replicas = scale.get("spec", {}).get("replicas", 0)
        if replicas < 0:
            why = [invalid_value("spec.replicas", replicas, NOT_NEGATIVE)]
            raise invalid("autoscaling", "Scale", call.name, why)
        version = scale.get("metadata", {}).get("resourceVersion")
        if version and version != obj["metadata"]["resourceVersion"]:
            raise conflict(call.kind.group, call.kind.plural, call.name)
        _put(obj, paths.spec_replicas, replicas)
        changed[:] = [obj]
        return obj

    await update.change(call, scaled, dry_run, reviewed=True)
    return responses.document(
        call, _scale(call.kind, changed[0] if dry_run else call.decode(await call.current()))
    )


def _scale(kind: Kind, obj: Json) -> Json:
    paths = kind.scale
    assert paths is not None, "only a kind with paths lists the subresource"
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: obj["metadata"][name] for name in names if name in obj["metadata"]}
    status: Json = {"replicas": _at(obj, paths.status_replicas) or 0}
    selector = _at(obj, paths.label_selector) if paths.label_selector else None
    if selector:
        status["selector"] = selector_text(selector) if isinstance(selector, dict) else selector
    spec = {"replicas": _at(obj, paths.spec_replicas) or 0}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _at(obj: Json, path: str) -> Any:
    value: Any = obj
    for name in path.removeprefix(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _put(obj: Json, path: str, value: Any) -> None:
    *above, last = path.removeprefix(".").split(".")
    for name in above:
        obj = obj.setdefault(name, {})
    obj[last] = value


HANDLERS = {"get": get, "update": replace, "patch": patch}
"""By verb."""
