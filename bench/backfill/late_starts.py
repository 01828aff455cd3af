"""Count the workloads of a run with a planned start, and those of which it moved later or passed."""

import math
from typing import Final

from quorate.api.meta import Key
from quorate.queueing.scheduling.planned_starts import PlannedStarts
from quorate.queueing.scheduling.timeline import PlannedStart
from quorate.queueing.state import State

TOLERANCE_S: Final = 0.002  # times are counted in whole ms


class LateStarts:
    """The planned starts of a run, as they are after each instant."""

    def __init__(self) -> None:
        self._plans: PlannedStarts | None = None
        self._waiting: dict[Key, float] = {}  # by pending workload: the earliest planned start, epoch seconds
        self._made: set[Key] = set()
        self._late: set[Key] = set()

    def observe(self, state: State, now: float) -> None:
        """Compare the planned starts at the end of an instant with the earlier ones."""
        if self._plans is None:
            self._plans = PlannedStarts(state)
        ledger = state.ledger
        for key, planned in list(self._waiting.items()):
            if now > planned + TOLERANCE_S:
                self._late.add(key)
            if key not in ledger.entries:
                del self._waiting[key]
        for name in list(ledger.planned):
            for plan in self._plans.of_queue(ledger.cluster_queues[name], now):
                if math.isfinite(plan.at):
                    self._compare(plan)

    def _compare(self, plan: PlannedStart) -> None:
        key = plan.entry.key
        planned = self._waiting.setdefault(key, plan.at)
        self._made.add(key)
        self._waiting[key] = min(planned, plan.at)
        if plan.at > planned + TOLERANCE_S:
            self._late.add(key)

    @property
    def made(self) -> int:
        """Return how many workloads had a planned start."""
        return len(self._made)

    @property
    def late(self) -> int:
        """Return of how many workloads the planned start moved later, or passed while they waited."""
        return len(self._late)
