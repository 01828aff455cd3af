"""Telling users what was done to their objects: Events of events.k8s.io/v1.

Reporting never blocks and never fails: it notes what is to be written, and ``run`` writes it.  The same
event again (about the same object, in the same words) is no new object but a series: the event that is
there counts, and its count is written at most once a minute, as the Event API means ``series`` to be used.
An event that tells how something stands, rather than what was done, is told anew by every process that
finds it so; it has a name that follows from what it says, so that the one that is stored already is found.
What exceeds a bound is dropped or forgotten, and a loss is logged: events are a courtesy, memory is not.
"""

import hashlib
from typing import Literal

import msgspec

from quorate.api.events import Event, EventSeries, ObjectReference
from quorate.api.meta import Key, ObjectMeta, micro_time
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerError,
    TooManyRequests,
)
from quorate.kube.log import logger
from quorate.kube.pace import Turns
from quorate.kube.patches import merge_patch
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import EVENTS

NOTE_BYTES = 1024  # the API refuses an event with more, as it does with these:
NAME_CHARACTERS = 253
WORD_CHARACTERS = 128

UNWRITTEN_MAX = 5000
REMEMBERED_MAX = 8000
WORKERS = 4  # few, so that a burst of reports leaves the server free for what they report
COUNT_EVERY_S = 60.0  # how far the written count of a series may lag behind
SERIES_ENDS_S = 360.0  # when the last was longer ago, the next such event begins another series

_Same = tuple[str, ...]  # what makes two events the same


class _Series:
    """One event and how often it happened; ``written`` is the count the server has, 0 before it has any."""

    def __init__(self, same: _Same, event: Event, now: float, *, standing: bool) -> None:
        self.same = same
        self.event = event
        self.standing = standing
        self.count = 1
        self.last_at = now
        self.written = 0
        self.written_at = now

    def as_event(self) -> Event:
        if self.count == 1:
            return self.event
        series = EventSeries(count=self.count, last_observed_time=micro_time(self.last_at))
        return msgspec.structs.replace(self.event, series=series)


class EventRecorder:
    """Reports under the name ``component``, such as "quorate"; ``instance`` tells its processes apart.

    Each write waits for its turn, where ``turns`` gives them.
    """

    def __init__(
        self, client: Client, clock: Clock, component: str, instance: str = "", *, turns: Turns | None = None
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._instance = (instance or component)[:WORD_CHARACTERS]
        self._turns = turns
        self._series: dict[Key, _Series] = {}  # by the event's key, oldest first; at most REMEMBERED_MAX
        self._keys: dict[_Same, Key] = {}  # the key of the series of each _Same; finds each in _series once
        self._unwritten = 0  # series the server has nothing of yet, at most UNWRITTEN_MAX
        self._dropped = 0  # events in a row for which there was no room
        self._serial = 0  # tells events of one microsecond apart
        self._writer = Reconciler("events", self._write, clock, workers=WORKERS)
        self._log = logger(__name__)

    def event(
        self,
        regarding: ObjectReference,
        type_: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        action: str = "",
        *,
        standing: bool = False,
    ) -> None:
        """Report something about ``regarding``; ``action`` is what was done, by default the reason's word.

        ``standing``: it tells how something stands, and not again while the server still has the event.
        """
        now = self._clock.now()
        same = (regarding.kind, regarding.namespace, regarding.name, regarding.uid, type_, reason, message)
        key = self._keys.get(same)
        if key is not None:
            series = self._series[key]
            if now - series.last_at <= SERIES_ENDS_S:
                series.count += 1
                series.last_at = now
                if series.written:  # else it is about to be written, count and all
                    self._writer.enqueue_at(key, series.written_at + COUNT_EVERY_S)
                return
            if not series.written:
                return  # six minutes and not written: the server is away, and has one of these to come
            self._forget(key)
        if self._has_room():
            suffix = f".{_digest(same)}" if standing else self._next_suffix(now)
            event = self._compose(regarding, type_, reason, message, action or reason, now, suffix)
            key = event.metadata.key
            self._keys[same] = key
            self._series[key] = _Series(same, event, now, standing=standing)
            self._unwritten += 1
            self._writer.enqueue(key)

    async def run(self) -> None:
        """Write what is reported until ``stop`` or cancellation."""
        await self._writer.run()

    def stop(self) -> None:
        self._writer.stop()

    async def drained(self) -> None:
        """Return once what was reported is written, but for counts and attempts whose moment is to come."""
        await self._writer.drained()

    async def _write(self, key: Key) -> float | None:
        series = self._series.get(key)
        if series is None or series.written == series.count:
            return None
        if self._turns is not None:
            await self._turns.turn()
        count, event = series.count, series.as_event()
        try:
            if series.written == 0 and series.standing and await self._is_stored(key):
                pass  # by a process before this one
            elif series.written == 0:
                await self._client.create(EVENTS, event)
            else:
                await self._client.patch(EVENTS, key, merge_patch(series.event, event))
        except AlreadyExists:
            pass  # an attempt did arrive whose answer did not
        except (Conflict, ServerError, TooManyRequests):
            raise  # tried again
        except ApiError as refusal:
            # The namespace is going, or the event itself has gone, as it does an hour after its last write.
            self._log.info("event given up", event=key, problem=str(refusal))
            if key in self._series:  # else it was forgotten to make room while this was under way
                self._forget(key)
            return None
        if series.written == 0:
            self._unwritten -= 1
        series.written, series.written_at = count, self._clock.now()
        return series.written_at + COUNT_EVERY_S if series.count > count else None

    async def _is_stored(self, key: Key) -> bool:
        try:
            await self._client.get(EVENTS, key)
        except NotFound:
            return False
        return True

    def _has_room(self) -> bool:
        if self._unwritten == UNWRITTEN_MAX:
            if not self._dropped:
                self._log.warning(
                    "events are dropped: the server does not keep up", unwritten=self._unwritten
                )
            self._dropped += 1
            return False
        if self._dropped:
            self._log.warning("events were dropped", dropped=self._dropped)
            self._dropped = 0
        if len(self._series) == REMEMBERED_MAX:
            self._forget(next(key for key, series in self._series.items() if series.written))
        return True

    def _forget(self, key: Key) -> None:
        series = self._series.pop(key)
        del self._keys[series.same]
        if series.written == 0:
            self._unwritten -= 1

    def _next_suffix(self, now: float) -> str:
        self._serial += 1
        return f".{int(now * 1e6):x}.{self._serial:x}"

    def _compose(
        self,
        regarding: ObjectReference,
        type_: Literal["Normal", "Warning"],
        reason: str,
        message: str,
        action: str,
        now: float,
        suffix: str,
    ) -> Event:
        # A name has no hyphen and no dot before a dot.
        beginning = regarding.name[: NAME_CHARACTERS - len(suffix)].rstrip("-.")
        return Event(
            metadata=ObjectMeta(
                name=beginning + suffix,
                namespace=regarding.namespace or "default",  # where the API has those of cluster-scoped kinds
            ),
            event_time=micro_time(now),
            type=type_,
            reason=reason[:WORD_CHARACTERS],
            note=cut(message, NOTE_BYTES),
            action=action[:WORD_CHARACTERS],
            regarding=regarding,
            reporting_controller=self._component,
            reporting_instance=self._instance,
        )


def _digest(same: _Same) -> str:
    return hashlib.sha256("\0".join(same).encode()).hexdigest()[:16]


def cut(text: str, size_bytes: int) -> str:
    """``text`` if its UTF-8 form fits ``size_bytes``, else a beginning and an ellipsis that together fit."""
    encoded = text.encode()
    if len(encoded) <= size_bytes:
        return text
    ellipsis = "…"
    return encoded[: size_bytes - len(ellipsis.encode())].decode(errors="ignore") + ellipsis
