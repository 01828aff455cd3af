"""ray.io RayCluster and RayService, and the Ray cluster that all kinds of KubeRay contain.

The containers that KubeRay adds are counted, because otherwise a cluster would use more than its quota: the
autoscaler, the collector of the history server, the container in which a worker waits for the head if it
requests more than the worker, and, for a cluster with its state in Redis, the cleanup job that runs after the
head is deleted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from quorate.api.field_path import (
    InvalidTemplate,
    Path,
    format_path,
    look_up,
    read_count,
    read_entries,
    read_field,
    with_field,
)
from quorate.api.findings import Finding
from quorate.api.meta import Key
from quorate.api.names.kueue import ELASTIC_JOB
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.api.quantity import parse_quantity
from quorate.api.syntax import INT32_MAX
from quorate.controllers.jobframework.interface import JobState, ManagedBy, ValidationScope
from quorate.controllers.jobs.unstructured import (
    CONDITIONS,
    PodSetSpec,
    ReferencedObject,
    UnstructuredJob,
    UnstructuredJobKind,
    condition_message,
    unstructured_resource,
    with_waiting_container,
)
from quorate.controllers.limits import MAX_POD_SETS
from quorate.kube.resources import Json

GROUP: Final = "ray.io"
VERSION: Final = "v1"
HEAD: Final = "head"
READY: Final = "ready"  # the state of a cluster when all its pods are ready

_CLUSTER_SPEC: Final[Path] = ("spec",)
_SERVICE_CLUSTER: Final[Path] = ("spec", "rayClusterConfig")
_AUTOSCALING: Final[Path] = ("spec", "enableInTreeAutoscaling")
_UPGRADE_STRATEGY: Final[Path] = ("spec", "upgradeStrategy", "type")
_AUTOSCALER: Final[Json] = {"requests": {"cpu": "500m", "memory": "512Mi"}}
_COLLECTOR: Final[Json] = {"requests": {"cpu": "50m", "memory": "64Mi"}}
_WAIT_FOR_HEAD: Final[Json] = {"cpu": "200m", "memory": "256Mi"}
_REDIS_CLEANUP: Final[Json] = {"cpu": "200m", "memory": "256Mi"}
_FAULT_TOLERANCE: Final = "ray.io/ft-enabled"
_PODS_LABEL: Final = "ray.io/cluster"
MANAGED_BY: Final = ManagedBy(("spec", "managedBy"), f"{GROUP}/kuberay-operator")
RAY_CLUSTERS: Final = unstructured_resource(GROUP, VERSION, "rayclusters", "RayCluster")


def cluster_pod_set_specs(
    job: UnstructuredJob, cluster: Path, in_head: tuple[Json, ...] = ()
) -> tuple[PodSetSpec, ...]:
    """Return one for the head and each worker group; ``in_head``: more head containers."""
    workers = [_workers(job, cluster, group) for group in _groups(job.document, cluster)]
    return (_head(job, cluster, in_head), *_autoscaled(job, cluster, workers))


def _groups(document: Json, cluster: Path) -> list[Path]:
    groups: Path = (*cluster, "workerGroupSpecs")
    return [(*groups, index) for index in range(len(read_entries(document, groups)))]


def _workers(job: UnstructuredJob, cluster: Path, group: Path) -> PodSetSpec:
    name, count = _group_size(job.document, group)
    path: Path = (*group, "template")
    template = read_field(job.document, path, dict)
    containers = read_entries(template, ("spec", "containers"))
    effective = with_field(template, ("spec", "containers"), containers + _collectors(job, cluster))
    effective = with_waiting_container(effective, path, "wait-gcs-ready", _WAIT_FOR_HEAD)
    return PodSetSpec(name, path, count, effective_template=effective)


def _collectors(job: UnstructuredJob, cluster: Path) -> list[Json]:
    options = look_up(job.document, (*cluster, "historyServerOptions", "collectorOptions"))
    if options is None:
        return []
    resources = look_up(options, ("resources",))
    return [{"name": "collector", "resources": _COLLECTOR if resources is None else resources}]


def _group_size(document: Json, group: Path) -> tuple[str, int]:
    """Return the name of a worker group and its number of pods; the bounds apply without autoscaling, too."""
    least = read_count(document, (*group, "minReplicas"), 0)
    most = read_count(document, (*group, "maxReplicas"), INT32_MAX)
    replicas = max(min(read_count(document, (*group, "replicas"), 1), most), least)
    if look_up(document, (*group, "suspend")) is True:
        replicas = 0
    hosts = max(read_count(document, (*group, "numOfHosts"), 1), 1)
    return read_field(document, (*group, "groupName"), str).lower(), replicas * hosts


def _autoscaled(job: UnstructuredJob, cluster: Path, workers: Sequence[PodSetSpec]) -> Iterator[PodSetSpec]:
    """Return the groups with the sizes in the RayCluster of the job, which the autoscaler changes."""
    child: Json = {"spec": job.referenced_spec or {}}
    sizes = dict(
        _group_size(child, group)
        for group in _groups(child, _CLUSTER_SPEC)
        if look_up(child, (*group, "replicas")) is not None
    )
    for name in sizes.keys() - {worker.name for worker in workers}:
        raise InvalidTemplate((*cluster, "workerGroupSpecs"), f"lacks group {name!r} of the RayCluster")
    return (replace(worker, count=sizes.get(worker.name, worker.count)) for worker in workers)


def _head(job: UnstructuredJob, cluster: Path, containers: tuple[Json, ...]) -> PodSetSpec:
    path: Path = (*cluster, "headGroupSpec", "template")
    template = read_field(job.document, path, dict)
    own = read_entries(template, ("spec", "containers"))
    if not own:
        raise InvalidTemplate((*path, "spec", "containers"), "has no container for Ray")
    if _cleans_up_redis(job, cluster):
        requests: Path = ("resources", "requests")
        own[0] = with_field(own[0], requests, _maximum(look_up(own[0], requests) or {}))
    own += [*containers, *_collectors(job, cluster)]
    if read_field(job.document, (*cluster, "enableInTreeAutoscaling"), bool, False):
        resources = look_up(job.document, (*cluster, "autoscalerOptions", "resources"))
        own.append({"name": "autoscaler", "resources": _AUTOSCALER if resources is None else resources})
    effective = with_field(template, ("spec", "containers"), own)
    return PodSetSpec(HEAD, path, count=1, effective_template=effective)


def _cleans_up_redis(job: UnstructuredJob, cluster: Path) -> bool:
    annotation = job.metadata.annotations.get(_FAULT_TOLERANCE, "")
    return (
        annotation.lower() == "true"
        or look_up(job.document, (*cluster, "gcsFaultToleranceOptions")) is not None
    )


def _maximum(requests: Mapping[str, Any]) -> Json:
    """Return the maximum: the cleanup job runs after the head, with the head's quota."""
    larger = dict(requests)
    for resource, amount in _REDIS_CLEANUP.items():
        if resource not in larger or parse_quantity(larger[resource]) < parse_quantity(amount):
            larger[resource] = amount
    return larger


def cluster_findings(job: UnstructuredJob, cluster: Path, *, may_grow: bool) -> Iterator[Finding]:
    """Validate a queued cluster; ``may_grow``: the cluster can wait for quota when it grows."""
    autoscaling: Path = (*cluster, "enableInTreeAutoscaling")
    if read_field(job.document, autoscaling, bool, False) and not may_grow:
        rule = "a kueue managed job should only use autoscaling when workload slicing is enabled"
        yield Finding(format_path(autoscaling), True, rule)
    groups: Path = (*cluster, "workerGroupSpecs")
    entries = read_entries(job.document, groups)
    if len(entries) >= MAX_POD_SETS:
        rule = f"make {len(entries) + 1} pod sets with the head, more than the {MAX_POD_SETS} of a workload"
        yield Finding(format_path(groups), len(entries), rule)
    for index, entry in enumerate(entries):
        if entry.get("groupName") == HEAD:
            rule = "is reserved for the head group"
            yield Finding(format_path((*groups, index, "groupName")), HEAD, rule)


class RayCluster(UnstructuredJobKind):
    """A Ray cluster, which runs until a user deletes it."""

    managed_by = MANAGED_BY
    supports_elastic = True
    has_slices = True

    def __init__(self) -> None:
        super().__init__(RAY_CLUSTERS)

    def findings(
        self, old: UnstructuredJob | None, new: UnstructuredJob, scope: ValidationScope
    ) -> Iterable[Finding]:
        if not scope.queued:
            return
        yield from cluster_findings(new, _CLUSTER_SPEC, may_grow=scope.elastic)
        autoscaled = look_up(new.document, _AUTOSCALING)
        if scope.elastic and autoscaled is True and self.manager_of(new) == MULTIKUEUE:
            rule = "in-tree autoscaling is not supported for a MultiKueue-managed elastic RayCluster"
            yield Finding(format_path(_AUTOSCALING), autoscaled, rule)

    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        return cluster_pod_set_specs(job, _CLUSTER_SPEC)

    def pods_label(self, job: UnstructuredJob) -> tuple[str, str] | None:
        """Return the label of all pods; the status does not report gated pods of the autoscaler."""
        return (_PODS_LABEL, job.metadata.name)

    def reports_ready(self, job: UnstructuredJob) -> bool:
        return read_field(job.document, ("status", "state"), str, "") == READY


class WithRayCluster(UnstructuredJobKind):
    """A kind of which each job has a RayCluster that KubeRay makes."""

    managed_by = MANAGED_BY
    supports_elastic = True
    has_slices = True
    referenced_kinds = (RAY_CLUSTERS,)
    cluster: Path  # the field with the spec of the RayCluster
    cluster_name: Path  # the field with its name

    def referenced_object(self, job: UnstructuredJob) -> ReferencedObject | None:
        """Return the RayCluster of an elastic job with an autoscaler; None for other jobs."""
        scales = look_up(job.document, (*self.cluster, "enableInTreeAutoscaling")) is True
        cluster = look_up(job.document, self.cluster_name)
        if job.metadata.annotations.get(ELASTIC_JOB) != "true" or not scales or not isinstance(cluster, str):
            return None
        return ReferencedObject(RAY_CLUSTERS, Key(job.metadata.namespace, cluster)) if cluster else None

    def pods_label(self, job: UnstructuredJob) -> tuple[str, str] | None:
        return (_PODS_LABEL, read_field(job.document, self.cluster_name, str, ""))

    def size_version(self, job: UnstructuredJob) -> str:
        """Return the generations of a job and its RayCluster, whichever has the sizes; as in Kueue."""
        own = str(job.metadata.generation)
        return f"{own}_{job.referenced_generation}" if job.referenced_generation else own


class RayService(WithRayCluster):
    """A Ray cluster that serves until a user deletes it."""

    cluster = _SERVICE_CLUSTER
    cluster_name = ("status", "activeServiceStatus", "rayClusterName")

    def __init__(self) -> None:
        resource = unstructured_resource(GROUP, VERSION, "rayservices", "RayService")
        super().__init__(resource, suspend=(*_SERVICE_CLUSTER, "suspend"))

    def findings(
        self, old: UnstructuredJob | None, new: UnstructuredJob, scope: ValidationScope
    ) -> Iterable[Finding]:
        if not scope.queued:
            return
        yield from cluster_findings(new, _SERVICE_CLUSTER, may_grow=scope.elastic)
        strategy = read_field(new.document, _UPGRADE_STRATEGY, str, "")
        runs_here = self.manager_of(new) != MULTIKUEUE
        if runs_here and scope.upgrade_strategy and not scope.elastic and strategy != "None":
            rule = (
                "would start a second cluster, for which there is no quota (write None, or make the service "
                f'elastic by the annotation {ELASTIC_JOB}: "true")'
            )
            yield Finding(format_path(_UPGRADE_STRATEGY), strategy, rule)

    def is_on_hold(self, state: JobState[UnstructuredJob]) -> bool:
        """Return True if KubeRay refuses the service as it is: no pod is made until it changes."""
        conditions = read_entries(state.job.document, CONDITIONS)
        return ("Ready", "ValidationFailed") in (
            (entry.get("type"), entry.get("reason")) for entry in conditions
        )

    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        return cluster_pod_set_specs(job, _SERVICE_CLUSTER)

    def reports_ready(self, job: UnstructuredJob) -> bool:
        return condition_message(job, "Ready") is not None
