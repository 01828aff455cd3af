"""What lists and watches answer, from bytes to typed objects.

One object that does not fit its type (an old version stored junk, a definition without a schema) must not
hide all the others: it is handed on as ``UndecodableObject`` instead of raising.
"""

from collections.abc import Iterator
from typing import Any, Generic, Literal, cast

import msgspec

from quorate.api import codec
from quorate.api.meta import Key, ObjectMeta, Struct, Uid
from quorate.kube.errors import Status, Unreadable, error_from_status
from quorate.kube.resources import Resource, T


class UndecodableObject(msgspec.Struct, frozen=True):
    """An object that exists but is not of the type its kind should have; ``problem`` names the field."""

    key: Key
    resource_version: str
    problem: str
    uid: Uid = Uid("")


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T


class Bookmark(msgspec.Struct, frozen=True):
    """Everything up to ``resource_version`` has been sent."""

    resource_version: str


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """All objects asked for as they were at ``resource_version``."""

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


class _Headed(Struct):
    """As much of any object as every object has."""

    metadata: ObjectMeta = ObjectMeta()


class Page(msgspec.Struct, Generic[T], frozen=True):
    items: list[T]
    undecodable: list[UndecodableObject]
    resource_version: str
    continue_: str


def decode_page(resource: Resource[T], request: str, body: bytes) -> Page[T]:
    """One page of a list.  Raises ``Unreadable`` when it is no list at all."""
    try:
        page = codec.decode(_page_of(resource.type), body)
    except msgspec.ValidationError:
        return _decode_piecemeal(resource, request, body)
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    return Page(page.items, [], page.metadata.resource_version, page.metadata.continue_)


def _decode_piecemeal(resource: Resource[T], request: str, body: bytes) -> Page[T]:
    try:
        page = codec.decode(_Page[msgspec.Raw], body)  # type: ignore[type-var]
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    items, undecodable = [], []
    for raw in page.items:
        try:
            items.append(codec.decode(resource.type, raw))
        except msgspec.ValidationError as error:
            undecodable.append(_misfit(request, raw, error))
    return Page(items, undecodable, page.metadata.resource_version, page.metadata.continue_)


def decode_frame(
    resource: Resource[T], request: str, line: bytes
) -> WatchEvent[T] | Bookmark | UndecodableObject:
    """One line of a watch.  Raises the ``ApiError`` of an ERROR frame (``Gone`` among them), ``Unreadable``.

    The usual frame is decoded in one go; the others (errors, bookmarks, misfits) take a second look.
    """
    try:
        frame = codec.decode(_frame_of(resource.type), line)
    except msgspec.ValidationError as error:
        return _decode_odd_frame(request, line, error)
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    if frame.type in ("ADDED", "MODIFIED", "DELETED"):
        return WatchEvent(cast(Any, frame.type), frame.object)
    return _decode_odd_frame(request, line, None)


def _decode_odd_frame(
    request: str, line: bytes, undecodable: msgspec.ValidationError | None
) -> Bookmark | UndecodableObject:
    try:
        frame = codec.decode(_Frame[msgspec.Raw], line)  # type: ignore[type-var]
        if frame.type == "ERROR":
            raise error_from_status(request, codec.decode(Status, frame.object))
        if frame.type == "BOOKMARK":
            return Bookmark(codec.decode(_Headed, frame.object).metadata.resource_version)
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    if undecodable is None:
        raise Unreadable(request, f"a frame of type {frame.type!r}")
    return _misfit(request, frame.object, undecodable)


def _misfit(request: str, raw: msgspec.Raw, problem: msgspec.ValidationError) -> UndecodableObject:
    try:
        metadata = codec.decode(_Headed, raw).metadata
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    text = str(problem).replace("`$.object", "`$")  # the same whether it came in a list or in a watch
    return UndecodableObject(metadata.key, metadata.resource_version, text, metadata.uid)


# msgspec makes a type for each parameter when it is asked for; mypy cannot follow a type held in a variable.
def _page_of(type_: type[T]) -> type[_Page[T]]:
    return cast(type[_Page[T]], _Page.__class_getitem__(type_))  # type: ignore[attr-defined]


def _frame_of(type_: type[T]) -> type[_Frame[T]]:
    return cast(type[_Frame[T]], _Frame.__class_getitem__(type_))  # type: ignore[attr-defined]


class Lines:
    """Chunks of a stream cut into lines, each byte looked at once however the stream was chunked."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []  # pieces of the line that has not ended; none holds a newline

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that ``chunk`` completes, without their ends; empty ones are left out."""
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
