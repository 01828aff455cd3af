"""Decoding of list and watch responses into typed objects.

An object that does not have its type (stored by an old version, or of a definition without a schema) must not
hide all other objects: it becomes an ``UndecodableObject`` instead of an exception.
"""

from collections.abc import Iterator
from typing import Any, Generic, Literal, cast

import msgspec

from quorate.api import codec
from quorate.api.meta import Key, ObjectMeta, Struct, Uid
from quorate.kube.errors import Status, Unreadable, error_from_status
from quorate.kube.resources import Resource, T


class UndecodableObject(msgspec.Struct, frozen=True):
    """An existing object that does not have the type of its kind; ``problem`` names the field."""

    key: Key
    resource_version: str
    problem: str
    uid: Uid = Uid("")


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T


class Bookmark(msgspec.Struct, frozen=True):
    """All events up to ``resource_version`` have been sent."""

    resource_version: str


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """All matching objects as of ``resource_version``."""

    items: tuple[T, ...]
    resource_version: str
    undecodable: tuple[UndecodableObject, ...] = ()


class _ListMeta(Struct):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Struct, Generic[T]):
    metadata: _ListMeta = _ListMeta()
    items: list[T] = []  # noqa: RUF012  msgspec copies an empty default for each object


class _Frame(msgspec.Struct, Generic[T], frozen=True):
    type: str
    object: T


class _AnyObject(Struct):
    """The metadata, which every object has."""

    metadata: ObjectMeta = ObjectMeta()


class Page(msgspec.Struct, Generic[T], frozen=True):
    items: list[T]
    undecodable: list[UndecodableObject]
    resource_version: str
    continue_: str


def decode_page(resource: Resource[T], request: str, body: bytes) -> Page[T]:
    """Decode one page of a list.  Raises ``Unreadable`` if it is not a list."""
    try:
        page = codec.decode(_page_of(resource.type), body)
    except msgspec.ValidationError:
        return _decode_items_separately(resource, request, body)
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    return Page(page.items, [], page.metadata.resource_version, page.metadata.continue_)


def _decode_items_separately(resource: Resource[T], request: str, body: bytes) -> Page[T]:
    try:
        page = codec.decode(_Page[msgspec.Raw], body)  # type: ignore[type-var]
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    items, undecodable = [], []
    for raw in page.items:
        try:
            items.append(codec.decode(resource.type, raw))
        except msgspec.ValidationError as error:
            undecodable.append(_undecodable(request, raw, error))
    return Page(items, undecodable, page.metadata.resource_version, page.metadata.continue_)


def decode_frame(
    resource: Resource[T], request: str, line: bytes
) -> WatchEvent[T] | Bookmark | UndecodableObject:
    """Decode one line of a watch.  Raises ``Unreadable``, or the ``ApiError`` of an ERROR frame.

    The usual frame is decoded in one pass; errors, bookmarks and undecodable objects take a second pass.
    """
    try:
        frame = codec.decode(_frame_of(resource.type), line)
    except msgspec.ValidationError as error:
        return _decode_other_frame(request, line, error)
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    if frame.type in ("ADDED", "MODIFIED", "DELETED"):
        return WatchEvent(cast(Any, frame.type), frame.object)
    return _decode_other_frame(request, line, None)


def _decode_other_frame(
    request: str, line: bytes, undecodable: msgspec.ValidationError | None
) -> Bookmark | UndecodableObject:
    try:
        frame = codec.decode(_Frame[msgspec.Raw], line)  # type: ignore[type-var]
        if frame.type == "ERROR":
            raise error_from_status(request, codec.decode(Status, frame.object))
        if frame.type == "BOOKMARK":
            return Bookmark(codec.decode(_AnyObject, frame.object).metadata.resource_version)
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    if undecodable is None:
        raise Unreadable(request, f"a frame of type {frame.type!r}")
    return _undecodable(request, frame.object, undecodable)


def _undecodable(request: str, raw: msgspec.Raw, problem: msgspec.ValidationError) -> UndecodableObject:
    try:
        metadata = codec.decode(_AnyObject, raw).metadata
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    text = str(problem).replace("`$.object", "`$")  # the same text for a list as for a watch
    return UndecodableObject(metadata.key, metadata.resource_version, text, metadata.uid)


# msgspec creates generic types at run time; mypy cannot follow a type parameter that is a variable.
def _page_of(type_: type[T]) -> type[_Page[T]]:
    return cast(type[_Page[T]], _Page.__class_getitem__(type_))  # type: ignore[attr-defined]


def _frame_of(type_: type[T]) -> type[_Frame[T]]:
    return cast(type[_Frame[T]], _Frame.__class_getitem__(type_))  # type: ignore[attr-defined]


class Lines:
    """Splits a chunked stream into lines; each byte is scanned once, whatever the chunks are."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []  # parts of the incomplete line, without newlines

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the non-empty lines that ``chunk`` completes, without line ends."""
        first, *rest = chunk.split(b"\n")
        self._pending.append(first)
        if not rest:
            return
        *complete, last = rest
        whole = b"".join(self._pending)
        self._pending = [last]
        for line in (whole, *complete):
            if line:
                yield line
