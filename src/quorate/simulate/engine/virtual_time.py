"""Virtual time: the clock of a run, and the events that await its jobs.

Events of one instant happen in the order of their kinds, and events of one kind in the order in which they
were scheduled.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from quorate.api.meta import Key
from quorate.simulate.engine.simulated_job import SimulatedJob
from quorate.simulate.inputs.submissions import MS


class VirtualClock:
    """The time of a run, as ms after its start and as epoch seconds."""

    __slots__ = ("begins_s", "ms", "now")

    def __init__(self, begins_s: float) -> None:
        self.begins_s = begins_s
        self.ms = 0
        self.now = begins_s

    def advance(self, ms: int) -> None:
        self.ms, self.now = ms, self.begins_s + ms / MS

    def ms_of(self, seconds: float) -> int:
        """Return a time of the core (epoch seconds) as virtual time, rounded up."""
        return -int(-(seconds - self.begins_s) * MS // 1)

    def later_ms(self, seconds: float) -> int:
        """Return a time of the core as virtual time, or the next instant if it is not later."""
        return max(self.ms_of(seconds), self.ms + 1)


class EventKind:
    """The kinds of events, in the order in which events of one instant happen."""

    ENDED, PODS_ENDED, STOPPED, READY, CHECKED, HOSTS_CHECKED, WOKEN = range(7)


class SimulatedEvent(NamedTuple):
    at_ms: int
    kind: int
    ticket: int  # first in, first out
    job: SimulatedJob
    attempt: int  # invalid if the job was evicted or admitted meanwhile; any for WOKEN
    pods: tuple[Key, ...] = ()  # of PODS_ENDED


class EventQueue:
    """The scheduled events; jobs end at multiples of ``resolution_ms``, the next after their time."""

    def __init__(self, resolution_ms: int) -> None:
        self._resolution_ms = resolution_ms
        self._events: list[SimulatedEvent] = []  # a heap
        self._tickets = count()

    def schedule(self, at_ms: int, kind: int, job: SimulatedJob, pods: tuple[Key, ...] = ()) -> None:
        if kind in (EventKind.ENDED, EventKind.PODS_ENDED):
            at_ms = -(-at_ms // self._resolution_ms) * self._resolution_ms
        heappush(self._events, SimulatedEvent(at_ms, kind, next(self._tickets), job, job.attempt, pods))

    def next_ms(self) -> int | None:
        """Return the time of the next event that does something: the run ends with the last such event."""
        while self._events and _is_outdated(self._events[0]):
            heappop(self._events)
        return self._events[0].at_ms if self._events else None

    def take(self, now_ms: int) -> Iterator[SimulatedEvent]:
        """Yield the events of an instant, including events that are scheduled meanwhile."""
        while self._events and self._events[0].at_ms == now_ms:
            event = heappop(self._events)
            if not _is_outdated(event):
                yield event

    def any_job_ends(self) -> bool:
        ends = (EventKind.ENDED, EventKind.PODS_ENDED)
        return any(event.kind in ends and not _is_outdated(event) for event in self._events)


def _is_outdated(event: SimulatedEvent) -> bool:
    """Return True if the job ended, or was admitted or evicted, since the event was scheduled."""
    job = event.job
    if event.kind == EventKind.WOKEN:
        return job.wakes_ms != event.at_ms
    return event.attempt != job.attempt
