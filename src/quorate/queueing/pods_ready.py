"""waitForPodsReady: timeouts of admitted workloads, requeuing with backoff, and blocked admission.

From its admission a workload has ``timeout`` to get all its pods ready.  When a pod is no longer ready later,
the workload has ``recoveryTimeout`` until all pods are ready again.  With ``unscheduledTimeout`` each of its
pods has that long to get a node: a pod that pulls a large image may take longer than one for which there is
no capacity.  An expired timeout evicts the workload and requeues it after a backoff that grows with every
retry, or deactivates it once its retries are used up.

Nothing is remembered between calls: each timeout starts at the transition time of a condition, so a restarted
controller computes the same remaining time.  Specified in Kueue's KEP-349, KEP-1282, KEP-4803 and KEP-13502.

The configuration sets the timeouts of all workloads.  A cluster queue may set others for its workloads in
``spec.waitForPodsReady``, or by annotations where the installed CRD is Kueue's, which lacks the field.  A
workload may request others by Kueue's annotation, up to ``maxTimeoutOnWorkload``, or by annotations of
Quorate, within the bounds of ``waitForPodsReady.overrides``.  With the latter and without an upper bound a
workload gets no longer timeout than the default: a longer one keeps quota from other workloads.
"""

import math
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, Literal, assert_never

import msgspec

from quorate.api.configuration.pods_ready import OVERRIDE_GATE, RequeuingStrategy, WaitForPodsReady
from quorate.api.kueue import ClusterQueueSpec, RequeueState, Workload
from quorate.api.kueue.wait_for_pods_ready import (
    WAIT_FOR_PODS_READY,
    InvalidTimeouts,
    WorkloadTimeouts,
    parse_workload_timeouts,
)
from quorate.api.meta import Condition, Key, at_epoch, find_condition
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.inadmissible_reasons import AwaitingPodsReady
from quorate.queueing.limits import JITTER_FACTOR

TIMEOUT_ANNOTATION: Final = "quorate.dev/pods-ready-timeout"
RECOVERY_TIMEOUT_ANNOTATION: Final = "quorate.dev/pods-recovery-timeout"
SCHEDULING_TIMEOUT_ANNOTATION: Final = "quorate.dev/pods-scheduling-timeout"
OVERRIDE_ANNOTATIONS: Final = (TIMEOUT_ANNOTATION, RECOVERY_TIMEOUT_ANNOTATION, SCHEDULING_TIMEOUT_ANNOTATION)
# Annotations of a job that its workload gets.
TIMEOUT_ANNOTATIONS: Final = (WAIT_FOR_PODS_READY, *OVERRIDE_ANNOTATIONS)

# Reasons of PodsReady
WAIT_FOR_SCHEDULING: Final = "WaitForScheduling"
STARTED: Final = "Started"
WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
RECOVERED: Final = "Recovered"


class Timeouts(msgspec.Struct, frozen=True):
    """Timeouts in seconds; infinite ones never expire."""

    timeout_s: float  # from admission until all pods are ready
    recovery_timeout_s: float = math.inf  # from the loss of a pod until all are ready again
    scheduling_timeout_s: float = math.inf  # from the creation of a pod until it has a node


class TimeoutOverrides(msgspec.Struct, frozen=True):
    """Timeouts of a cluster queue or workload, seconds; None if not set."""

    timeout_s: float | None = None
    recovery_timeout_s: float | None = None
    scheduling_timeout_s: float | None = None

    def apply_to(self, defaults: Timeouts) -> Timeouts:
        return Timeouts(
            defaults.timeout_s if self.timeout_s is None else self.timeout_s,
            defaults.recovery_timeout_s if self.recovery_timeout_s is None else self.recovery_timeout_s,
            defaults.scheduling_timeout_s if self.scheduling_timeout_s is None else self.scheduling_timeout_s,
        )


NO_OVERRIDES: Final = TimeoutOverrides()


def effective_timeouts(
    annotations: Mapping[str, str], queue: TimeoutOverrides, rules: WaitForPodsReady, *, per_workload: bool
) -> Timeouts:
    """Return the timeouts of a workload with ``annotations`` in a cluster queue with overrides ``queue``.

    ``per_workload``: Kueue's annotation counts (gate WorkloadLevelWaitForPodsReady); it precedes the others.
    """
    configured = Timeouts(
        rules.timeout_s, _or_infinite(rules.recovery_timeout_s), _or_infinite(rules.scheduling_timeout_s)
    )
    defaults = queue.apply_to(configured)
    requested = annotation_overrides(annotations).apply_to(defaults)
    bounded = Timeouts(
        _bounded(requested.timeout_s, defaults.timeout_s, rules),
        _bounded(requested.recovery_timeout_s, defaults.recovery_timeout_s, rules),
        _bounded(requested.scheduling_timeout_s, defaults.scheduling_timeout_s, rules),
    )
    text = annotations.get(WAIT_FOR_PODS_READY) if per_workload else None
    own = parse_workload_timeouts(text) if text else None
    return _of_workload(own, rules).apply_to(bounded) if isinstance(own, WorkloadTimeouts) else bounded


def _of_workload(own: WorkloadTimeouts, rules: WaitForPodsReady) -> TimeoutOverrides:
    recovery_s = own.timeout_seconds if own.recovery_timeout_seconds is None else own.recovery_timeout_seconds
    return TimeoutOverrides(
        _within_bounds(own.timeout_seconds, rules.longest_on_workload_s, rules),
        _within_bounds(recovery_s, rules.longest_on_workload_s, rules) if recovery_s else math.inf,
    )


def queue_overrides(spec: ClusterQueueSpec, annotations: Mapping[str, str]) -> TimeoutOverrides:
    """Return the overrides of a cluster queue; annotations are ignored if the field is set."""
    if spec.wait_for_pods_ready is None:
        return annotation_overrides(annotations)
    field = spec.wait_for_pods_ready
    return _overrides(field.timeout, field.recovery_timeout, field.scheduling_timeout)


def annotation_overrides(annotations: Mapping[str, str]) -> TimeoutOverrides:
    if annotations.keys().isdisjoint(OVERRIDE_ANNOTATIONS):
        return NO_OVERRIDES
    return _overrides(*(annotations.get(key) for key in OVERRIDE_ANNOTATIONS))


def override_findings(
    annotations: Mapping[str, str], rules: WaitForPodsReady | None, *, per_workload: bool
) -> tuple[str, ...]:
    """Return one text for each timeout among ``annotations`` that does not count as it is.

    ``rules`` is None if no timeouts are configured; ``per_workload`` as in ``effective_timeouts``.
    """
    findings = []
    if text := annotations.get(WAIT_FOR_PODS_READY):
        own, rule = parse_workload_timeouts(text), ""
        if rules is None:
            rule = "has no effect without waitForPodsReady in the configuration"
        elif not per_workload:
            rule = f"has no effect without the feature gate {OVERRIDE_GATE}"
        elif isinstance(own, InvalidTimeouts):
            rule = own.rule
        elif own.longest_s > rules.longest_on_workload_s:
            rule = f"is reduced to maxTimeoutOnWorkload, which is {rules.longest_on_workload_s:g}s"
        if rule:
            findings.append(f"metadata.annotations[{WAIT_FOR_PODS_READY}]: {text!r} {rule}")
    for key in OVERRIDE_ANNOTATIONS:
        error = _duration_error(annotations[key]) if key in annotations else ""
        if error:
            findings.append(f"metadata.annotations[{key}]: {error}")
    return tuple(findings)


def _duration_error(text: str) -> str:
    try:
        seconds = parse_duration(text)
    except InvalidDuration as invalid:
        return str(invalid)
    return f"{text!r} is negative (write 0s or more)" if seconds < 0 else ""


def _bounded(requested_s: float, default_s: float, rules: WaitForPodsReady) -> float:
    if requested_s == default_s:
        return default_s
    longest_s = default_s if rules.longest_override_s is None else rules.longest_override_s
    return _within_bounds(requested_s, longest_s, rules)


def _within_bounds(requested_s: float, longest_s: float, rules: WaitForPodsReady) -> float:
    return min(max(requested_s, rules.shortest_override_s), longest_s)


def _overrides(timeout: str | None, recovery: str | None, scheduling: str | None) -> TimeoutOverrides:
    recovery_s, scheduling_s = _seconds(recovery), _seconds(scheduling)
    return TimeoutOverrides(
        _seconds(timeout),
        None if recovery_s is None else _or_infinite(recovery_s),
        None if scheduling_s is None else _or_infinite(scheduling_s),
    )


def _seconds(text: str | None) -> float | None:
    """Return the duration; None if it is not set or invalid."""
    return None if text is None or _duration_error(text) else parse_duration(text)


def _or_infinite(limit_s: float | None) -> float:
    """Return the limit; 0 and None disable a timeout, as documented for ``recoveryTimeout``."""
    return limit_s or math.inf


Phase = Literal["WaitForScheduling", "WaitForStart", "WaitForRecovery"]


class RunningTimeout(msgspec.Struct, frozen=True):
    """The timeout of a workload that expires first."""

    phase: Phase
    expires_at: float  # epoch seconds; infinite: never


class Retry(msgspec.Struct, frozen=True):
    """Evict, and try again no earlier than ``state.requeue_at``."""

    phase: Phase
    state: RequeueState


class Deactivate(msgspec.Struct, frozen=True):
    """Deactivate: the workload was retried ``retries`` times, which is the limit."""

    retries: int


def pods_ready_condition(
    workload: Workload, all_ready: bool, now: float, *, unscheduled: bool | None = None
) -> Condition | None:
    """Return the PodsReady condition; None if the stored condition is the same already.

    ``all_ready``: all pods of the job are ready or succeeded.  ``unscheduled``: some of them have no node;
    None if that is not known, so that the stored reason stays.
    """
    old = find_condition(workload.status.conditions, c.PODS_READY)
    reason = _pods_ready_reason(old, c.is_admitted(workload), all_ready)
    if reason == "WaitForStart" and c.is_admitted(workload):
        was_unscheduled = old is not None and old.reason == WAIT_FOR_SCHEDULING
        reason = "WaitForScheduling" if unscheduled or (unscheduled is None and was_unscheduled) else reason
    ready = reason in (STARTED, RECOVERED)
    if old is not None and (old.status == "True", old.reason) == (ready, reason):
        return None
    match reason:
        case "WaitForStart" | "WaitForScheduling":
            text = "Not all pods are ready or succeeded"
        case "WaitForRecovery":
            text = "At least one pod has failed, waiting for recovery"
        case "Started" | "Recovered":
            text = "All pods reached readiness and the workload is running"
        case _:
            assert_never(reason)
    return c.new_condition(
        c.PODS_READY, "True" if ready else "False", reason, text, now, workload.metadata.generation
    )


def _pods_ready_reason(
    old: Condition | None, admitted: bool, all_ready: bool
) -> Literal["WaitForStart", "WaitForScheduling", "Started", "WaitForRecovery", "Recovered"]:
    if not admitted:
        return "WaitForStart"
    was_ready = old is not None and old.status == "True"
    was_lost = old is not None and old.reason in (WAIT_FOR_RECOVERY, RECOVERED)
    if all_ready:
        return "Recovered" if was_lost else "Started"
    return "WaitForRecovery" if was_ready or was_lost else "WaitForStart"


def running_timeout(
    workload: Workload, timeouts: Timeouts, unplaced_since: float | None = None
) -> RunningTimeout | None:
    """Return the timeout of ``workload`` that expires first; None if none is running.

    Timeouts run only while the workload is admitted, active, not finished and not evicted: a reservation that
    waits for admission checks has no timeout.  ``unplaced_since`` is when the oldest of its pods without a
    node was created (epoch seconds); for a pod older than the admission, the admission counts instead.
    """
    conditions = workload.status.conditions
    admitted = find_condition(conditions, c.ADMITTED)
    if (
        admitted is None
        or admitted.status != "True"
        or not workload.spec.active
        or c.is_finished(workload)
        or c.is_evicted(workload)
    ):
        return None
    ready = find_condition(conditions, c.PODS_READY)
    if ready is not None and ready.status == "True":
        return None
    if ready is not None and ready.reason == WAIT_FOR_RECOVERY:
        first = RunningTimeout("WaitForRecovery", c.transition_time(ready) + timeouts.recovery_timeout_s)
    else:
        first = RunningTimeout("WaitForStart", c.transition_time(admitted) + timeouts.timeout_s)
    if unplaced_since is None:
        return first
    expires_at = max(unplaced_since, c.transition_time(admitted)) + timeouts.scheduling_timeout_s
    return RunningTimeout("WaitForScheduling", expires_at) if expires_at < first.expires_at else first


def on_timeout(
    workload: Workload, phase: Phase, strategy: RequeuingStrategy, now: float, jitter: float
) -> Retry | Deactivate:
    """Return what follows when the timeout of ``phase`` has expired.

    ``jitter`` in [0, 1) comes from the caller.  The count of retries survives readiness and admission; only
    deactivation clears it.  A stored end of backoff never moves back.
    """
    old = workload.status.requeue_state or RequeueState()
    retry = max(0, old.count or 0) + 1
    if strategy.backoff_limit_count is not None and retry > strategy.backoff_limit_count:
        return Deactivate(retry - 1)
    delay_s = backoff_s(retry, strategy) * (1 + JITTER_FACTOR * jitter)
    requeue_at = at_epoch(now + delay_s)
    if old.requeue_at is not None and old.requeue_at > requeue_at:
        requeue_at = old.requeue_at
    return Retry(phase, RequeueState(count=retry, requeue_at=requeue_at))


def backoff_s(retry: int, strategy: RequeuingStrategy) -> float:
    """Return the delay before a retry, counted from 1: base × factor^(retry-1), at most the maximum.

    The first delay is the base even if that is more than the maximum.
    """
    assert retry >= 1, f"retries are counted from 1, not {retry}"
    if retry == 1:
        return strategy.backoff_base_s
    try:
        grown_s = strategy.backoff_base_s * strategy.backoff_factor ** (retry - 1)
    except OverflowError:  # about a thousand retries: the maximum applies
        grown_s = math.inf
    return min(grown_s, strategy.backoff_max_s)


class UnreadyWorkloads:
    """The workloads that hold quota and are not ready, and the cluster queues with blocked heads.

    With ``blockAdmission`` they block every admission, or only those of workloads that would get a flavor
    that an unready workload uses.  The latter is enough to keep two workloads from each holding half of
    the capacity, because pods of different flavors do not run on the same nodes.  A workload that is blocked
    in one flavor tries the next flavor of its queue.
    """

    def __init__(self) -> None:
        # With their flavors then, in the order in which they reserved quota, or lost a pod.
        self._all: dict[Key, list[str]] = {}
        self._by_flavor: dict[str, dict[Key, None]] = {}  # those that use some of it; none empty
        self._blocked_queues: dict[str, dict[ClusterQueueState, None]] = {}  # by flavor

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._all)

    def add(self, reservation: Reservation) -> None:
        flavors = self._all[reservation.key] = sorted({pair.flavor for pair in reservation.usage})
        for flavor in flavors:
            self._by_flavor.setdefault(flavor, {})[reservation.key] = None

    def discard(self, reservation: Reservation) -> tuple[ClusterQueueState, ...]:
        """Remove a workload that is ready or gone; return the queues that are no longer blocked."""
        unblocked: dict[ClusterQueueState, None] = {}
        for flavor in self._all.pop(reservation.key, ()):
            keys = self._by_flavor[flavor]
            del keys[reservation.key]
            if not keys:
                del self._by_flavor[flavor]
                unblocked |= self._blocked_queues.pop(flavor, {})
        return tuple(unblocked)

    def first(self) -> Key:
        """Return one of the workloads; there must be one."""
        return next(iter(self._all))

    def blocker(self, flavors: Iterable[str], leaving: Container[Key] = ()) -> AwaitingPodsReady | None:
        """Return an unready workload that uses one of ``flavors``, the first by name; None if none does.

        The workloads in ``leaving`` do not count.
        """
        for flavor in sorted(flavors):
            for key in self._by_flavor.get(flavor, ()):
                if key not in leaving:
                    return AwaitingPodsReady(key, flavor)
        return None

    def block(self, queue: ClusterQueueState, flavor: str) -> None:
        """Record that ``discard`` must return ``queue`` once no unready workload uses ``flavor``."""
        self._blocked_queues.setdefault(flavor, {})[queue] = None
