"""Run times of finished workloads, kept for estimates: the latest of each kind of work, in bounded memory.

Beside each kind of work (see ``queueing.planning.work_kinds``), the store keeps the run times of the whole
queue, to which a kind that was seen too rarely falls back.
"""

import math
from collections.abc import Iterable, Iterator

from quorate.api.kueue import Workload
from quorate.api.meta import epoch, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.planning.bounds import granted_part
from quorate.queueing.planning.work_kinds import WorkKind, kind_of
from quorate.simulate.limits import BOUND_QUANTILE, FEWEST_RUN_TIMES, MAX_KINDS, MAX_RUN_TIMES


def ran_s(workload: Workload) -> float | None:
    """Return how long a finished workload would have run with all its pods; None if that is not known.

    Only its last admission counts.  With fewer pods it took longer in proportion, as in a simulation.
    """
    if not c.is_finished(workload):
        return None
    ended, began = (find_condition(workload.status.conditions, type_) for type_ in (c.FINISHED, c.ADMITTED))
    if ended is None or began is None or began.status != "True":
        return None
    if ended.last_transition_time is None or began.last_transition_time is None:
        return None
    seconds = max(0.0, epoch(ended.last_transition_time) - epoch(began.last_transition_time))
    return seconds * granted_part(workload)


class RunTimeStore:
    """Holds at most ``most_kinds`` kinds, queues included, and the latest run times of each."""

    def __init__(self, most_kinds: int = MAX_KINDS, most_run_times: int = MAX_RUN_TIMES) -> None:
        self._most_kinds = most_kinds
        self._most_run_times = most_run_times
        # The kind that was learned least recently is first.  Run times by uid of the workload, the oldest
        # first: a workload that is listed again is not counted twice.
        self._kinds: dict[WorkKind, dict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def learn(self, workload: Workload) -> None:
        """Keep the run time of a workload, if it has finished and ran."""
        seconds = ran_s(workload)
        if seconds is not None:
            kind = kind_of(workload)
            self.add(kind, workload.metadata.uid or workload.metadata.name, seconds)

    def add(self, kind: WorkKind, workload: str, seconds: float) -> None:
        """Keep one run time, also for the queue of the kind; drop what exceeds the bounds."""
        for bounded in (kind, WorkKind(kind.queue)):
            times = self._kinds.pop(bounded, {})
            times.setdefault(workload, seconds)
            if len(times) > self._most_run_times:
                del times[next(iter(times))]
            self._kinds[bounded] = times
        while len(self._kinds) > self._most_kinds:
            del self._kinds[next(iter(self._kinds))]

    def times_of(self, kind: WorkKind) -> tuple[float, ...]:
        """Return the run times of a kind, ascending; empty if it is unknown."""
        return tuple(sorted(self._kinds.get(kind, {}).values()))

    def best_kind(self, kind: WorkKind) -> WorkKind | None:
        """Return the kind if it has enough run times, otherwise its queue; None if the queue has none."""
        if len(self._kinds.get(kind, ())) >= FEWEST_RUN_TIMES:
            return kind
        queue = WorkKind(kind.queue)
        return queue if queue in self._kinds else None

    def bounds(self) -> Iterator[tuple[WorkKind, float]]:
        """Yield the kinds of which enough is known, queues included, and what most of their work stays below.

        It is the 90th percentile, in seconds: planned starts take it as a bound.
        """
        for kind, times in self._kinds.items():
            if len(times) >= FEWEST_RUN_TIMES:
                yield kind, sorted(times.values())[math.ceil(BOUND_QUANTILE * len(times)) - 1]

    def everywhere(self) -> tuple[float, ...]:
        """Return the run times of all queues, ascending."""
        return tuple(
            sorted(
                seconds
                for kind, times in self._kinds.items()
                if not kind.pattern
                for seconds in times.values()
            )
        )


def learned_from(workloads: Iterable[Workload]) -> RunTimeStore:
    """Return the run times of the finished ``workloads``, the latest last."""
    store = RunTimeStore()
    finished = [workload for workload in workloads if ran_s(workload) is not None]
    for workload in sorted(finished, key=_ended):
        store.learn(workload)
    return store


def _ended(workload: Workload) -> tuple[float, str, str]:
    ended = find_condition(workload.status.conditions, c.FINISHED)
    at = 0.0 if ended is None or ended.last_transition_time is None else epoch(ended.last_transition_time)
    return at, workload.metadata.namespace, workload.metadata.name
