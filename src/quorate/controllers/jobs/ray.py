"""The Ray cluster within every kind of KubeRay's: what pods it has, and what KubeRay adds to them.

What KubeRay adds counts, or a cluster would use more than it was admitted with: the autoscaler's container,
and for a cluster that keeps its state in Redis the job that cleans up there once the head is gone.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from quorate.api.field_path import (
    InvalidTemplate,
    Path,
    format_path,
    look_up,
    read_count,
    read_entries,
    read_field,
)
from quorate.api.findings import Finding
from quorate.api.quantity import parse_quantity
from quorate.controllers.jobs.unstructured import Role, UnstructuredJob
from quorate.kube.resources import Json

GROUP: Final = "ray.io"
VERSION: Final = "v1"
HEAD: Final = "head"
READY: Final = "ready"  # the state of a cluster all of whose pods are ready
MOST_POD_SETS: Final = 18  # of a Workload

_AUTOSCALER: Final[Json] = {"requests": {"cpu": "500m", "memory": "512Mi"}}
_REDIS_CLEANUP: Final[Json] = {"cpu": "200m", "memory": "256Mi"}
_KEEPS_STATE_IN_REDIS: Final = "ray.io/ft-enabled"


def cluster_roles(job: UnstructuredJob, cluster: Path, in_head: tuple[Json, ...] = ()) -> tuple[Role, ...]:
    """The head and one role for each group of workers; ``in_head`` are containers the head gets on top."""
    return (_head(job, cluster, in_head), *(_workers(job, group) for group in _groups(job, cluster)))


def _groups(job: UnstructuredJob, cluster: Path) -> list[Path]:
    groups: Path = (*cluster, "workerGroupSpecs")
    return [(*groups, index) for index in range(len(read_entries(job.document, groups)))]


def _workers(job: UnstructuredJob, group: Path) -> Role:
    replicas = read_count(job.document, (*group, "replicas"), 1)
    hosts = max(read_count(job.document, (*group, "numOfHosts"), 1), 1)
    name = read_field(job.document, (*group, "groupName"), str)
    return Role(name.lower(), template=(*group, "template"), count=replicas * hosts)


def _head(job: UnstructuredJob, cluster: Path, containers: tuple[Json, ...]) -> Role:
    place: Path = (*cluster, "headGroupSpec", "template")
    template = copy.deepcopy(read_field(job.document, place, dict))
    if not read_entries(template, ("spec", "containers")):
        raise InvalidTemplate((*place, "spec", "containers"), "has no container for Ray")
    if _cleans_up_redis(job, cluster):
        ray = template["spec"]["containers"][0].setdefault("resources", {})
        ray["requests"] = _larger(ray.get("requests") or {}, _REDIS_CLEANUP)
    template["spec"]["containers"] += containers
    if read_field(job.document, (*cluster, "enableInTreeAutoscaling"), bool, False):
        asked = look_up(job.document, (*cluster, "autoscalerOptions", "resources")) or _AUTOSCALER
        template["spec"]["containers"].append({"name": "autoscaler", "resources": asked})
    return Role(HEAD, place, count=1, pods=template)


def _cleans_up_redis(job: UnstructuredJob, cluster: Path) -> bool:
    annotation = job.metadata.annotations.get(_KEEPS_STATE_IN_REDIS, "")
    return (
        annotation.lower() == "true"
        or look_up(job.document, (*cluster, "gcsFaultToleranceOptions")) is not None
    )


def _larger(requests: Mapping[str, Any], least: Mapping[str, str]) -> Json:
    """The job that cleans up runs when the head is gone: it takes the head's place."""
    larger = dict(requests)
    for resource, amount in least.items():
        if resource not in larger or parse_quantity(larger[resource]) < parse_quantity(amount):
            larger[resource] = amount
    return larger


def cluster_findings(job: UnstructuredJob, cluster: Path, *, may_grow: bool) -> Iterator[Finding]:
    """What is wrong with a cluster that is queued.  ``may_grow``: a new size is seen, and waits for quota."""
    autoscaling: Path = (*cluster, "enableInTreeAutoscaling")
    if read_field(job.document, autoscaling, bool, False) and not may_grow:
        rule = "a kueue managed job should only use autoscaling when workload slicing is enabled"
        yield Finding(format_path(autoscaling), True, rule)
    groups: Path = (*cluster, "workerGroupSpecs")
    entries = read_entries(job.document, groups)
    if len(entries) >= MOST_POD_SETS:
        rule = f"make {len(entries) + 1} pod sets with the head, more than the {MOST_POD_SETS} of a workload"
        yield Finding(format_path(groups), len(entries), rule)
    for index, entry in enumerate(entries):
        if entry.get("groupName") == HEAD:
            rule = "is reserved for the head group"
            yield Finding(format_path((*groups, index, "groupName")), HEAD, rule)
