"""Responses: objects, lists, tables and statuses in the negotiated representation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.local.objects.tables.builtin import builtin_layout
from quorate.local.objects.tables.layout import partial_object, partial_object_list, table
from quorate.local.server.errors import bad_request, status_details
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.requests.media_types import JSON, Representation, not_acceptable
from quorate.local.server.storage.store import Entry

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ApiResponse:
    code: int
    body: bytes
    content_type: str = JSON
    warnings: Sequence[str] = ()


def with_type_meta(kind: Kind, data: bytes) -> bytes:
    """Return the JSON of an object with apiVersion and kind, which the store leaves out."""
    return b'{"kind":"%s","apiVersion":"%s",%s' % (kind.kind.encode(), kind.api_version.encode(), data[1:])


def stored_object(context: RequestContext, entry: Entry, code: int = 200) -> ApiResponse:
    """Return the response for a stored object of the requested version."""
    if context.accepted.representation is Representation.OBJECT and context.accepted.media_type == JSON:
        return ApiResponse(code, with_type_meta(context.kind, entry.data), warnings=context.warnings)
    return single_object(context, context.decode(entry), code)


def single_object(context: RequestContext, obj: Json, code: int = 200) -> ApiResponse:
    """Return the response for one object in the negotiated representation.

    Raises StatusError: 400, 406.
    """
    version = context.accepted.version
    match context.accepted.representation:
        case Representation.TABLE:
            metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return document(context, to_table(context, [obj], metadata), code)
        case Representation.METADATA:
            return document(context, partial_object(obj, version), code)
        case Representation.METADATA_LIST:
            raise not_acceptable()
    return document(context, obj, code)


DEFAULT_TABLES = ("apiextensions.k8s.io", "apiregistration.k8s.io")
"""Groups of servers behind kube-apiserver: rows are null if there are none, as for custom resources."""


def to_table(
    context: RequestContext, objects: Iterable[Json], metadata: Json, *, with_columns: bool = True
) -> Json:
    """Return objects as a Table.  Raises StatusError(400) for an invalid includeObject."""
    include = context.query.get("includeObject") or "Metadata"
    if include not in ("Metadata", "Object", "None"):
        detail = (
            f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        )
        raise bad_request(f"Unable to convert to Table as requested: {detail}")
    content = table(
        context.kind.table_layout or builtin_layout(context.kind.group, context.kind.kind),
        objects,
        context.server.clock.now(),
        metadata=metadata,
        include=include,
        version=context.accepted.version,
        with_columns=with_columns,
    )
    if not context.kind.custom and context.kind.group not in DEFAULT_TABLES:
        content["rows"] = content["rows"] or []
    return content


class ResponseView:
    """The representation of the objects of one watch; only its first Table has column definitions."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._columns_sent = False

    def encode(self, data: bytes) -> bytes:
        """Return an object as the JSON of a watch event.  Raises StatusError: 400, 406."""
        context = self._context
        complete = with_type_meta(context.kind, data)
        if context.accepted.representation is Representation.OBJECT:
            return complete
        obj: Json = msgspec.json.decode(complete)
        if context.accepted.representation is not Representation.TABLE:
            return single_object(context, obj).body
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        rows = to_table(context, [obj], metadata, with_columns=not self._columns_sent)
        self._columns_sent = True
        return msgspec.json.encode(rows)


def document(context: RequestContext, content: Json, code: int = 200) -> ApiResponse:
    """Return the response for a document that has no other representation."""
    return ApiResponse(code, context.accepted.encode(content), context.accepted.media_type, context.warnings)


def deletion_status(context: RequestContext, name: str, uid: str) -> ApiResponse:
    details = status_details(context.kind.group, context.kind.plural, name) | {"uid": uid}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return document(context, status)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: its objects in order, the revision, and the continue token."""

    entries: Sequence[Entry]
    revision: int
    token: str = ""
    remaining: int | None = None

    def metadata(self) -> Json:
        metadata: Json = {"resourceVersion": str(self.revision)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining is not None:
            metadata["remainingItemCount"] = self.remaining
        return metadata


def object_list(context: RequestContext, page: Page) -> ApiResponse:
    """Return the response for a list; stored objects are copied without decoding them."""
    kind, metadata = context.kind, page.metadata()
    if kind.custom and context.accepted.representation is Representation.OBJECT:
        metadata.setdefault("continue", "")  # kube-apiserver leaves it out for built-in kinds
    if context.accepted.representation is Representation.OBJECT and context.accepted.media_type == JSON:
        head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata}
        # Items of custom kinds carry apiVersion and kind; items of built-in kinds do not.
        items = b",".join(
            with_type_meta(kind, entry.data) if kind.custom else entry.data for entry in page.entries
        )
        body = b'%s,"items":[%s]}' % (msgspec.json.encode(head)[:-1], items)
        return ApiResponse(200, body, warnings=context.warnings)
    match context.accepted.representation:
        case Representation.TABLE:
            return document(context, to_table(context, map(context.decode, page.entries), metadata))
        case Representation.METADATA_LIST:
            objects = (entry.decode() for entry in page.entries)
            version = context.accepted.version
            return document(context, partial_object_list(objects, metadata=metadata, version=version))
        case Representation.METADATA:
            raise not_acceptable()
    content = {
        "kind": kind.list_kind,
        "apiVersion": kind.api_version,
        "metadata": metadata,
        "items": [context.decode(entry) if kind.custom else entry.decode() for entry in page.entries],
    }
    return document(context, content)
