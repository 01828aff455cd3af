"""Responses: objects, lists, tables and statuses in the negotiated representation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from quorate.api.codec import Json
from quorate.api.limits import LARGE_BYTES
from quorate.kube.computations import size_of
from quorate.local.objects.errors import StatusError, bad_request, status_details
from quorate.local.objects.protobuf import envelope
from quorate.local.objects.tables.builtin import builtin_layout
from quorate.local.objects.tables.layout import partial_object, partial_object_list, table
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests.context import RequestContext
from quorate.local.server.requests.media_types import JSON, PROTOBUF, Representation, not_acceptable
from quorate.local.server.storage.store import Entry


@dataclass(frozen=True, slots=True)
class Encoding:
    """A body that is encoded when the response is written: a large one in a thread."""

    size: int
    """bytes of its objects as JSON"""
    encode: Callable[[], bytes]
    """may raise StatusError"""


@dataclass(frozen=True, slots=True)
class ApiResponse:
    code: int
    body: bytes | Encoding
    content_type: str = JSON
    warnings: Sequence[str] = ()


def with_type_meta(kind: Kind, data: bytes) -> bytes:
    """Return the JSON of an object with apiVersion and kind, which the store leaves out."""
    return b'{"kind":"%s","apiVersion":"%s",%s' % (kind.kind.encode(), kind.api_version.encode(), data[1:])


def stored_object(context: RequestContext, entry: Entry, code: int = 200) -> ApiResponse:
    """Return the response for a stored object of the requested version."""
    if context.accepted.is_stored_form:
        return ApiResponse(code, with_type_meta(context.kind, entry.data), warnings=context.warnings)
    return _encoded(context, code, len(entry.data), lambda: _represented(context, context.decode(entry)))


def single_object(context: RequestContext, obj: Json, code: int = 200) -> ApiResponse:
    """Return the response for one object in the negotiated representation."""
    return _encoded(context, code, size_of(obj), lambda: _represented(context, obj))


def _represented(context: RequestContext, obj: Json) -> Json:
    """Return an object in the negotiated representation.  Raises StatusError: 400, 406."""
    match context.accepted.representation:
        case Representation.TABLE:
            return to_table(context, [obj], {"resourceVersion": obj["metadata"].get("resourceVersion", "")})
        case Representation.METADATA:
            return partial_object(obj, context.accepted.version)
        case Representation.METADATA_LIST:
            raise not_acceptable()
    return obj


def document(context: RequestContext, content: Json, code: int = 200) -> ApiResponse:
    """Return the response for a document that has no other representation."""
    return _encoded(context, code, size_of(content), lambda: content)


def _encoded(context: RequestContext, code: int, size: int, content: Callable[[], Json]) -> ApiResponse:
    accepted = context.accepted
    encoding = Encoding(size, lambda: accepted.encode(content()))
    return ApiResponse(code, encoding, accepted.media_type, context.warnings)


DEFAULT_TABLES = ("apiextensions.k8s.io", "apiregistration.k8s.io")
"""Groups of servers behind kube-apiserver: rows are null if there are none, as for custom resources."""


def to_table(context: RequestContext, objects: Iterable[Json], metadata: Json) -> Json:
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
        **({"encoded": _encoded_item} if context.accepted.media_type == JSON else {}),
    )
    if not context.kind.custom and context.kind.group not in DEFAULT_TABLES:
        content["rows"] = content["rows"] or []
    return content


Event: TypeAlias = tuple[str, bytes]
"""The type of an event of a watch, and an object in stored form."""


class ResponseView:
    """Writes the events of a watch in the negotiated form; only the first Table has column definitions."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context
        self._columns_sent = False

    def frames(self, events: Iterable[Event]) -> bytes:
        """Return the frames of events.  Raises StatusError: 400, 406."""
        return b"".join(self._frame(event, data) for event, data in events)

    def _frame(self, event: str, data: bytes) -> bytes:
        kind, accepted = self._context.kind, self._context.accepted
        if accepted.representation is not Representation.OBJECT:
            return self._document_frame(event, self._represented(msgspec.json.decode(data)))
        if accepted.media_type == PROTOBUF:
            write = _shared_body if len(data) < LARGE_BYTES else _protobuf_body
            return envelope.write_watch_event(event, write(kind.api_version, kind.kind, data))
        return _json_frame(event, with_type_meta(kind, data))

    def bookmark(self, metadata: Json) -> bytes:
        """Return an event with an object that has only metadata, in a Table as its only row."""
        obj = {"metadata": metadata}
        if self._context.accepted.representation is not Representation.TABLE:
            return self._frame("BOOKMARK", msgspec.json.encode(obj))
        content = to_table(self._context, [], {"resourceVersion": metadata["resourceVersion"]})
        cells = [0 if column["type"] == "integer" else "" for column in content["columnDefinitions"]]
        content["rows"] = [{"cells": cells, "object": partial_object(obj, self._context.accepted.version)}]
        return self._document_frame("BOOKMARK", self._with_columns_once(content))

    def error(self, error: StatusError) -> bytes:
        return self._document_frame("ERROR", error.to_json())

    def _represented(self, obj: Json) -> Json:
        if self._context.accepted.representation is not Representation.TABLE:
            return _represented(self._context, obj)
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return self._with_columns_once(to_table(self._context, [obj], metadata))

    def _with_columns_once(self, content: Json) -> Json:
        """Return a Table without column definitions, unless it is the first."""
        if self._columns_sent:
            content["columnDefinitions"] = None
        self._columns_sent = True
        return content

    def _document_frame(self, event: str, document: Json) -> bytes:
        if self._context.accepted.media_type == PROTOBUF:
            return envelope.write_watch_event(event, envelope.write_body(document))
        return _json_frame(event, msgspec.json.encode(document))


def _json_frame(event: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (event.encode(), data)


def _protobuf_body(api_version: str, kind: str, data: bytes) -> bytes:
    return envelope.write_body({"kind": kind, "apiVersion": api_version} | msgspec.json.decode(data))


_shared_body = lru_cache(maxsize=512)(_protobuf_body)  # the watches of one kind send the same objects


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
    """Return the response for a list; as JSON, stored objects are copied without decoding them."""
    kind, metadata = context.kind, page.metadata()
    if kind.custom and context.accepted.representation is Representation.OBJECT:
        metadata.setdefault("continue", "")  # kube-apiserver leaves it out for built-in kinds
    size = sum(len(entry.data) for entry in page.entries)
    if context.accepted.is_stored_form:
        encoding = Encoding(size, lambda: _stored_list(kind, page.entries, metadata))
        return ApiResponse(200, encoding, warnings=context.warnings)
    return _encoded(context, 200, size, lambda: _represented_list(context, page, metadata))


def _stored_list(kind: Kind, entries: Sequence[Entry], metadata: Json) -> bytes:
    head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata}
    # Items of custom kinds carry apiVersion and kind; items of built-in kinds do not.
    items = b",".join(with_type_meta(kind, entry.data) if kind.custom else entry.data for entry in entries)
    return b'%s,"items":[%s]}' % (msgspec.json.encode(head)[:-1], items)


def _represented_list(context: RequestContext, page: Page, metadata: Json) -> Json:
    """Return a list in the negotiated representation.  Raises StatusError: 400, 406."""
    kind, version = context.kind, context.accepted.version
    match context.accepted.representation:
        case Representation.TABLE:
            return to_table(context, map(context.decode, page.entries), metadata)
        case Representation.METADATA_LIST:
            partial_objects = (partial_object(entry.decode(), version) for entry in page.entries)
            content = partial_object_list((), metadata=metadata, version=version)
            return content | {"items": _encoded_items(context, partial_objects)}
        case Representation.METADATA:
            raise not_acceptable()
    items = (context.decode(entry) if kind.custom else entry.decode() for entry in page.entries)
    return {
        "kind": kind.list_kind,
        "apiVersion": kind.api_version,
        "metadata": metadata,
        "items": _encoded_items(context, items),
    }


def _encoded_items(context: RequestContext, items: Iterable[Json]) -> Iterable[Any]:
    """Return the items for an encoder, which takes an iterator in protobuf and a list in other formats.

    Thousands of objects as text take less memory than as dicts, and no time of garbage collections.
    """
    if context.accepted.media_type == PROTOBUF:
        return items
    return list(map(_encoded_item, items)) if context.accepted.media_type == JSON else list(items)


def _encoded_item(item: Json) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(item))
