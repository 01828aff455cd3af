"""A run: the jobs of a world, played through the queueing core in virtual time.

The controllers use the same model, admission cycle and lifecycle of workloads, fed by the same table.  Only
their environment is simulated: an API that stores a write at once, jobs that start when they are admitted and
stop when they are evicted, and controllers of admission checks that answer after a time.  Events of one
instant happen in a fixed order, so a run depends on its world alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random

from msgspec.structs import replace

from quorate.api.kueue import AdmissionCheckState, Workload, WorkloadStatus
from quorate.api.meta import Key, at_epoch
from quorate.controllers.feeds import queueing_feeds
from quorate.kube.resources import LOCAL_QUEUES, NAMESPACES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from quorate.queueing import conditions as c
from quorate.queueing.decisions import AssignTopology, Decision, Evict, Hold, Preempt, Reserve
from quorate.queueing.explain import pending_text
from quorate.queueing.lifecycle.decided_status import decided_status
from quorate.queueing.lifecycle.rules import decide_workload
from quorate.queueing.lifecycle.statuses import finish_status, release_status
from quorate.queueing.lifecycle.transition import evict
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.scheduling.window_evictions import evicts_at, workloads_to_evict
from quorate.queueing.state import State
from quorate.simulate.engine.job_execution import JobExecution, fails
from quorate.simulate.engine.recorder import Recorder, Run, Unended
from quorate.simulate.engine.records import JobRecords, Outcome
from quorate.simulate.engine.simulated_job import SimulatedJob, WorkloadTemplate, stretched_ms
from quorate.simulate.engine.virtual_time import EventKind, EventQueue, SimulatedEvent, VirtualClock
from quorate.simulate.inputs.distributions import draw
from quorate.simulate.inputs.existing import ExistingJob, existing_jobs
from quorate.simulate.inputs.submissions import MS, Submission, submissions
from quorate.simulate.inputs.world import World
from quorate.simulate.limits import MAX_IDLE_INSTANTS, MAX_JOBS, MAX_REQUEUES, MAX_SHOWN, MAX_STEPS

# Gets the time, the number of the first job that was submitted at that time, and all jobs and records.
Observer = Callable[[int, int, Mapping[Key, SimulatedJob], JobRecords], object]
Rest = Callable[[State, float], object]  # gets the model, which must not be changed, and the time


def play(
    world: World,
    on_progress: Callable[[int], object] = lambda ended: None,
    observe: Observer | None = None,
    is_over: Callable[[], bool] = lambda: False,
    at_rest: Rest = lambda state, now: None,
) -> Run:
    """Play the world to its end; ``on_progress`` gets the number of ended jobs from time to time.

    ``observe`` is called after each instant with submissions, and must change nothing.  The end is ``until``
    of the scenario, or the time at which nothing can happen any more, or the first instant after which
    ``is_over`` returns True.  ``at_rest`` is called after each instant, once nothing more is decided at it.
    """
    return Player(world, on_progress, observe, at_rest=at_rest).run(is_over)


def play_until_started(
    world: World,
    existing: Iterable[ExistingJob],
    resolution_ms: int,
    is_over: Callable[[], bool] = lambda: False,
    awaited: Key | None = None,
    at_rest: Rest = lambda state, now: None,
) -> Run:
    """Play the world until each workload that existed is admitted or cannot be, or to the end of ``play``.

    ``existing``: the ``existing_jobs`` of ``world``.
    ``awaited``: only this workload is waited for.  Jobs end at multiples of ``resolution_ms``, the next after
    their time, so that many end together: a cycle for each of them would cost most of the time of a run with
    thousands of waiting workloads.
    """
    player = Player(
        world,
        existing=existing,
        resolution_ms=resolution_ms,
        until_started=True,
        awaited=awaited,
        at_rest=at_rest,
    )
    return player.run(is_over)


def _ignore(_: object) -> None:
    pass


class Player:
    """One cluster in virtual time: ``run`` plays it to its end.

    A caller that plays several clusters at once calls ``next_ms``, ``advance`` and ``settle`` itself, in
    that order, for each instant, and submits and withdraws jobs between the last two.
    """

    def __init__(
        self,
        world: World,
        on_progress: Callable[[int], object] = _ignore,
        observe: Observer | None = None,
        resolution_ms: int = 1,
        *,
        existing: Iterable[ExistingJob] | None = None,
        until_started: bool = False,
        awaited: Key | None = None,
        runs_elsewhere: bool = False,
        at_rest: Rest = lambda state, now: None,
        on_started: Callable[[SimulatedJob], object] = _ignore,
        on_ended: Callable[[SimulatedJob], object] = _ignore,
    ) -> None:
        """``on_started`` gets each job that is admitted, ``on_ended`` each job that ends.

        ``existing``: the ``existing_jobs`` of ``world``, if the caller has drawn them already.
        ``runs_elsewhere``: other clusters run the jobs; the caller tells with ``started`` and ``end`` what
        they do.
        """
        self._world = world
        self._at_rest = at_rest
        self._observe = observe
        self._until_started = until_started
        self._awaited = awaited
        self._runs_elsewhere = runs_elsewhere
        self._configuration = world.configuration
        self._classes = world.classes
        self._on_progress = on_progress
        self._on_started = on_started
        self._on_ended = on_ended
        self._clock = VirtualClock(world.begins_s)
        self._events = EventQueue(resolution_ms)
        self._state = State(world.configuration)
        self._recorder = Recorder(self._clock, self._state, takes_samples=not until_started)
        self._cycle = AdmissionCycle(self._state)
        self._cycle_at_ms: int | None = None
        self._window_evicts_at: float | None = None  # after its notice, epoch seconds
        self._node_ms: int | None = None  # when the next node changes
        self._jobs: dict[Key, SimulatedJob] = {}
        self._changed: dict[Key, None] = {}  # workloads with a lifecycle to decide
        self._submitted: list[Key] = []  # in this instant
        self._idle = 0  # instants since a job was submitted or ended, or since this was looked at
        self._jitter = Random(f"{world.scenario.seed} backoff")
        self._answers = Random(f"{world.scenario.seed} admission checks")
        priorities = {obj.metadata.name: obj for obj in world.of_kind(WORKLOAD_PRIORITY_CLASSES)}
        self._templates = [
            WorkloadTemplate(job_class, priorities, world.configuration) for job_class in self._classes
        ]
        self._load()
        self._execution = JobExecution(
            world, self._clock, self._events, self._recorder, self._state, self._write
        )
        for job in existing_jobs(world) if existing is None else existing:
            self._take_over(job)

    def _load(self) -> None:
        """Put the objects of the world into the model, through the feeds of the controllers."""
        feeds = queueing_feeds(self._state, lambda: self._clock.now)
        namespaces = {namespace.metadata.name for namespace in self._world.of_kind(NAMESPACES)}
        for feed in feeds:
            if feed.resource is WORKLOADS:
                continue  # they are jobs, see ``_take_over``
            if feed.resource is NAMESPACES:
                used = {queue.metadata.namespace for queue in self._world.of_kind(LOCAL_QUEUES)}
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
        clock, recorder, execution = self._clock, self._recorder, self._execution
        while True:
            now_ms = self.next_ms(None if following is None else following.at_ms)
            if now_ms is None or (until_ms is not None and now_ms > until_ms):
                break
            if following is None and self._idle >= MAX_IDLE_INSTANTS and not self.any_works():
                break
            self.advance(now_ms)
            first = len(recorder.jobs)
            while following is not None and following.at_ms == now_ms:
                self.submit(following)
                following = next(arrivals, None)
            self.settle()
            self._at_rest(self._state, clock.now)
            if self._observe is not None and len(recorder.jobs) > first:
                self._observe(now_ms, first, self._jobs, recorder.jobs)
            self._on_progress(recorder.ended)
            if is_over() or (self._until_started and not recorder.unstarted):
                until_ms = None
                break
        for job in self._jobs.values():
            if job.is_running and execution.is_waiting(job):
                recorder.jobs.outcome[job.number] = Outcome.WAITING
        return self.outcome(clock.ms if until_ms is None else until_ms)

    @property
    def clock(self) -> VirtualClock:
        return self._clock

    @property
    def jobs(self) -> Mapping[Key, SimulatedJob]:
        """The jobs that were submitted and have not ended."""
        return self._jobs

    def outcome(self, ended_ms: int) -> Run:
        """Return what was recorded, as a run that ended at ``ended_ms``; one until starts lists no jobs."""
        unended = () if self._until_started else tuple(self._unended())
        return self._recorder.run(self._world, ended_ms, unended)

    def next_ms(self, submitted_ms: int | None = None) -> int | None:
        """Return the time of the next event; ``submitted_ms``: when the next job is submitted.

        Return None if there are no more events.
        """
        due = [] if submitted_ms is None else [submitted_ms]
        event_ms = self._events.next_ms()
        if event_ms is not None:
            due.append(event_ms)
        due += self._wakes()
        self._node_ms = self._execution.next_node_change_ms(is_busy=bool(due))
        if self._node_ms is not None and (due or self._jobs):
            due.append(max(self._node_ms, self._clock.ms + 1))
        return min(due, default=None)

    def advance(self, now_ms: int) -> None:
        """Let everything happen that is due at ``now_ms``, which is not later than ``next_ms``."""
        self._recorder.advance(now_ms, self._execution.waiting)
        self._clock.advance(now_ms)
        self._idle += 1
        for event in self._events.take(now_ms):
            self._happen(event)
        if self._node_ms is not None and self._node_ms <= now_ms:
            self._execution.change_nodes()

    def settle(self) -> None:
        """Decide until nothing more is decided at this instant, and run a session that is due."""
        self._settle()
        if self._execution.run_session():
            self._settle()
        self._execution.count_pods()

    def any_works(self) -> bool:
        """Return True if a job will end.  If none does, evictions and retries may repeat for ever."""
        self._idle = 0
        return self._events.any_job_ends()

    def _wakes(self) -> Iterator[int]:
        """Yield when the cycle and the scheduler are due although no job changes."""
        if not self._jobs:
            return
        if self._cycle_at_ms is not None:
            yield self._cycle_at_ms
        if self._window_evicts_at is not None:
            yield self._clock.later_ms(self._window_evicts_at)
        yield from self._execution.wakes()

    def _settle(self) -> None:
        """Let lifecycle and cycle act until neither changes anything at this instant."""
        for _ in range(MAX_STEPS):
            while self._changed:
                key = next(iter(self._changed))
                del self._changed[key]
                self._decide_lifecycle(key)
            result = self._cycle.run(self._clock.now)
            self._changed.update(dict.fromkeys(self._submitted))
            self._submitted.clear()
            wake_at = result.wake_at
            self._cycle_at_ms = None if wake_at is None else self._clock.later_ms(wake_at)
            for decision in result.decisions:
                if not isinstance(decision, Hold):  # the model keeps the reason, and no rule reads its text
                    self._carry_out(decision)
            self._evict_at_windows()
            is_complete = wake_at is None or wake_at > self._clock.now
            if is_complete and not self._changed:
                return
        raise AssertionError(f"no rest at {self._clock.ms} ms: the same instant takes {MAX_STEPS} steps")

    def _evict_at_windows(self) -> None:
        """Evict what windows with ``atStart: Evict`` need, as the controller of Reservations does."""
        ledger, now = self._state.ledger, self._clock.now
        later: list[float] = []
        for window in ledger.windows:
            at = evicts_at(window, now)
            if at is not None and at > now:
                later.append(at)
            elif at is not None:
                for workload in workloads_to_evict(ledger, window):
                    job = self._jobs[workload.metadata.key]
                    self._recorder.evicted(job)
                    self._write(job, evict(workload, c.RESERVED_WINDOW, "", now).status)
        self._window_evicts_at = min(later, default=None)

    # Jobs

    def submit(self, submission: Submission) -> SimulatedJob:
        """Submit a job now, and return it; ``settle`` decides whether it starts."""
        job_class = self._classes[submission.class_index]
        queue = Key(job_class.namespace, job_class.queues[submission.queue_index])
        number = self._recorder.submitted(submission, queue, self._clock.ms)
        workload = self.workload_of(submission, number)
        job = SimulatedJob(number, submission, workload)
        self._jobs[job.key] = job
        self._recorder.waits()
        self._idle = 0
        if job_class.is_volcano:
            self._execution.create_pods(job)
            return job
        self._store(job, workload)
        del self._changed[job.key]
        self._submitted.append(job.key)  # its lifecycle is decided on after the cycle, which may admit it
        return job

    def workload_of(self, submission: Submission, number: int = MAX_JOBS) -> Workload:
        """Return the workload of a job that is submitted now; ``number`` is unique in the run."""
        return self._templates[submission.class_index].workload(submission, number, self._clock.now)

    def withdraw(self, job: SimulatedJob) -> None:
        """Remove a job that waits, as if it had never been submitted."""
        assert not job.is_running, f"{job.key} runs"
        self._state.remove_workload(job.key)
        self._forget(job)
        self._submitted = [key for key in self._submitted if key != job.key]
        self._recorder.withdrawn()

    def _take_over(self, existing: ExistingJob) -> None:
        """Go on with a workload in the state in which it was stored."""
        workload, submission = existing.workload, existing.submission
        queue = Key(workload.metadata.namespace, workload.spec.queue_name)
        number = self._recorder.submitted(submission, queue, submission.at_ms)
        job = SimulatedJob(number, submission, workload)
        self._jobs[job.key] = job
        self._cycle_at_ms = self._clock.ms
        self._recorder.existed(job, existing, is_awaited=self._awaited in (None, job.key))
        if existing.admitted_ms is not None:
            job.attempt, job.is_running, job.works = 1, True, True
            job.started_ms = existing.began_ms
            if existing.ready_ms is None and self._configuration.wait_for_pods_ready is not None:
                self._events.schedule(max(self._clock.ms, job.started_ms), EventKind.READY, job)
            ends_ms = job.started_ms + stretched_ms(submission.runs_ms, job)
            self._events.schedule(max(self._clock.ms, ends_ms), EventKind.ENDED, job)
        if c.has_quota_reservation(workload) and not c.is_admitted(workload):
            self._ask_checks(job)
        self._store(job, workload)

    def _happen(self, event: SimulatedEvent) -> None:
        job = event.job
        if event.kind == EventKind.WOKEN:
            job.wakes_ms = None
            self._changed[job.key] = None
        elif event.kind == EventKind.ENDED:
            self.end(job)
        elif event.kind == EventKind.PODS_ENDED:
            if self._execution.end_pods(job, event.pods):
                self.end(job)
        elif event.kind == EventKind.STOPPED:
            job.stops = False
            self._execution.remove_pods(job)
            self._write(job, release_status(job.workload, self._clock.now, self._configuration.gates))
        elif event.kind == EventKind.READY:
            self._execution.report_ready(job)
        elif event.kind == EventKind.HOSTS_CHECKED:
            self._execution.check_hosts(job)
        else:
            self._answer_checks(job)

    def started(self, job: SimulatedJob) -> None:
        """Record that another cluster started an admitted job."""
        self._recorder.admitted(job)

    def end(self, job: SimulatedJob) -> None:
        """End a job, and release what it holds."""
        failed = fails(job.submission)
        reason, text = ("Failed", "Job failed") if failed else ("Succeeded", "Job finished successfully")
        self._recorder.finished(job, Outcome.FAILED if failed else Outcome.SUCCEEDED)
        self._idle = 0
        self._execution.finish(job)
        if not self._classes[job.submission.class_index].is_volcano:
            self._write(job, finish_status(job.workload, reason, text, self._clock.now))
            self._state.remove_workload(job.key)
        self._forget(job)
        self._on_ended(job)

    def _forget(self, job: SimulatedJob) -> None:
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
        return replace(
            check, state=state, message="simulated", last_transition_time=at_epoch(self._clock.now)
        )

    # Writes

    def _carry_out(self, decision: Decision) -> None:
        job = self._jobs[decision.key]
        if isinstance(decision, Preempt):
            self._recorder.preempted(job)
        elif isinstance(decision, Evict):
            self._recorder.evicted(job)
        self._write(job, decided_status(job.workload, decision, self._clock.now, self._configuration))
        if isinstance(decision, Reserve) and not decision.admitted:
            self._ask_checks(job)
        elif isinstance(decision, AssignTopology) and job.is_running:
            self._execution.check_hosts(job)

    def _ask_checks(self, job: SimulatedJob) -> None:
        answers = self._world.scenario.checks
        for name in sorted(answers):
            after_ms = round(draw(answers[name].after, self._answers) * MS)
            self._events.schedule(self._clock.ms + after_ms, EventKind.CHECKED, job)

    def _decide_lifecycle(self, key: Key) -> None:
        job = self._jobs.get(key)
        if job is None:
            return
        workload = job.workload
        transition = decide_workload(
            workload,
            self._state.queue_view(workload),
            self._configuration,
            self._clock.now,
            self._jitter.random(),
        )
        requeue_state = workload.status.requeue_state
        requeues = 0 if requeue_state is None else requeue_state.count or 0
        if requeues > MAX_REQUEUES and not job.is_given_up:
            job.is_given_up = True  # in the outcome it waits
            self._store(job, replace(workload, spec=replace(workload.spec, active=False)))
        elif transition.deactivate:
            spec = replace(workload.spec, active=False)
            metadata = replace(workload.metadata, generation=workload.metadata.generation + 1)
            self._recorder.deactivated(job)
            self._store(job, Workload(metadata=metadata, spec=spec, status=workload.status))
        elif transition.status is not None:
            if not c.is_evicted(workload) and any(
                condition.type == c.EVICTED and condition.status == "True"
                for condition in transition.status.conditions
            ):
                self._recorder.evicted(job)
            self._write(job, transition.status)
        elif transition.wake_at is not None:
            at_ms = self._clock.later_ms(transition.wake_at)
            if job.wakes_ms is None or at_ms < job.wakes_ms:
                job.wakes_ms = at_ms
                self._events.schedule(at_ms, EventKind.WOKEN, job)

    def _write(self, job: SimulatedJob, status: WorkloadStatus | None) -> None:
        if status is not None:
            old = job.workload
            self._store(job, Workload(metadata=old.metadata, spec=old.spec, status=status))

    def _store(self, job: SimulatedJob, workload: Workload) -> None:
        """Store a new version and deliver it to the model and to the job."""
        old = workload.metadata
        version = str(int(old.resource_version or "0") + 1)
        job.workload = replace(workload, metadata=replace(old, resource_version=version))
        self._put(job.workload, self._clock.now)
        self._changed[job.key] = None
        self._recorder.held.count(job, self._clock.ms)
        if c.is_finished(job.workload):
            return
        if c.is_evicted(job.workload):
            if not job.stops and c.has_quota_reservation(job.workload):
                self._execution.stop(job)
        elif not job.is_running and c.is_admitted(job.workload):
            if self._runs_elsewhere:
                job.is_running = True
            else:
                self._execution.start(job)
            self._on_started(job)

    def _unended(self) -> Iterator[Unended]:
        """Yield the first jobs that wait, or of which pods do, with the reason that the core gives."""
        execution = self._execution
        waiting = [job for job in self._jobs.values() if not job.is_running or execution.is_waiting(job)]
        for job in waiting[:MAX_SHOWN]:
            job_class = self._classes[job.submission.class_index]
            reason = pending_text(self._state, job.key) or execution.why_waiting(job)
            if job.is_given_up:
                reason = f"its pods were not ready in {MAX_REQUEUES} attempts{reason and f': {reason}'}"
            elif not job.workload.spec.active:
                reason = "deactivated"
            yield Unended(job.key.name, job_class.name, job.workload.spec.queue_name, reason)
