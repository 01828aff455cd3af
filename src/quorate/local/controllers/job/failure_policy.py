"""Pod failures of a job: pod failure policy, failures per index, and backoff."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from quorate.api.meta import epoch, find_condition
from quorate.local.controllers.job.types import (
    INDEX_FAILURES_ANNOTATION,
    INDEX_IGNORED_FAILURES_ANNOTATION,
    JobSpec,
    Pod,
    PodFailurePolicy,
    PodFailurePolicyOnExitCodes,
    PodFailurePolicyRule,
)

INITIAL_BACKOFF_S: Final = 10.0
MAX_BACKOFF_S: Final = 600.0


def has_failed(spec: JobSpec, pod: Pod) -> bool:
    """Return True if the job treats ``pod`` as failed.

    Unless ``podReplacementPolicy`` is Failed, that includes a terminating pod, because a pod that never
    reached a node would never get phase Failed.
    """
    if pod.status.phase == "Failed":
        return True
    deleted = pod.metadata.deletion_timestamp is not None
    return spec.replaces_terminating and deleted and pod.status.phase != "Succeeded"


def finished_at(pod: Pod) -> float:
    """Return the time at which a pod finished, as accurately as its status tells.

    Tries containers, then condition Ready, deletion, and creation.
    """
    ends = [
        status.state.terminated.finished_at if status.state.terminated else None
        for status in pod.status.container_statuses
    ]
    end_times = [epoch(end) for end in ends if end is not None]
    if end_times and len(end_times) == len(ends):
        return max(end_times)
    ready = find_condition(pod.status.conditions, "Ready")
    if ready and ready.status == "False" and ready.last_transition_time:
        return epoch(ready.last_transition_time)
    if pod.metadata.deletion_timestamp:
        return epoch(pod.metadata.deletion_timestamp) - pod.metadata.deletion_grace_period_seconds
    assert pod.metadata.creation_timestamp is not None, f"pod {pod.metadata.key} was never created"
    return epoch(pod.metadata.creation_timestamp)


@dataclass(frozen=True, slots=True)
class PolicyMatch:
    """The first rule of a pod failure policy that a failed pod matches."""

    action: str
    message: str


def match_pod_failure_policy(policy: PodFailurePolicy | None, pod: Pod) -> PolicyMatch | None:
    for number, rule in enumerate(policy.rules if policy else ()):
        cause = _match_reason(rule, pod)
        if cause:
            return PolicyMatch(rule.action, f"{cause} matching {rule.action} rule at index {number}")
    return None


def counts_against_limit(spec: JobSpec, pod: Pod) -> bool:
    match = match_pod_failure_policy(spec.pod_failure_policy, pod)
    return match is None or match.action != "Ignore"


def _match_reason(rule: PodFailurePolicyRule, pod: Pod) -> str | None:
    key = pod.metadata.key
    if rule.on_exit_codes is not None:
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            ended = status.state.terminated
            if ended and _matches_exit_code(rule.on_exit_codes, status.name, ended.exit_code):
                return f"Container {status.name} for pod {key} failed with exit code {ended.exit_code}"
        return None
    for wanted in rule.on_pod_conditions:
        condition = find_condition(pod.status.conditions, wanted.type)
        if condition and condition.status == wanted.status:
            return f"Pod {key} has condition {wanted.type}"
    return None


def _matches_exit_code(wanted: PodFailurePolicyOnExitCodes, container: str, code: int) -> bool:
    if code == 0 or wanted.container_name not in ("", container):
        return False
    return (code in wanted.values) == (wanted.operator == "In")


@dataclass(frozen=True, slots=True)
class IndexFailures:
    """The failed pods of a job index: ``counted`` for its backoff limit, ``ignored`` by podFailurePolicy."""

    counted: int = 0
    ignored: int = 0

    @property
    def total(self) -> int:
        return self.counted + self.ignored


def previous_failures(pod: Pod) -> IndexFailures:
    """Return the failures of the pod's index before the pod was created."""
    annotations = pod.metadata.annotations
    return IndexFailures(
        int(annotations.get(INDEX_FAILURES_ANNOTATION, "0")),
        int(annotations.get(INDEX_IGNORED_FAILURES_ANNOTATION, "0")),
    )


def failures_including(spec: JobSpec, failed: Pod) -> IndexFailures:
    before = previous_failures(failed)
    if counts_against_limit(spec, failed):
        return IndexFailures(before.counted + 1, before.ignored)
    return IndexFailures(before.counted, before.ignored + 1)


def fails_index(spec: JobSpec, pod: Pod) -> bool:
    """Return True if this failure exceeds the index's ``backoffLimitPerIndex``."""
    match = match_pod_failure_policy(spec.pod_failure_policy, pod)
    if match and match.action in ("FailIndex", "Ignore"):
        return match.action == "FailIndex"
    return previous_failures(pod).counted >= (spec.backoff_limit_per_index or 0)


def backoff_delay_s(failures: int) -> float:
    """Return the delay before a retry after ``failures`` consecutive failures, in seconds."""
    if failures == 0:
        return 0.0
    doublings = min(failures - 1, 10)  # the maximum is reached long before
    return min(INITIAL_BACKOFF_S * 2.0**doublings, MAX_BACKOFF_S)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Failures of a job's pods since the last success."""

    failures: int = 0
    last_failure: float = 0.0

    @property
    def ready_at(self) -> float:
        return self.last_failure + backoff_delay_s(self.failures)

    def after(self, succeeded: Iterable[float], failed: Iterable[float]) -> "Backoff":
        """Return the backoff after pods finished at these times; a success resets earlier failures."""
        last_success = max(succeeded, default=None)
        if last_success is None:
            later, before = list(failed), self
        else:
            later, before = [end for end in failed if end > last_success], Backoff()
        if not later:
            return before
        return Backoff(before.failures + len(later), max(before.last_failure, *later))
