"""What a running scheduler tells those who look on."""

from dataclasses import dataclass

from quorate.api.meta import Key
from quorate.gang.outcome import Bind, Outcome
from quorate.scheduler.timing import SessionTimes


@dataclass(frozen=True, slots=True)
class Bound:
    """A bind that the API took, and how long it took the last time it was asked for."""

    bind: Bind
    prepared_s: float  # until the claims of the pod could be used
    asked_s: float  # from then on until the API answered


class SchedulerObserver:
    """Told at once of what happened; this one does not care."""

    def session_ended(self, outcome: Outcome, times: SessionTimes) -> None:
        pass

    def bound(self, bound: Bound) -> None:
        pass

    def bind_failed(self, task: Key) -> None:
        """Of a bind that did not come about and is no longer on its way."""
