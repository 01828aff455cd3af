"""Objects and lists as bytes, in the form and format a client takes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.local.objects.tables.builtin import builtin_layout
from quorate.local.objects.tables.layout import partial_object, partial_object_list, table
from quorate.local.server.errors import bad_request, details_of
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.requests.context import Call
from quorate.local.server.requests.media_types import JSON, Form, not_acceptable
from quorate.local.server.storage.store import Entry

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes
    content_type: str = JSON
    warnings: Sequence[str] = ()


def whole(kind: Kind, data: bytes) -> bytes:
    """An object's bytes as entries have them, completed with their version."""
    return b'{"kind":"%s","apiVersion":"%s",%s' % (kind.kind.encode(), kind.api_version.encode(), data[1:])


def stored(call: Call, entry: Entry, code: int = 200) -> Answer:
    """The answer that is an object of the store, in the version asked for."""
    if call.accepted.form is Form.OBJECT and call.accepted.media_type == JSON:
        return Answer(code, whole(call.kind, entry.data), warnings=call.warnings)
    return single(call, call.decode(entry), code)


def single(call: Call, obj: Json, code: int = 200) -> Answer:
    """The answer that is one object, in the form wanted.  Raises StatusError: 400, 406."""
    version = call.accepted.version
    match call.accepted.form:
        case Form.TABLE:
            metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return document(call, tabulated(call, [obj], metadata), code)
        case Form.METADATA:
            return document(call, partial_object(obj, version), code)
        case Form.METADATA_LIST:
            raise not_acceptable()
    return document(call, obj, code)


def tabulated(call: Call, objects: Iterable[Json], metadata: Json, *, with_columns: bool = True) -> Json:
    """A Table of objects.  Raises StatusError(400) for an includeObject that is none."""
    include = call.query.get("includeObject") or "Metadata"
    if include not in ("Metadata", "Object", "None"):
        why = f"includeObject: Invalid value: \"{include}\": must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(f"Unable to convert to Table as requested: {why}")
    return table(
        call.kind.layout or builtin_layout(call.kind.group, call.kind.kind),
        objects,
        call.context.clock.now(),
        metadata=metadata,
        include=include,
        version=call.accepted.version,
        with_columns=with_columns,
    )


class Lens:
    """How one watch shows objects: in the form wanted; of its tables only the first names the columns."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._named_columns = False

    def show(self, data: bytes) -> bytes:
        """An object's bytes as a frame carries them.  Raises StatusError: 400, 406."""
        call = self._call
        complete = whole(call.kind, data)
        if call.accepted.form is Form.OBJECT:
            return complete
        obj: Json = msgspec.json.decode(complete)
        if call.accepted.form is not Form.TABLE:
            return single(call, obj).body
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        shown = tabulated(call, [obj], metadata, with_columns=not self._named_columns)
        self._named_columns = True
        return msgspec.json.encode(shown)


def document(call: Call, content: Json, code: int = 200) -> Answer:
    """The answer that is neither an object nor a list, whatever form objects are wanted in."""
    return Answer(code, call.accepted.encode(content), call.accepted.media_type, call.warnings)


def deleted(call: Call, name: str, uid: str) -> Answer:
    details = details_of(call.kind.group, call.kind.plural, name) | {"uid": uid}
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    return document(call, status)


@dataclass(frozen=True, slots=True)
class Page:
    """Objects in order, the revision they were looked at in, and how to go on."""

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


def listed(call: Call, page: Page) -> Answer:
    """The answer that is a list; its objects are passed on as they are."""
    kind, metadata = call.kind, page.metadata()
    if kind.custom and call.accepted.form is Form.OBJECT:
        metadata.setdefault("continue", "")  # kube-apiserver leaves it out of other lists
    if call.accepted.form is Form.OBJECT and call.accepted.media_type == JSON:
        head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata}
        # Items of built-in kinds carry no version of their own; custom ones do.
        items = b",".join(whole(kind, entry.data) if kind.custom else entry.data for entry in page.entries)
        body = b'%s,"items":[%s]}' % (msgspec.json.encode(head)[:-1], items)
        return Answer(200, body, warnings=call.warnings)
    match call.accepted.form:
        case Form.TABLE:
            return document(call, tabulated(call, map(call.decode, page.entries), metadata))
        case Form.METADATA_LIST:
            objects = (entry.decode() for entry in page.entries)
            version = call.accepted.version
            return document(call, partial_object_list(objects, metadata=metadata, version=version))
        case Form.METADATA:
            raise not_acceptable()
    content = {
        "kind": kind.list_kind,
        "apiVersion": kind.api_version,
        "metadata": metadata,
        "items": [call.decode(entry) if kind.custom else entry.decode() for entry in page.entries],
    }
    return document(call, content)
