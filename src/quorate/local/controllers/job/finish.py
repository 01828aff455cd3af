"""Whether and why a job has finished, by the rules of batch/v1 in their order of precedence."""

from dataclasses import dataclass
from typing import Final

from quorate.api import codec
from quorate.api.meta import Condition, Struct, epoch, find_condition
from quorate.local.controllers.job.failure_policy import has_failed, match_pod_failure_policy
from quorate.local.controllers.job.index_set import parse_indexes
from quorate.local.controllers.job.pod_summary import PodSummary
from quorate.local.controllers.job.types import Job, JobCondition, JobSpec, JobStatus


@dataclass(frozen=True, slots=True)
class FinishedReason:
    """The outcome of a job; its pods may still be terminating."""

    success: bool
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """Return the condition type to set while pods are terminating."""
        return "SuccessCriteriaMet" if self.success else "FailureTarget"

    @property
    def terminal(self) -> str:
        return "Complete" if self.success else "Failed"


COMPLETIONS_REACHED: Final = FinishedReason(
    True, "CompletionsReached", "Reached expected number of succeeded pods"
)
BACKOFF_LIMIT: Final = FinishedReason(
    False, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
)
DEADLINE: Final = FinishedReason(False, "DeadlineExceeded", "Job was active longer than specified deadline")
TOO_MANY_FAILED_INDEXES: Final = FinishedReason(
    False, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES: Final = FinishedReason(False, "FailedIndexes", "Job has failed indexes")


def finished_condition(status: JobStatus) -> JobCondition | None:
    """Return the condition Complete or Failed of a finished job."""
    ends = (condition for condition in status.conditions if condition.type in ("Complete", "Failed"))
    return next((condition for condition in ends if condition.status == "True"), None)


def deadline(spec: JobSpec, status: JobStatus) -> float | None:
    """Return when a job exceeds activeDeadlineSeconds; a suspended job has no deadline."""
    if spec.active_deadline_seconds is None or spec.suspend or status.start_time is None:
        return None
    return epoch(status.start_time) + spec.active_deadline_seconds


def finished_reason(job: Job, summary: PodSummary, now: float) -> FinishedReason | None:
    """Return why the job has finished although pods may still run; None if it has not finished.

    ``are_completions_reached`` decides about completions, after excess pods were deleted.
    """
    return (
        _recorded_reason(job)
        or _failed_by_policy(job, summary)
        or (BACKOFF_LIMIT if _exceeds_backoff_limit(job, summary) else None)
        or (DEADLINE if (end := deadline(job.spec, job.status)) is not None and now >= end else None)
        or _failed_by_indexes(job, summary)
        or _succeeded_by_policy(job, summary)
    )


def are_completions_reached(job: Job, summary: PodSummary, active: int) -> bool:
    """Return True if the job needs no more pods, and ``active`` pods are none."""
    if job.spec.completions is None:
        return summary.succeeded > 0 and active == 0  # success: the work queue is empty
    return summary.succeeded >= job.spec.completions and active == 0


def _recorded_reason(job: Job) -> FinishedReason | None:
    for success, type_ in ((False, "FailureTarget"), (True, "SuccessCriteriaMet")):
        condition: Condition | None = find_condition(job.status.conditions, type_)
        if condition and condition.status == "True":
            return FinishedReason(success, condition.reason, condition.message)
    return None


def _failed_by_policy(job: Job, summary: PodSummary) -> FinishedReason | None:
    if job.spec.pod_failure_policy is None:
        return None
    for pod in sorted(summary.tracked, key=lambda pod: pod.metadata.name):
        match = (
            match_pod_failure_policy(job.spec.pod_failure_policy, pod) if has_failed(job.spec, pod) else None
        )
        if match and match.action == "FailJob":
            return FinishedReason(False, "PodFailurePolicy", match.message)
    return None


class _TemplateSpec(Struct):
    restart_policy: str = "Always"


class _Template(Struct):
    """The field of a pod template that is read here."""

    spec: _TemplateSpec = _TemplateSpec()


def _exceeds_backoff_limit(job: Job, summary: PodSummary) -> bool:
    limit = job.spec.backoff_limit
    if limit is None:
        return False
    if summary.failed > limit:
        return True
    if codec.decode(_Template, job.spec.template).spec.restart_policy != "OnFailure":
        return False
    restarts = sum(
        container.restart_count
        for pod in summary.active
        for container in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return restarts > 0 if limit == 0 else restarts >= limit


def _failed_by_indexes(job: Job, summary: PodSummary) -> FinishedReason | None:
    failed = len(summary.failed_indexes)
    if job.spec.max_failed_indexes is not None and failed > job.spec.max_failed_indexes:
        return TOO_MANY_FAILED_INDEXES
    if failed and failed + len(summary.completed) >= (job.spec.completions or 0):
        return FAILED_INDEXES
    return None


def _succeeded_by_policy(job: Job, summary: PodSummary) -> FinishedReason | None:
    for number, rule in enumerate(job.spec.success_policy.rules if job.spec.success_policy else ()):
        relevant = summary.completed
        wanted = rule.succeeded_count
        if rule.succeeded_indexes is not None:
            named = parse_indexes(rule.succeeded_indexes, job.spec.completions or 0)
            relevant = relevant & named
            wanted = len(named) if wanted is None else wanted
        if wanted is not None and len(relevant) >= wanted:
            return FinishedReason(True, "SuccessPolicy", f"Matched rules at index {number}")
    return None
