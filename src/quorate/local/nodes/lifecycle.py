"""The lifecycle of a simulated pod, as a state machine.

The stage of a pod is derived from its status, so it survives a restart of this process. ``Progress`` is how
far the pod has come within the stage. It is exact while this process watches the pod, and is otherwise
derived from the status' timestamps, which have whole seconds; progress from before a loss of peers is lost
then.

    bound --> creating --> running --> ended
                  ^           |
                  '- crashed <'   (where the restart policy says so)
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import Final

from quorate.api.meta import at_epoch, epoch, find_condition
from quorate.local.nodes import pod_status
from quorate.local.nodes.behavior import InvalidBehavior, PodBehavior, parse_behavior, run_of
from quorate.local.nodes.pod_status import SIGTERM_EXIT_CODE, PodAddresses
from quorate.local.nodes.pod_types import Pod, PodStatus

INITIAL_CRASH_DELAY_S: Final = 10.0
MAX_CRASH_DELAY_S: Final = 300.0
_ROUNDING_S: Final = 1e-6  # four times the float resolution of the current epoch time


class Stage(Enum):
    BOUND = auto()
    CREATING = auto()
    RUNNING = auto()
    CRASHED = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Progress:
    """Seconds of progress in the current stage, and since when progress continues, if it does."""

    done_s: float = 0.0
    since: float | None = None
    stops_at: float | None = None  # once the pod is deleted

    def at(self, now: float, speed: float) -> float:
        return self.done_s + (0.0 if self.since is None else max(0.0, now - self.since) * speed)

    def with_progressing(self, on: bool, now: float, speed: float) -> "Progress":
        if on == (self.since is not None):
            return self
        return Progress(self.at(now, speed), now if on else None)

    def is_complete(self, span_s: float, now: float, speed: float) -> bool:
        end = self.complete_at(span_s, speed)
        return self.done_s >= span_s if end is None else end <= now + _ROUNDING_S

    def complete_at(self, span_s: float, speed: float) -> float | None:
        return None if self.since is None else self.since + (span_s - self.done_s) / speed


@dataclass(frozen=True, slots=True)
class PodCounts:
    """How many pods of one controlling owner run, and how many have not started."""

    running: int = 0
    waiting: int = 0

    def __add__(self, other: "PodCounts") -> "PodCounts":
        return PodCounts(self.running + other.running, self.waiting + other.waiting)

    def __sub__(self, other: "PodCounts") -> "PodCounts":
        return PodCounts(self.running - other.running, self.waiting - other.waiting)

    def required(self, behavior: PodBehavior) -> int:
        """Return how many of them must run for the time of a pod with this behavior to count."""
        return self.running + self.waiting if behavior.together is None else behavior.together

    def suffice(self, behavior: PodBehavior) -> bool:
        return self.running >= self.required(behavior)


@dataclass(frozen=True, slots=True)
class Step:
    progress: Progress | None  # to pass to the next call
    status: PodStatus | None = None  # the status to write; None: unchanged
    delete: bool = False  # the pod has stopped and can be removed
    wake_at: float | None = None


def stage_of(pod: Pod) -> Stage:
    if pod.status.phase in ("Succeeded", "Failed"):
        return Stage.ENDED
    if pod.status.start_time is None:
        return Stage.BOUND
    states = [status.state for status in pod.status.container_statuses]
    if any(state.running for state in states):
        return Stage.RUNNING
    if any(state.waiting and state.waiting.reason == pod_status.CRASH_LOOP_BACK_OFF for state in states):
        return Stage.CRASHED
    return Stage.CREATING


def counts_as_running(pod: Pod) -> bool:
    """Return True if a pod counts for its peers, which includes succeeded pods."""
    if pod.status.phase == "Succeeded":
        return True
    return pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None


def waits_to_run(pod: Pod) -> bool:
    """Return True if a pod has not started and may still do so."""
    return pod.status.phase in ("", "Pending") and pod.metadata.deletion_timestamp is None


def behavior_of(pod: Pod) -> PodBehavior:
    """Return the behavior of a pod.  Raises ``InvalidBehavior``."""
    run = run_of(pod.spec.containers)
    return parse_behavior(pod.metadata.annotations, pod.spec.restart_policy, pod.spec.subdomain, run)


def next_step(
    pod: Pod, progress: Progress | None, counts: PodCounts, addresses: PodAddresses, now: float, speed: float
) -> Step:
    """Return the next step of a pod on a simulated node.

    ``progress`` is the previous step's, or None; ``counts`` is of the pods of its controlling owner, with
    itself as a running one; ``speed`` is the number of seconds of progress per second.
    """
    stage = stage_of(pod)
    if pod.metadata.deletion_timestamp is not None:
        if stage is Stage.ENDED:
            return Step(None, delete=True)
        stops_at = None if progress is None else progress.stops_at
        if stops_at is None:
            stops_at = _stops_at(pod, now, speed)
        if now < stops_at:
            return Step(Progress(stops_at=stops_at), wake_at=stops_at)
        return Step(None, pod_status.ended(pod, SIGTERM_EXIT_CODE, at_epoch(now)))
    deadline = pod_status.deadline(pod)
    if deadline is None or stage is Stage.ENDED:
        return _next_step(pod, stage, progress, counts, addresses, now, speed)
    if now >= deadline:
        return Step(None, pod_status.past_deadline(pod, at_epoch(now)))
    step = _next_step(pod, stage, progress, counts, addresses, now, speed)
    return replace(step, wake_at=deadline if step.wake_at is None else min(step.wake_at, deadline))


def _stops_at(pod: Pod, now: float, speed: float) -> float:
    """Return when the containers of a deleted pod have ended, at the latest with its grace period."""
    assert pod.metadata.deletion_timestamp is not None, "the pod is not deleted"
    try:
        delay_s = behavior_of(pod).stop_delay_s
    except InvalidBehavior:
        return now
    return min(now + delay_s / speed, epoch(pod.metadata.deletion_timestamp))


def _next_step(
    pod: Pod,
    stage: Stage,
    progress: Progress | None,
    counts: PodCounts,
    addresses: PodAddresses,
    now: float,
    speed: float,
) -> Step:
    if stage is Stage.ENDED:
        return Step(None)
    try:
        behavior = behavior_of(pod)
    except InvalidBehavior as error:
        status = pod_status.config_error(pod, addresses, str(error), at_epoch(now))
        return Step(None, status if status != pod.status else None)
    match stage:
        case Stage.BOUND:
            started = Progress(since=now)
            status = pod_status.creating(pod, addresses, at_epoch(now))
            return Step(started, status, wake_at=started.complete_at(behavior.start_delay_s, speed))
        case Stage.CREATING | Stage.CRASHED:
            span_s = behavior.start_delay_s if stage is Stage.CREATING else _crash_delay_s(pod)
            progress = progress or Progress(since=_stage_entered_at(pod, stage))
            if not progress.is_complete(span_s, now, speed):
                return Step(progress, wake_at=progress.complete_at(span_s, speed))
            return _run(pod, behavior, counts, now, speed)
        case Stage.RUNNING:
            progress = progress or Progress(since=_stage_entered_at(pod, stage))
            return _keep_running(pod, progress, behavior, counts, now, speed)


def _run(pod: Pod, behavior: PodBehavior, counts: PodCounts, now: float, speed: float) -> Step:
    status = pod_status.running(pod, at_epoch(now), restarted=stage_of(pod) is Stage.CRASHED)
    status = pod_status.with_peers_condition(status, counts.running, counts.required(behavior), at_epoch(now))
    started = Progress(since=now if counts.suffice(behavior) else None)
    wake_at = None if behavior.duration_s is None else started.complete_at(behavior.duration_s, speed)
    return Step(started, status, wake_at=wake_at)


def _keep_running(
    pod: Pod, progress: Progress, behavior: PodBehavior, counts: PodCounts, now: float, speed: float
) -> Step:
    if behavior.duration_s is not None and progress.is_complete(behavior.duration_s, now, speed):
        return _end(pod, behavior, now, speed)
    enough = counts.suffice(behavior)
    progress = progress.with_progressing(enough, now, speed)
    wake_at = None if behavior.duration_s is None else progress.complete_at(behavior.duration_s, speed)
    if pod_status.has_enough_peers(pod.status) == enough:
        return Step(progress, wake_at=wake_at)
    status = pod_status.with_peers_condition(
        pod.status, counts.running, counts.required(behavior), at_epoch(now)
    )
    return Step(progress, status, wake_at=wake_at)


def _end(pod: Pod, behavior: PodBehavior, now: float, speed: float) -> Step:
    policy = pod.spec.restart_policy
    if policy == "Always" or (policy == "OnFailure" and behavior.exit_code):
        crashed = Progress(since=now)
        status = pod_status.crashed(pod, behavior.exit_code, at_epoch(now))
        return Step(crashed, status, wake_at=crashed.complete_at(_crash_delay_s(pod), speed))
    return Step(None, pod_status.ended(pod, behavior.exit_code, at_epoch(now)))


def _crash_delay_s(pod: Pod) -> float:
    restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
    return min(INITIAL_CRASH_DELAY_S * 2.0 ** min(restarts, 10), MAX_CRASH_DELAY_S)


def _stage_entered_at(pod: Pod, stage: Stage) -> float | None:
    """Return since when the pod progresses in its stage; None if it waits for peers."""
    moments: list[datetime | None] = [pod.status.start_time]
    containers = pod.status.container_statuses
    peers_condition = find_condition(pod.status.conditions, pod_status.PROGRESSING)
    if stage is Stage.RUNNING and peers_condition is not None:
        if peers_condition.status != "True":
            return None
        moments = [peers_condition.last_transition_time]
    elif stage is Stage.RUNNING:
        moments = [container.state.running.started_at for container in containers if container.state.running]
    elif stage is Stage.CRASHED:
        ends = [container.last_state.terminated for container in containers]
        moments = [end.finished_at for end in ends if end]
    return max(epoch(moment) for moment in moments if moment is not None)
