"""The event recorder: Events of events.k8s.io/v1 about the objects of users.

Recording never blocks and never fails: ``event`` queues an event, and ``run`` writes it.  A repeated event
(same object, type, action and reason) is not a new object but a series: the existing Event counts.  Its first
repetition is written a second after the event, and further counts at most once a minute, as the Event API
intends ``series``.  As in client-go's recorder for this API, a series keeps the message of its first
event, and another message about another version of the object begins a series; ``distinct_messages``
begins a series for each message instead, as client-go's older recorder does.  A unique event describes a
state instead of an action, so that every process that finds the state records it again: its name is a
digest of its content, and the Event that an earlier process stored is found by that name.  Queued and
remembered events are bounded; events beyond a bound are dropped or forgotten, and drops are logged.

Events yield to the other writes of the client: while these are in flight and the server is slow, a backlog
of events is written slowly, and warnings first (see ``pause_s``).
"""

import hashlib
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, Protocol

from quorate.api.events import Event, EventSeries, ObjectReference
from quorate.api.meta import Key, ObjectMeta, micro_time
from quorate.kube import limits
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import AlreadyExists, ApiError, Conflict, ServerError, TooManyRequests
from quorate.kube.flowcontrol import RateLimiter
from quorate.kube.log import logger
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import EVENTS, Resource, reference

# Reasons of events about objects that nothing else reports.
UNREADABLE = "Unreadable"  # it does not have the type of its kind
UNUSABLE = "Unusable"  # an internal error concerns it

EventType = Literal["Normal", "Warning"]
_Identity = bytes  # a digest, equal for repetitions of one event
_Subject = tuple[str, str, str, str]  # apiVersion, kind, namespace and name of an object


class EventText(Protocol):
    """The content of an event, as a decision returns it."""

    @property
    def type(self) -> EventType: ...
    @property
    def reason(self) -> str: ...
    @property
    def message(self) -> str: ...


class _Content(NamedTuple):
    """What an Event is made of when it is written, in a third of its memory."""

    regarding: ObjectReference
    type: EventType
    reason: str
    note: str
    action: str
    at: float


class _Series:
    """An event and its count; ``written`` is the count that the server has stored, 0 for none.

    ``content`` is None once it is stored: thousands of series are remembered, each for its count alone.
    """

    __slots__ = (
        "content", "count", "identity", "last_at", "message_hash", "unique", "version", "written",
        "written_at",
    )  # fmt: skip

    def __init__(self, identity: _Identity, content: _Content, *, unique: bool) -> None:
        now = content.at
        self.identity = identity
        self.content: _Content | None = content
        self.version = content.regarding.resource_version
        self.message_hash = hash(content.note)
        self.unique = unique
        self.count = 1
        self.last_at = now
        self.written = 0
        self.written_at = now

    def continues(self, version: str, note: str) -> bool:
        """Return True for the same message, or the same or an unknown version of the object."""
        return self.version == version or self.message_hash == hash(note)

    @property
    def count_due_at(self) -> float:
        """When the next count may be written."""
        return self.written_at + (limits.REPEATED_S if self.written == 1 else limits.COUNT_EVERY_S)

    def counted(self) -> EventSeries | None:
        if self.count == 1:
            return None
        return EventSeries(count=self.count, last_observed_time=micro_time(self.last_at))


class EventRecorder:
    """Records events as ``component``, such as "quorate"; ``instance`` identifies the process.

    Each write first waits for ``rate_limiter``, if given; ``workers`` writes are in flight at once.  Events
    beyond ``max_unwritten`` that the server has not stored are dropped.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        component: str,
        instance: str = "",
        *,
        rate_limiter: RateLimiter | None = None,
        workers: int = limits.EVENT_WORKERS,
        distinct_messages: bool = False,
        max_unwritten: int = limits.MAX_UNWRITTEN,
    ) -> None:
        self._client = client
        self._clock = clock
        self._steady = clock.steady
        self._distinct_messages = distinct_messages
        self._max_unwritten = max_unwritten
        self._component = component
        self._instance = (instance or component)[: limits.WORD_CHARACTERS]
        self._rate_limiter = rate_limiter
        # By the event's key, ordered by the last repetition, the oldest first; at most MAX_REMEMBERED_EVENTS.
        self._series: dict[Key, _Series] = {}
        self._keys: dict[_Identity, Key] = {}  # the inverse of _series
        self._unwritten = 0  # series without a stored Event, at most ``_max_unwritten``
        self._in_flight = 0  # writes of events
        self._dropped = 0  # since events are dropped
        self._serial = 0  # distinguishes events of the same microsecond
        # By object: its last unique report, until another report ends the state that it describes.
        self._described: dict[_Subject, tuple[tuple[str, str, str], ...]] = {}
        self._writer = Reconciler("events", self._write, clock, workers=workers)
        self._log = logger(__name__)

    def event(
        self,
        regarding: ObjectReference,
        type_: EventType,
        reason: str,
        message: str,
        action: str = "",
        *,
        unique: bool = False,
    ) -> None:
        """Record an event about ``regarding``; ``action`` is by default the reason.

        ``unique``: the event describes a state; it is not created while the server still stores an equal one.
        """
        now = self._clock.now()
        distinguishes = self._distinct_messages or unique
        identity = _identity(regarding, type_, reason, action or reason, message if distinguishes else "")
        key = self._keys.get(identity)
        note = truncate(message, limits.NOTE_BYTES)
        if key is not None and self._series[key].continues(regarding.resource_version, note):
            series = self._series[key]
            if now - series.last_at <= limits.SERIES_ENDS_S:
                series.count += 1
                series.last_at = now
                self._series[key] = self._series.pop(key)
                if series.written:  # otherwise the pending first write includes the count
                    self._writer.enqueue_at(key, series.count_due_at)
                return
            if not series.written:
                return  # the server is unavailable, and the first write is still pending
            self._forget(key)
        self._forget_ended(now)
        if self._has_capacity():
            suffix = f".{identity.hex()[:16]}" if unique else self._next_suffix(now)
            key = _key_of(regarding, suffix)
            content = _Content(regarding, type_, reason, note, action or reason, now)
            self._keys[identity] = key
            self._series[key] = _Series(identity, content, unique=unique)
            self._unwritten += 1
            self._writer.enqueue(key, urgent=type_ == "Warning")

    def report(
        self, regarding: ObjectReference, events: Iterable[EventText], *, unique: bool, action: str = ""
    ) -> bool:
        """Record the events of one decision about an object; return False if they are suppressed.

        A ``unique`` report describes the state of the object, and is suppressed when it equals the object's
        last one.  Any other report, and a unique report without events, ends that state: the same description
        is recorded when it comes again.
        """
        events = tuple(events)
        subject = (regarding.api_version, regarding.kind, regarding.namespace, regarding.name)
        description = tuple((event.type, event.reason, event.message) for event in events)
        if unique and self._described.get(subject, ()) == description:
            return False
        if unique and description:
            self._described[subject] = description
        else:
            self._described.pop(subject, None)
        for event in events:
            self.event(regarding, event.type, event.reason, event.message, action, unique=unique)
        return True

    def report_fault(self, fault: ObjectFault) -> None:
        """Record an event about an object that cannot be used; its status may not be writable."""
        about = reference(fault.resource, fault.key, fault.uid)
        if fault.stage == "decode":
            reason, text = UNREADABLE, f"left out of all decisions: {fault.problem}"
        elif fault.error is None:
            reason, text = UNREADABLE, f"a part cannot be read: {fault.problem}"
        else:
            reason, text = UNUSABLE, fault.problem
        self.event(about, "Warning", reason, text, unique=True)

    def forget(self, resource: Resource[Any], key: Key) -> None:
        """Drop what is remembered of a deleted object."""
        self._described.pop((resource.api_version, resource.kind, key.namespace, key.name), None)

    async def run(self) -> None:
        """Write recorded events until ``stop`` or cancellation."""
        await self._writer.run()

    def stop(self) -> None:
        self._writer.stop()

    async def drained(self) -> None:
        """Return once all recorded events are written, except for delayed counts and retries."""
        await self._writer.drained()

    async def _write(self, key: Key) -> float | None:
        series = self._series.get(key)
        if series is None or series.written == series.count:
            return None
        if self._rate_limiter is not None:
            await self._rate_limiter.wait()
        count, content, counted = series.count, series.content, series.counted()
        began, other_writes = self._steady.now(), self._other_writes
        self._in_flight += 1
        try:
            if content is None:
                await self._client.patch(EVENTS, key, {"series": counted})
            elif not (series.unique and await self._is_stored(key)):  # by an earlier process
                await self._client.create(EVENTS, self._compose(key, content, counted))
        except AlreadyExists:
            pass  # an earlier attempt arrived although its response was lost
        except (Conflict, ServerError, TooManyRequests):
            raise  # the reconciler retries
        except ApiError as refusal:
            # The namespace is being deleted, or the Event has expired (by default after an hour).
            self._log.info("event dropped", event=key, problem=str(refusal))
            if key in self._series:  # otherwise forgotten for capacity during the request
                self._forget(key)
            return None
        finally:
            self._in_flight -= 1
        if series.written == 0:
            self._unwritten -= 1
        series.written, series.written_at, series.content = count, self._clock.now(), None
        ended = self._steady.now()
        other_writes = max(other_writes, self._other_writes)
        await self._steady.sleep_until(ended + pause_s(ended - began, self._unwritten, other_writes))
        return series.count_due_at if series.count > count else None

    @property
    def _other_writes(self) -> int:
        return self._client.writes_in_flight - self._in_flight

    async def _is_stored(self, key: Key) -> bool:
        return await self._client.find(EVENTS, key) is not None

    def _has_capacity(self) -> bool:
        if self._unwritten == self._max_unwritten:
            if not self._dropped:
                self._log.warning(
                    "events are dropped: the server does not keep up", unwritten=self._unwritten
                )
            self._dropped += 1
            return False
        if self._dropped and self._unwritten <= self._max_unwritten // 2:  # not at each event that is written
            self._log.warning("events were dropped", dropped=self._dropped)
            self._dropped = 0
        if len(self._series) == limits.MAX_REMEMBERED_EVENTS:
            self._forget(next(key for key, series in self._series.items() if series.written))
        return True

    def _forget_ended(self, now: float) -> None:
        """Drop the series that no repetition continues."""
        while self._series:
            key, series = next(iter(self._series.items()))
            if now - series.last_at <= limits.SERIES_ENDS_S or series.written != series.count:
                return
            self._forget(key)

    def _forget(self, key: Key) -> None:
        series = self._series.pop(key)
        if self._keys.get(series.identity) == key:  # otherwise a later series has its place
            del self._keys[series.identity]
        if series.written == 0:
            self._unwritten -= 1

    def _next_suffix(self, now: float) -> str:
        self._serial += 1
        return f".{int(now * 1e6):x}.{self._serial:x}"

    def _compose(self, key: Key, content: _Content, series: EventSeries | None) -> Event:
        return Event(
            metadata=ObjectMeta(name=key.name, namespace=key.namespace),
            event_time=micro_time(content.at),
            type=content.type,
            reason=content.reason[: limits.WORD_CHARACTERS],
            note=content.note,
            action=content.action[: limits.WORD_CHARACTERS],
            regarding=content.regarding,
            reporting_controller=self._component,
            reporting_instance=self._instance,
            series=series,
        )


def _key_of(regarding: ObjectReference, suffix: str) -> Key:
    # A DNS subdomain name has no hyphen and no dot before a dot.
    prefix = regarding.name[: limits.NAME_CHARACTERS - len(suffix)].rstrip("-.")
    # The API has events about cluster-scoped kinds in the namespace ``default``.
    return Key(regarding.namespace or "default", prefix + suffix)


def pause_s(write_s: float, unwritten: int, other_writes: int) -> float:
    """Return how long to leave the server to the other writes of the client after the write of an event.

    ``write_s``: how long the write took; ``unwritten``: events that wait; ``other_writes``: in flight beside
    it.  A prompt write shows that the server keeps up with both, and a few events delay no other write.
    """
    yields = write_s > limits.PROMPT_WRITE_S and unwritten > limits.PROMPT_EVENTS and other_writes > 0
    return limits.EVENT_PAUSE_S if yields else 0.0


def _identity(
    regarding: ObjectReference, type_: EventType, reason: str, action: str, message: str
) -> _Identity:
    about = (regarding.kind, regarding.namespace, regarding.name, regarding.uid)
    return hashlib.sha256("\0".join((*about, type_, reason, action, message)).encode()).digest()


def truncate(text: str, size_bytes: int) -> str:
    """Return ``text``, shortened and ended with an ellipsis if its UTF-8 form exceeds ``size_bytes``."""
    encoded = text.encode()
    if len(encoded) <= size_bytes:
        return text
    ellipsis = "…"
    return encoded[: size_bytes - len(ellipsis.encode())].decode(errors="ignore") + ellipsis
