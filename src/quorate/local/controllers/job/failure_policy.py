"""When a pod of a job has failed, what that means for the job, and how long to wait before another try."""

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
    """Whether ``pod`` is lost to its job.

    Unless ``podReplacementPolicy`` is Failed that includes a pod being deleted: one that never reached a
    node would not fail in any other way.
    """
    if pod.status.phase == "Failed":
        return True
    deleted = pod.metadata.deletion_timestamp is not None
    return spec.replaces_terminating and deleted and pod.status.phase != "Succeeded"


def finished_at(pod: Pod) -> float:
    """When the pod ended, as well as its status tells: containers first, then Ready, deletion, creation."""
    ends = [
        status.state.terminated.finished_at if status.state.terminated else None
        for status in pod.status.container_statuses
    ]
    known = [epoch(end) for end in ends if end is not None]
    if known and len(known) == len(ends):
        return max(known)
    ready = find_condition(pod.status.conditions, "Ready")
    if ready and ready.status == "False" and ready.last_transition_time:
        return epoch(ready.last_transition_time)
    if pod.metadata.deletion_timestamp:
        return epoch(pod.metadata.deletion_timestamp) - pod.metadata.deletion_grace_period_seconds
    assert pod.metadata.creation_timestamp is not None, f"pod {pod.metadata.key} was never created"
    return epoch(pod.metadata.creation_timestamp)


@dataclass(frozen=True, slots=True)
class PolicyMatch:
    """The first rule of a pod failure policy that a failed pod meets."""

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
    who = pod.metadata.key
    if rule.on_exit_codes is not None:
        for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
            ended = status.state.terminated
            if ended and _matches_exit_code(rule.on_exit_codes, status.name, ended.exit_code):
                return f"Container {status.name} for pod {who} failed with exit code {ended.exit_code}"
        return None
    for wanted in rule.on_pod_conditions:
        condition = find_condition(pod.status.conditions, wanted.type)
        if condition and condition.status == wanted.status:
            return f"Pod {who} has condition {wanted.type}"
    return None


def _matches_exit_code(wanted: PodFailurePolicyOnExitCodes, container: str, code: int) -> bool:
    if code == 0 or wanted.container_name not in ("", container):
        return False
    return (code in wanted.values) == (wanted.operator == "In")


@dataclass(frozen=True, slots=True)
class IndexFailures:
    """How often the pods of one index have failed: those that count against its limit, and the others."""

    counted: int = 0
    ignored: int = 0

    @property
    def total(self) -> int:
        return self.counted + self.ignored


def previous_failures(pod: Pod) -> IndexFailures:
    """The failures of its index that the pod was created after."""
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
    """Whether this failed pod was the last its index may have (``backoffLimitPerIndex``)."""
    match = match_pod_failure_policy(spec.pod_failure_policy, pod)
    if match and match.action in ("FailIndex", "Ignore"):
        return match.action == "FailIndex"
    return previous_failures(pod).counted >= (spec.backoff_limit_per_index or 0)


def backoff_delay_s(failures: int) -> float:
    """How long after its last failure something that failed ``failures`` times in a row is tried again."""
    if failures == 0:
        return 0.0
    doublings = min(failures - 1, 10)  # beyond that the ceiling has long been reached
    return min(INITIAL_BACKOFF_S * 2.0**doublings, MAX_BACKOFF_S)


@dataclass(frozen=True, slots=True)
class Backoff:
    """The failures of a job's pods since one last succeeded."""

    failures: int = 0
    last_failure: float = 0.0

    @property
    def ready_at(self) -> float:
        return self.last_failure + backoff_delay_s(self.failures)

    def after(self, succeeded: Iterable[float], failed: Iterable[float]) -> "Backoff":
        """The same once pods have ended at these times; only failures after the last success count."""
        last_success = max(succeeded, default=None)
        if last_success is None:
            later, before = list(failed), self
        else:
            later, before = [end for end in failed if end > last_success], Backoff()
        if not later:
            return before
        return Backoff(before.failures + len(later), max(before.last_failure, *later))
