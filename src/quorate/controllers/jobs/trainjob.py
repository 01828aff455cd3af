"""trainer.kubeflow.org TrainJob: the pods of the JobSet that its runtime makes.

What admission adds is written into a runtime patch of ours within the job.  The trainer accepts changes of
it only while the job is suspended, so it is written first, and a second patch starts the job.

The trainer's webhook (``TrainJobDefaulter`` since v2.3) sets the time of each runtime patch without one, and
of each that has changed.  When the webhook sets a time, it also writes all quantities of the job as text,
and the API server refuses the update of ``cpu: 1`` to ``cpu: "1"`` as a change of an immutable field.  So our
runtime patch is never changed: it is removed and added again, with its time.
"""

import copy
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from quorate.api.decoding.documents import InvalidYaml, read_documents
from quorate.api.field_path import Path, look_up, read_entries, read_field, write_field
from quorate.api.interning import ContentCache
from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import Key, ObjectMeta, Uid, at_epoch
from quorate.controllers.jobframework.interface import JobState, ManagedBy, Stop
from quorate.controllers.jobframework.job_plan import JobPlan
from quorate.controllers.jobframework.pod_counts import PodCounts
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject
from quorate.controllers.jobframework.topology import TopologySource
from quorate.controllers.jobs.jobset import read_replicated_job, replicated_job_counts
from quorate.controllers.jobs.training_runtime import MANAGER, PATCHED_JOBS, PATCHES, replicated_jobs
from quorate.controllers.jobs.unstructured import (
    PodSetSpec,
    ReferencedObject,
    UnstructuredJob,
    UnstructuredJobKind,
    counts_by_name,
    raw,
    unstructured_resource,
)
from quorate.kube.client import Client
from quorate.kube.resources import CONFIG_MAPS, Json
from quorate.kube.writes import Patch, Write
from quorate.queueing.conditions import is_evicted

_GROUP: Final = "trainer.kubeflow.org"
_VERSION: Final = "v1alpha1"
_RUNTIME: Final = unstructured_resource(_GROUP, _VERSION, "trainingruntimes", "TrainingRuntime")
_CLUSTER_RUNTIME: Final = unstructured_resource(
    _GROUP, _VERSION, "clustertrainingruntimes", "ClusterTrainingRuntime", namespaced=False
)
_STATUSES: Final[Path] = ("status", "jobsStatus")

_SUFFIX: Final = "-runtime-snapshot"  # of the name of the job
_STORED_RUNTIME: Final = "runtime"
_MOST_JOBS: Final = 10_000  # with a remembered answer; equal snapshots take memory once

_Versions = tuple[str, tuple[Uid, int] | None]  # of a job, and of its runtime


class TrainJob(UnstructuredJobKind):
    success_condition = "Complete"
    managed_by = ManagedBy(("spec", "managedBy"), f"{_GROUP}/trainjob-controller")
    referenced_kinds = (_RUNTIME, _CLUSTER_RUNTIME)
    stores_referenced_object = True

    def __init__(self) -> None:
        super().__init__(unstructured_resource(_GROUP, _VERSION, "trainjobs", "TrainJob"))

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
            read_replicated_job(replicated_job, ()).pod_set(
                ("spec", "runtimeRef"), read_field(replicated_job, ("template", "spec", "template"), dict)
            )
            for replicated_job in replicated_jobs(job)
        )

    def topology_sources(self, job: UnstructuredJob) -> tuple[TopologySource, ...]:
        """Return the paths in the JobSet, as in Kueue: annotations of the runtime or of runtime patches."""
        return tuple(
            TopologySource(f"job[{spec.name}].annotations", spec.index) for spec in self.pod_set_specs(job)
        )

    def may_run_with(self, state: JobState[UnstructuredJob], workload: Workload) -> bool:
        """Return True until the job has stopped: it has the pods of its runtime at the start."""
        is_limited_as_before = workload.spec.maximum_execution_time_seconds == state.maximum_execution_s
        return is_limited_as_before and (not state.suspended or is_evicted(workload))

    def is_active(self, job: UnstructuredJob) -> bool:
        return any(counts_by_name(job, _STATUSES, "active").values())

    def pod_counts(self, job: UnstructuredJob) -> PodCounts:
        read = [read_replicated_job(replicated_job, ()) for replicated_job in replicated_jobs(job)]
        return replicated_job_counts(job, _STATUSES, read)

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

        A job that never started has nothing to restore.
        """
        suspended = self.is_suspended(job)
        begin = () if suspended else (self._patch(job, {"spec": {"suspend": True}}),)
        if self.is_active(job):
            return Stop(begin, begins=not suspended, waits_for_pods=True)
        patched = any(entry.get("manager") == MANAGER for entry in read_entries(job.document, PATCHES))
        restoring = self._set_runtime_patch(job, []) if patched or originals is None else ()
        return Stop((*begin, *restoring), begins=not suspended)

    def start_plan(
        self, state: JobState[UnstructuredJob], workload: Workload, infos: Sequence[PodSetInfo]
    ) -> JobPlan | InjectionConflict:
        plan = super().start_plan(state, workload, infos)
        return plan if isinstance(plan, InjectionConflict) else _timed(plan, state.now)

    def stop_plan(
        self, state: JobState[UnstructuredJob], workload: Workload | None, reason: str, message: str
    ) -> JobPlan:
        return _timed(super().stop_plan(state, workload, reason, message), state.now)

    def _set_runtime_patch(self, job: UnstructuredJob, added: list[Json]) -> tuple[Patch, ...]:
        """Return the patches that replace our runtime patch by one with ``added``; none if it is equal.

        Our entry exists from the beginning, even if empty: it shows which controller manages the job.
        """
        patches = read_entries(job.document, PATCHES)
        others = [patch for patch in patches if patch.get("manager") != MANAGER]
        ours = next((patch for patch in patches if patch.get("manager") == MANAGER), None)
        entry: Json = {"manager": MANAGER} if ours is None else copy.deepcopy(ours)
        if ours is not None and (look_up(ours, PATCHED_JOBS) or []) == added:
            return ()
        if added:
            write_field(entry, PATCHED_JOBS, added)
        elif look_up(entry, PATCHED_JOBS) is not None:
            del look_up(entry, PATCHED_JOBS[:-1])[PATCHED_JOBS[-1]]
        lists = ([*others, entry],) if ours is None else (others, [*others, entry])
        return tuple(self._patch(job, {"spec": {PATCHES[-1]: merged}}) for merged in lists)

    def _patch(self, job: UnstructuredJob, body: Json) -> Patch:
        return Patch(self.resource, job.metadata.key, job.metadata.resource_version, body)


def _timed(plan: JobPlan, now: float) -> JobPlan:
    """Return the plan with the time of each runtime patch of ours that it writes."""
    return replace(plan, writes=tuple(_with_time(write, at_epoch(now)) for write in plan.writes))


def _with_time(write: Write, now: datetime) -> Write:
    assert isinstance(write, Patch), "jobs are patched"
    entries = look_up(write.body, PATCHES)
    if entries is None:
        return write
    timed = [{**entry, "time": now} if entry.get("manager") == MANAGER else entry for entry in entries]
    return replace(write, body={"spec": {PATCHES[-1]: timed}})


class RuntimeSnapshots:
    """Reads the snapshots, each once: a snapshot never changes.

    A job without a snapshot is looked up again when the job or its runtime has changed: the trainer changes
    the status of a job after it has stored the snapshot, and a snapshot of an unchanged runtime equals it.

    The trainer (since 2.3) writes the runtime of a job into a ConfigMap when it first sees the job, and makes
    all pods of that: a later change or deletion of the runtime concerns new jobs only.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._answers: dict[Uid, tuple[_Versions, Json | None]] = {}
        self._equal: ContentCache[Json] = ContentCache(entries=64, size_bytes=2**22)

    async def of(self, job: UnstructuredJob, runtime: UnstructuredJob | None) -> Json | None:
        """Return the spec of the stored runtime of ``job``; None if there is no snapshot that can be read.

        ``runtime``: the object that the job names; None if it does not exist.
        """
        metadata = job.metadata
        versions = (
            metadata.resource_version,
            None if runtime is None else (runtime.metadata.uid, runtime.metadata.generation),
        )
        earlier, spec = self._answers.get(metadata.uid, (None, None))
        if spec is None and earlier != versions:
            spec = await self._stored_spec(metadata)
            if len(self._answers) >= _MOST_JOBS:
                self._answers.clear()
            self._answers[metadata.uid] = (versions, spec)
        return spec

    async def _stored_spec(self, job: ObjectMeta) -> Json | None:
        stored = await self._client.find(CONFIG_MAPS, Key(job.namespace, f"{job.name}{_SUFFIX}"))
        owner = None if stored is None else stored.metadata.controller
        if stored is None or owner is None or owner.uid != job.uid:
            return None
        text = stored.data.get(_STORED_RUNTIME, "")
        return self._equal.get_or(text.encode(), lambda: _spec_of(text)) or None


def _spec_of(text: str) -> Json:
    """Return the spec of the object in ``text``; empty if there is none."""
    try:
        documents: list[Any] = [document.value for document in read_documents(text)]
    except InvalidYaml:
        return {}
    spec = look_up(documents[0], ("spec",)) if len(documents) == 1 else None
    return spec if isinstance(spec, dict) else {}
