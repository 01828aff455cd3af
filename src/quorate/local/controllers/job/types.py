"""Types and names of the Job controller."""

from datetime import datetime
from typing import Final

from quorate.api import batch, core
from quorate.api.batch import JOB_COMPLETION_INDEX
from quorate.api.meta import Condition, LabelSelector, ObjectMeta, Struct
from quorate.kube.resources import Resource

TRACKING_FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX_FAILURES_ANNOTATION: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES_ANNOTATION: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
JOB_CONTROLLER_NAME: Final = "kubernetes.io/job-controller"  # the value of spec.managedBy for this controller


class PodFailurePolicyOnExitCodes(Struct):
    operator: str
    values: tuple[int, ...]
    container_name: str = ""


class PodFailurePolicyOnPodCondition(Struct):
    type: str
    status: str = "True"


class PodFailurePolicyRule(Struct):
    action: str
    on_exit_codes: PodFailurePolicyOnExitCodes | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodCondition, ...] = ()


class PodFailurePolicy(Struct):
    rules: tuple[PodFailurePolicyRule, ...] = ()


class SuccessPolicyRule(Struct):
    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(Struct):
    rules: tuple[SuccessPolicyRule, ...] = ()


class JobSpec(batch.JobSpec):
    selector: LabelSelector = LabelSelector()
    active_deadline_seconds: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str = "TerminatingOrFailed"
    ttl_seconds_after_finished: int | None = None

    @property
    def indexed(self) -> bool:
        return self.completion_mode == "Indexed"

    @property
    def replaces_terminating(self) -> bool:
        """Return True if a terminating pod is replaced before it has finished."""
        return self.pod_replacement_policy != "Failed"


class JobCondition(Condition):
    last_probe_time: datetime | None = None


class JobStatus(Struct):
    """``None`` means never written: the API distinguishes it from zero in these fields."""

    conditions: tuple[JobCondition, ...] = ()
    start_time: datetime | None = None
    completion_time: datetime | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    ready: int | None = None
    terminating: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: batch.UncountedTerminatedPods | None = None


class Job(Struct):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class PodMeta(ObjectMeta):
    deletion_grace_period_seconds: int = 0


class Pod(core.Pod):
    metadata: PodMeta

    @property
    def has_tracking_finalizer(self) -> bool:
        """Return True if the job has not recorded this pod's outcome yet."""
        return TRACKING_FINALIZER in self.metadata.finalizers

    @property
    def index(self) -> int | None:
        """Return the completion index, or None if the pod has no valid one."""
        text = self.metadata.annotations.get(JOB_COMPLETION_INDEX, "")
        return int(text) if text.isdecimal() else None


JOBS = Resource("batch", "v1", "jobs", "Job", True, Job)
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
