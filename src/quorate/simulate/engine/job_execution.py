"""The execution of jobs: their pods start on nodes, become ready, end, stop and are restarted.

Pods run on the nodes in the admission of their workload, or where a session of the gang core binds them; in a
world without nodes they run on none.  What the controller of a job writes to its workload is written here.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from quorate.api.kueue import WorkloadStatus
from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.statuses import evict_status
from quorate.queueing.pods_ready import pods_ready_condition
from quorate.queueing.state import State
from quorate.queueing.topology.node_failures import hosts_by_pod_set
from quorate.simulate.engine.recorder import Recorder
from quorate.simulate.engine.simulated_job import SimulatedJob, granted_counts, shrunk_ms, stretched_ms
from quorate.simulate.engine.simulated_nodes import SimulatedNodes
from quorate.simulate.engine.virtual_time import EventKind, EventQueue, VirtualClock
from quorate.simulate.inputs.submissions import MS, Submission
from quorate.simulate.inputs.world import World

if TYPE_CHECKING:
    from quorate.simulate.engine.pod_scheduler import Bound, PodScheduler

Write = Callable[[SimulatedJob, WorkloadStatus | None], object]


class JobExecution:
    """Executes jobs on the nodes of ``world``; ``write`` stores the status of the workload of a job."""

    def __init__(
        self,
        world: World,
        clock: VirtualClock,
        events: EventQueue,
        recorder: Recorder,
        state: State,
        write: Write,
    ) -> None:
        self._clock = clock
        self._events = events
        self._recorder = recorder
        self._write = write
        self._configuration = world.configuration
        self._classes = world.classes
        nodes = world.nodes
        self._pods = _pod_scheduler(world) if nodes and _has_free_pods(world, state) else None
        put_node = _ignore if self._pods is None else self._pods.put_node
        self._nodes = SimulatedNodes(nodes, world.scenario, state, put_node)

    @property
    def waiting(self) -> int:
        """The number of pods that wait for a node."""
        return 0 if self._pods is None else self._pods.waiting

    def wakes(self) -> Iterator[int]:
        """Yield when sessions are due although no job changes."""
        if self._pods is not None:
            wakes_at, next_ms = self._pods.wakes_at, self._pods.next_ms
            if next_ms is not None:
                yield max(next_ms, self._clock.ms + 1)
            if wakes_at is not None:
                yield self._clock.later_ms(wakes_at)

    def next_node_change_ms(self, *, is_busy: bool) -> int | None:
        """Return when the next node changes; see ``SimulatedNodes.next_ms``."""
        return self._nodes.next_ms(is_busy=is_busy)

    def is_waiting(self, job: SimulatedJob) -> bool:
        """Return True if pods of the job wait for nodes."""
        return self._pods is not None and self._pods.is_waiting(job)

    def why_waiting(self, job: SimulatedJob) -> str:
        """Return why pods of the job wait, or did when it was evicted."""
        reason = "" if self._pods is None else self._pods.why_waiting(job)
        return reason or job.unbound_reason

    def create_pods(self, job: SimulatedJob) -> None:
        """Let the pods of a job without quota wait for nodes."""
        assert self._pods is not None, "a world without nodes has no such class"
        self._pods.submit(job, job.submission.counts, self._clock.now)

    def remove_pods(self, job: SimulatedJob) -> None:
        """Remove the pods of a job that was stopped."""
        if self._pods is not None:
            self._pods.remove(job)

    def finish(self, job: SimulatedJob) -> None:
        """Remove the pods of a job that ends, and give back what its workload holds."""
        if self._pods is not None:
            self._pods.remove(job)
            self._pods.release(job.key)

    def end_pods(self, job: SimulatedJob, pods: Sequence[Key]) -> bool:
        """End pods of a job which run by themselves; return True if the job ends with them."""
        assert self._pods is not None, "pods are bound by the scheduler"
        return self._pods.finish_pods(job, pods) or fails(job.submission)

    def start(self, job: SimulatedJob) -> None:
        """Start an admitted job, or wait for nodes for its pods."""
        job.is_running = True
        self._recorder.admitted(job)
        if self._pods is not None and not job.places and self._classes[job.submission.class_index].pod_sets:
            self._pods.submit(job, granted_counts(job), self._clock.now)
            return
        if self._pods is not None:
            self._pods.hold(job.workload)
        self._start_pods(job)
        if self._nodes.down and job.places:
            self.check_hosts(job)

    def _start_pods(self, job: SimulatedJob) -> None:
        submission = job.submission
        job.attempt += 1
        job.works = True
        ready_ms = self._clock.ms + submission.starts_ms
        job.started_ms = ready_ms
        left_ms = submission.runs_ms - job.done_ms
        if submission.fails_after_ms is not None:
            left_ms = min(left_ms, submission.fails_after_ms)
        rules = self._configuration.wait_for_pods_ready
        if rules is not None and (submission.starts_ms or rules.block_admission is not None):
            self._events.schedule(ready_ms, EventKind.READY, job)
        elif rules is not None:
            self.report_ready(job)  # at once; with blockAdmission the cycle has to see that it was not
        self._events.schedule(ready_ms + stretched_ms(left_ms, job), EventKind.ENDED, job)

    def _interrupt(self, job: SimulatedJob) -> None:
        """End the pods of a job before its work is done; the work until its last checkpoint is kept."""
        checkpoint_s = self._classes[job.submission.class_index].checkpoint_s
        if job.works and checkpoint_s is not None:
            ran_ms = max(0, self._clock.ms - job.started_ms)
            step_ms = max(1, round(checkpoint_s * MS))
            job.done_ms += shrunk_ms(ran_ms, job) // step_ms * step_ms
            job.done_ms = min(job.done_ms, job.submission.runs_ms)
        job.attempt += 1
        job.works = False

    def report_ready(self, job: SimulatedJob) -> None:
        ready = pods_ready_condition(job.workload, True, self._clock.now)
        if ready is not None:
            status = job.workload.status
            self._write(job, replace(status, conditions=c.with_conditions(status.conditions, ready)))

    def stop(self, job: SimulatedJob) -> None:
        """Stop the pods of an evicted job; its quota is released once they have ended."""
        if job.is_running and job.workload.spec.active:
            self._recorder.waits_again(job)
        self._interrupt(job)
        if self._pods is not None:
            job.unbound_reason = self._pods.why_waiting(job)
            self._pods.drop_waiting(job)
            self._pods.release(job.key)
        job.is_running, job.stops = False, True
        self._events.schedule(self._clock.ms + job.submission.stops_ms, EventKind.STOPPED, job)

    def change_nodes(self) -> None:
        """Fail and repair nodes; a job loses its pods on a failed node."""
        changed = list(self._nodes.change(self._clock.ms, self._clock.now))
        hosts = [self._nodes.host_of(name) for name in changed]
        for job in self._recorder.held.jobs_on(hosts):
            if job.is_running:
                self.check_hosts(job)
        down = [name for name, host in zip(changed, hosts, strict=True) if host in self._nodes.down]
        for job in [] if self._pods is None else list(self._pods.jobs_on(down)):
            if not job.stops:
                self._restart_pods(job)

    def run_session(self) -> bool:
        """Run a session if it is due, and start the jobs with pods that it binds.

        Return True if one ran.
        """
        pods = self._pods
        if pods is None:
            return False
        wakes_at = pods.wakes_at
        is_due = pods.next_ms is not None and pods.next_ms <= self._clock.ms
        if not is_due and (wakes_at is None or self._clock.ms_of(wakes_at) > self._clock.ms):
            return False
        outcome = pods.run_session(self._clock.ms, self._clock.now)
        for job in outcome.evicted:
            self._recorder.preempted(job)
            self._restart_pods(job)
        for bound in outcome.bound:
            self._start_bound(bound)
        return True

    def count_pods(self) -> None:
        """Count on their nodes the pods that were bound or ended since the last call."""
        if self._pods is None:
            return
        for change in self._pods.take_changes():
            host = self._nodes.host_of(change.node)
            self._recorder.node_usage.change(host, change.amounts, change.sign, self._clock.ms)
            self._nodes.count_pod(change.pod, change.node if change.sign > 0 else "")

    def _start_bound(self, bound: "Bound") -> None:
        """Start a gang with its last pod; the pods of other jobs run by themselves."""
        job, submission = bound.job, bound.job.submission
        job_class = self._classes[submission.class_index]
        if job_class.is_gang:
            if bound.is_complete:
                if job_class.is_volcano:
                    job.is_running = True
                    self._recorder.admitted(job)
                self._start_pods(job)
            return
        ready_ms = self._clock.ms + submission.starts_ms
        runs_ms = submission.runs_ms - job.done_ms
        if submission.fails_after_ms is not None:
            runs_ms = min(runs_ms, submission.fails_after_ms)
        self._events.schedule(ready_ms + runs_ms, EventKind.PODS_ENDED, job, bound.pods)
        if bound.is_complete:
            job.works, job.started_ms = True, ready_ms
            if self._configuration.wait_for_pods_ready is not None:
                self._events.schedule(ready_ms, EventKind.READY, job)

    def _restart_pods(self, job: SimulatedJob) -> None:
        """Let the pods of a job wait for nodes again."""
        assert self._pods is not None, "pods are bound by the scheduler"
        self._interrupt(job)
        self._pods.restart(job, self._clock.now)
        if self._classes[job.submission.class_index].is_volcano and job.is_running:
            job.is_running = False
            self._recorder.waits_again(job)

    def check_hosts(self, job: SimulatedJob) -> None:
        """Record the failed nodes of a running job in its workload, or evict it, as the controller would."""
        admission = job.workload.status.admission
        hosts = {} if admission is None else hosts_by_pod_set(admission)
        is_down = any(not self._nodes.down.isdisjoint(hosts_of_set) for hosts_of_set in hosts.values())
        if is_down and job.works:
            self._interrupt(job)
        failures, check_at = self._nodes.failures_of(job.workload, hosts, self._clock.now)
        if failures is not None and failures.eviction:
            self._recorder.evicted(job)
            self._write(
                job,
                evict_status(
                    job.workload, c.NODE_FAILURES, failures.eviction, self._clock.now,
                    counted_as=(c.NODE_FAILURES, ""),
                ),
            )  # fmt: skip
            return
        if failures is not None:
            self._write(job, replace(job.workload.status, unhealthy_nodes=failures.nodes))
        if check_at is not None:
            self._events.schedule(self._clock.later_ms(check_at), EventKind.HOSTS_CHECKED, job)
        if not is_down and not job.works and job.is_running:
            self._start_pods(job)


def fails(submission: Submission) -> bool:
    return submission.fails_after_ms is not None and submission.fails_after_ms <= submission.runs_ms


def _pod_scheduler(world: World) -> "PodScheduler":
    from quorate.simulate.engine.pod_scheduler import PodScheduler  # worlds without nodes need no gang core

    return PodScheduler(world)


def _ignore(_: object) -> None:
    pass


def _has_free_pods(world: World, state: State) -> bool:
    """Return True if some pods get no places with their quota: a scheduler binds them."""
    placing = state.ledger.topology.placing
    return any(job_class.is_volcano for job_class in world.classes) or bool(state.flavors.keys() - placing)
