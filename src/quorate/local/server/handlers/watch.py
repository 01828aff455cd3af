"""GET with watch: changes as events, one JSON document per line, or one message of a WebSocket each."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
from aiohttp import WSCloseCode, web

from quorate.api.codec import Json
from quorate.local.objects import errors
from quorate.local.server import parameters
from quorate.local.server.handlers.listing import MATCH, OPTIONS
from quorate.local.server.requests import selectors
from quorate.local.server.requests.context import RequestContext, invalid_options
from quorate.local.server.requests.responses import Event, ResponseView
from quorate.local.server.requests.selectors import Selector
from quorate.local.server.storage.store import Change, Entry, RevisionCompacted

BOOKMARK_INTERVAL_S = 60.0
MAX_DURATION_S = 3600.0
EVENTS_OF_A_WRITE = 200
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def watch_frames(context: RequestContext) -> AsyncIterator[bytes]:
    """Return the events of a watch until its timeout.  Raises StatusError before the first."""
    _check_options(context)
    text = context.query.get("resourceVersion", "")
    try:
        since = parameters.unsigned(text or "0")
    except ValueError as error:
        raise errors.internal(f'resourceVersion: Invalid value: "{text}": {error}') from error
    duration_s = min(parameters.integer(context.query, "timeoutSeconds") or MAX_DURATION_S, MAX_DURATION_S)
    labels, fields = context.query.get("labelSelector", ""), context.query.get("fieldSelector", "")
    if context.name:
        fields = f"metadata.name={context.name}"
    selector = selectors.parse(context.kind, labels, fields)
    view = ResponseView(context)
    return _with_error_frame(view, _stream(context, view, since, selector, duration_s))


async def _with_error_frame(view: ResponseView, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the frames; an error on the way, such as a failed conversion, is the last frame."""
    try:
        async for data in frames:
            yield data
    except errors.StatusError as error:
        yield view.error(error)


def _check_options(context: RequestContext) -> None:
    match, findings = context.query.get(MATCH, ""), list[errors.Cause]()
    if "sendInitialEvents" not in context.query and match:
        rule = f"{MATCH} is forbidden for watch unless sendInitialEvents is provided"
        findings.append(errors.forbidden_field(MATCH, rule))
    elif "sendInitialEvents" in context.query and match != "NotOlderThan":
        rule = f"sendInitialEvents requires setting {MATCH} to NotOlderThan"
        findings.append(errors.forbidden_field(MATCH, rule))
    if match not in ("", "NotOlderThan"):
        findings.append(errors.not_supported(MATCH, match, ["NotOlderThan"]))
    if findings:
        raise invalid_options(OPTIONS, findings)


async def _stream(
    context: RequestContext, view: ResponseView, since: int, selector: Selector, duration_s: float
) -> AsyncIterator[bytes]:
    """Yield initial events, then the events of each batch of changes, and bookmarks."""
    store, resource, clock = context.server.store, context.kind.resource, asyncio.get_running_loop().time
    end = clock() + duration_s
    seen = since or store.revision
    yield b""  # the headers are sent with the first write
    if _sends_initial_events(context, since):
        seen = store.revision  # of the objects in the initial frames
        async for data in _initial_frames(context, view, selector):
            yield data
    bookmark_at = clock() + BOOKMARK_INTERVAL_S
    while clock() < end and not _kind_replaced(context):
        # Before reading the log: a change while frames are written sets this event, so none is missed.
        changed = store.changed(resource)
        try:
            changes = store.changes(resource, seen)
        except RevisionCompacted as error:
            message = f"too old resource version: {error.revision} ({error.oldest_revision})"
            raise errors.resource_expired(message) from error
        if changes:
            converted = await _convert_changes(context, changes)
            events = [event for change in converted for event in _events(context, change, selector)]
            async for data in _frames(context, view, events):
                yield data
            seen = changes[-1].revision
        if clock() >= bookmark_at:
            bookmark_at = clock() + BOOKMARK_INTERVAL_S
            seen = max(seen, store.revision)
            if _wants_bookmarks(context):
                yield view.bookmark({"resourceVersion": str(seen)})
        with suppress(TimeoutError):
            async with asyncio.timeout(min(end, bookmark_at) - clock()):
                await changed.wait()


def _kind_replaced(context: RequestContext) -> bool:
    """Return True if the kind has been replaced, so that the client has to start a new watch."""
    kind = context.kind
    served = context.server.registry.find(kind.group, kind.version, kind.plural)
    return served is not None and served is not kind


def _sends_initial_events(context: RequestContext, since: int) -> bool:
    """Return True if the watch asks for existing objects, or begins at revision 0 and does not decline."""
    is_legacy = "sendInitialEvents" not in context.query and since == 0
    return is_legacy or parameters.boolean(context.query, "sendInitialEvents")


async def _initial_frames(
    context: RequestContext, view: ResponseView, selector: Selector
) -> AsyncIterator[bytes]:
    """Yield the existing objects as ADDED events, and the bookmark at their end."""
    store = context.server.store
    revision = store.revision
    entries = await context.kind.from_storage(store.entries(context.kind.resource, context.namespace))
    events = [("ADDED", entry.data) for entry in entries if selector.matches(entry)]
    async for data in _frames(context, view, events):
        yield data
    if _wants_bookmarks(context):
        metadata: Json = {"resourceVersion": str(revision), "annotations": {INITIAL_EVENTS_END: "true"}}
        yield view.bookmark(metadata)


async def _frames(
    context: RequestContext, view: ResponseView, events: Sequence[Event]
) -> AsyncIterator[bytes]:
    """Yield the frames of the events, encoded in a thread if that takes long."""
    for start in range(0, len(events), EVENTS_OF_A_WRITE):
        part = events[start : start + EVENTS_OF_A_WRITE]
        size = 0 if context.accepted.is_stored_form else sum(len(data) for _, data in part)
        yield await context.compute(size, view.frames, part)


async def _convert_changes(context: RequestContext, changes: Sequence[Change]) -> Sequence[Change]:
    """Return the changes with their objects in the requested version, converted in one batch."""
    if context.kind.convert is None and not context.kind.defaulted_since:
        return changes
    entries = list(
        {entry.revision: entry for change in changes for entry in (change.old, change.new) if entry}.values()
    )
    converted = {entry.revision: entry for entry in await context.kind.from_storage(entries)}
    return [
        replace(
            change,
            old=change.old and converted[change.old.revision],
            new=change.new and converted[change.new.revision],
        )
        for change in changes
    ]


def _wants_bookmarks(context: RequestContext) -> bool:
    return parameters.boolean(context.query, "allowWatchBookmarks")


def _events(context: RequestContext, change: Change, selector: Selector) -> Iterator[Event]:
    """Yield the event of a change for one namespace and selector."""
    if context.namespace and change.key.namespace != context.namespace:
        return
    before = change.old is not None and selector.matches(change.old)
    after = change.new is not None and selector.matches(change.new)
    if after:
        assert change.new is not None
        yield "MODIFIED" if before else "ADDED", change.new.data
    elif before:
        assert change.old is not None
        yield "DELETED", at_revision(change.old, change.revision)


def at_revision(entry: Entry, revision: int) -> bytes:
    """Return the last state of a deleted object with the resourceVersion of the deletion."""
    obj = entry.decode()
    obj["metadata"]["resourceVersion"] = str(revision)
    return msgspec.json.encode(obj)


def is_websocket(request: web.BaseRequest) -> bool:
    """Return True if the client wants to upgrade the connection to a WebSocket."""
    connection = request.headers.get("Connection", "").lower()
    return request.headers.get("Upgrade", "").lower() == "websocket" and "upgrade" in connection


async def send_events(request: web.BaseRequest, frames: AsyncIterator[bytes]) -> web.WebSocketResponse:
    """Send each line of the frames as a text message until they end or the client closes the connection.

    Java clients such as fabric8 (Spark) watch so.  As in kube-apiserver, a single subprotocol is accepted
    whatever its name is, and what the client sends is ignored.  Raises StatusError(400)
    for several subprotocols.
    """
    protocols = [name.strip() for name in request.headers.get("Sec-WebSocket-Protocol", "").split(",")]
    if len(protocols) > 1:
        raise errors.bad_request("a watch has at most one WebSocket subprotocol")
    return await send_messages(request, protocols if protocols[0] else (), partial(_send, frames))


async def send_messages(
    request: web.BaseRequest,
    protocols: Iterable[str],
    send: Callable[[web.WebSocketResponse], Coroutine[Any, Any, None]],
) -> web.WebSocketResponse:
    """Run ``send`` until it returns or the client closes the connection; then close the connection."""
    websocket = web.WebSocketResponse(protocols=protocols, compress=False)
    await websocket.prepare(request)
    sending = asyncio.create_task(send(websocket))
    receiving = asyncio.create_task(_until_closed(websocket))
    try:
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            with suppress(ConnectionResetError):  # the client has disconnected
                sending.result()
    finally:
        sending.cancel()
        receiving.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)
    await websocket.close(code=WSCloseCode.OK)
    return websocket


async def _send(frames: AsyncIterator[bytes], websocket: web.WebSocketResponse) -> None:
    async for frame in frames:
        for line in frame.splitlines(keepends=True):
            await websocket.send_str(line.decode())


async def _until_closed(websocket: web.WebSocketResponse) -> None:
    """Ignore messages; answer pings."""
    async for _ in websocket:
        pass
