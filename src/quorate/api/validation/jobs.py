"""Validation of the queueing labels and annotations that jobs of all kinds share."""

import msgspec

from quorate.api.findings import Finding, child_path
from quorate.api.kueue.wait_for_pods_ready import (
    WAIT_FOR_PODS_READY,
    InvalidTimeouts,
    parse_workload_timeouts,
)
from quorate.api.meta import ObjectMeta
from quorate.api.names.kueue import (
    ELASTIC_JOB,
    MAX_EXEC_TIME_SECONDS,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUEUE_NAME,
)
from quorate.api.names.multikueue import ORIGIN
from quorate.api.syntax import is_dns_subdomain, signed_int32
from quorate.api.validation.fields import Findings, gate_findings, gate_update_findings


class JobInfo(msgspec.Struct, frozen=True):
    """The fields of a job that the common rules read."""

    kind: str
    metadata: ObjectMeta
    queue: str  # name of the requested local queue; empty: none
    suspended: bool  # of a set: no pod is ready
    supports_prebuilt: bool  # capabilities of the kind
    supports_elastic: bool
    # upper bound of timeouts in the annotation wait-for-pods-ready, seconds; None: it has no effect
    longest_timeout_s: float | None = None
    is_set: bool = False  # is scaled, not suspended

    @property
    def priority_class(self) -> str:
        return self.metadata.labels.get(PRIORITY_CLASS, "")

    @property
    def prebuilt(self) -> str:
        metadata = self.metadata
        return metadata.annotations.get(PREBUILT_WORKLOAD) or metadata.labels.get(PREBUILT_WORKLOAD, "")

    @property
    def maximum_execution(self) -> str | None:
        return self.metadata.labels.get(MAX_EXEC_TIME_SECONDS)

    @property
    def elastic(self) -> bool:
        return self.metadata.annotations.get(ELASTIC_JOB) == "true"


def job_findings(job: JobInfo) -> Findings:
    """Validate a new job."""
    if job.metadata.labels.get(QUEUE_NAME) == "":
        yield Finding(_label(QUEUE_NAME), "", "is empty (name a LocalQueue, or leave the label out)")
    yield from _names(job)
    limit = job.maximum_execution
    if limit is not None and not _is_positive(limit):
        yield Finding(_label(MAX_EXEC_TIME_SECONDS), limit, "is not a number of seconds (write 1 or more)")
    if job.elastic and not job.supports_elastic:
        yield Finding(
            _annotation(ELASTIC_JOB), "true", f"is not supported for kind {job.kind} (leave it out)"
        )
    yield from gate_findings(job.metadata.annotations)
    yield from _timeout_findings(job)


def job_update_findings(old: JobInfo, new: JobInfo, *, has_default_queue: bool) -> Findings:
    """Validate an update of a job.

    The rules for its queue depend on whether it is suspended after the update, and the rules for its time
    limit on whether it is suspended before and after.
    """
    yield from _queue_update(old, new, has_default_queue=has_default_queue)
    if not new.suspended and not old.elastic and old.prebuilt != new.prebuilt:
        rule = f"cannot change while the job is not suspended (it was {old.prebuilt or 'not set'})"
        yield Finding(_label(PREBUILT_WORKLOAD), new.prebuilt, rule)
    if not (old.suspended and new.suspended) and old.maximum_execution != new.maximum_execution:
        rule = f"cannot change while the job is not suspended (it was {old.maximum_execution or 'not set'})"
        yield Finding(_label(MAX_EXEC_TIME_SECONDS), new.maximum_execution, rule)
    yield from common_update_findings(old, new)
    if old.elastic != new.elastic:
        rule = f"cannot change (it was {'true' if old.elastic else 'not set'})"
        yield Finding(_annotation(ELASTIC_JOB), new.metadata.annotations.get(ELASTIC_JOB), rule)
    before, after = (version.metadata.annotations.get(WAIT_FOR_PODS_READY) for version in (old, new))
    if before != after and new.longest_timeout_s is not None:
        if not (old.suspended and new.suspended):
            rule = f"cannot change while the job is not suspended (it was {before or 'not set'})"
            yield Finding(_annotation(WAIT_FOR_PODS_READY), after, rule)
        else:
            yield from _timeout_findings(new)


def common_update_findings(old: JobInfo, new: JobInfo) -> Findings:
    """Validate an update of a job or of a set of pods: its priority class and its gates."""
    if old.priority_class and not new.priority_class:
        rule = f"cannot be taken away (it was {old.priority_class}; name another class)"
        yield Finding(_label(PRIORITY_CLASS), new.priority_class, rule)
    elif new.priority_class and not old.priority_class and not new.suspended:
        rule = "cannot be added while the job is not suspended (suspend it first)"
        if new.is_set:
            rule = "cannot be added while pods of the set are ready (scale it to 0 first)"
        yield Finding(_label(PRIORITY_CLASS), new.priority_class, rule)
    yield from gate_update_findings(old.metadata.annotations, new.metadata.annotations)


def _timeout_findings(job: JobInfo) -> Findings:
    text = job.metadata.annotations.get(WAIT_FOR_PODS_READY)
    if not text or job.longest_timeout_s is None:
        return
    timeouts = parse_workload_timeouts(text)
    if isinstance(timeouts, InvalidTimeouts):
        yield Finding(_annotation(WAIT_FOR_PODS_READY), text, timeouts.rule)
    elif timeouts.longest_s > job.longest_timeout_s:
        rule = f"is more than maxTimeoutOnWorkload, which is {job.longest_timeout_s:g}s (write less)"
        yield Finding(_annotation(WAIT_FOR_PODS_READY), text, rule)


def _queue_update(old: JobInfo, new: JobInfo, *, has_default_queue: bool) -> Findings:
    where = _label(QUEUE_NAME)
    if old.queue != new.queue and not new.suspended:
        rule = f"cannot change while the job is not suspended (it was {old.queue or 'not set'})"
        yield Finding(where, new.queue, rule)
    elif old.queue and not new.queue and has_default_queue:
        rule = "is missing: queue-name must not be empty in namespace with default queue"
        yield Finding(where, new.queue, rule)
    if new.suspended:
        yield from _names(new)


def _names(job: JobInfo) -> Findings:
    for where, name, noun in (
        (_label(QUEUE_NAME), job.queue, "LocalQueue"),
        (_label(PREBUILT_WORKLOAD), job.prebuilt, "Workload"),
    ):
        if name and not is_dns_subdomain(name):
            rule = f"is not the name of a {noun} (lower case letters, digits, '-' and '.')"
            yield Finding(where, name, rule)
    if job.prebuilt and not job.supports_prebuilt and ORIGIN not in job.metadata.labels:
        rule = f"is not supported for kind {job.kind} (leave it out)"
        yield Finding(_label(PREBUILT_WORKLOAD), job.prebuilt, rule)


def _is_positive(text: str) -> bool:
    return (signed_int32(text) or 0) > 0


def _label(key: str) -> str:
    return child_path("metadata.labels", key)


def _annotation(key: str) -> str:
    return child_path("metadata.annotations", key)
