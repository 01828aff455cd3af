"""Run times of finished workloads, kept for estimates: the latest of each kind of work, in bounded memory.

Work of the same kind has the same queue, the same kind of owner, and a name that differs only in digits and
generated suffixes: the runs of one CronJob, or of one pipeline step.  Beside each kind, the store keeps the
run times of the whole queue, to which a kind that was seen too rarely falls back.
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from quorate.api.kueue import Workload
from quorate.api.meta import epoch, find_condition
from quorate.queueing import conditions as c
from quorate.simulate.inputs.existing import granted_part
from quorate.simulate.limits import FEWEST_RUN_TIMES, MAX_KINDS, MAX_RUN_TIMES

_SEPARATORS: Final = re.compile(r"([-._])")
# Kubernetes generates suffixes from these characters, so that they contain no words.
_GENERATED: Final = re.compile(
    r"[bcdfghjklmnpqrstvwxz2456789]{5}|(?=.*[0-9])[bcdfghjklmnpqrstvwxz2456789]{6,10}"
)
_HASH: Final = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{4,}")
_DIGITS: Final = re.compile(r"[0-9]+")

Queue = tuple[str, str]  # namespace and name of a local queue


class WorkKind(NamedTuple):
    """What is expected to run equally long; ``owner`` and ``pattern`` are empty for all of a queue."""

    queue: Queue
    owner: str = ""  # kind of the owner
    pattern: str = ""  # of its name

    def __str__(self) -> str:
        name = "/".join(self.queue)
        return f"{name}, {self.owner} {self.pattern}".rstrip() if self.pattern else name


def name_pattern(name: str) -> str:
    """Return ``name`` with # for each number and * for each generated part.

    The first part is never taken for a generated one, so that a name that looks generated stays itself.
    """
    first, *rest = _SEPARATORS.split(name)
    return _DIGITS.sub("#", first) + "".join(map(_pattern_of_part, rest))


def _pattern_of_part(part: str) -> str:
    if part.isdigit():
        return "#"
    if _GENERATED.fullmatch(part) or _HASH.fullmatch(part):
        return "*"
    return _DIGITS.sub("#", part)


def queue_of(workload: Workload) -> Queue:
    return workload.metadata.namespace, workload.spec.queue_name


def kind_of(workload: Workload) -> WorkKind:
    """Return the kind of a workload: by its controller, or by its own name if it has none."""
    owner = next(
        (reference for reference in workload.metadata.owner_references if reference.controller), None
    )
    kind, name = ("Workload", workload.metadata.name) if owner is None else (owner.kind, owner.name)
    return WorkKind(queue_of(workload), kind, name_pattern(name))


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
