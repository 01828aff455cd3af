"""The enabled integrations: kinds of other projects, by their configured names.

The definitions of these kinds may be installed before the controllers or long after them, so each kind is
watched as soon as the cluster serves it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from quorate.api.configuration.integrations import Integrations
from quorate.api.meta import Key
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import synced
from quorate.controllers.jobframework.reconciler import JobController
from quorate.controllers.jobs.appwrapper import AppWrapper
from quorate.controllers.jobs.declared import DeclaredKind
from quorate.controllers.jobs.jobset import JobSet
from quorate.controllers.jobs.kubeflow import TRAINING_JOBS, MPIJob
from quorate.controllers.jobs.ray import RayCluster, RayService
from quorate.controllers.jobs.rayjob import RayJob
from quorate.controllers.jobs.spark import SparkApplication
from quorate.controllers.jobs.trainjob import TrainJob
from quorate.controllers.jobs.unstructured import UnstructuredJob, UnstructuredJobKind, unstructured_resource
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import ApiError, Unreachable, Unreadable
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import JOBS, POD_GROUPS, PODS, VOLCANO_JOBS, Resource
from quorate.kube.rest.discovery import served_resources

BATCH_JOB: Final = "batch/job"
POD: Final = "pod"
VOLCANO_JOB: Final = f"{VOLCANO_JOBS.group}/job"
VOLCANO_POD_GROUP: Final = f"{POD_GROUPS.group}/podgroup"
POD_FRAMEWORKS: Final = (POD, "deployment", "leaderworkerset.x-k8s.io/leaderworkerset", "statefulset")
_WRAPPABLE: Final[Mapping[str, UnstructuredJobKind]] = {
    "jobset.x-k8s.io/jobset": JobSet(),
    "kubeflow.org/mpijob": MPIJob(),
    **TRAINING_JOBS,
    "ray.io/raycluster": RayCluster(),
    "ray.io/rayjob": RayJob(),
    "ray.io/rayservice": RayService(),
    "sparkoperator.k8s.io/sparkapplication": SparkApplication(),
    "trainer.kubeflow.org/trainjob": TrainJob(),
}
FRAMEWORK_KINDS: Final[Mapping[str, UnstructuredJobKind]] = {
    **_WRAPPABLE,
    "workload.codeflare.dev/appwrapper": AppWrapper(
        {(kind.resource.api_version, kind.resource.kind): kind for kind in _WRAPPABLE.values()}
    ),
}
_SERVING: Final[Mapping[str, Resource[Any]]] = {
    "deployment": unstructured_resource("apps", "v1", "deployments", "Deployment"),
    "replicaset": unstructured_resource("apps", "v1", "replicasets", "ReplicaSet"),
    "statefulset": unstructured_resource("apps", "v1", "statefulsets", "StatefulSet"),
    "leaderworkerset.x-k8s.io/leaderworkerset": unstructured_resource(
        "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"
    ),
}
# The kind of each integration, by its configured name.
FRAMEWORK_RESOURCES: Final[Mapping[str, Resource[Any]]] = {
    **{name: kind.resource for name, kind in FRAMEWORK_KINDS.items()},
    **{name: resource for name, resource in _SERVING.items() if name != "replicaset"},
    BATCH_JOB: JOBS,
    POD: PODS,
    VOLCANO_JOB: VOLCANO_JOBS,
    VOLCANO_POD_GROUP: POD_GROUPS,
}
DISCOVERY_INTERVAL_S: Final = 5.0  # one small request for each kind that is not served

Complete = Callable[[UnstructuredJob], UnstructuredJob]
ControllerFor = Callable[
    [UnstructuredJobKind, Informer[UnstructuredJob], Complete], JobController[UnstructuredJob]
]

_REFERENCES: Final = "references"  # index of jobs by the kind and key of their referenced object


def enabled_kinds(integrations: Integrations) -> tuple[UnstructuredJobKind, ...]:
    named = (FRAMEWORK_KINDS[name] for name in integrations.frameworks if name in FRAMEWORK_KINDS)
    return (*named, *map(DeclaredKind, integrations.declared))


def intermediate_kinds(integrations: Integrations) -> tuple[Resource[Any], ...]:
    """Return known kinds that are not enabled; they may have a managed ancestor."""
    known = {name: kind.resource for name, kind in FRAMEWORK_KINDS.items()} | {BATCH_JOB: JOBS, **_SERVING}
    return tuple(resource for name, resource in known.items() if name not in integrations.frameworks)


def queues_pods(integrations: Integrations) -> bool:
    """Return True if plain pods are queued, or the pods of sets that are admitted pod by pod."""
    return any(name in POD_FRAMEWORKS for name in integrations.frameworks)


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
        controller = controller_for(kind, jobs, _with_referenced_spec(kind, referenced))
        _watch_referenced(kind, jobs, referenced, controller)
        tasks.create_task(controller.reconciler.run(), name=controller.reconciler.name)


def _with_referenced_spec(
    kind: UnstructuredJobKind, referenced: Mapping[str, Informer[UnstructuredJob]]
) -> Complete:
    def complete(job: UnstructuredJob) -> UnstructuredJob:
        reference = kind.referenced_object(job)
        found = None if reference is None else referenced[reference.resource.kind].get(reference.key)
        if found is None:
            return job
        return msgspec.structs.replace(
            job, referenced_spec=found.spec, referenced_generation=found.metadata.generation
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


async def wait_until_served(resource: Resource[Any], client: Client, clock: Clock) -> None:
    log = logger(__name__).bind(kind=resource.kind, api_version=resource.api_version)
    logged = ""
    while problem := await _why_not_served(resource, client):
        if problem != logged:
            log.warning("kind is not served yet", problem=problem)
            logged = problem
        await clock.steady.sleep_until(clock.steady.now() + DISCOVERY_INTERVAL_S)
    log.info("kind is served")


async def is_served(resource: Resource[Any], client: Client) -> bool:
    """Return whether the cluster serves the kind; False if it does not answer."""
    return not await _why_not_served(resource, client)


async def _why_not_served(resource: Resource[Any], client: Client) -> str:
    """Return why the kind is not served; an empty text if it is."""
    try:
        served = await served_resources(client, resource.api_version)
    except (ApiError, Unreachable, Unreadable) as error:
        return str(error)
    if not served:
        return "its definition is not installed"
    names = {each.name for each in served}
    return "" if resource.plural in names else "its definition is not installed in this version"
