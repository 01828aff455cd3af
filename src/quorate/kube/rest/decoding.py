"""Decoding of list and watch responses into typed objects.

An object that does not have its type (stored by an old version, or of a definition without a schema) must not
hide all other objects: it becomes an ``ObjectFault`` instead of an exception.
"""

import asyncio
import re
from functools import cache
from typing import Any, Final, Generic, Literal, TypeVar, cast

import msgspec

from quorate.api import codec
from quorate.api.meta import Key, ObjectMeta, Struct, Uid
from quorate.kube.errors import Status, Unreadable, error_from_status
from quorate.kube.limits import MAX_LEVELS
from quorate.kube.object_faults import ObjectFault, problem_of
from quorate.kube.resources import Resource, T
from quorate.kube.unreadable_pods import with_pod_requests

_TOO_DEEP: Final = b'"levels that quorate does not read"'
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_ANYTHING: Final[Any] = Any  # a type to decode as
_REQUESTS: Final = ("requests", "limits", "allocatedResources", "overhead")
_ZEROS: Final = ("0", 0)
_SHOWN: Final = 60  # bytes of an answer that is not the API's
_CHANGES: Final = ("ADDED", "MODIFIED", "DELETED")

E = TypeVar("E")


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
    undecodable: tuple[ObjectFault, ...] = ()


class _ListMeta(Struct):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(Struct, Generic[T]):
    metadata: _ListMeta = _ListMeta()
    items: list[T] = []  # noqa: RUF012  msgspec copies an empty default for each object


class _Frame(msgspec.Struct, Generic[T], frozen=True):
    type: str
    object: T


class _Identity(Struct):
    name: str = ""
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""


class PartialObjectMetadata(Struct):
    """An object of which the server sends only the metadata."""

    metadata: ObjectMeta


class AnyObject(Struct):
    """What identifies an object of any kind."""

    metadata: _Identity = _Identity()


class Page(msgspec.Struct, Generic[T], frozen=True):
    items: list[T]
    undecodable: list[ObjectFault]
    resource_version: str
    continue_: str


def decode_page(resource: Resource[T], request: str, body: bytes) -> Page[T]:
    """Decode one page of a list.  Raises ``Unreadable`` if it is not a list."""
    try:
        page = codec.decode(_page_of(resource.type), body)
    except Exception as error:
        if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
            raise Unreadable(request, str(error)) from error
        return _decode_items_separately(resource, request, body)
    return Page(page.items, [], page.metadata.resource_version, page.metadata.continue_)


def _decode_items_separately(resource: Resource[T], request: str, body: bytes) -> Page[T]:
    page: _Page[Any] = _decode_envelope(_Page[msgspec.Raw], request, body)  # type: ignore[type-var]
    items, undecodable = [], []
    for raw in page.items:
        try:
            items.append(_decode_object(resource, raw))
        except Exception as error:
            undecodable.append(_undecodable(resource, request, raw, error))
    return Page(items, undecodable, page.metadata.resource_version, page.metadata.continue_)


def decode_frame(resource: Resource[T], request: str, line: bytes) -> WatchEvent[T] | Bookmark | ObjectFault:
    """Decode one line of a watch.  Raises ``Unreadable``, or the ``ApiError`` of an ERROR frame.

    The usual frame is decoded in one pass; errors, bookmarks and undecodable objects take a second pass.
    """
    try:
        frame = codec.decode(_frame_of(resource.type), line)
    except Exception as error:
        if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
            raise Unreadable(request, str(error)) from error
        return _decode_other_frame(resource, request, line, error)
    if frame.type in _CHANGES:
        return WatchEvent(cast(Any, frame.type), frame.object)
    return _decode_other_frame(resource, request, line, None)


def _decode_other_frame(
    resource: Resource[Any], request: str, line: bytes, undecodable: Exception | None
) -> Bookmark | ObjectFault:
    frame: _Frame[Any] = _decode_envelope(_Frame[msgspec.Raw], request, line)  # type: ignore[type-var]
    try:
        if frame.type == "ERROR":
            raise error_from_status(request, codec.decode(Status, frame.object))
        if frame.type == "BOOKMARK":
            return Bookmark(codec.decode(AnyObject, frame.object).metadata.resource_version)
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error
    if undecodable is None or frame.type not in _CHANGES:
        raise Unreadable(request, f"a frame of type {frame.type!r}")
    return _undecodable(resource, request, frame.object, undecodable, deleted=frame.type == "DELETED")


def decode_answer(type_: type[E], request: str, body: bytes) -> E:
    """Decode what the server answered with.  Raises ``Unreadable``, also for a document without metadata."""
    try:
        decoded = codec.decode(type_, body)
    except msgspec.DecodeError as error:
        raise Unreadable(request, f"{error}{_beginning(body)}") from error
    if isinstance(decoded, dict) and not isinstance(decoded.get("metadata"), dict):
        raise Unreadable(request, "Object has no `$.metadata`")
    return decoded


def _beginning(body: bytes) -> str:
    """Return how an answer begins that is no JSON object; empty if it is one, which may be a secret."""
    text = body[:_SHOWN].decode(errors="replace").strip()
    return f"; it begins with {text!r}" if text and not text.startswith("{") else ""


def _decode_envelope(type_: type[E], request: str, data: bytes) -> E:
    """Decode a list or a frame without its objects; levels that are nested too deeply are dropped."""
    try:
        try:
            return codec.decode(type_, data)
        except msgspec.ValidationError:
            return codec.decode(type_, without_deep_levels(data))
    except msgspec.DecodeError as error:
        raise Unreadable(request, str(error)) from error


def _decode_object(resource: Resource[T], raw: msgspec.Raw) -> T:
    if _TOO_DEEP in bytes(raw):
        raise msgspec.ValidationError(codec.NESTED_TOO_DEEPLY)
    return codec.decode(resource.type, raw)


async def read_undecodable(resource: Resource[T], fault: ObjectFault) -> T | ObjectFault:
    """Read what can be read of an object that could not be decoded.

    One with too many quantities is decoded without its requests of 0.  Otherwise return the fault, with what
    the object requests if it is a pod on a node: if nothing were known of it, the node would have to be left
    alone.  Other tasks run between the steps.
    """
    if fault.deleted:
        return fault
    if codec.TOO_MANY_QUANTITIES in fault.problem:
        obj = await _decode_without_zeros(resource, fault)
        if obj is not None:
            return obj
    return await with_pod_requests(fault)


async def _decode_without_zeros(resource: Resource[T], fault: ObjectFault) -> T | None:
    try:
        await asyncio.sleep(0)
        document = codec.decode_as_given(_ANYTHING, fault.raw)
        await asyncio.sleep(0)
        encoded = codec.encode(_without_zeros(document))
        await asyncio.sleep(0)
        return _decode_object(resource, msgspec.Raw(encoded))
    except (msgspec.DecodeError, RecursionError):
        return None


async def read_undecodable_event(resource: Resource[T], fault: ObjectFault) -> WatchEvent[T] | ObjectFault:
    """Return the event of an object that could not be decoded; see ``read_undecodable``."""
    decoded = await read_undecodable(resource, fault)
    return decoded if isinstance(decoded, ObjectFault) else WatchEvent("MODIFIED", decoded)


async def read_undecodable_of(resource: Resource[T], page: Page[T]) -> Page[T]:
    """Return ``page`` with what ``read_undecodable`` reads of its faults."""
    items, undecodable = list(page.items), []
    for fault in page.undecodable:
        decoded = await read_undecodable(resource, fault)
        if isinstance(decoded, ObjectFault):
            undecodable.append(decoded)
        else:
            items.append(decoded)
    return Page(items, undecodable, page.resource_version, page.continue_)


def _without_zeros(value: Any) -> Any:
    """Return a JSON value without the requests, limits and allocated amounts of 0."""
    if isinstance(value, list):
        return [_without_zeros(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: amount for name, amount in item.items() if amount not in _ZEROS}
        if key in _REQUESTS and isinstance(item, dict)
        else _without_zeros(item)
        for key, item in value.items()
    }


def _undecodable(
    resource: Resource[Any], request: str, raw: msgspec.Raw, error: Exception, *, deleted: bool = False
) -> ObjectFault:
    try:
        metadata = codec.decode(AnyObject, raw).metadata
    except msgspec.DecodeError as unidentified:
        raise Unreadable(request, str(unidentified)) from unidentified
    is_expected = isinstance(error, msgspec.DecodeError)
    return ObjectFault(
        resource,
        Key(metadata.namespace, metadata.name),
        metadata.uid,
        metadata.resource_version,
        "decode",
        # The same text for a list as for a watch.
        str(error).replace("`$.object", "`$") if is_expected else problem_of(error),
        None if is_expected else error,
        raw=bytes(raw),
        deleted=deleted,
    )


def without_deep_levels(data: bytes) -> bytes:
    """Return JSON with a text in place of each list or map below ``MAX_LEVELS`` levels.

    The decoder counts levels against the recursion limit of the interpreter, so that one object could hide
    all others of its list.
    """
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(data):
        match token[0][:1]:
            case b"{" | b"[":
                if depth == MAX_LEVELS:
                    kept += (data[start : token.start()], _TOO_DEEP)
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if depth == MAX_LEVELS:
                    start = token.end()
    kept.append(data[start:])
    return b"".join(kept)


# msgspec creates generic types at run time; mypy cannot follow a type parameter that is a variable.
@cache
def _generic(struct: Any, type_: Any) -> Any:
    return struct.__class_getitem__(type_)


def _page_of(type_: Any) -> type[_Page[Any]]:
    return cast(type[_Page[Any]], _generic(_Page, type_))


def _frame_of(type_: Any) -> type[_Frame[Any]]:
    return cast(type[_Frame[Any]], _generic(_Frame, type_))
