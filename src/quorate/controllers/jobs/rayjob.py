"""ray.io RayJob: a Ray cluster, and the pod that submits the job to it."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from quorate.api.field_path import Path, look_up, read_field, write_field
from quorate.api.findings import Finding
from quorate.controllers.jobframework.interface import EndStatus, JobState, Outcome, ValidationScope
from quorate.controllers.jobs.ray import (
    GROUP,
    READY,
    VERSION,
    WithRayCluster,
    cluster_findings,
    cluster_pod_set_specs,
)
from quorate.controllers.jobs.unstructured import PodSetSpec, UnstructuredJob, unstructured_resource
from quorate.kube.resources import Json

_CLUSTER: Final[Path] = ("spec", "rayClusterSpec")
_SELECTOR: Final[Path] = ("spec", "clusterSelector")
_SUBMITTER: Final[Path] = ("spec", "submitterPodTemplate")

# KubeRay's defaults for the container that submits the job.
_SUBMITTER_NAME: Final = "ray-job-submitter"
_SUBMITTER_RESOURCES: Final[Json] = {
    "limits": {"cpu": "1", "memory": "1Gi"},
    "requests": {"cpu": "500m", "memory": "200Mi"},
}
_JOB_MODE: Final = "K8sJobMode"


class RayJob(WithRayCluster):
    cluster = _CLUSTER
    cluster_name = ("status", "rayClusterName")

    def __init__(self) -> None:
        super().__init__(unstructured_resource(GROUP, VERSION, "rayjobs", "RayJob"))

    def findings(
        self, old: UnstructuredJob | None, new: UnstructuredJob, scope: ValidationScope
    ) -> Iterable[Finding]:
        return _findings(new, may_grow=scope.elastic) if scope.queued else ()

    def is_skipped(self, job: UnstructuredJob) -> bool:
        """Skip a job that selects an existing cluster: its only pod is the submitter."""
        return bool(look_up(job.document, _SELECTOR))

    def is_on_hold(self, state: JobState[UnstructuredJob]) -> bool:
        return _deployment(state.job) == "ValidationFailed"

    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        match read_field(job.document, ("spec", "submissionMode"), str, _JOB_MODE):
            case "K8sJobMode":
                return (*cluster_pod_set_specs(job, _CLUSTER), _submitter(job))
            case "SidecarMode":
                sidecar = {"name": _SUBMITTER_NAME, "resources": _SUBMITTER_RESOURCES}
                return cluster_pod_set_specs(job, _CLUSTER, in_head=(sidecar,))
            case _:
                return cluster_pod_set_specs(job, _CLUSTER)

    def elastic_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        """Return the groups of the cluster; the submitter has one pod, without the label of the cluster."""
        return cluster_pod_set_specs(job, _CLUSTER)

    def is_active(self, job: UnstructuredJob) -> bool:
        return _deployment(job) not in ("", "Suspended")

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        if _deployment(job) not in ("Complete", "Failed"):
            return None
        status = read_field(job.document, ("status", "jobStatus"), str, "")
        return Outcome(status == "SUCCEEDED", read_field(job.document, ("status", "message"), str, ""))

    def end_status(self, job: UnstructuredJob, outcome: Outcome) -> EndStatus:
        deployment, status = ("Complete", "SUCCEEDED") if outcome.success else ("Failed", "FAILED")
        fields = {"jobDeploymentStatus": deployment, "jobStatus": status, "message": outcome.message}
        return EndStatus(fields=fields)

    def reports_ready(self, job: UnstructuredJob) -> bool:
        return read_field(job.document, ("status", "rayClusterStatus", "state"), str, "") == READY

    def clean_up_restored(self, job: UnstructuredJob, restored: Json) -> None:
        """Remove a submitter template that was added only for the injection."""
        if _without_empty(look_up(restored, _SUBMITTER)) == _default_submitter(job):
            write_field(restored, _SUBMITTER, None)


def _deployment(job: UnstructuredJob) -> str:
    return read_field(job.document, ("status", "jobDeploymentStatus"), str, "")


def _submitter(job: UnstructuredJob) -> PodSetSpec:
    return PodSetSpec(
        "submitter",
        _SUBMITTER,
        count=1,
        effective_template=look_up(job.document, _SUBMITTER) or _default_submitter(job),
    )


def _default_submitter(job: UnstructuredJob) -> Json:
    """Return KubeRay's default template with the image of the head."""
    head: Path = (*_CLUSTER, "headGroupSpec", "template", "spec", "containers", 0)
    container: dict[str, Any] = {"name": _SUBMITTER_NAME, "resources": _SUBMITTER_RESOURCES}
    if image := look_up(job.document, (*head, "image")):  # submitter and head need the same version
        container["image"] = image
    return {"spec": {"containers": [container], "restartPolicy": "Never"}}


def _without_empty(value: Any) -> Any:
    """Return ``value`` without empty mappings, which a restored template may have."""
    if not isinstance(value, dict):
        return value
    kept = {name: _without_empty(item) for name, item in value.items()}
    return {name: item for name, item in kept.items() if item not in ({}, None)}


def _findings(job: UnstructuredJob, *, may_grow: bool) -> Iterator[Finding]:
    spec = job.spec
    if spec.get("clusterSelector"):
        if spec.get("rayClusterSpec") is not None:
            rule = "a kueue managed job should not use an existing cluster"
            yield Finding("spec.clusterSelector", spec["clusterSelector"], rule)
        return
    if spec.get("rayClusterSpec") is None:
        rule = "rayClusterSpec is required for Kueue-managed jobs that don't use clusterSelector"
        yield Finding("spec.rayClusterSpec", None, rule)
        return
    if not spec.get("shutdownAfterJobFinishes"):
        rule = "a kueue managed job should delete the cluster after finishing"
        yield Finding("spec.shutdownAfterJobFinishes", False, rule)
    yield from cluster_findings(job, _CLUSTER, may_grow=may_grow)
