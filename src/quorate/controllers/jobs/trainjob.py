"""trainer.kubeflow.org TrainJob: the pods of the JobSet that its runtime makes.

What admission adds is written into a runtime patch of ours within the job.  The trainer accepts changes of
it only while the job is suspended, so it is written first, and a second patch starts the job.
"""

import copy
from collections.abc import Sequence
from typing import Final

from quorate.api.field_path import Path, look_up, read_entries, read_field, write_field
from quorate.api.kueue import PodSet
from quorate.api.meta import Key
from quorate.controllers.jobframework.interface import Outcome, Stop
from quorate.controllers.jobframework.pod_counts import PodCounts
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject
from quorate.controllers.jobframework.topology import TopologySource
from quorate.controllers.jobs.jobset import replicated_job_counts, replicated_job_index
from quorate.controllers.jobs.training_runtime import (
    MANAGER,
    PATCHED_JOBS,
    PATCHES,
    pod_template_of,
    pods_per_replica,
    replicas_of,
    replicated_jobs,
)
from quorate.controllers.jobs.unstructured import (
    PodSetSpec,
    ReferencedObject,
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
    referenced_kinds = (_RUNTIME, _CLUSTER_RUNTIME)

    def __init__(self) -> None:
        super().__init__(
            unstructured_resource(_GROUP, _VERSION, "trainjobs", "TrainJob"), suspend=("spec", "suspend")
        )

    def referenced_object(self, job: UnstructuredJob) -> ReferencedObject | None:
        """Return the runtime; by default a ClusterTrainingRuntime."""
        reference = look_up(job.document, ("spec", "runtimeRef"))
        name, kind = look_up(reference, ("name",)), look_up(reference, ("kind",))
        if not isinstance(name, str):
            return None
        if kind == _RUNTIME.kind:
            return ReferencedObject(_RUNTIME, Key(job.metadata.namespace, name))
        return ReferencedObject(_CLUSTER_RUNTIME, Key("", name))

    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        return tuple(
            PodSetSpec(
                read_field(each, ("name",), str),
                template=("spec", "runtimeRef"),
                count=replicas_of(each) * pods_per_replica(each),
                effective_template=pod_template_of(each),
                index=replicated_job_index(replicas_of(each)),
            )
            for each in replicated_jobs(job)
        )

    def topology_sources(self, job: UnstructuredJob) -> tuple[TopologySource, ...]:
        """Return the paths in the JobSet, as in Kueue: annotations of the runtime or of runtime patches."""
        return tuple(
            TopologySource(f"job[{spec.name}].annotations", spec.index) for spec in self.pod_set_specs(job)
        )

    def is_active(self, job: UnstructuredJob) -> bool:
        return any(counts_by_name(job, _STATUSES, "active").values())

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        return outcome_of_conditions(job, "Complete", "Failed")

    def pod_counts(self, job: UnstructuredJob) -> PodCounts:
        return replicated_job_counts(
            job,
            _STATUSES,
            ((each["name"], replicas_of(each), pods_per_replica(each)) for each in replicated_jobs(job)),
        )

    def start(
        self, job: UnstructuredJob, infos: Sequence[PodSetInfo]
    ) -> tuple[Patch, ...] | InjectionConflict:
        specs = self.pod_set_specs(job)
        if len(infos) != len(specs):
            return InjectionConflict(
                f"the runtime of the TrainJob has {len(specs)} pod sets, its workload was admitted "
                f"with {len(infos)}"
            )
        added: list[Json] = []
        for spec, info in zip(specs, infos, strict=True):
            assert spec.effective_template is not None, f"{spec.name} has no template"
            injected = inject(raw(spec.effective_template), info)
            if isinstance(injected, InjectionConflict):
                return injected
            added.append({"name": spec.name, "template": {"spec": {"template": injected}}})
        return (*self._set_runtime_patch(job, added), self._patch(job, {"spec": {"suspend": False}}))

    def stop(self, job: UnstructuredJob, originals: Sequence[PodSet] | None) -> Stop:
        """Suspend at once; the trainer accepts the restoration only when the last child job is gone.

        A job that never started has nothing to restore.  Any change of the runtime patches lets the trainer
        write numbers of the job in another form, which it then refuses as a change of an immutable field.
        """
        suspended = self.is_suspended(job)
        begin = () if suspended else (self._patch(job, {"spec": {"suspend": True}}),)
        if self.is_active(job):
            return Stop(begin, begins=not suspended, waits_for_pods=True)
        patched = any(each.get("manager") == MANAGER for each in read_entries(job.document, PATCHES))
        restoring = self._set_runtime_patch(job, []) if patched or originals is None else ()
        return Stop((*begin, *restoring), begins=not suspended)

    def _set_runtime_patch(self, job: UnstructuredJob, added: list[Json]) -> tuple[Patch, ...]:
        """Return the patch that replaces our runtime patch with ``added``; none if it is equal.

        Our entry exists from the beginning, even if empty: it shows which controller manages the job.
        """
        patches = list(read_entries(job.document, PATCHES))
        at = next((at for at, each in enumerate(patches) if each.get("manager") == MANAGER), None)
        if at is None:
            ours: Json = {"manager": MANAGER}
            patches.append(ours)
        elif (look_up(patches[at], PATCHED_JOBS) or []) == added:
            return ()
        else:
            ours = patches[at] = copy.deepcopy(patches[at])  # those of other managers stay as they are
        if added:
            write_field(ours, PATCHED_JOBS, added)
        elif look_up(ours, PATCHED_JOBS) is not None:
            del look_up(ours, PATCHED_JOBS[:-1])[PATCHED_JOBS[-1]]
        return (self._patch(job, {"spec": {PATCHES[-1]: patches}}),)

    def _patch(self, job: UnstructuredJob, body: Json) -> Patch:
        return Patch(self.resource, job.metadata.key, job.metadata.resource_version, body)
