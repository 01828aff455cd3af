"""The enabled integrations: kinds of other projects, by their configured names.

The definitions of these kinds may be installed before the controllers or long after them, so each kind is
watched as soon as the cluster serves it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import VOLCANO_JOB, VOLCANO_POD_GROUP, Integrations
from quorate.api.core import PriorityClass
from quorate.api.kueue import Workload, WorkloadPriorityClass
from quorate.api.meta import Key, at_epoch
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import synced
from quorate.controllers.jobframework.construct_workload import NotComposed
from quorate.controllers.jobframework.interface import JobKind, JobState
from quorate.controllers.jobframework.job_plan import ReconcileContext, job_options
from quorate.controllers.jobframework.reconciler import JobController
from quorate.controllers.jobs.appwrapper import AppWrapper
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.jobs.declared import DeclaredKind
from quorate.controllers.jobs.jobset import JobSet
from quorate.controllers.jobs.kubeflow import TRAINING_JOBS, MPIJob
from quorate.controllers.jobs.ray import RayCluster, RayService
from quorate.controllers.jobs.rayjob import RayJob
from quorate.controllers.jobs.spark import SparkApplication
from quorate.controllers.jobs.trainjob import RuntimeSnapshots, TrainJob
from quorate.controllers.jobs.unstructured import UnstructuredJob, UnstructuredJobKind, unstructured_resource
from quorate.controllers.serving.kinds import SETS
from quorate.controllers.volcano.job.queued_job import VolcanoJob
from quorate.controllers.volcano.pod_groups.queued_group import VolcanoPodGroup
from quorate.kube.discovery import wait_until_served
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import JOBS, POD_GROUPS, PODS, VOLCANO_JOBS, Json, Resource

BATCH_JOB: Final = "batch/job"
_WRAPPABLE: Final[Mapping[str, UnstructuredJobKind]] = {
    "jobset.x-k8s.io/jobset": JobSet(),
    "kubeflow.org/mpijob": MPIJob(),
    **TRAINING_JOBS,
    "trainer.kubeflow.org/trainjob": TrainJob(),
    "ray.io/rayjob": RayJob(),
    "ray.io/raycluster": RayCluster(),
    "ray.io/rayservice": RayService(),
    "sparkoperator.k8s.io/sparkapplication": SparkApplication(),
}
FRAMEWORK_KINDS: Final[Mapping[str, UnstructuredJobKind]] = {
    **_WRAPPABLE,
    "workload.codeflare.dev/appwrapper": AppWrapper(
        {(kind.resource.api_version, kind.resource.kind): kind for kind in _WRAPPABLE.values()}
    ),
}


@dataclass(frozen=True, slots=True)
class Integration:
    """One row of the table of integrations."""

    name: str  # in ``integrations.frameworks``
    resource: Resource[Any]
    kind: JobKind[Any] | None = None  # None: its pods are queued, each or in groups
    # A controller of another project creates the pods, so an object may be the owner of a job, and the
    # controllers need no more rights than to suspend and resume it.
    makes_pods_elsewhere: bool = True
    counted_by: str = ""  # if this integration is enabled, it queues the objects in place of this one


INTEGRATIONS: Final[Mapping[str, Integration]] = {
    row.name: row
    for row in (
        Integration(BATCH_JOB, JOBS, BatchJob()),
        *(Integration(name, kind.resource, kind) for name, kind in FRAMEWORK_KINDS.items()),
        *(Integration(name, framework.resource) for name, framework in SETS.items()),
        Integration("pod", PODS, makes_pods_elsewhere=False),
        # A pod group has the labels of its Volcano Job.
        Integration(VOLCANO_JOB, VOLCANO_JOBS, VolcanoJob(), False, counted_by=VOLCANO_POD_GROUP),
        Integration(VOLCANO_POD_GROUP, POD_GROUPS, VolcanoPodGroup(), False),
    )
}
_REPLICA_SETS: Final = unstructured_resource("apps", "v1", "replicasets", "ReplicaSet")

Complete = Callable[[UnstructuredJob], Awaitable[UnstructuredJob]]
ControllerFor = Callable[
    [UnstructuredJobKind, Informer[UnstructuredJob], Complete], JobController[UnstructuredJob]
]

_REFERENCES: Final = "references"  # index of jobs by the kind and key of their referenced object


def enabled_integrations(integrations: Integrations) -> tuple[Integration, ...]:
    """Return the rows of the enabled integrations, and one for each declared kind."""
    declared = map(DeclaredKind, integrations.declared)
    return (
        *(INTEGRATIONS[name] for name in integrations.frameworks),
        *(Integration(kind.resource.kind, kind.resource, kind) for kind in declared),
    )


def enabled_kinds(integrations: Integrations) -> tuple[JobKind[Any], ...]:
    """Return the rules of each kind of job that is queued."""
    return tuple(row.kind for row in enabled_integrations(integrations) if row.kind is not None)


def intermediate_kinds(integrations: Integrations) -> tuple[Resource[Any], ...]:
    """Return known kinds that are not enabled; they may have a managed ancestor."""
    rows = (row for row in INTEGRATIONS.values() if row.makes_pods_elsewhere)
    disabled = (row.resource for row in rows if row.name not in integrations.frameworks)
    return (*disabled, _REPLICA_SETS)


def queues_pods(integrations: Integrations) -> bool:
    """Return True if plain pods are queued, or the pods of sets that are admitted pod by pod."""
    return any(row.kind is None for row in enabled_integrations(integrations))


async def run_kind(
    context: ControllerContext, kind: UnstructuredJobKind, controller_for: ControllerFor
) -> None:
    """Wait until the kind is served, then reconcile its jobs until cancelled."""
    for resource in (kind.resource, *kind.referenced_kinds):
        await wait_until_served(resource, context.client, context.clock)
    jobs = Informer(context.client, kind.resource)
    referenced = {resource.kind: Informer(context.client, resource) for resource in kind.referenced_kinds}
    async with asyncio.TaskGroup() as tasks:
        for informer in (jobs, *referenced.values()):
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
        await synced(jobs, *referenced.values())
        snapshots = RuntimeSnapshots(context.client)
        controller = controller_for(kind, jobs, _with_referenced_spec(kind, referenced, snapshots))
        _watch_referenced(kind, jobs, referenced, controller)
        tasks.create_task(controller.reconciler.run(), name=controller.reconciler.name)


def _with_referenced_spec(
    kind: UnstructuredJobKind,
    referenced: Mapping[str, Informer[UnstructuredJob]],
    snapshots: RuntimeSnapshots,
) -> Complete:
    async def complete(job: UnstructuredJob) -> UnstructuredJob:
        reference = kind.referenced_object(job)
        obj = None if reference is None else referenced[reference.resource.kind].get(reference.key)
        spec = await snapshots.of(job, obj) if kind.stores_referenced_object else None
        if spec is not None:
            return msgspec.structs.replace(job, referenced_spec=spec)
        if obj is None:
            return job
        return msgspec.structs.replace(
            job, referenced_spec=obj.spec, referenced_generation=obj.metadata.generation
        )

    return complete


def _watch_referenced(
    kind: UnstructuredJobKind,
    jobs: Informer[UnstructuredJob],
    referenced: Mapping[str, Informer[UnstructuredJob]],
    controller: JobController[UnstructuredJob],
) -> None:
    """Reconcile jobs when their referenced object changes."""

    def reference_of(job: UnstructuredJob) -> tuple[tuple[str, Key], ...]:
        reference = kind.referenced_object(job)
        return () if reference is None else ((reference.resource.kind, reference.key),)

    if not referenced:
        return
    jobs.add_index(_REFERENCES, reference_of)
    for name, informer in referenced.items():

        def on_change(change: Change[UnstructuredJob], name: str = name) -> None:
            for job in jobs.by_index(_REFERENCES, (name, change.key)):
                controller.reconciler.enqueue(job.metadata.key)

        informer.subscribe(on_change)


_NO_UID: Final = "00000000-0000-0000-0000-000000000000"  # of a job that does not exist


def job_kind_of(api_version: str, kind: str) -> JobKind[Any] | None:
    """Return the rules of a kind of job; None for another kind, or for pods."""
    for row in INTEGRATIONS.values():
        if (row.resource.api_version, row.resource.kind) == (api_version, kind):
            return row.kind
    return None


def workload_of_unsubmitted_job(
    document: Json,
    kind: JobKind[Any],
    configuration: Configuration,
    workload_classes: Iterable[WorkloadPriorityClass],
    pod_classes: Iterable[PriorityClass],
    now: float,
) -> Workload | NotComposed:
    """Return the Workload of a job that is created at ``now``, epoch seconds."""
    created = {"uid": _NO_UID, "creationTimestamp": at_epoch(now)}
    job: Any = codec.convert(kind.resource.type, document | {"metadata": document["metadata"] | created})
    context = ReconcileContext(
        flavors={},
        workload_classes={priority.metadata.name: priority for priority in workload_classes},
        pod_classes={priority.metadata.name: priority for priority in pod_classes},
    )
    constructed = kind.construct(JobState.of(kind, job, context, job_options(configuration), now))
    if isinstance(constructed, NotComposed):
        return constructed
    metadata = msgspec.structs.replace(constructed.metadata, uid=_NO_UID, creation_timestamp=at_epoch(now))
    return msgspec.structs.replace(constructed, metadata=metadata)
