"""How long sessions take, and where the time goes: the core says what begins, and this reads the clock."""

from dataclasses import dataclass

from quorate.gang.stopwatch import Part, Stopwatch
from quorate.kube.clock import Clock

Named = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class SessionTimes:
    """In seconds; plugins and actions by name, in the order in which they came."""

    total_s: float
    opening_s: float  # until the first action, plugins included
    plugins_s: Named = ()
    actions_s: Named = ()


class SessionTimer(Stopwatch):
    """Of one session, which begins when this is made."""

    def __init__(self, steady: Clock) -> None:
        self._steady = steady
        self._began = steady.now()
        self._marks: list[tuple[Part, str, float]] = []

    def begins(self, part: Part, name: str = "") -> None:
        self._marks.append((part, name, self._steady.now()))

    def times(self) -> SessionTimes:
        """Of the session, which has ended now."""
        ended = self._steady.now()
        ends = (*(at for _, _, at in self._marks[1:]), ended)
        lasted = [(part, name, end - at) for (part, name, at), end in zip(self._marks, ends, strict=True)]
        opened = next((at for part, _, at in self._marks if part in ("action", "closing")), ended)
        return SessionTimes(
            total_s=ended - self._began,
            opening_s=opened - self._began,
            plugins_s=tuple((name, took_s) for part, name, took_s in lasted if part == "plugin"),
            actions_s=tuple((name, took_s) for part, name, took_s in lasted if part == "action"),
        )
