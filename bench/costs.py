"""What single things cost the core, and whether that grows with what they do not touch.

Costs are compared in turns, a batch here and a batch there, and by their medians: what else the machine
does then weighs on both alike.
"""

import gc
import tracemalloc
from collections import deque
from collections.abc import Callable
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
    make_state,
    make_workload,
    newcomers,
)
from quorate.api import codec
from quorate.api.kueue import Cohort, Workload
from quorate.api.meta import Key
from quorate.queueing.decisions import Reserve
from quorate.queueing.lifecycle.statuses import admit_status
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State

Step = Callable[[], None]


class Crowd:
    """The queues of ``BASELINE``, full, and as many pending workloads of its classes as one likes."""

    def __init__(self, pending: int) -> None:
        self.state = make_state(BASELINE)
        self.admission_cycle = AdmissionCycle(self.state)
        self.newcomers = newcomers(BASELINE)
        self._workloads: dict[Key, Workload] = {}  # as stored
        self._running: deque[Key] = deque()
        for workload in islice(self.newcomers, pending):
            self.add(workload)
        self.admit()

    def add(self, workload: Workload) -> None:
        self._workloads[workload.metadata.key] = workload
        self.state.put_workload(workload, EPOCH_S)

    def end_one(self) -> None:
        """The one that runs longest ends."""
        key = self._running.popleft()
        del self._workloads[key]
        self.state.remove_workload(key)

    def admit(self) -> int:
        """Admit all that can be; how many that are."""
        admitted = 0
        while decisions := self.admission_cycle.run(EPOCH_S).decisions:
            for reserve in decisions:
                if isinstance(reserve, Reserve):
                    workload = self._workloads[reserve.key]
                    self.add(replace(workload, status=admit_status(workload, reserve, EPOCH_S)))
                    self._running.append(reserve.key)
                    admitted += 1
        return admitted


def crowding(few: int, many: int) -> float:
    """What an admission costs among ``many`` pending workloads, as a multiple of that among ``few``.

    An admission is: one workload ends, another comes, a third takes the room.  Those that run are all of
    the most important class, and so are those that come, lest one be replaced by several.
    """
    batches, batch = 40, 25

    def admitting(pending: int) -> Step:
        crowd = Crowd(pending)
        large = BASELINE._replace(classes=BASELINE.classes[-1:])
        coming = deque(islice(newcomers(large, first=pending), batches * batch))

        def step() -> None:
            for _ in range(batch):
                crowd.end_one()
                crowd.add(coming.popleft())
                assert crowd.admit() == 1, "the room of one was not taken by one"

        return step

    return _ratio(admitting(many), admitting(few), batches)


def bytes_pending(count: int) -> float:
    """The memory one pending workload takes: the object as decoded, and all that the core keeps of it."""
    crowd = Crowd(count // 10)  # so that everything there is one of is there
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for workload in islice(crowd.newcomers, count):
        crowd.add(workload)
    crowd.admit()
    del workload
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / count


_WAITER: Final = WorkloadClass("waiter", per_queue=1, cpu=1_000, priority=0, runs_ms=0, every_ms=0)


def queue_change(few: int, many: int) -> float:
    """What new quota for one queue costs in a tree of ``many``, as a multiple of that in one of ``few``."""

    def changing(queues: int) -> Step:
        state = _with_one_waiting(queues)
        forms = cycle([cluster_queue("c0-q0", nominal, borrowing=100) for nominal in (21, 20)])
        return lambda: _change(state, lambda: state.put_cluster_queue(next(forms)))

    return _ratio(changing(many), changing(few), 200)


def cohort_change(few: int, many: int) -> float:
    """The same for new quota of the cohort at the root."""

    def changing(queues: int) -> Step:
        state = _with_one_waiting(queues)
        forms = cycle([_cohort("c0", nominal) for nominal in (1, 0)])
        return lambda: _change(state, lambda: state.put_cohort(next(forms)))

    return _ratio(changing(many), changing(few), 200)


def _with_one_waiting(queues: int) -> State:
    """A tree of ``queues``, all of them idle but for one workload that is too large."""
    world = World("idle", cohorts=1, queues=queues, classes=())
    state = make_state(world)
    state.put_workload(make_workload("c0-q0", _WAITER, 0, EPOCH_S), EPOCH_S)
    AdmissionCycle(state).run(EPOCH_S)
    return state


def _cohort(name: str, nominal: int) -> Cohort:
    quota = {"name": "cpu", "nominalQuota": nominal}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    return codec.convert(Cohort, {"metadata": {"name": name}, "spec": {"resourceGroups": [group]}})


def _change(state: State, change: Callable[[], None]) -> None:
    change()
    assert len(AdmissionCycle(state).run(EPOCH_S).decisions) == 1, "the one that waits was not judged anew"


def _ratio(one: Step, other: Step, rounds: int) -> float:
    """The processor time of ``one`` as a multiple of that of ``other``."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for step, taken in zip((one, other), times, strict=True):
            before = thread_time()
            step()
            taken.append(thread_time() - before)
    return median(times[0]) / median(times[1])
