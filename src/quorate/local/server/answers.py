"""Objects and lists as bytes, in the form and format a client takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.local.server.call import Call
from quorate.local.server.errors import details_of
from quorate.local.server.kinds import Kind
from quorate.local.server.media import JSON, Form
from quorate.local.server.store import Entry

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes
    content_type: str = JSON
    warnings: Sequence[str] = ()


def whole(kind: Kind, data: bytes) -> bytes:
    """An object's bytes as the store keeps them, completed with the version they are asked for in."""
    return b'{"kind":"%s","apiVersion":"%s",%s' % (kind.kind.encode(), kind.api_version.encode(), data[1:])


def stored(call: Call, entry: Entry, code: int = 200) -> Answer:
    """The answer that is an object as it is in the store."""
    if call.accepted.form is Form.OBJECT and call.accepted.media_type == JSON:
        return Answer(code, whole(call.kind, entry.data), warnings=call.warnings)
    return single(call, call.decode(entry), code)


def single(call: Call, obj: Json, code: int = 200) -> Answer:
    """The answer that is one object."""
    return document(call, obj, code)


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
    """The answer that is a list; its objects are passed on as they are stored."""
    kind = call.kind
    if call.accepted.form is Form.OBJECT and call.accepted.media_type == JSON:
        head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": page.metadata()}
        # Items of built-in kinds carry no version of their own; custom ones do.
        items = b",".join(whole(kind, entry.data) if kind.custom else entry.data for entry in page.entries)
        body = b'%s,"items":[%s]}' % (msgspec.json.encode(head)[:-1], items)
        return Answer(200, body, warnings=call.warnings)
    items_decoded = [call.decode(entry) if kind.custom else entry.decode() for entry in page.entries]
    content = {
        "kind": kind.list_kind,
        "apiVersion": kind.api_version,
        "metadata": page.metadata(),
        "items": items_decoded,
    }
    return document(call, content)
