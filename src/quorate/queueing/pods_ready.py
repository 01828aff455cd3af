"""waitForPodsReady: the clocks of a workload that should become ready, and what follows when it does not.

From admission the workload has ``timeout`` to get all its pods ready; when it loses one later it has
``recoveryTimeout`` to get it back.  Where ``schedulingTimeout`` is set, each of its pods has that long to get
a node: a pod that pulls a large image and one for which there is no room deserve different patience.  A
clock that runs out evicts the workload and lets it try again after a backoff that grows with every retry, or
deactivates it once its retries are used up.

Nothing is remembered between calls: the start of each clock is the transition time of a condition, so a
restarted controller computes the same remaining time.  Specified in Kueue's KEP-349 and KEP-1282, but for
``schedulingTimeout``, which is ours.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, assert_never

import msgspec

from quorate.api.configuration import RequeuingStrategy, WaitForPodsReady
from quorate.api.kueue import ClusterQueueSpec, RequeueState, Workload
from quorate.api.meta import Condition, Key, at_epoch, find_condition
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.conditions import (
    ADMITTED,
    PODS_READY,
    is_admitted,
    is_evicted,
    is_finished,
    new_condition,
    transition_time,
)
from quorate.queueing.inadmissible_reasons import AwaitingPodsReady

TIMEOUT_ANNOTATION: Final = "quorate.dev/pods-ready-timeout"
RECOVERY_TIMEOUT_ANNOTATION: Final = "quorate.dev/pods-recovery-timeout"
SCHEDULING_TIMEOUT_ANNOTATION: Final = "quorate.dev/pods-scheduling-timeout"
OVERRIDE_ANNOTATIONS: Final = (TIMEOUT_ANNOTATION, RECOVERY_TIMEOUT_ANNOTATION, SCHEDULING_TIMEOUT_ANNOTATION)


class Timeouts(msgspec.Struct, frozen=True):
    """Limits in seconds; infinite where a clock never runs out."""

    timeout_s: float  # from admission until all pods are ready
    recovery_timeout_s: float = math.inf  # from the loss of a pod until all are ready again
    scheduling_timeout_s: float = math.inf  # from the creation of a pod until it has a node


class TimeoutOverrides(msgspec.Struct, frozen=True):
    """Limits that somebody asked for; None where nobody did."""

    timeout_s: float | None = None
    recovery_timeout_s: float | None = None
    scheduling_timeout_s: float | None = None

    def over(self, clocks: Timeouts) -> Timeouts:
        return Timeouts(
            clocks.timeout_s if self.timeout_s is None else self.timeout_s,
            clocks.recovery_timeout_s if self.recovery_timeout_s is None else self.recovery_timeout_s,
            clocks.scheduling_timeout_s if self.scheduling_timeout_s is None else self.scheduling_timeout_s,
        )


def effective_timeouts(
    annotations: Mapping[str, str], queue: TimeoutOverrides, rules: WaitForPodsReady
) -> Timeouts:
    """The clocks of a workload with ``annotations`` in a cluster queue with overrides of its own."""
    configured = Timeouts(
        rules.timeout_s, _or_never(rules.recovery_timeout_s), _or_never(rules.scheduling_timeout_s)
    )
    standing = queue.over(configured)
    asked = annotation_overrides(annotations).over(standing)
    return Timeouts(
        _bounded(asked.timeout_s, standing.timeout_s, rules),
        _bounded(asked.recovery_timeout_s, standing.recovery_timeout_s, rules),
        _bounded(asked.scheduling_timeout_s, standing.scheduling_timeout_s, rules),
    )


def queue_overrides(spec: ClusterQueueSpec, annotations: Mapping[str, str]) -> TimeoutOverrides:
    """What a cluster queue gives its workloads; the field goes before the annotations."""
    if spec.wait_for_pods_ready is None:
        return annotation_overrides(annotations)
    field = spec.wait_for_pods_ready
    return _overrides(field.timeout, field.recovery_timeout, field.scheduling_timeout)


def annotation_overrides(annotations: Mapping[str, str]) -> TimeoutOverrides:
    if annotations.keys().isdisjoint(OVERRIDE_ANNOTATIONS):
        return NO_OVERRIDES
    return _overrides(*(annotations.get(key) for key in OVERRIDE_ANNOTATIONS))


def override_findings(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong with the overrides among ``annotations``, each of which counts as not given."""
    findings = []
    for key in OVERRIDE_ANNOTATIONS:
        problem = _problem(annotations[key]) if key in annotations else ""
        if problem:
            findings.append(f"metadata.annotations[{key}]: {problem}")
    return tuple(findings)


def _problem(text: str) -> str:
    try:
        seconds = parse_duration(text)
    except InvalidDuration as invalid:
        return str(invalid)
    return f"{text!r} is negative (write 0s or more)" if seconds < 0 else ""


def _bounded(asked_s: float, standing_s: float, rules: WaitForPodsReady) -> float:
    if asked_s == standing_s:
        return standing_s
    longest_s = standing_s if rules.longest_override_s is None else rules.longest_override_s
    return min(max(asked_s, rules.shortest_override_s), longest_s)


def _overrides(timeout: str | None, recovery: str | None, scheduling: str | None) -> TimeoutOverrides:
    recovery_s, scheduling_s = _seconds(recovery), _seconds(scheduling)
    return TimeoutOverrides(
        _seconds(timeout),
        None if recovery_s is None else _or_never(recovery_s),
        None if scheduling_s is None else _or_never(scheduling_s),
    )


def _seconds(text: str | None) -> float | None:
    """None also for what is no limit: it counts as not given."""
    return None if text is None or _problem(text) else parse_duration(text)


def _or_never(limit_s: float | None) -> float:
    """A limit of 0, or none, switches a clock off: so says the configuration of ``recoveryTimeout``."""
    return limit_s or math.inf


NO_OVERRIDES: Final = TimeoutOverrides()


WAIT_FOR_START: Final = "WaitForStart"
STARTED: Final = "Started"
WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
RECOVERED: Final = "Recovered"

Phase = Literal["WaitForScheduling", "WaitForStart", "WaitForRecovery"]

JITTER_FACTOR: Final = 0.0001  # of the delay, so that many workloads evicted together do not return together


class Retry(msgspec.Struct, frozen=True):
    """Evict, and try again no earlier than ``state.requeue_at``."""

    phase: Phase
    state: RequeueState


class RunningTimeout(msgspec.Struct, frozen=True):
    """The clock that runs out first."""

    phase: Phase
    expires_at: float  # epoch seconds; infinite: never


class Deactivate(msgspec.Struct, frozen=True):
    """Deactivate: it has been retried ``retries`` times, which is as often as allowed."""

    retries: int


def pods_ready_condition(workload: Workload, all_ready: bool, now: float) -> Condition | None:
    """The PodsReady condition for a job whose pods are, or are not, all ready or succeeded.

    None when the stored one already says so.
    """
    old = find_condition(workload.status.conditions, PODS_READY)
    reason = _readiness(old, is_admitted(workload), all_ready)
    ready = reason in (STARTED, RECOVERED)
    if old is not None and (old.status == "True", old.reason) == (ready, reason):
        return None
    match reason:
        case "WaitForStart":
            text = "Not all pods are ready or succeeded"
        case "WaitForRecovery":
            text = "At least one pod has failed, waiting for recovery"
        case "Started" | "Recovered":
            text = "All pods reached readiness and the workload is running"
        case _:
            assert_never(reason)
    return new_condition(
        PODS_READY, "True" if ready else "False", reason, text, now, workload.metadata.generation
    )


def _readiness(
    old: Condition | None, admitted: bool, all_ready: bool
) -> Literal["WaitForStart", "Started", "WaitForRecovery", "Recovered"]:
    if not admitted:
        return "WaitForStart"
    was_ready = old is not None and old.status == "True"
    was_lost = old is not None and old.reason in (WAIT_FOR_RECOVERY, RECOVERED)
    if all_ready:
        return "Recovered" if was_lost else "Started"
    return "WaitForRecovery" if was_ready or was_lost else "WaitForStart"


def running_timeout(
    workload: Workload, clocks: Timeouts, unplaced_since: float | None = None
) -> RunningTimeout | None:
    """The clock of ``workload`` that expires first; None if none runs.

    Clocks run only while the workload is admitted, active, not finished and not evicted: a mere reservation
    that waits for admission checks has all the time in the world.  ``unplaced_since`` is when the oldest of
    its pods without a node was created (epoch seconds); a pod that was there before the admission waits for
    a node since then.
    """
    conditions = workload.status.conditions
    admitted = find_condition(conditions, ADMITTED)
    if (
        admitted is None
        or admitted.status != "True"
        or not workload.spec.active
        or is_finished(workload)
        or is_evicted(workload)
    ):
        return None
    ready = find_condition(conditions, PODS_READY)
    if ready is not None and ready.status == "True":
        return None
    if ready is not None and ready.reason == WAIT_FOR_RECOVERY:
        first = RunningTimeout("WaitForRecovery", transition_time(ready) + clocks.recovery_timeout_s)
    else:
        first = RunningTimeout("WaitForStart", transition_time(admitted) + clocks.timeout_s)
    if unplaced_since is None:
        return first
    placed_by = max(unplaced_since, transition_time(admitted)) + clocks.scheduling_timeout_s
    return RunningTimeout("WaitForScheduling", placed_by) if placed_by < first.expires_at else first


def on_timeout(
    workload: Workload, phase: Phase, strategy: RequeuingStrategy, now: float, jitter: float
) -> Retry | Deactivate:
    """What follows when the clock of ``phase`` has run out.

    ``jitter`` in [0, 1) comes from the caller.  The count of retries survives readiness and admission; only
    deactivation clears it.  An end of backoff that is set already never moves back.
    """
    old = workload.status.requeue_state or RequeueState()
    retry = (old.count or 0) + 1
    if strategy.backoff_limit_count is not None and retry > strategy.backoff_limit_count:
        return Deactivate(retry - 1)
    delay_s = backoff_s(retry, strategy) * (1 + JITTER_FACTOR * jitter)
    until = at_epoch(now + delay_s)
    if old.requeue_at is not None and old.requeue_at > until:
        until = old.requeue_at
    return Retry(phase, RequeueState(count=retry, requeue_at=until))


def backoff_s(retry: int, strategy: RequeuingStrategy) -> float:
    """The delay before the ``retry``-th retry (from 1): base × factor^(retry−1), at most the maximum.

    The first delay is the base even where that is more than the maximum.
    """
    assert retry >= 1, f"retries are counted from 1, not {retry}"
    if retry == 1:
        return strategy.backoff_base_s
    try:
        grown_s = strategy.backoff_base_s * strategy.backoff_factor ** (retry - 1)
    except OverflowError:  # after a thousand retries only the maximum matters
        grown_s = math.inf
    return min(grown_s, strategy.backoff_max_s)


class UnreadyWorkloads:
    """See the module."""

    def __init__(self) -> None:
        self._all: dict[Key, None] = {}  # in the order in which they took quota, or lost a pod
        self._holding: dict[str, dict[Key, None]] = {}  # by flavor, those that hold some of it; none empty
        self._held_back: dict[str, dict[ClusterQueueState, None]] = {}  # by flavor, whose heads wait for it

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._all)

    def add(self, reservation: Reservation) -> None:
        self._all[reservation.key] = None
        for flavor in _flavors(reservation):
            self._holding.setdefault(flavor, {})[reservation.key] = None

    def discard(self, reservation: Reservation) -> tuple[ClusterQueueState, ...]:
        """Forget one that is ready, or gone; the queues whose heads nobody holds back any more."""
        if reservation.key not in self._all:
            return ()
        del self._all[reservation.key]
        freed: dict[ClusterQueueState, None] = {}
        for flavor in _flavors(reservation):
            holding = self._holding[flavor]
            del holding[reservation.key]
            if not holding:
                del self._holding[flavor]
                freed |= self._held_back.pop(flavor, {})
        return tuple(freed)

    def first(self) -> Key:
        """Any one; there must be one."""
        return next(iter(self._all))

    def awaited(self, flavors: Iterable[str]) -> AwaitingPodsReady | None:
        """Who must be ready first, holding some of the first by name of ``flavors`` that anybody holds."""
        for flavor in sorted(set(flavors)):
            if flavor in self._holding:
                return AwaitingPodsReady(next(iter(self._holding[flavor])), flavor)
        return None

    def hold_back(self, queue: ClusterQueueState, flavor: str) -> None:
        """Remember that ``discard`` must name ``queue`` once nobody unready holds any of ``flavor``."""
        self._held_back.setdefault(flavor, {})[queue] = None


def _flavors(reservation: Reservation) -> list[str]:
    return sorted({pair.flavor for pair in reservation.usage})
