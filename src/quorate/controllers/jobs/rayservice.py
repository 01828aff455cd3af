"""ray.io RayService: a Ray cluster that serves until somebody deletes it."""

from collections.abc import Iterable
from typing import Final

from quorate.api.field_path import Path
from quorate.api.findings import Finding
from quorate.controllers.jobframework.interface import Outcome, ValidationScope
from quorate.controllers.jobs.ray import GROUP, VERSION, cluster_findings, cluster_roles
from quorate.controllers.jobs.unstructured import (
    Role,
    UnstructuredJob,
    UnstructuredJobKind,
    condition_message,
    unstructured_resource,
)

_CLUSTER: Final[Path] = ("spec", "rayClusterConfig")


class RayService(UnstructuredJobKind):
    supports_elastic = True

    def __init__(self) -> None:
        super().__init__(
            unstructured_resource(GROUP, VERSION, "rayservices", "RayService"), suspend=(*_CLUSTER, "suspend")
        )

    def findings(
        self, old: UnstructuredJob | None, new: UnstructuredJob, scope: ValidationScope
    ) -> Iterable[Finding]:
        return cluster_findings(new, _CLUSTER, may_grow=False) if scope.queued else ()

    def roles(self, job: UnstructuredJob) -> tuple[Role, ...]:
        return cluster_roles(job, _CLUSTER)

    def is_active(self, job: UnstructuredJob) -> bool:
        return self.pods_ready(job)

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        return None

    def pods_ready(self, job: UnstructuredJob) -> bool:
        return condition_message(job, "Ready") is not None
