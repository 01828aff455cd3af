"""ray.io RayCluster: it runs until somebody deletes it."""

from collections.abc import Iterable
from typing import Final

from quorate.api.findings import Finding
from quorate.api.paths import Path, read
from quorate.controllers.jobs import JobScope, Outcome
from quorate.controllers.jobs.foreign import ForeignJob, ForeignKind, Role, foreign
from quorate.controllers.jobs.ray import GROUP, READY, VERSION, cluster_findings, cluster_roles

_CLUSTER: Final[Path] = ("spec",)


class RayCluster(ForeignKind):
    can_be_elastic = True
    has_slices = True

    def __init__(self) -> None:
        super().__init__(foreign(GROUP, VERSION, "rayclusters", "RayCluster"), suspend=("spec", "suspend"))

    def findings(self, old: ForeignJob | None, new: ForeignJob, scope: JobScope) -> Iterable[Finding]:
        return cluster_findings(new, _CLUSTER, may_grow=scope.elastic) if scope.queued else ()

    def roles(self, job: ForeignJob) -> tuple[Role, ...]:
        return cluster_roles(job, _CLUSTER)

    def is_active(self, job: ForeignJob) -> bool:
        return self.pods_ready(job)

    def pods_label(self, job: ForeignJob) -> tuple[str, str] | None:
        """Its autoscaler asks for pods by changing the spec, and the status says nothing of those held."""
        return ("ray.io/cluster", job.metadata.name)

    def finished(self, job: ForeignJob) -> Outcome | None:
        return None

    def pods_ready(self, job: ForeignJob) -> bool:
        return read(job.document, ("status", "state"), str, "") == READY
