"""ray.io RayCluster: it runs until somebody deletes it."""

from collections.abc import Iterable
from typing import Final

from quorate.api.field_path import Path, read_field
from quorate.api.findings import Finding
from quorate.controllers.jobframework.interface import Outcome, ValidationScope
from quorate.controllers.jobs.ray import GROUP, READY, VERSION, cluster_findings, cluster_roles
from quorate.controllers.jobs.unstructured import (
    Role,
    UnstructuredJob,
    UnstructuredJobKind,
    unstructured_resource,
)

_CLUSTER: Final[Path] = ("spec",)


class RayCluster(UnstructuredJobKind):
    supports_elastic = True
    has_slices = True

    def __init__(self) -> None:
        super().__init__(
            unstructured_resource(GROUP, VERSION, "rayclusters", "RayCluster"), suspend=("spec", "suspend")
        )

    def findings(
        self, old: UnstructuredJob | None, new: UnstructuredJob, scope: ValidationScope
    ) -> Iterable[Finding]:
        return cluster_findings(new, _CLUSTER, may_grow=scope.elastic) if scope.queued else ()

    def roles(self, job: UnstructuredJob) -> tuple[Role, ...]:
        return cluster_roles(job, _CLUSTER)

    def is_active(self, job: UnstructuredJob) -> bool:
        return self.pods_ready(job)

    def pods_label(self, job: UnstructuredJob) -> tuple[str, str] | None:
        """Its autoscaler asks for pods by changing the spec, and the status says nothing of those held."""
        return ("ray.io/cluster", job.metadata.name)

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        return None

    def pods_ready(self, job: UnstructuredJob) -> bool:
        return read_field(job.document, ("status", "state"), str, "") == READY
