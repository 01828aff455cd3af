"""scheduling.volcano.sh PodGroup as a kind of job: admitted by quota before the scheduler admits it.

Only groups that no queued object owns have a Workload: the pod group of a queued job is counted as the job.
Quota is counted from the spec: ``minMember`` pods of equal parts of ``minResources``.  The pods may not exist
yet, and the scheduler gives nodes to no more than that.

A pod group has no field that suspends it: an annotation does, and the scheduler keeps such a group Pending.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.core import Resources
from quorate.api.kueue import PodSet, Workload
from quorate.api.names.kueue import STOPPING
from quorate.api.names.volcano import ADMITTED_POD_SETS, SUSPENDED
from quorate.api.quantity import Quantity
from quorate.api.volcano import COMPLETED, PENDING, PodGroup
from quorate.controllers.jobframework.construct_workload import NotComposed
from quorate.controllers.jobframework.interface import JobKind, JobState, Outcome, Stop
from quorate.controllers.jobframework.job_plan import IDLE, JobPlan
from quorate.controllers.jobframework.pod_counts import PodCounts, PodSetCounts
from quorate.controllers.jobframework.podset_info import PodSetInfo
from quorate.controllers.jobframework.topology import TopologySource
from quorate.controllers.volcano.job.quota_admission import admission_record, annotate, is_stopping
from quorate.kube.resources import POD_GROUPS, Resource
from quorate.kube.writes import Patch
from quorate.placement.resources import in_base_units
from quorate.quota.amount import PODS, as_quantity

POD_SET: Final = "main"
_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


class VolcanoPodGroup(JobKind[PodGroup]):
    requires_queue_name = True  # most groups belong to jobs, which are managed without one
    joins_native_groups = False

    @property
    def resource(self) -> Resource[PodGroup]:
        return POD_GROUPS

    def is_suspended(self, job: PodGroup) -> bool:
        return self.is_stopped(job) and not is_stopping(job)

    def is_stopped(self, job: PodGroup) -> bool:
        return job.metadata.annotations.get(SUSPENDED) == "true"

    def is_active(self, job: PodGroup) -> bool:
        return is_stopping(job) or job.status.running > 0

    def pod_sets(self, job: PodGroup) -> tuple[PodSet, ...]:
        """Return one pod set of ``minMember`` pods, at least one."""
        count = max(job.spec.min_member, 1)
        requests = {
            name: _part(name, amount, count)
            for name, amount in in_base_units(job.spec.min_resources or {}).items()
            if name != PODS
        }
        return (PodSet(name=POD_SET, count=count, template=_template(requests)),)

    def construct(self, state: JobState[PodGroup], extra: str = "") -> Workload | NotComposed:
        if state.job.spec.min_resources is None:
            return NotComposed("spec.minResources is required: quota is counted from it")
        return super().construct(state, extra)

    def topology_sources(self, job: PodGroup) -> tuple[TopologySource, ...]:
        """Return none: ``networkTopology`` places the pods of a group."""
        return (TopologySource("metadata.annotations", annotations=_NO_ANNOTATIONS),)

    def priority_class(self, job: PodGroup) -> str | None:
        return job.spec.priority_class_name

    def finished(self, job: PodGroup) -> Outcome | None:
        status = job.status
        if status.phase != COMPLETED:
            return None
        if status.failed:
            return Outcome(False, f"{status.failed} of {status.failed + status.succeeded} pods failed")
        return Outcome(True, "Pod group completed successfully")

    def pod_counts(self, job: PodGroup) -> PodCounts:
        """Return the counts: all ``minMember`` pods may run, as others may take the place of ended ones."""
        status, size = job.status, max(job.spec.min_member, 1)
        ready = min(size, status.running + status.succeeded)
        return (PodSetCounts(POD_SET, job.spec.min_member, active=ready, ready=ready, coming=size - ready),)

    def start(self, job: PodGroup, infos: Sequence[PodSetInfo]) -> tuple[Patch, ...]:
        record = admission_record(job.metadata.uid, infos)
        return (annotate(job, {SUSPENDED: None, ADMITTED_POD_SETS: record}),)

    def stop(self, job: PodGroup, originals: Sequence[PodSet] | None) -> Stop:
        if self.is_stopped(job):
            return Stop(waits_for_pods=is_stopping(job))
        annotations: dict[str, str | None] = {SUSPENDED: "true", ADMITTED_POD_SETS: None}
        if job.status.phase in ("", PENDING) and not job.status.running:
            return Stop((annotate(job, annotations),), begins=True)
        return Stop((annotate(job, {**annotations, STOPPING: "true"}),), begins=True, waits_for_pods=True)

    def child_plan(self, job: PodGroup, *, ancestor_admitted: bool) -> JobPlan:
        """Return the plan for the group of a queued job, which makes the group only when it is admitted."""
        if not self.is_stopped(job):
            return IDLE
        return JobPlan(writes=(annotate(job, {SUSPENDED: None, STOPPING: None}),))


def _part(resource: str, amount: int, count: int) -> Quantity:
    """Return the part of ``amount``, in base units, for one of ``count`` pods, rounded up."""
    return as_quantity(resource, -(-amount // count))


def _template(requests: Resources) -> msgspec.Raw:
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    return msgspec.Raw(codec.encode({"spec": {"containers": [container]}}))
