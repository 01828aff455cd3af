"""ray.io RayService: a Ray cluster that serves until somebody deletes it."""

from collections.abc import Iterable
from typing import Final

from quorate.api.findings import Finding
from quorate.api.paths import Path
from quorate.controllers.jobs import JobScope, Outcome
from quorate.controllers.jobs.foreign import ForeignJob, ForeignKind, Role, condition_message, foreign
from quorate.controllers.jobs.ray import GROUP, VERSION, cluster_findings, cluster_roles

_CLUSTER: Final[Path] = ("spec", "rayClusterConfig")


class RayService(ForeignKind):
    can_be_elastic = True

    def __init__(self) -> None:
        super().__init__(foreign(GROUP, VERSION, "rayservices", "RayService"), suspend=(*_CLUSTER, "suspend"))

    def findings(self, old: ForeignJob | None, new: ForeignJob, scope: JobScope) -> Iterable[Finding]:
        return cluster_findings(new, _CLUSTER, may_grow=False) if scope.queued else ()

    def roles(self, job: ForeignJob) -> tuple[Role, ...]:
        return cluster_roles(job, _CLUSTER)

    def is_active(self, job: ForeignJob) -> bool:
        return self.pods_ready(job)

    def finished(self, job: ForeignJob) -> Outcome | None:
        return None

    def pods_ready(self, job: ForeignJob) -> bool:
        return condition_message(job, "Ready") is not None
