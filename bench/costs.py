"""Costs of single operations of the queueing core, and whether they grow with unrelated objects.

Two costs are compared by alternating batches and by their medians, so that other load on the machine affects
both in the same way.
"""

import gc
import tracemalloc
from collections import deque
from collections.abc import Callable, Mapping
from itertools import cycle, islice
from statistics import median
from time import thread_time
from typing import Final

from msgspec.structs import replace

from bench.worlds import (
    BASELINE,
    EPOCH_S,
    WorkloadClass,
    World,
    cluster_queue,
    endless_workloads,
    make_state,
    make_workload,
)
from quorate.api import codec
from quorate.api.configuration.planned_starts import BACKFILL
from quorate.api.kueue import Cohort, Workload
from quorate.api.meta import Key
from quorate.queueing.decisions import Reserve
from quorate.queueing.lifecycle.statuses import admit_status
from quorate.queueing.planning.rules import DEFAULT_MAXIMUM
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State

Step = Callable[[], None]


class Backlog:
    """The queues of a world with all quota used, and a number of pending workloads of its classes."""

    def __init__(self, pending: int, world: World = BASELINE) -> None:
        self.state = make_state(world)
        self.admission_cycle = AdmissionCycle(self.state)
        self.workloads = endless_workloads(world)  # not created yet
        self._stored: dict[Key, Workload] = {}
        self._running: deque[Key] = deque()
        for workload in islice(self.workloads, pending):
            self.put(workload)
        self.admit()

    def put(self, workload: Workload) -> None:
        self._stored[workload.metadata.key] = workload
        self.state.put_workload(workload, EPOCH_S)

    def finish_one(self) -> None:
        """Finish the workload that was admitted first."""
        key = self._running.popleft()
        del self._stored[key]
        self.state.remove_workload(key)

    def admit(self) -> int:
        """Admit everything that fits; return the number of admissions."""
        admitted = 0
        while decisions := self.admission_cycle.run(EPOCH_S).decisions:
            for reserve in decisions:
                if isinstance(reserve, Reserve):
                    workload = self._stored[reserve.key]
                    self.put(replace(workload, status=admit_status(workload, reserve, EPOCH_S)))
                    self._running.append(reserve.key)
                    admitted += 1
        return admitted


def admission_cost_ratio(few: int, many: int) -> float:
    """Return the cost of an admission with ``many`` pending workloads as a multiple of that with ``few``.

    One admission is: one workload finishes, another is created, a third takes the quota.  The running and the
    new workloads are all of the most important class, so that one workload is never replaced by several.
    """
    batches, batch = 40, 25

    def admissions(pending: int) -> Step:
        backlog = Backlog(pending)
        large = BASELINE._replace(classes=BASELINE.classes[-1:])
        new = deque(islice(endless_workloads(large, first=pending), batches * batch))

        def step() -> None:
            for _ in range(batch):
                backlog.finish_one()
                backlog.put(new.popleft())
                assert backlog.admit() == 1, "the quota of one workload was not taken by one workload"

        return step

    return _cost_ratio(admissions(many), admissions(few), batches)


def planned_starts_cost_ratio(cohorts: int, queues: int, pending: int) -> float:
    """Return the cost of what follows the end of a workload with EASY in all queues, ÷ that without.

    It is all cycles until nothing more can be decided; every workload is bound by the default of its queue.
    """
    batches, batch = 40, 5
    world = BASELINE._replace(cohorts=cohorts, queues=queues)

    def ends(annotations: Mapping[str, str]) -> Step:
        backlog = Backlog(pending, world._replace(annotations=annotations))

        def step() -> None:
            for _ in range(batch):
                backlog.finish_one()
                backlog.admit()

        return step

    return _cost_ratio(ends({BACKFILL: "EASY", DEFAULT_MAXIMUM: "1h"}), ends({}), batches)


def bytes_per_pending_workload(count: int) -> float:
    """Return the memory of one pending workload: the decoded object and everything the core keeps of it."""
    backlog = Backlog(count // 10)  # so that everything that exists once exists already
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for workload in islice(backlog.workloads, count):
        backlog.put(workload)
    backlog.admit()
    del workload
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / count


_TOO_LARGE: Final = WorkloadClass("too-large", per_queue=1, cpu=1_000, priority=0, runs_ms=0, every_ms=0)


def queue_update_cost_ratio(few: int, many: int) -> float:
    """Return the cost of new quota for a queue in a tree of ``many``, as a multiple of that of ``few``."""

    def updates(queues: int) -> Step:
        state, admission_cycle = _with_one_pending(queues)
        forms = cycle([cluster_queue("c0-q0", nominal, borrowing=100) for nominal in (21, 20)])
        return lambda: _update(admission_cycle, lambda: state.put_cluster_queue(next(forms)))

    return _cost_ratio(updates(many), updates(few), 200)


def cohort_update_cost_ratio(few: int, many: int) -> float:
    """Return the same for new quota of the root cohort."""

    def updates(queues: int) -> Step:
        state, admission_cycle = _with_one_pending(queues)
        forms = cycle([_cohort("c0", nominal) for nominal in (1, 0)])
        return lambda: _update(admission_cycle, lambda: state.put_cohort(next(forms)))

    return _cost_ratio(updates(many), updates(few), 200)


def _with_one_pending(queues: int) -> tuple[State, AdmissionCycle]:
    """Return a tree of ``queues``, all idle except for one pending workload that is too large."""
    world = World("idle", cohorts=1, queues=queues, classes=())
    state = make_state(world)
    state.put_workload(make_workload("c0-q0", _TOO_LARGE, 0, EPOCH_S), EPOCH_S)
    admission_cycle = AdmissionCycle(state)
    admission_cycle.run(EPOCH_S)
    return state, admission_cycle


def _cohort(name: str, nominal: int) -> Cohort:
    quota = {"name": "cpu", "nominalQuota": nominal}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    return codec.convert(Cohort, {"metadata": {"name": name}, "spec": {"resourceGroups": [group]}})


def _update(admission_cycle: AdmissionCycle, update: Callable[[], None]) -> None:
    update()
    decisions = admission_cycle.run(EPOCH_S).decisions
    assert len(decisions) == 1, "the pending workload was not evaluated again"


def _cost_ratio(one: Step, other: Step, rounds: int) -> float:
    """Return the processor time of ``one`` as a multiple of that of ``other``."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for step, taken in zip((one, other), times, strict=True):
            before = thread_time()
            step()
            taken.append(thread_time() - before)
    return median(times[0]) / median(times[1])
