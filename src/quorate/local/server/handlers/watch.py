"""GET with watch: changes as they happen, one JSON frame a line."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from quorate.local.server.errors import (
    Cause,
    StatusError,
    bad_request,
    forbidden_field,
    gone,
    internal,
    not_supported,
)
from quorate.local.server.requests import selectors
from quorate.local.server.requests.context import Call, invalid_options
from quorate.local.server.requests.responses import Lens, whole
from quorate.local.server.requests.selectors import Selector
from quorate.local.server.storage.store import Change, Compacted, Entry

Json = dict[str, Any]

OPTIONS = "ListOptions"
BOOKMARK_INTERVAL_S = 60.0
LONGEST_S = 3600.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def frames(call: Call) -> AsyncIterator[bytes]:
    """The frames of a watch, until its time is up.  Raises StatusError before the first."""
    _check_options(call)
    text = call.query.get("resourceVersion", "")
    if text and not text.isdecimal():
        raise internal(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    timeout = call.query.get("timeoutSeconds") or "0"
    if not timeout.isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{timeout}": invalid syntax')
    labels, fields = call.query.get("labelSelector", ""), call.query.get("fieldSelector", "")
    if call.name:
        fields = f"metadata.name={call.name}"
    return _told_of_failure(_stream(call, int(text or 0), selectors.parse(call.kind, labels, fields)))


async def _told_of_failure(frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same frames; a refusal on the way, such as of a conversion, is the last one."""
    try:
        async for data in frames:
            yield data
    except StatusError as error:
        yield frame("ERROR", msgspec.json.encode(error.to_json()))


def _check_options(call: Call) -> None:
    match = call.query.get("resourceVersionMatch", "")
    findings: list[Cause] = []
    if "sendInitialEvents" in call.query:
        if match != "NotOlderThan":
            findings.append(
                forbidden_field(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                )
            )
        if match not in ("", "NotOlderThan"):
            findings.append(not_supported("resourceVersionMatch", match, ["NotOlderThan"]))
    elif match:
        findings.append(
            forbidden_field(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
        )
    if findings:
        raise invalid_options(OPTIONS, findings)


async def _stream(call: Call, since: int, selector: Selector) -> AsyncIterator[bytes]:
    """Everything new at each look at the log; what is there already first, unless it is to start later."""
    store, resource, clock = call.context.store, call.kind.resource, asyncio.get_running_loop().time
    end = clock() + min(float(call.query.get("timeoutSeconds") or 0) or LONGEST_S, LONGEST_S)
    seen = since or store.revision
    lens = Lens(call)
    yield await _initial(call, since, selector, lens)
    bookmark_at = clock() + BOOKMARK_INTERVAL_S
    while clock() < end and not _redefined(call):
        # Taken before looking: what happens while frames are on their way sets it, so nothing is missed.
        moved = store.moved(resource)
        try:
            changes = store.changes(resource, seen)
        except Compacted as error:
            message = f"too old resource version: {error.revision} ({error.oldest})"
            yield frame("ERROR", msgspec.json.encode(gone(message).to_json()))
            return
        if changes:
            shown = await _served(call, changes)
            yield b"".join(data for change in shown for data in _told(call, change, selector, lens))
            seen = changes[-1].revision
        if clock() >= bookmark_at:
            bookmark_at = clock() + BOOKMARK_INTERVAL_S
            seen = max(seen, store.revision)
            if _bookmarks(call):
                yield _bookmark(call, seen, {})
        with suppress(TimeoutError):
            async with asyncio.timeout(min(end, bookmark_at) - clock()):
                await moved.wait()


def _redefined(call: Call) -> bool:
    """Whether the kind is by now another one, so that a client has to begin anew."""
    kind = call.kind
    served = call.context.registry.find(kind.group, kind.version, kind.plural)
    return served is not None and served is not kind


async def _initial(call: Call, since: int, selector: Selector, lens: Lens) -> bytes:
    """The objects that are there, as if they had just been added, and the mark of their end."""
    store, wanted = call.context.store, call.query.get("sendInitialEvents")
    revision = store.revision
    frames: list[bytes] = []
    if wanted == "true" or (wanted is None and since == 0):
        entries = await call.kind.served(store.entries(call.kind.resource, call.namespace))
        frames += [frame("ADDED", lens.show(entry.data)) for entry in entries if selector.matches(entry)]
    if wanted == "true" and _bookmarks(call):
        frames.append(_bookmark(call, revision, {INITIAL_EVENTS_END: "true"}))
    return b"".join(frames)


async def _served(call: Call, changes: Sequence[Change]) -> Sequence[Change]:
    """The changes with their objects in the version asked for, converted all at once."""
    if call.kind.convert is None:
        return changes
    entries = list({entry.revision: entry for c in changes for entry in (c.old, c.new) if entry}.values())
    served = {entry.revision: entry for entry in await call.kind.served(entries)}
    return [
        replace(
            change,
            old=change.old and served[change.old.revision],
            new=change.new and served[change.new.revision],
        )
        for change in changes
    ]


def _bookmarks(call: Call) -> bool:
    return call.query.get("allowWatchBookmarks") in ("true", "1")


def frame(kind: str, data: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), data)


def _bookmark(call: Call, revision: int, annotations: dict[str, str]) -> bytes:
    metadata: Json = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    data = msgspec.json.encode({"metadata": metadata})
    return frame("BOOKMARK", whole(call.kind, data))


def _told(call: Call, change: Change, selector: Selector, lens: Lens) -> Iterator[bytes]:
    """What a change looks like to somebody who sees only one namespace and what the selector matches."""
    if call.namespace and change.key.namespace != call.namespace:
        return
    before = change.old is not None and selector.matches(change.old)
    after = change.new is not None and selector.matches(change.new)
    if after:
        assert change.new is not None
        yield frame("MODIFIED" if before else "ADDED", lens.show(change.new.data))
    elif before:
        assert change.old is not None
        yield frame("DELETED", lens.show(at_revision(change.old, change.revision)))


def at_revision(entry: Entry, revision: int) -> bytes:
    """The last state of an object, with the version of its going."""
    obj = entry.decode()
    obj["metadata"]["resourceVersion"] = str(revision)
    return msgspec.json.encode(obj)
