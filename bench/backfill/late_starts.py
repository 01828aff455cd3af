"""Count the workloads of a run with a planned start, and those of which it moved later or passed."""

import math
from typing import Final

from quorate.api.meta import Key
from quorate.queueing.state import State

TOLERANCE_S: Final = 0.002  # times are counted in whole ms


class LateStarts:
    """The planned starts of a run, as they are told after each instant."""

    def __init__(self) -> None:
        # By pending workload: its order, when its start was told first or later than before, and the start.
        self._waiting: dict[Key, tuple[tuple[object, ...], float, float]] = {}
        self._made: set[Key] = set()
        self._late: set[Key] = set()
        self._passed: set[Key] = set()

    def observe(self, state: State, now: float) -> None:
        """Compare the planned starts at the end of an instant with the earlier ones."""
        ledger = state.ledger
        current = {
            key: announced
            for key, announced in ledger.announced.items()
            if key in ledger.entries and math.isfinite(announced.at)
        }
        for key, announced in current.items():
            self._waiting.setdefault(key, (ledger.entries[key].order, now, announced.at))
        self._made.update(current)
        for key, announced in current.items():
            order, made_at, at = self._waiting[key]
            if announced.at > at + TOLERANCE_S:
                self._note_late(key, state)
                made_at, at = now, announced.at
            self._waiting[key] = order, made_at, min(at, announced.at)
        for key, (_, _, at) in list(self._waiting.items()):
            if now > at + TOLERANCE_S:
                self._note_late(key, state)
            if key not in ledger.entries:
                del self._waiting[key]

    def _note_late(self, key: Key, state: State) -> None:
        """Note that a start is late, and whether a workload before it has started or was planned since."""
        order, made_at, _ = self._waiting[key]
        started = state.ledger.reservations.values()
        if any(other.reserved_at >= made_at and other.order < order for other in started) or any(
            since >= made_at and other < order for other, since, _ in self._waiting.values()
        ):
            self._passed.add(key)
        else:
            self._late.add(key)

    @property
    def made(self) -> int:
        """Return how many workloads had a planned start."""
        return len(self._made)

    @property
    def late(self) -> int:
        """Return how many started late, or were planned later, although nothing before them came since."""
        return len(self._late)

    @property
    def revised(self) -> int:
        """Return how many started late, or were planned later, for any reason."""
        return len(self._late | self._passed)
