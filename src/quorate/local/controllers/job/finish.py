"""Whether a job is over, and why: the rules of batch/v1 in the order in which they are asked."""

from dataclasses import dataclass
from typing import Final

from quorate.api.batch import decode_template
from quorate.api.meta import Condition, epoch, find_condition, is_true
from quorate.local.controllers.job.failure_policy import has_failed, match_policy
from quorate.local.controllers.job.pod_summary import Census, parse_indexes
from quorate.local.controllers.job.types import Job, JobSpec, JobStatus


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end a job has come to; its pods may still have to go before it is told."""

    success: bool
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """The condition that says so while pods are still ending."""
        return "SuccessCriteriaMet" if self.success else "FailureTarget"

    @property
    def terminal(self) -> str:
        return "Complete" if self.success else "Failed"


COMPLETIONS_REACHED: Final = Verdict(True, "CompletionsReached", "Reached expected number of succeeded pods")
BACKOFF_LIMIT: Final = Verdict(False, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE: Final = Verdict(False, "DeadlineExceeded", "Job was active longer than specified deadline")
TOO_MANY_FAILED_INDEXES: Final = Verdict(
    False, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES: Final = Verdict(False, "FailedIndexes", "Job has failed indexes")


def is_finished(status: JobStatus) -> bool:
    return is_true(status.conditions, "Complete") or is_true(status.conditions, "Failed")


def deadline(spec: JobSpec, status: JobStatus) -> float | None:
    """When the job will have been active for too long; a suspended one is not active."""
    if spec.active_deadline_seconds is None or spec.suspend or status.start_time is None:
        return None
    return epoch(status.start_time) + spec.active_deadline_seconds


def judge(job: Job, census: Census, now: float) -> Verdict | None:
    """Why the job is over although pods may be left to run; ``None`` while it is not.

    That every completion was reached is seen only after superfluous pods are gone: ``has_completed``.
    """
    return (
        _judged_before(job)
        or _failed_by_policy(job, census)
        or (BACKOFF_LIMIT if _exceeds_backoff_limit(job, census) else None)
        or (DEADLINE if (end := deadline(job.spec, job.status)) is not None and now >= end else None)
        or _failed_by_indexes(job, census)
        or _succeeded_by_policy(job, census)
    )


def has_completed(job: Job, census: Census, active: int) -> bool:
    """Whether nothing is left to do, when ``active`` pods are left."""
    if job.spec.completions is None:
        return census.succeeded > 0 and active == 0  # a work queue: a success says that the queue is empty
    return census.succeeded >= job.spec.completions and active == 0


def _judged_before(job: Job) -> Verdict | None:
    for success, type_ in ((False, "FailureTarget"), (True, "SuccessCriteriaMet")):
        condition: Condition | None = find_condition(job.status.conditions, type_)
        if condition and condition.status == "True":
            return Verdict(success, condition.reason, condition.message)
    return None


def _failed_by_policy(job: Job, census: Census) -> Verdict | None:
    if job.spec.pod_failure_policy is None:
        return None
    for pod in sorted(census.tracked, key=lambda pod: pod.metadata.name):
        match = match_policy(job.spec.pod_failure_policy, pod) if has_failed(job.spec, pod) else None
        if match and match.action == "FailJob":
            return Verdict(False, "PodFailurePolicy", match.message)
    return None


def _exceeds_backoff_limit(job: Job, census: Census) -> bool:
    limit = job.spec.backoff_limit
    if limit is None:
        return False
    if census.failed > limit:
        return True
    if decode_template(job.spec.template).spec.restart_policy != "OnFailure":
        return False
    restarts = sum(
        container.restart_count
        for pod in census.active
        for container in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return restarts > 0 if limit == 0 else restarts >= limit


def _failed_by_indexes(job: Job, census: Census) -> Verdict | None:
    failed = len(census.failed_indexes)
    if job.spec.max_failed_indexes is not None and failed > job.spec.max_failed_indexes:
        return TOO_MANY_FAILED_INDEXES
    if failed and failed + len(census.completed) >= (job.spec.completions or 0):
        return FAILED_INDEXES
    return None


def _succeeded_by_policy(job: Job, census: Census) -> Verdict | None:
    for number, rule in enumerate(job.spec.success_policy.rules if job.spec.success_policy else ()):
        relevant = census.completed
        wanted = rule.succeeded_count
        if rule.succeeded_indexes is not None:
            named = parse_indexes(rule.succeeded_indexes, job.spec.completions or 0)
            relevant &= named
            wanted = len(named) if wanted is None else wanted
        if wanted is not None and len(relevant) >= wanted:
            return Verdict(True, "SuccessPolicy", f"Matched rules at index {number}")
    return None
