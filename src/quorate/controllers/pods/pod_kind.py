"""Plain pods as a kind of job.

A pod cannot be suspended and started again as other jobs can.  It starts when its scheduling gate is
removed, which cannot be added again, and it stops by being deleted.  A finalizer keeps a stopped pod until
its end is taken into account.
"""

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.configuration.feature_gates import Gates, TopologyGates
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.core import PodSpec, PodTemplate
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import PodResources, pod_requests
from quorate.api.findings import Finding
from quorate.api.kueue import PodSet, PodSetAssignment, Workload
from quorate.api.meta import find_condition
from quorate.api.names.kueue import JOB_UID
from quorate.controllers.executor import ObjectEvent, normal_event, warning_event
from quorate.controllers.jobframework.construct_workload import NotComposed
from quorate.controllers.jobframework.ensure_one_workload import is_equivalent
from quorate.controllers.jobframework.interface import (
    NO_MATCHING_WORKLOAD,
    WORKLOAD_DELETED,
    J,
    JobKind,
    JobState,
    Outcome,
    started_message,
)
from quorate.controllers.jobframework.job_plan import JobOptions, JobPlan, UngatedPods
from quorate.controllers.jobframework.pod_counts import PodCounts
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, read_template
from quorate.controllers.jobframework.topology import TopologySource
from quorate.controllers.pods.constants import ADMISSION_GATE
from quorate.controllers.pods.pod_group import pod_set_counts
from quorate.controllers.pods.pod_writes import delete_pods, remove_finalizers, template_of, terminate, ungate
from quorate.controllers.pods.queued_pod import is_gated, is_suspended, missing_gate_findings, topology_source
from quorate.kube.resources import PLACEABLE_PODS, Resource, reference_to
from quorate.kube.writes import Write
from quorate.queueing.conditions import ADMITTED, transition_time
from quorate.queueing.pending.effective_requests import quota_requests
from quorate.quota.amount import as_quantity, base_units

SINGLE_ROLE: Final = "main"
OUTSIDE_QUOTA: Final = "OutsideQuota"


class PodsKind(JobKind[J]):
    """What single pods and pod groups have in common: a job is some pods."""

    reports_workload = False
    is_group = False

    @property
    def resource(self) -> Resource[Pod]:
        return PLACEABLE_PODS

    @abstractmethod
    def pods(self, job: J) -> Sequence[Pod]:
        """Return the pods of the job, the oldest first."""

    @abstractmethod
    def pod_set_name(self, job: J, pod: Pod) -> str:
        """Return the pod set that the pod belongs to."""

    def defaults_priority_class(self, gates: Gates) -> bool:
        return False  # the webhook sets the label

    def has_pods_to_start(self, job: J) -> bool:
        return any(_is_startable(pod) for pod in self.pods(job))

    def start_plan(
        self, state: JobState[J], workload: Workload, infos: Sequence[PodSetInfo]
    ) -> JobPlan | InjectionConflict:
        """Ungate all gated pods that request no more than what is charged for them."""
        by_name = {info.name: info for info in infos}
        admission = workload.status.admission
        admitted = find_condition(workload.status.conditions, ADMITTED)
        assert admission is not None, f"{workload.metadata.key} starts without an admission"
        assert admitted is not None, f"{workload.metadata.key} starts without the condition Admitted"
        charges = {
            pod_set.name: (pod_set, assignment)
            for pod_set, assignment in zip(workload.spec.pod_sets, admission.pod_set_assignments, strict=True)
        }
        sequences: list[tuple[Write, ...]] = []
        events: list[ObjectEvent] = []
        message = started_message(workload)
        for pod in filter(_is_startable, self.pods(state.job)):
            name = self.pod_set_name(state.job, pod)
            if name not in by_name:
                return InjectionConflict(f"the workload has no pod set {name!r}, the role of a pod")
            about = reference_to(PLACEABLE_PODS, pod.metadata)
            if uncharged := uncharged_requests(pod, *charges[name], state.options.resources):
                text = f"it stays gated, it requests more than quota is charged for: {uncharged}"
                events.append(warning_event(about, OUTSIDE_QUOTA, text))
                continue
            patch = ungate(pod, by_name[name])
            if isinstance(patch, InjectionConflict):
                return patch
            sequences.append((patch,))
            events.append(normal_event(about, "Started", message))
        return JobPlan(
            concurrent=tuple(sequences),
            events=tuple(events),
            ungated=UngatedPods(
                gate=ADMISSION_GATE,
                count=len(sequences),
                cluster_queue=admission.cluster_queue,
                is_group=self.is_group,
                admitted_at=transition_time(admitted),
            ),
        )

    def stop_plan(self, state: JobState[J], workload: Workload | None, reason: str, message: str) -> JobPlan:
        """Terminate the pods that run or could; gated and terminated pods stay.

        Without their workload gated and terminated pods are deleted, too: no replacement is awaited.
        """
        stopped = [
            pod
            for pod in self.pods(state.job)
            if not pod.is_leaving and (reason == WORKLOAD_DELETED or not is_suspended(pod))
        ]
        return JobPlan(
            concurrent=tuple(terminate(pod, reason, message, state.now) for pod in stopped),
            events=tuple(_event(pod, "Stopped", message) for pod in stopped),
            stopping=reason == WORKLOAD_DELETED and bool(stopped),
        )

    def finalize(self, job: J) -> tuple[tuple[Write, ...], ...]:
        return remove_finalizers(self.pods(job))

    def delete_plan(self, state: JobState[J], message: str) -> JobPlan:
        pods = self.pods(state.job)
        return JobPlan(
            concurrent=delete_pods(pods),
            events=tuple(_event(pod, "Deleted", message) for pod in pods if not pod.is_leaving),
        )


class PodKind(PodsKind[Pod]):
    """A single pod, with a workload of its own."""

    updates_in_place = False
    releases_quota_with_stop = True  # a deleted pod is no longer asked whether it holds capacity

    def pods(self, job: Pod) -> Sequence[Pod]:
        return (job,)

    def pod_set_name(self, job: Pod, pod: Pod) -> str:
        return SINGLE_ROLE

    def is_managed(self, job: Pod, options: JobOptions) -> bool:
        return job.metadata.is_managed

    def is_suspended(self, job: Pod) -> bool:
        return is_suspended(job)

    def is_active(self, job: Pod) -> bool:
        return False

    def pod_sets(self, job: Pod) -> tuple[PodSet, ...]:
        return (PodSet(template=template_of(job)),)

    def topology_sources(self, job: Pod) -> tuple[TopologySource, ...]:
        return (topology_source(job),)

    def topology_findings(self, job: Pod, gates: TopologyGates) -> tuple[Finding, ...]:
        return (*super().topology_findings(job, gates), *missing_gate_findings(job))

    def finished(self, job: Pod) -> Outcome | None:
        if not job.has_ended:
            return None
        return Outcome(success=job.status.phase == "Succeeded", message=job.status.message)

    def pod_counts(self, job: Pod) -> PodCounts:
        return (pod_set_counts(SINGLE_ROLE, [job], 1),)

    def owns(self, state: JobState[Pod], workload: Workload) -> bool:
        owner = workload.metadata.controller
        return owner is not None and owner.uid == state.job.metadata.uid

    def construct(self, state: JobState[Pod], extra: str = "") -> Workload | NotComposed:
        constructed = super().construct(state, extra)
        parent = state.context.parent
        if parent is None or isinstance(constructed, NotComposed):
            return constructed
        metadata = constructed.metadata
        labelled = msgspec.structs.replace(metadata, labels={**metadata.labels, JOB_UID: parent})
        return msgspec.structs.replace(constructed, metadata=labelled)

    def may_run_with(self, state: JobState[Pod], workload: Workload) -> bool:
        """Return True for a pod that was resized in place to no more than its workload is charged for."""
        return _excess_of_resize(state, workload) == ""

    def stop_plan(
        self, state: JobState[Pod], workload: Workload | None, reason: str, message: str
    ) -> JobPlan:
        if workload is not None and reason == NO_MATCHING_WORKLOAD:
            excess = _excess_of_resize(state, workload)
            if excess:
                message = f"It was resized to more than quota is charged for: {excess}"
        return super().stop_plan(state, workload, reason, message)


def _excess_of_resize(state: JobState[Pod], workload: Workload) -> str | None:
    """Return what a resized pod requests beyond the charged amounts; None: the pod was not resized."""
    pod, admission = state.job, workload.status.admission
    if is_gated(pod) or admission is None or len(admission.pod_set_assignments) != 1:
        return None
    if not is_resized(workload, state.pod_sets[0], state.maximum_execution_s):
        return None
    (pod_set,), (assignment,) = workload.spec.pod_sets, admission.pod_set_assignments
    return uncharged_requests(pod, pod_set, assignment, state.options.resources)


def _event(pod: Pod, reason: str, message: str) -> ObjectEvent:
    return normal_event(reference_to(PLACEABLE_PODS, pod.metadata), reason, message)


def _is_startable(pod: Pod) -> bool:
    return is_gated(pod) and not pod.is_leaving


_RESIZABLE: Final = ("cpu", "memory")


def uncharged_requests(
    pod: Pod, pod_set: PodSet, assignment: PodSetAssignment, options: ResourceOptions
) -> str:
    """Return what the pod requests beyond its charged part, such as ``cpu 8, charged 1``; empty if nothing.

    The author of a pod chooses the annotation with its role, so the pod may name the role of smaller pods.
    The author of a workload may give it pods of any size.  A pod that requests more than is charged stays
    gated.

    A pod that requests no more than the pod set's template may always start: another program may have
    reserved less.  An extended resource that is not charged at all may not exceed the template's.  Other
    resources that are not charged have no quota, or are defaults of the namespace.
    """
    requested = _counted(codec.decode(PodSpec, pod.written), options)
    count = assignment.count or 0
    usage = {name: base_units(name, amount) for name, amount in assignment.resource_usage.items()}
    charged = {name: 0 for name in requested if "/" in name}
    charged |= {name: amount // count if count else 0 for name, amount in usage.items()}
    exceeded = sorted(name for name in charged if requested.get(name, 0) > charged[name])
    if not exceeded:
        return ""
    template = _counted(codec.decode(PodTemplate, pod_set.template).spec, options)
    return "; ".join(
        f"{name} {as_quantity(name, requested[name])}, charged {as_quantity(name, charged[name])}"
        for name in exceeded
        if requested[name] > template.get(name, 0)
    )


def _counted(spec: PodResources, options: ResourceOptions) -> dict[str, int]:
    return quota_requests(pod_requests(spec), options)


def is_resized(workload: Workload, pod_set: PodSet, maximum_execution_s: int | None) -> bool:
    """Return True if a running pod differs from its ``workload`` only in amounts that a resize changes.

    A pod that was resized in place (KEP-1287) has other cpu and memory than its workload.  As in Kueue, a pod
    that differs from its workload is stopped, but a resize within what is charged is no such difference.
    """
    unsized = tuple(map(_unsized, workload.spec.pod_sets))
    spec = msgspec.structs.replace(workload.spec, pod_sets=unsized)
    other = msgspec.structs.replace(workload, spec=spec)
    return is_equivalent(other, (_unsized(pod_set),), maximum_execution_s, suspended=False)


def _unsized(pod_set: PodSet) -> PodSet:
    """Return the pod set without the amounts that can be resized, for comparison."""
    template = copy.deepcopy(read_template(pod_set.template))
    spec = template.get("spec") or {}
    for part in (spec, *(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        part["resources"] = _without_amounts(part.get("resources") or {})
    return msgspec.structs.replace(pod_set, template=msgspec.Raw(codec.encode(template)))


def _without_amounts(resources: dict[str, Any]) -> dict[str, Any]:
    kept = {
        field: {name: amount for name, amount in (value or {}).items() if name not in _RESIZABLE}
        if field in ("requests", "limits")
        else value
        for field, value in resources.items()
    }
    return {field: value for field, value in kept.items() if value}
