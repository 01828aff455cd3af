"""The recorder of a run: it counts what happens to the jobs and what they hold, and makes the outcome."""

from collections.abc import Iterable, Iterator

import msgspec

from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import Reservation
from quorate.queueing.nodes.places import Place
from quorate.queueing.state import State
from quorate.quota.amount import FlavorResource
from quorate.simulate.engine.records import (
    NEVER,
    JobRecords,
    Outcome,
    Transition,
    TransitionRecords,
    UsageRecords,
)
from quorate.simulate.engine.simulated_job import SimulatedJob
from quorate.simulate.engine.virtual_time import VirtualClock
from quorate.simulate.inputs.existing import ExistingJob
from quorate.simulate.inputs.submissions import Submission
from quorate.simulate.inputs.world import World
from quorate.simulate.limits import FIRST_INTERVAL_MS, MAX_NODE_SAMPLES

NO_FLAVOR = ""  # of what is used of a node


class HeldAmounts:
    """Keeps the records of use equal to the model."""

    def __init__(self, state: State, quota: UsageRecords, nodes: UsageRecords) -> None:
        self._state = state
        self._quota = quota
        self._nodes = nodes
        self._on_host: dict[str, dict[Key, SimulatedJob]] = {}

    def jobs_on(self, hosts: Iterable[str]) -> Iterator[SimulatedJob]:
        """Yield the jobs with pods on one of ``hosts``, in a fixed order."""
        jobs = {key: job for host in hosts for key, job in self._on_host.get(host, {}).items()}
        yield from (jobs[key] for key in sorted(jobs))

    def count(self, job: SimulatedJob, now_ms: int) -> None:
        """Count the amounts that a job holds from now on, instead of its former amounts."""
        reservation = self._state.ledger.reservations.get(job.key)
        if reservation is not None and c.is_finished(job.workload):
            reservation = None
        self._count_quota(job, reservation, now_ms)
        places = () if reservation is None else reservation.places.all
        if places is not job.places and places != job.places:
            self._count_places(job, job.places, -1, now_ms)
            self._count_places(job, places, 1, now_ms)
        job.places = places

    def _count_quota(self, job: SimulatedJob, reservation: Reservation | None, now_ms: int) -> None:
        held = None if reservation is None else (reservation.admission.cluster_queue, reservation.usage)
        if held == job.usage:
            return
        if job.usage is not None:
            self._quota.change(*job.usage, -1, now_ms)
        if held is not None:
            self._quota.change(*held, 1, now_ms)
        job.usage = held

    def _count_places(self, job: SimulatedJob, places: Iterable[Place], sign: int, now_ms: int) -> None:
        for place in places:
            if not place.on_host:
                continue
            host = place.values[-1]
            on_host = self._on_host.setdefault(host, {})
            if sign > 0:
                on_host[job.key] = job
            else:
                on_host.pop(job.key, None)
            amounts = {FlavorResource(NO_FLAVOR, name): amount for name, amount in place.amounts.items()}
            self._nodes.change(host, amounts, sign, now_ms)


class Unended(msgspec.Struct, frozen=True, rename="camel"):
    """A job that waits at the end of a run."""

    name: str
    class_name: str
    queue: str
    reason: str


class Run(msgspec.Struct):
    """The outcome of a run."""

    world: World
    queues: tuple[Key, ...]  # local queues by their index in the records
    jobs: JobRecords
    transitions: TransitionRecords
    usage: UsageRecords
    node_usage: UsageRecords  # of the pods with places, by host name of the node
    ended_ms: int  # virtual time of the last event
    waiting: tuple[Unended, ...]  # the first of the jobs that wait at the end, at most ``MAX_SHOWN``


class Recorder:
    """Records of the jobs that were submitted so far, and how many of them wait or have ended."""

    def __init__(self, clock: VirtualClock, state: State, *, takes_samples: bool) -> None:
        self._takes_samples = takes_samples
        self.jobs = JobRecords()
        self.node_usage = UsageRecords(FIRST_INTERVAL_MS, MAX_NODE_SAMPLES)
        self.ended = 0
        self.unstarted = 0  # workloads that existed, are waited for and were never admitted
        self._clock = clock
        self._queues: dict[Key, int] = {}
        self._transitions = TransitionRecords()
        self._usage = UsageRecords(FIRST_INTERVAL_MS)
        self.held = HeldAmounts(state, self._usage, self.node_usage)
        self._waiting = 0

    def submitted(self, submission: Submission, queue: Key, at_ms: int) -> int:
        """Add a job and return its number."""
        queue_index = self._queues.setdefault(queue, len(self._queues))
        return self.jobs.add(
            submission.class_index, queue_index, at_ms, submission.runs_ms, sum(submission.counts)
        )

    def waits(self) -> None:
        self._waiting += 1

    def withdrawn(self) -> None:
        """Count a job that was removed while it waited."""
        self._waiting -= 1

    def existed(self, job: SimulatedJob, existing: ExistingJob, *, is_awaited: bool) -> None:
        """Record the state in which a workload was stored when the run began.

        If it waits and ``is_awaited``, it counts in ``unstarted`` until it is admitted.
        """
        records, number = self.jobs, job.number
        if existing.admitted_ms is not None:
            records.admissions[number] = 1
            records.admitted_ms[number] = existing.admitted_ms
            records.outcome[number] = Outcome.RUNNING
        elif existing.workload.spec.active:
            self._waiting += 1
            self.unstarted += is_awaited
            job.existed = is_awaited
        else:
            records.outcome[number] = Outcome.DEACTIVATED

    def admitted(self, job: SimulatedJob) -> None:
        records = self.jobs
        records.admissions[job.number] += 1
        self._transitions.add(self._clock.ms, job.number, Transition.ADMITTED)
        records.outcome[job.number] = Outcome.RUNNING
        if records.admitted_ms[job.number] == NEVER:
            records.admitted_ms[job.number] = self._clock.ms
            self.unstarted -= job.existed
        self._waiting -= 1

    def preempted(self, job: SimulatedJob) -> None:
        self.jobs.preemptions[job.number] += 1
        self._transitions.add(self._clock.ms, job.number, Transition.PREEMPTED)

    def evicted(self, job: SimulatedJob) -> None:
        self.jobs.evictions[job.number] += 1
        self._transitions.add(self._clock.ms, job.number, Transition.EVICTED)

    def waits_again(self, job: SimulatedJob) -> None:
        self._waiting += 1
        self.jobs.outcome[job.number] = Outcome.WAITING

    def deactivated(self, job: SimulatedJob) -> None:
        self.jobs.outcome[job.number] = Outcome.DEACTIVATED
        self._waiting -= not job.is_running
        if self.jobs.admitted_ms[job.number] == NEVER:
            self.unstarted -= job.existed

    def finished(self, job: SimulatedJob, outcome: Outcome) -> None:
        self.jobs.outcome[job.number] = outcome
        self.jobs.ended_ms[job.number] = self._clock.ms
        self.ended += 1

    def advance(self, now_ms: int, waiting_for_nodes: int) -> None:
        """Take the samples that are due before ``now_ms``."""
        if self._takes_samples:
            self._usage.advance(now_ms - 1, self._waiting)
            self.node_usage.advance(now_ms - 1, waiting_for_nodes)

    def run(self, world: World, ended_ms: int, waiting: tuple[Unended, ...]) -> Run:
        """Take the last samples and return the outcome."""
        for usage in (self._usage, self.node_usage) if self._takes_samples else ():
            usage.finish(ended_ms, self._waiting)
        return Run(
            world, tuple(self._queues), self.jobs, self._transitions, self._usage, self.node_usage, ended_ms,
            waiting,
        )  # fmt: skip
