"""A world in virtual time with an ideal API: decisions are written and observed at once.

A preempted workload stops the moment it is evicted and queues again; its work is lost.  So the virtual time
of a run measures the quality of the decisions, and its processor time their cost.
"""

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from time import thread_time
from typing import NamedTuple, assert_never

import msgspec

from bench.worlds import EPOCH_S, WorkloadClass, World, make_state, make_workload
from quorate.api.configuration.feature_gates import DEFAULT_GATES
from quorate.api.kueue import Workload, WorkloadStatus
from quorate.api.meta import Key
from quorate.queueing.decisions import (
    AssignTopology,
    Decision,
    Evict,
    Hold,
    Preempt,
    Reserve,
    SecondPassFailed,
)
from quorate.queueing.lifecycle.statuses import (
    admit_status,
    finish_status,
    hold_status,
    preempt_status,
    release_status,
)
from quorate.queueing.scheduling.cycle import AdmissionCycle


class Arrival(NamedTuple):
    """A workload to be created; workloads of one instant are ordered by number."""

    at_ms: int
    number: int
    queue: str
    class_: WorkloadClass


class Job:
    """A workload that is created and not finished."""

    __slots__ = ("arrival", "attempts", "workload")

    def __init__(self, arrival: Arrival, workload: Workload) -> None:
        self.arrival = arrival
        self.workload = workload  # as stored
        self.attempts = 0  # admissions and evictions so far: identifies the valid ``Finish``


class Finish(NamedTuple):
    at_ms: int
    ticket: int  # equal times are first in, first out
    job: Job
    attempt: int  # invalid if the job was evicted meanwhile


class Outcome(msgspec.Struct):
    """The results of a run."""

    finished_ms: int = 0  # virtual time at which the last workload finished
    admissions: int = 0
    preemptions: int = 0
    holds: int = 0  # statuses of pending workloads that were written because they changed
    cycles: int = 0
    processor_s: float = 0.0  # of this thread: cycles, state, statuses, and the simulation around them
    waits_ms: dict[str, list[int]] = {}  # to the first admission, ascending, by workload class

    @property
    def admissions_per_s(self) -> float:
        """Return the admissions per second of processor time."""
        return self.admissions / self.processor_s


class Simulation:
    """One run of a world, until its last workload has finished."""

    def __init__(self, world: World) -> None:
        self._state = make_state(world)
        self._admission_cycle = AdmissionCycle(self._state)
        self._arrivals = deque(sorted(_arrivals(world)))
        self._finishes: list[Finish] = []  # a heap
        self._tickets = count()
        self._jobs: dict[Key, Job] = {}
        self._outcome = Outcome()

    def run(self, on_progress: Callable[[int], None]) -> Outcome:
        """Run to the end; ``on_progress`` gets the number of finished workloads from time to time."""
        outcome, workloads = self._outcome, len(self._arrivals)
        while self._arrivals or self._finishes:
            now_ms = min(queue[0].at_ms for queue in (self._arrivals, self._finishes) if queue)
            created = list(self._created(now_ms))  # not measured: it is work of an API server and its client
            before = thread_time()
            self.step(created, now_ms)
            outcome.processor_s += thread_time() - before
            on_progress(workloads - len(self._arrivals) - len(self._jobs))
        assert not self._jobs, f"{len(self._jobs)} workloads were never admitted"
        for waits in outcome.waits_ms.values():
            waits.sort()
        return outcome

    def _created(self, now_ms: int) -> Iterator[Job]:
        while self._arrivals and self._arrivals[0].at_ms == now_ms:
            arrival = self._arrivals.popleft()
            yield Job(arrival, make_workload(arrival.queue, arrival.class_, arrival.number, _seconds(now_ms)))

    def step(self, created: list[Job], now_ms: int) -> None:
        """Process one instant: finishes first, because they release quota for the created workloads."""
        now = _seconds(now_ms)
        while self._finishes and self._finishes[0].at_ms == now_ms:
            finish = heappop(self._finishes)
            if finish.attempt == finish.job.attempts:
                self._finish(finish.job, now)
                self._outcome.finished_ms = now_ms
        for job in created:
            self._jobs[job.workload.metadata.key] = job
            self._state.put_workload(job.workload, now)
        while decisions := self._admission_cycle.run(now).decisions:
            self._outcome.cycles += 1
            for decision in decisions:
                self._write_decision(decision, now_ms)

    def _finish(self, job: Job, now: float) -> None:
        self._write(job, finish_status(job.workload, "Succeeded", "Job finished", now), now)
        self._state.remove_workload(job.workload.metadata.key)
        del self._jobs[job.workload.metadata.key]

    def _write_decision(self, decision: Decision, now_ms: int) -> None:
        job, now = self._jobs[decision.key], _seconds(now_ms)
        match decision:
            case Reserve():
                self._start(job, now_ms)
                self._write(job, admit_status(job.workload, decision, now), now)
            case Preempt():
                self._outcome.preemptions += 1
                job.attempts += 1
                self._write(job, preempt_status(job.workload, decision, now), now)
                self._write(job, release_status(job.workload, now, DEFAULT_GATES), now)
            case Hold():
                status = hold_status(job.workload, decision, now, DEFAULT_GATES)
                self._outcome.holds += status is not None
                self._write(job, status, now)
            case AssignTopology() | SecondPassFailed() | Evict():
                raise AssertionError("no node fails in virtual time")
            case _:
                assert_never(decision)

    def _start(self, job: Job, now_ms: int) -> None:
        at_ms, _, _, class_ = job.arrival
        self._outcome.admissions += 1
        if job.attempts == 0:
            self._outcome.waits_ms.setdefault(class_.name, []).append(now_ms - at_ms)
        job.attempts += 1
        heappush(self._finishes, Finish(now_ms + class_.runs_ms, next(self._tickets), job, job.attempts))

    def _write(self, job: Job, status: WorkloadStatus | None, now: float) -> None:
        if status is None:
            return
        old = job.workload
        version = str(int(old.metadata.resource_version) + 1)
        metadata = msgspec.structs.replace(old.metadata, resource_version=version)
        job.workload = Workload(metadata=metadata, spec=old.spec, status=status)
        self._state.put_workload(job.workload, now)


def _arrivals(world: World) -> Iterator[Arrival]:
    """Return the workloads of ``world``, class by class."""
    numbers = count()
    for class_ in world.classes:
        for index in range(class_.per_queue):
            for queue in world.queue_names():
                yield Arrival(class_.from_ms + index * class_.every_ms, next(numbers), queue, class_)


def _seconds(virtual_ms: int) -> float:
    return EPOCH_S + virtual_ms / 1000
