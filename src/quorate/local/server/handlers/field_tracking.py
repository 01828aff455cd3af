"""Who owns which field after a write that is no apply."""

from typing import Any

from quorate.local.objects.patch import managed_fields
from quorate.local.server.requests.context import RequestContext

Json = dict[str, Any]


def track_fields(context: RequestContext, new: Json, old: Json) -> None:
    """Write down who owns which field after this write; ``old`` is the type's empty form for a creation."""
    now, kind = context.server.timestamp(), context.kind
    writer = managed_fields.updater(context.field_manager, kind.api_version, context.info.subresource)
    try:
        entries = managed_fields.track_update(old, new, kind.type, writer, now, reset_fields(context))
    except KeyError:
        return  # an item of a list lacks what tells it apart: validation is yet to refuse it
    new["metadata"].pop("managedFields", None)
    if entries:
        new["metadata"]["managedFields"] = entries


def reset_fields(context: RequestContext) -> tuple[tuple[str, ...], ...]:
    """The fields this path does not write, which nobody comes to own through it."""
    if context.info.subresource == "status":
        return tuple(
            (f"f:{name}",) for name in context.kind.type.fields if name not in ("metadata", "status")
        )
    return (("f:status",),) if context.kind.has_status else ()
