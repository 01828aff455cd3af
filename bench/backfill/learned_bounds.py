"""Learn run times of the workloads of a run as controllers do: the P90 of the finished ones of each kind."""

from typing import Final

import numpy as np

from quorate.api.meta import Key
from quorate.queueing.cluster_queue import Reservation
from quorate.queueing.planning.work_kinds import WorkKind, kind_of
from quorate.queueing.state import State
from quorate.simulate.estimates.run_time_store import RunTimeStore
from quorate.simulate.limits import FEWEST_RUN_TIMES

EVERY: Final = 25  # finished workloads, after which the bounds are computed again


class LearnedBounds:
    """The run times of workloads that had quota at one instant and have ended since."""

    def __init__(self) -> None:
        self._store = RunTimeStore()
        self._kinds: dict[WorkKind, None] = {}
        self._running: dict[Key, Reservation] = {}
        self._ended = 0

    def observe(self, state: State, now: float) -> None:
        """Learn from the workloads that have ended, and set what was learned from time to time."""
        running = state.ledger.reservations
        ended = [reservation for key, reservation in self._running.items() if key not in running]
        self._running = dict(running)
        for reservation in ended:
            workload, since = reservation.workload, reservation.admitted_at
            if since is None:
                continue
            kind = kind_of(workload)
            self._kinds |= dict.fromkeys((kind, WorkKind(kind.queue)))
            self._store.add(kind, workload.metadata.uid, now - since)
            self._ended += 1
            if self._ended % EVERY == 0:
                times = {kind: self._store.times_of(kind) for kind in self._kinds}
                state.set_learned_bounds(
                    {
                        kind: float(np.percentile(of_kind, 90))
                        for kind, of_kind in times.items()
                        if len(of_kind) >= FEWEST_RUN_TIMES
                    }
                )
