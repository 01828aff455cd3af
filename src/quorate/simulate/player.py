"""A run: the jobs of a world, played through the queueing core in virtual time.

The model, the admission cycle and the lifecycle of workloads are those of the controllers, fed by the same
table.  Only their surroundings are simulated: an API that stores a write at once, jobs that start when they
are admitted and stop when they are evicted, and controllers of admission checks that answer after a time.
Events of one instant happen in a fixed order, so a run depends on its world alone.
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api.kueue import (
    AdmissionCheckState,
    Workload,
    WorkloadStatus,
)
from quorate.api.meta import Key, at_epoch
from quorate.controllers.feeds import queueing_feeds
from quorate.kube.resources import LOCAL_QUEUES, NAMESPACES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from quorate.queueing import conditions as c
from quorate.queueing.decisions import AssignTopology, Decision, Evict, Hold, Preempt, Reserve
from quorate.queueing.explain import why_pending
from quorate.queueing.lifecycle.decided_status import decided_status
from quorate.queueing.lifecycle.rules import decide_workload
from quorate.queueing.lifecycle.statuses import evict_status, finish_status, release_status
from quorate.queueing.pods_ready import pods_ready_condition
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State
from quorate.simulate.distributions import draw
from quorate.simulate.existing import ExistingJob, existing_jobs
from quorate.simulate.held_amounts import HeldAmounts
from quorate.simulate.pod_scheduler import Bound, PodScheduler
from quorate.simulate.records import (
    MOST_NODE_SAMPLES,
    NEVER,
    JobRecords,
    Outcome,
    Transition,
    TransitionRecords,
    UsageRecords,
)
from quorate.simulate.simulated_job import (
    EventKind,
    SimulatedEvent,
    SimulatedJob,
    WorkloadTemplate,
    granted_counts,
    is_outdated,
    shrunk_ms,
    stretched_ms,
)
from quorate.simulate.simulated_nodes import SimulatedNodes, assigned_hosts
from quorate.simulate.submissions import MS, Submission, submissions
from quorate.simulate.world import World

FIRST_INTERVAL_MS: Final = 1000  # of samples; doubled as the run gets longer
MOST_IDLE: Final = 1000  # instants in which no job ends, after which it is asked whether one will
MOST_STEPS: Final = 1000  # of one instant; more would be a bug of the lifecycle or the cycle


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
    waiting: tuple[Unended, ...]  # the first of the jobs that wait at the end, at most ``SHOWN``


SHOWN: Final = 20


# Gets the time, the number of the first job that was submitted at that time, and all jobs and records.
Observer = Callable[[int, int, Mapping[Key, SimulatedJob], JobRecords], object]


def play(
    world: World,
    on_progress: Callable[[int], object] = lambda ended: None,
    observe: Observer | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Run:
    """Play the world to its end; ``on_progress`` gets the number of ended jobs from time to time.

    ``observe`` is called after each instant with submissions, and must change nothing.  The end is ``until``
    of the scenario, or the time at which nothing can happen any more, or the first instant after which
    ``is_over`` returns True.
    """
    return _Player(world, on_progress, observe).run(is_over)


def play_until_started(world: World, resolution_ms: int, is_over: Callable[[], bool] = lambda: False) -> Run:
    """Play the world until each workload that existed is admitted or cannot be, or to the end of ``play``.

    Jobs end at multiples of ``resolution_ms``, the next after their time, so that many end together: a cycle
    for each of them would cost most of the time of a run with thousands of waiting workloads.
    """
    return _Player(world, lambda ended: None, None, resolution_ms, until_started=True).run(is_over)


class _Player:
    def __init__(
        self,
        world: World,
        on_progress: Callable[[int], object],
        observe: Observer | None,
        resolution_ms: int = 1,
        *,
        until_started: bool = False,
    ) -> None:
        self._world = world
        self._observe = observe
        self._resolution_ms = resolution_ms
        self._until_started = until_started
        self._unstarted = 0  # workloads that existed and were never admitted
        self._configuration = world.configuration
        self._classes = world.classes
        self._on_progress = on_progress
        self._now_ms = 0
        self._now = world.begins_s  # the same, epoch seconds
        self._state = State(world.configuration)
        self._cycle = AdmissionCycle(self._state)
        self._cycle_at_ms: int | None = None
        self._jobs: dict[Key, SimulatedJob] = {}
        self._changed: dict[Key, None] = {}  # workloads with a lifecycle to decide
        self._submitted: list[Key] = []  # in this instant
        self._events: list[SimulatedEvent] = []  # a heap
        self._idle = 0  # instants since a job was submitted or ended, or since this was looked at
        self._tickets = count()
        self._jitter = Random(f"{world.scenario.seed} backoff")
        self._answers = Random(f"{world.scenario.seed} admission checks")
        self._queues: dict[Key, int] = {}
        self._records = JobRecords()
        self._transitions = TransitionRecords()
        self._usage = UsageRecords(FIRST_INTERVAL_MS)
        self._node_usage = UsageRecords(FIRST_INTERVAL_MS, MOST_NODE_SAMPLES)
        self._held = HeldAmounts(self._state, self._usage, self._node_usage)
        self._waiting = 0
        self._ended = 0
        priorities = {each.metadata.name: each for each in world.of_kind(WORKLOAD_PRIORITY_CLASSES)}
        self._templates = [WorkloadTemplate(each, priorities, world.configuration) for each in self._classes]
        self._load()
        nodes = world.nodes
        self._pods = PodScheduler(world) if nodes and self._has_free_pods() else None
        put_node = self._ignore if self._pods is None else self._pods.put_node
        self._nodes = SimulatedNodes(nodes, world.scenario, self._state, put_node)
        for each in existing_jobs(world):
            self._take_over(each)

    @staticmethod
    def _ignore(_: object) -> None:
        pass

    def _has_free_pods(self) -> bool:
        """Return True if some pods get no places with their quota: a scheduler binds them."""
        placing = self._state.ledger.topology.placing
        return any(each.is_volcano for each in self._classes) or bool(self._state.flavors.keys() - placing)

    def _load(self) -> None:
        """Put the objects of the world into the model, through the feeds of the controllers."""
        feeds = queueing_feeds(self._state, lambda: self._now)
        namespaces = {each.metadata.name for each in self._world.of_kind(NAMESPACES)}
        for feed in feeds:
            if feed.resource is WORKLOADS:
                continue  # they are jobs, see ``_take_over``
            if feed.resource is NAMESPACES:
                used = {each.metadata.namespace for each in self._world.of_kind(LOCAL_QUEUES)}
                for name in sorted(used - namespaces):
                    self._state.put_namespace(name, {"kubernetes.io/metadata.name": name})
            for obj in self._world.of_kind(feed.resource):
                feed.put(obj)
        self._put = self._state.put_workload

    def run(self, is_over: Callable[[], bool]) -> Run:
        arrivals = submissions(self._world.scenario, self._world.directory)
        until_s = self._world.scenario.until_s
        until_ms = None if until_s is None else round(until_s * MS)
        following = next(arrivals, None)
        while True:
            self._drop_outdated_events()
            due = [] if following is None else [following.at_ms]
            if self._events:
                due.append(self._events[0].at_ms)
            due += self._wakes()
            node_ms = self._nodes.next_ms(is_busy=bool(due))
            if node_ms is not None and (due or self._jobs):
                due.append(max(node_ms, self._now_ms + 1))
            now_ms = min(due, default=None)
            if now_ms is None or (until_ms is not None and now_ms > until_ms):
                break
            if following is None and self._idle >= MOST_IDLE and not self._any_works():
                break
            self._usage.advance(now_ms - 1, self._waiting)
            self._node_usage.advance(now_ms - 1, 0 if self._pods is None else self._pods.waiting)
            self._now_ms, self._now = now_ms, self._world.begins_s + now_ms / MS
            self._idle += 1
            while self._events and self._events[0].at_ms == now_ms:
                self._happen(heappop(self._events))
            if node_ms is not None and node_ms <= now_ms:
                self._change_nodes()
            first = len(self._records)
            while following is not None and following.at_ms == now_ms:
                self._submit(following)
                following = next(arrivals, None)
            self._settle()
            if self._pods is not None:
                self._schedule_pods(self._pods)
            if self._observe is not None and len(self._records) > first:
                self._observe(now_ms, first, self._jobs, self._records)
            self._on_progress(self._ended)
            if is_over() or (self._until_started and not self._unstarted):
                until_ms = None
                break
        ended_ms = self._now_ms if until_ms is None else until_ms
        for usage in (self._usage, self._node_usage):
            usage.finish(ended_ms, self._waiting)
        for job in self._jobs.values():
            if self._pods is not None and job.is_running and self._pods.is_waiting(job):
                self._records.outcome[job.number] = Outcome.WAITING
        return Run(
            self._world, tuple(self._queues), self._records, self._transitions, self._usage,
            self._node_usage, ended_ms, tuple(self._unended()),
        )  # fmt: skip

    def _any_works(self) -> bool:
        """Return True if a job will end.  If none does, evictions and retries may repeat for ever."""
        self._idle = 0
        ends = (EventKind.ENDED, EventKind.PODS_ENDED)
        return any(each.kind in ends and not is_outdated(each) for each in self._events)

    def _wakes(self) -> Iterator[int]:
        """Yield when the cycle and the scheduler are due although no job changes."""
        if not self._jobs:
            return
        if self._cycle_at_ms is not None:
            yield self._cycle_at_ms
        if self._pods is not None:
            wakes_at, next_ms = self._pods.wakes_at, self._pods.next_ms
            if next_ms is not None:
                yield max(next_ms, self._now_ms + 1)
            if wakes_at is not None:
                yield max(self._ms(wakes_at), self._now_ms + 1)

    def _settle(self) -> None:
        """Let lifecycle and cycle act until neither changes anything at this instant."""
        for _ in range(MOST_STEPS):
            while self._changed:
                key = next(iter(self._changed))
                del self._changed[key]
                self._decide_lifecycle(key)
            result = self._cycle.run(self._now)
            self._changed.update(dict.fromkeys(self._submitted))
            self._submitted.clear()
            wake_at = result.wake_at
            self._cycle_at_ms = None if wake_at is None else max(self._ms(wake_at), self._now_ms + 1)
            for decision in result.decisions:
                if not isinstance(decision, Hold):  # the model keeps the reason, and no rule reads its text
                    self._carry_out(decision)
            is_complete = wake_at is None or wake_at > self._now
            if is_complete and not self._changed:
                return
        raise AssertionError(f"no rest at {self._now_ms} ms: the same instant takes {MOST_STEPS} steps")

    # Jobs

    def _submit(self, submission: Submission) -> None:
        job_class = self._classes[submission.class_index]
        template = self._templates[submission.class_index]
        queue = Key(job_class.namespace, job_class.queues[submission.queue_index])
        queue_index = self._queues.setdefault(queue, len(self._queues))
        number = self._records.add(
            submission.class_index, queue_index, self._now_ms, submission.runs_ms, sum(submission.counts)
        )
        workload = template.workload(submission, number, self._now)
        job = SimulatedJob(number, submission, workload)
        self._jobs[job.key] = job
        self._waiting += 1
        self._idle = 0
        if job_class.is_volcano:
            assert self._pods is not None, "a world without nodes has no such class"
            self._pods.submit(job, submission.counts, self._now)
            return
        self._store(job, workload)
        del self._changed[job.key]
        self._submitted.append(job.key)  # its lifecycle is decided on after the cycle, which may admit it

    def _take_over(self, existing: ExistingJob) -> None:
        """Go on with a workload in the state in which it was stored."""
        workload, submission, records = existing.workload, existing.submission, self._records
        queue = Key(workload.metadata.namespace, workload.spec.queue_name)
        queue_index = self._queues.setdefault(queue, len(self._queues))
        number = records.add(
            submission.class_index, queue_index, submission.at_ms, submission.runs_ms, sum(submission.counts)
        )
        job = SimulatedJob(number, submission, workload)
        self._jobs[job.key] = job
        self._cycle_at_ms = self._now_ms
        if existing.admitted_ms is not None:
            job.attempt, job.is_running, job.works = 1, True, True
            records.admissions[number] = 1
            records.admitted_ms[number] = existing.admitted_ms
            records.outcome[number] = Outcome.RUNNING
            job.started_ms = existing.admitted_ms + submission.starts_ms
            if existing.ready_ms is not None:
                job.started_ms = existing.ready_ms
            elif self._configuration.wait_for_pods_ready is not None:
                self._schedule(max(self._now_ms, job.started_ms), EventKind.READY, job)
            ends_ms = job.started_ms + stretched_ms(submission.runs_ms, job)
            self._schedule(max(self._now_ms, ends_ms), EventKind.ENDED, job)
        elif workload.spec.active:
            self._waiting += 1
            self._unstarted += 1
            job.existed = True
        else:
            records.outcome[number] = Outcome.DEACTIVATED
        if c.has_quota_reservation(workload) and not c.is_admitted(workload):
            self._ask_checks(job)
        self._store(job, workload)

    def _drop_outdated_events(self) -> None:
        """Drop the next events if they do nothing: the run ends with the last one that does."""
        while self._events and is_outdated(self._events[0]):
            heappop(self._events)

    def _happen(self, event: SimulatedEvent) -> None:
        job = event.job
        if is_outdated(event):
            return
        if event.kind == EventKind.WOKEN:
            job.wakes_ms = None
            self._changed[job.key] = None
        elif event.kind == EventKind.ENDED:
            self._end(job)
        elif event.kind == EventKind.PODS_ENDED:
            assert self._pods is not None, "pods are bound by the scheduler"
            if self._pods.end_pods(job, event.pods) or _fails(job.submission):
                self._end(job)
        elif event.kind == EventKind.STOPPED:
            job.stops = False
            if self._pods is not None:
                self._pods.remove(job)
            self._write(job, release_status(job.workload, self._now, self._configuration.gates))
        elif event.kind == EventKind.READY:
            self._report_ready(job)
        elif event.kind == EventKind.HOSTS_CHECKED:
            self._check_hosts(job)
        else:
            self._answer_checks(job)

    def _start(self, job: SimulatedJob) -> None:
        """Start an admitted job, or wait for nodes for its pods."""
        self._note_admission(job)
        if self._pods is not None and not job.places and self._classes[job.submission.class_index].pod_sets:
            self._pods.submit(job, granted_counts(job), self._now)
            return
        if self._pods is not None:
            self._pods.hold(job.workload)
        self._start_pods(job)
        if self._nodes.down and job.places:
            self._check_hosts(job)

    def _note_admission(self, job: SimulatedJob) -> None:
        records = self._records
        job.is_running = True
        records.admissions[job.number] += 1
        self._transitions.add(self._now_ms, job.number, Transition.ADMITTED)
        records.outcome[job.number] = Outcome.RUNNING
        if records.admitted_ms[job.number] == NEVER:
            records.admitted_ms[job.number] = self._now_ms
            self._unstarted -= job.existed
        self._waiting -= 1

    def _start_pods(self, job: SimulatedJob) -> None:
        submission = job.submission
        job.attempt += 1
        job.works = True
        ready_ms = self._now_ms + submission.starts_ms
        job.started_ms = ready_ms
        left_ms = submission.runs_ms - job.done_ms
        if submission.fails_after_ms is not None:
            left_ms = min(left_ms, submission.fails_after_ms)
        rules = self._configuration.wait_for_pods_ready
        if rules is not None and (submission.starts_ms or rules.block_admission is not None):
            self._schedule(ready_ms, EventKind.READY, job)
        elif rules is not None:
            self._report_ready(job)  # at once; with blockAdmission the cycle has to see that it was not
        self._schedule(ready_ms + stretched_ms(left_ms, job), EventKind.ENDED, job)

    def _end_pods(self, job: SimulatedJob) -> None:
        """End the pods of a job before its work is done; the work until its last checkpoint is kept."""
        checkpoint_s = self._classes[job.submission.class_index].checkpoint_s
        if job.works and checkpoint_s is not None:
            ran_ms = max(0, self._now_ms - job.started_ms)
            step_ms = max(1, round(checkpoint_s * MS))
            job.done_ms += shrunk_ms(ran_ms, job) // step_ms * step_ms
            job.done_ms = min(job.done_ms, job.submission.runs_ms)
        job.attempt += 1
        job.works = False

    def _report_ready(self, job: SimulatedJob) -> None:
        ready = pods_ready_condition(job.workload, True, self._now)
        if ready is not None:
            status = job.workload.status
            self._write(job, replace(status, conditions=c.with_conditions(status.conditions, ready)))

    def _stop(self, job: SimulatedJob) -> None:
        """Stop the pods of an evicted job; its quota is released once they have ended."""
        if job.is_running and job.workload.spec.active:
            self._waiting += 1
            self._records.outcome[job.number] = Outcome.WAITING
        self._end_pods(job)
        if self._pods is not None:
            job.unbound_reason = self._pods.why_waiting(job)
            self._pods.drop_waiting(job)
            self._pods.release(job.key)
        job.is_running, job.stops = False, True
        self._schedule(self._now_ms + job.submission.stops_ms, EventKind.STOPPED, job)

    def _change_nodes(self) -> None:
        """Fail and repair nodes; the jobs with pods on one that failed lose them."""
        changed = list(self._nodes.change(self._now_ms, self._now))
        hosts = [self._nodes.host_of(name) for name in changed]
        for job in self._held.jobs_on(hosts):
            if job.is_running:
                self._check_hosts(job)
        down = [name for name, host in zip(changed, hosts, strict=True) if host in self._nodes.down]
        for job in [] if self._pods is None else list(self._pods.jobs_on(down)):
            if not job.stops:
                self._restart_pods(job)

    # Pods of the scheduler

    def _schedule_pods(self, pods: PodScheduler) -> None:
        """Run a session if one is due, and start the jobs of which it binds the pods."""
        wakes_at = pods.wakes_at
        is_due = pods.next_ms is not None and pods.next_ms <= self._now_ms
        if is_due or (wakes_at is not None and self._ms(wakes_at) <= self._now_ms):
            outcome = pods.run_session(self._now_ms, self._now)
            for job in outcome.evicted:
                self._records.preemptions[job.number] += 1
                self._transitions.add(self._now_ms, job.number, Transition.PREEMPTED)
                self._restart_pods(job)
            for bound in outcome.bound:
                self._note_bound(bound)
            self._settle()
        for change in pods.take_changes():
            host = self._nodes.host_of(change.node)
            self._node_usage.change(host, change.amounts, change.sign, self._now_ms)
            self._nodes.count_pod(change.pod, change.node if change.sign > 0 else "")

    def _note_bound(self, bound: Bound) -> None:
        """Start a gang with its last pod; the pods of other jobs run by themselves."""
        job, submission = bound.job, bound.job.submission
        job_class = self._classes[submission.class_index]
        if job_class.is_gang:
            if bound.is_complete:
                if job_class.is_volcano:
                    self._note_admission(job)
                self._start_pods(job)
            return
        ready_ms = self._now_ms + submission.starts_ms
        runs_ms = submission.runs_ms - job.done_ms
        if submission.fails_after_ms is not None:
            runs_ms = min(runs_ms, submission.fails_after_ms)
        self._schedule(ready_ms + runs_ms, EventKind.PODS_ENDED, job, bound.pods)
        if bound.is_complete:
            job.works, job.started_ms = True, ready_ms
            if self._configuration.wait_for_pods_ready is not None:
                self._schedule(ready_ms, EventKind.READY, job)

    def _restart_pods(self, job: SimulatedJob) -> None:
        """Let the pods of a job wait for nodes again."""
        assert self._pods is not None, "pods are bound by the scheduler"
        self._end_pods(job)
        self._pods.restart(job, self._now)
        if self._classes[job.submission.class_index].is_volcano and job.is_running:
            job.is_running = False
            self._waiting += 1
            self._records.outcome[job.number] = Outcome.WAITING

    def _check_hosts(self, job: SimulatedJob) -> None:
        """Record the failed nodes of a running job in its workload, or evict it, as the controller would."""
        hosts = assigned_hosts(job.workload)
        is_down = any(not self._nodes.down.isdisjoint(each) for each in hosts.values())
        if is_down and job.works:
            self._end_pods(job)
        failures, check_at = self._nodes.failures_of(job.workload, hosts, self._now)
        if failures is not None and failures.eviction:
            self._count_eviction(job)
            self._write(
                job,
                evict_status(
                    job.workload, c.NODE_FAILURES, failures.eviction, self._now,
                    counted_as=(c.NODE_FAILURES, ""),
                ),
            )  # fmt: skip
            return
        if failures is not None:
            self._write(job, replace(job.workload.status, unhealthy_nodes=failures.nodes))
        if check_at is not None:
            self._schedule(max(self._ms(check_at), self._now_ms + 1), EventKind.HOSTS_CHECKED, job)
        if not is_down and not job.works and job.is_running:
            self._start_pods(job)

    def _end(self, job: SimulatedJob) -> None:
        submission, records = job.submission, self._records
        failed = _fails(submission)
        reason, text = ("Failed", "Job failed") if failed else ("Succeeded", "Job finished successfully")
        records.outcome[job.number] = Outcome.FAILED if failed else Outcome.SUCCEEDED
        records.ended_ms[job.number] = self._now_ms
        self._ended += 1
        self._idle = 0
        if self._pods is not None:
            self._pods.remove(job)
            self._pods.release(job.key)
        if not self._classes[submission.class_index].is_volcano:
            self._write(job, finish_status(job.workload, reason, text, self._now))
            self._state.remove_workload(job.key)
        self._changed.pop(job.key, None)
        job.attempt, job.wakes_ms = job.attempt + 1, None
        del self._jobs[job.key]

    def _answer_checks(self, job: SimulatedJob) -> None:
        """Answer the admission checks that are due, as their controllers would."""
        status = job.workload.status
        checks = tuple(self._answered(check) for check in status.admission_checks)
        if checks != status.admission_checks:
            self._write(job, replace(status, admission_checks=checks))

    def _answered(self, check: AdmissionCheckState) -> AdmissionCheckState:
        answer = self._world.scenario.checks.get(check.name)
        if check.state != "Pending" or answer is None:
            return check
        state = "Ready" if self._answers.random() < answer.ready else "Retry"
        return replace(check, state=state, message="simulated", last_transition_time=at_epoch(self._now))

    # Writes

    def _carry_out(self, decision: Decision) -> None:
        job = self._jobs[decision.key]
        if isinstance(decision, Preempt):
            self._records.preemptions[job.number] += 1
            self._transitions.add(self._now_ms, job.number, Transition.PREEMPTED)
        elif isinstance(decision, Evict):
            self._count_eviction(job)
        self._write(job, decided_status(job.workload, decision, self._now, self._configuration))
        if isinstance(decision, Reserve) and not decision.admitted:
            self._ask_checks(job)
        elif isinstance(decision, AssignTopology) and job.is_running:
            self._check_hosts(job)

    def _count_eviction(self, job: SimulatedJob) -> None:
        self._records.evictions[job.number] += 1
        self._transitions.add(self._now_ms, job.number, Transition.EVICTED)

    def _ask_checks(self, job: SimulatedJob) -> None:
        answers = self._world.scenario.checks
        for name in sorted(answers):
            after_ms = round(draw(answers[name].after, self._answers) * MS)
            self._schedule(self._now_ms + after_ms, EventKind.CHECKED, job)

    def _decide_lifecycle(self, key: Key) -> None:
        job = self._jobs.get(key)
        if job is None:
            return
        workload = job.workload
        transition = decide_workload(
            workload,
            self._state.queue_view(workload),
            self._configuration,
            self._now,
            self._jitter.random(),
        )
        if transition.deactivate:
            spec = replace(workload.spec, active=False)
            metadata = replace(workload.metadata, generation=workload.metadata.generation + 1)
            self._records.outcome[job.number] = Outcome.DEACTIVATED
            self._waiting -= not job.is_running
            if self._records.admitted_ms[job.number] == NEVER:
                self._unstarted -= job.existed
            self._store(job, Workload(metadata=metadata, spec=spec, status=workload.status))
        elif transition.status is not None:
            if not c.is_evicted(workload) and any(
                each.type == c.EVICTED and each.status == "True" for each in transition.status.conditions
            ):
                self._count_eviction(job)
            self._write(job, transition.status)
        elif transition.wake_at is not None:
            at_ms = max(self._ms(transition.wake_at), self._now_ms + 1)
            if job.wakes_ms is None or at_ms < job.wakes_ms:
                job.wakes_ms = at_ms
                self._schedule(at_ms, EventKind.WOKEN, job)

    def _write(self, job: SimulatedJob, status: WorkloadStatus | None) -> None:
        if status is not None:
            old = job.workload
            self._store(job, Workload(metadata=old.metadata, spec=old.spec, status=status))

    def _store(self, job: SimulatedJob, workload: Workload) -> None:
        """Store a new version and deliver it to the model and to the job."""
        old = workload.metadata
        version = str(int(old.resource_version or "0") + 1)
        job.workload = Workload(
            metadata=replace(old, resource_version=version), spec=workload.spec, status=workload.status
        )
        self._put(job.workload, self._now)
        self._changed[job.key] = None
        self._held.count(job, self._now_ms)
        if c.is_finished(job.workload):
            return
        if c.is_evicted(job.workload):
            if not job.stops and c.has_quota_reservation(job.workload):
                self._stop(job)
        elif not job.is_running and c.is_admitted(job.workload):
            self._start(job)

    def _schedule(self, at_ms: int, kind: int, job: SimulatedJob, pods: tuple[Key, ...] = ()) -> None:
        if kind in (EventKind.ENDED, EventKind.PODS_ENDED):
            at_ms = -(-at_ms // self._resolution_ms) * self._resolution_ms
        heappush(self._events, SimulatedEvent(at_ms, kind, next(self._tickets), job, job.attempt, pods))

    def _ms(self, seconds: float) -> int:
        """Return a time of the core (epoch seconds) as virtual time, rounded up."""
        return -int(-(seconds - self._world.begins_s) * MS // 1)

    def _unended(self) -> Iterator[Unended]:
        """Yield the first jobs that wait, or of which pods do, with the reason that the core gives."""
        pods = self._pods
        waiting = [
            each for each in self._jobs.values()
            if not each.is_running or (pods is not None and pods.is_waiting(each))
        ]  # fmt: skip
        for job in waiting[:SHOWN]:
            job_class = self._classes[job.submission.class_index]
            hold = why_pending(self._state, job.key)
            reason = job.unbound_reason if pods is None else pods.why_waiting(job) or job.unbound_reason
            if not job.workload.spec.active:
                reason = "deactivated"
            elif hold is not None and hold.message:
                reason = hold.message
            yield Unended(job.key.name, job_class.name, job.workload.spec.queue_name, reason)


def _fails(submission: Submission) -> bool:
    return submission.fails_after_ms is not None and submission.fails_after_ms <= submission.runs_ms
