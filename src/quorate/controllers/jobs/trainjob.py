"""trainer.kubeflow.org TrainJob: the pods of the JobSet that its runtime makes of it.

What admission adds goes into a patch of the runtime that is ours within the job.  The trainer takes changes
of it only while the job is suspended, so it is written first, and the job starts by a second patch.
"""

import copy
from collections.abc import Sequence
from typing import Final

from quorate.api.field_path import Path, look_up, read_entries, read_field, write_field
from quorate.api.kueue import PodSet, ReclaimablePod
from quorate.api.meta import Key
from quorate.controllers.jobframework.interface import Outcome, Stop
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject
from quorate.controllers.jobs.training_runtime import (
    MANAGER,
    PATCHED_JOBS,
    PATCHES,
    pods_of_each,
    replicas_of,
    replicated_jobs,
    template_of_pods,
)
from quorate.controllers.jobs.unstructured import (
    Companion,
    Role,
    UnstructuredJob,
    UnstructuredJobKind,
    counts_by_name,
    outcome_of_conditions,
    raw,
    unstructured_resource,
)
from quorate.kube.resources import Json
from quorate.kube.writes import Patch

_GROUP: Final = "trainer.kubeflow.org"
_VERSION: Final = "v1alpha1"
_RUNTIME: Final = unstructured_resource(_GROUP, _VERSION, "trainingruntimes", "TrainingRuntime")
_CLUSTER_RUNTIME: Final = unstructured_resource(
    _GROUP, _VERSION, "clustertrainingruntimes", "ClusterTrainingRuntime", namespaced=False
)
_STATUSES: Final[Path] = ("status", "jobsStatus")


class TrainJob(UnstructuredJobKind):
    companions = (_RUNTIME, _CLUSTER_RUNTIME)

    def __init__(self) -> None:
        super().__init__(
            unstructured_resource(_GROUP, _VERSION, "trainjobs", "TrainJob"), suspend=("spec", "suspend")
        )

    def companion_of(self, job: UnstructuredJob) -> Companion | None:
        """The runtime; that of the whole cluster unless the job says otherwise."""
        reference = look_up(job.document, ("spec", "runtimeRef"))
        name, kind = look_up(reference, ("name",)), look_up(reference, ("kind",))
        if not isinstance(name, str):
            return None
        if kind == _RUNTIME.kind:
            return Companion(_RUNTIME, Key(job.metadata.namespace, name))
        return Companion(_CLUSTER_RUNTIME, Key("", name))

    def roles(self, job: UnstructuredJob) -> tuple[Role, ...]:
        return tuple(
            Role(
                read_field(each, ("name",), str),
                template=("spec", "runtimeRef"),
                count=replicas_of(each) * pods_of_each(each),
                pods=template_of_pods(each),
            )
            for each in replicated_jobs(job)
        )

    def is_active(self, job: UnstructuredJob) -> bool:
        return any(counts_by_name(job, _STATUSES, "active").values())

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        return outcome_of_conditions(job, "Complete", "Failed")

    def pods_ready(self, job: UnstructuredJob) -> bool:
        wanted = sum(replicas_of(each) for each in replicated_jobs(job))
        ready, succeeded = (counts_by_name(job, _STATUSES, field) for field in ("ready", "succeeded"))
        return sum(ready.values()) + sum(succeeded.values()) == wanted

    def reclaimable(self, job: UnstructuredJob) -> tuple[ReclaimablePod, ...]:
        succeeded = counts_by_name(job, _STATUSES, "succeeded")
        done = [
            (each["name"], succeeded[each["name"]] * pods_of_each(each))
            for each in replicated_jobs(job)
            if 0 < succeeded.get(each["name"], 0) <= replicas_of(each)
        ]
        return tuple(ReclaimablePod(name=name, count=count) for name, count in done)

    def start(
        self, job: UnstructuredJob, infos: Sequence[PodSetInfo]
    ) -> tuple[Patch, ...] | InjectionConflict:
        roles = self.roles(job)
        if len(infos) != len(roles):
            return InjectionConflict(
                f"the runtime of the TrainJob has {len(roles)} pod sets, its workload was admitted "
                f"with {len(infos)}"
            )
        added: list[Json] = []
        for role, info in zip(roles, infos, strict=True):
            assert role.pods is not None, f"{role.name} has no pods"
            injected = inject(raw(role.pods), info)
            if isinstance(injected, InjectionConflict):
                return injected
            added.append({"name": role.name, "template": {"spec": {"template": injected}}})
        return (*self._added(job, added), self._patch(job, {"spec": {"suspend": False}}))

    def stop(self, job: UnstructuredJob, originals: Sequence[PodSet] | None) -> Stop:
        """Suspended at once; what was added is taken away when the last job is gone, as the trainer asks."""
        suspended = self.is_suspended(job)
        begin = () if suspended else (self._patch(job, {"spec": {"suspend": True}}),)
        if self.is_active(job):
            return Stop(begin, begins=not suspended, waits=True)
        return Stop((*begin, *self._added(job, [])), begins=not suspended)

    def _added(self, job: UnstructuredJob, added: list[Json]) -> tuple[Patch, ...]:
        """The patch that makes ``added`` all that admission adds; none when it is.

        Our entry is there from the beginning, also with nothing in it, for others to see who manages the job.
        """
        patches = copy.deepcopy(read_entries(job.document, PATCHES))
        ours = next((each for each in patches if each.get("manager") == MANAGER), None)
        if ours is None:
            ours = {"manager": MANAGER}
            patches.append(ours)
        elif (look_up(ours, PATCHED_JOBS) or []) == added:
            return ()
        if added:
            write_field(ours, PATCHED_JOBS, added)
        elif look_up(ours, PATCHED_JOBS) is not None:
            del look_up(ours, PATCHED_JOBS[:-1])[PATCHED_JOBS[-1]]
        return (self._patch(job, {"spec": {PATCHES[-1]: patches}}),)

    def _patch(self, job: UnstructuredJob, body: Json) -> Patch:
        return Patch(self.resource, job.metadata.key, job.metadata.resource_version, body)
