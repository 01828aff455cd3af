"""Field ownership (managedFields) after a write other than server-side apply."""

from quorate.api.codec import Json
from quorate.local.objects.patch import managed_fields
from quorate.local.server.registry.defaults.cluster import keep_metadata
from quorate.local.server.requests.context import RequestContext

KEPT_METADATA = {"deployments.apps": ("f:metadata", "f:labels")}
"""By resource, the part of the metadata that an update of the status keeps, if it keeps a part."""
DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and"
    " may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
)


def merge_owner_references(context: RequestContext, obj: Json) -> None:
    """Remove owner references that occur before, and warn of them."""
    references = obj["metadata"].get("ownerReferences") or []
    distinct: list[Json] = []
    duplicates: list[str] = []
    for reference in references:
        if reference in distinct:
            duplicates.append(reference.get("uid", ""))
        else:
            distinct.append(reference)
    if duplicates:
        obj["metadata"]["ownerReferences"] = distinct
        context.warnings.append(f"{DUPLICATE_OWNERS}{', '.join(dict.fromkeys(duplicates))}")


def track_fields(context: RequestContext, new: Json, old: Json) -> None:
    """Set managedFields of ``new``; for a creation, ``old`` is the empty object of the type."""
    now, kind = context.server.timestamp(), context.kind
    writer = managed_fields.updater(context.field_manager, kind.api_version, context.info.subresource)
    try:
        entries = managed_fields.track_update(old, new, kind.type, writer, now, reset_fields(context))
    except KeyError:
        return  # a list item lacks a merge key; validation rejects the object
    new["metadata"].pop("managedFields", None)
    if entries:
        new["metadata"]["managedFields"] = entries


def reset_fields(context: RequestContext) -> tuple[tuple[str, ...], ...]:
    """Return the fields that this path resets, which no writer owns through it."""
    kind = context.kind
    if context.info.subresource == "status":
        others = tuple((f"f:{name}",) for name in kind.type.fields if name not in ("metadata", "status"))
        is_metadata_kept = kind.custom or kind.strategy.prepare_for_status_update is keep_metadata
        metadata = ("f:metadata",) if is_metadata_kept else KEPT_METADATA.get(kind.resource)
        return others if metadata is None else (metadata, *others)
    if kind.resource == "certificatesigningrequests.certificates.k8s.io":
        return ("f:spec",), ("f:status",)
    return (("f:status",),) if kind.has_status else ()
