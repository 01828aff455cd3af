"""The observable state of a running scheduler, and notifications of its sessions and binds."""

import asyncio
from dataclasses import dataclass, field

from quorate.api.meta import Key
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.gang.cache.model import Model
from quorate.gang.outcome import Bind, Outcome
from quorate.gang.session_opening import SessionPart, Stopwatch
from quorate.kube.clock import Clock
from quorate.kube.object_faults import ObjectFault

NamedDurations = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class SessionTimes:
    """Durations in seconds; plugins and actions by name, in the order of execution."""

    total_s: float
    opening_s: float  # until the first action, plugins included
    plugins_s: NamedDurations = ()
    actions_s: NamedDurations = ()


class SessionTimer(Stopwatch):
    """Measures one session, which begins when the timer is created."""

    def __init__(self, steady: Clock) -> None:
        self._steady = steady
        self._began = steady.now()
        self._marks: list[tuple[SessionPart, str, float]] = []

    def begin(self, part: SessionPart, name: str = "") -> None:
        self._marks.append((part, name, self._steady.now()))

    def times(self) -> SessionTimes:
        """Return the durations of the session, which ends now."""
        ended = self._steady.now()
        ends = (*(at for _, _, at in self._marks[1:]), ended)
        lasted = [(part, name, end - at) for (part, name, at), end in zip(self._marks, ends, strict=True)]
        opened = next((at for part, _, at in self._marks if part in ("action", "closing")), ended)
        return SessionTimes(
            total_s=ended - self._began,
            opening_s=opened - self._began,
            plugins_s=tuple((name, duration_s) for part, name, duration_s in lasted if part == "plugin"),
            actions_s=tuple((name, duration_s) for part, name, duration_s in lasted if part == "action"),
        )


@dataclass(frozen=True, slots=True)
class Bound:
    """A successful bind, with the durations of its last attempt."""

    bind: Bind
    pre_bind_s: float  # until the volumes of the pod were bound
    bind_s: float  # of the bind request itself


class SchedulerObserver:
    """Notified synchronously; this base class ignores everything."""

    def session_ended(self, outcome: Outcome, times: SessionTimes) -> None:
        pass

    def bound(self, bound: Bound) -> None:
        pass

    def object_fault(self, fault: ObjectFault) -> None:
        """An object could not be used."""

    def bind_failed(self, task: Key) -> None:
        """A bind was refused for good."""


@dataclass
class SchedulerStatus:
    """What probes, metrics and tests read of a running scheduler."""

    ready: asyncio.Event = field(default_factory=asyncio.Event)
    model: Model | None = None  # of the scheduler that runs here, if this replica leads
    settings: SchedulerConfiguration | None = None  # its current configuration
    observers: list[SchedulerObserver] = field(default_factory=list)
