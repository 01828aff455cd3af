"""Who owns which field after a write that is no apply."""

from typing import Any

from quorate.local.objects.patch import managed_fields
from quorate.local.server.requests.context import Call

Json = dict[str, Any]


def track(call: Call, new: Json, old: Json) -> None:
    """Write down who owns which field after this write; ``old`` is the type's empty form for a creation."""
    now, kind = call.context.timestamp(), call.kind
    writer = managed_fields.updater(call.field_manager, kind.api_version, call.asked.subresource)
    try:
        entries = managed_fields.track_update(old, new, kind.type, writer, now, unwritten(call))
    except KeyError:
        return  # an item of a list lacks what tells it apart: validation is yet to refuse it
    new["metadata"].pop("managedFields", None)
    if entries:
        new["metadata"]["managedFields"] = entries


def unwritten(call: Call) -> tuple[tuple[str, ...], ...]:
    """The fields this path does not write, which nobody comes to own through it."""
    if call.asked.subresource == "status":
        return tuple((f"f:{name}",) for name in call.kind.type.fields if name not in ("metadata", "status"))
    return (("f:status",),) if call.kind.has_status else ()
