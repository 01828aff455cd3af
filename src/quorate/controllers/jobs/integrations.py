"""The kinds of job of other projects, by the names the configuration has for them.

Their definitions are installed by others, before us or long after, so each kind is set up when the cluster
serves it and not before.
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
from quorate.controllers.jobs.kubeflow import TRAINING_JOBS
from quorate.controllers.jobs.mpijob import MPIJob
from quorate.controllers.jobs.raycluster import RayCluster
from quorate.controllers.jobs.rayjob import RayJob
from quorate.controllers.jobs.rayservice import RayService
from quorate.controllers.jobs.spark import SparkApplication
from quorate.controllers.jobs.trainjob import TrainJob
from quorate.controllers.jobs.unstructured import UnstructuredJob, UnstructuredJobKind, unstructured_resource
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import ApiError, Unreachable
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import JOBS, Resource
from quorate.kube.rest.discovery import served_resources

BATCH_JOB: Final = "batch/job"
PLAIN_PODS: Final = "pod"
OF_PODS: Final = (PLAIN_PODS, "deployment", "leaderworkerset.x-k8s.io/leaderworkerset", "statefulset")
_PLAIN: Final[Mapping[str, UnstructuredJobKind]] = {
    "jobset.x-k8s.io/jobset": JobSet(),
    "kubeflow.org/mpijob": MPIJob(),
    **TRAINING_JOBS,
    "ray.io/raycluster": RayCluster(),
    "ray.io/rayjob": RayJob(),
    "ray.io/rayservice": RayService(),
    "sparkoperator.k8s.io/sparkapplication": SparkApplication(),
    "trainer.kubeflow.org/trainjob": TrainJob(),
}
FOREIGN: Final[Mapping[str, UnstructuredJobKind]] = {
    **_PLAIN,
    "workload.codeflare.dev/appwrapper": AppWrapper(
        {(kind.resource.api_version, kind.resource.kind): kind for kind in _PLAIN.values()}
    ),
}
_SETS: Final[Mapping[str, Resource[Any]]] = {
    "deployment": unstructured_resource("apps", "v1", "deployments", "Deployment"),
    "replicaset": unstructured_resource("apps", "v1", "replicasets", "ReplicaSet"),
    "statefulset": unstructured_resource("apps", "v1", "statefulsets", "StatefulSet"),
    "leaderworkerset.x-k8s.io/leaderworkerset": unstructured_resource(
        "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"
    ),
}
LOOK_AGAIN_S: Final = 5.0  # one small request for each kind that is not served

Completed = Callable[[UnstructuredJob], UnstructuredJob]
ControllerFor = Callable[
    [UnstructuredJobKind, Informer[UnstructuredJob], Completed], JobController[UnstructuredJob]
]

_NEEDS: Final = "needs"  # index of jobs by the kind and key of their companion


def enabled_kinds(integrations: Integrations) -> tuple[UnstructuredJobKind, ...]:
    named = (FOREIGN[name] for name in integrations.frameworks if name in FOREIGN)
    return (*named, *map(DeclaredKind, integrations.declared))


def intermediate_kinds(integrations: Integrations) -> tuple[Resource[Any], ...]:
    """Kinds that are known, but not queued: jobs below them may belong to what stands above."""
    known = {name: kind.resource for name, kind in FOREIGN.items()} | {BATCH_JOB: JOBS, **_SETS}
    return tuple(resource for name, resource in known.items() if name not in integrations.frameworks)


def queues_pods(integrations: Integrations) -> bool:
    """Whether plain pods are queued: by themselves, or as those of a set that is admitted pod by pod."""
    return any(name in OF_PODS for name in integrations.frameworks)


async def run_kind(
    context: ControllerContext, kind: UnstructuredJobKind, controller_for: ControllerFor
) -> None:
    """Wait for the kind to be served, then keep its jobs in step with their workloads until cancelled."""
    for resource in (kind.resource, *kind.companions):
        await until_served(resource, context.client, context.clock)
    jobs = Informer(context.client, kind.resource)
    companions = {resource.kind: Informer(context.client, resource) for resource in kind.companions}
    async with asyncio.TaskGroup() as tasks:
        for informer in (jobs, *companions.values()):
            tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
        await synced(jobs, *companions.values())
        controller = controller_for(kind, jobs, _completing(kind, companions))
        _follow_companions(kind, jobs, companions, controller)
        tasks.create_task(controller.reconciler.run(), name=controller.reconciler.name)


def _completing(kind: UnstructuredJobKind, companions: Mapping[str, Informer[UnstructuredJob]]) -> Completed:
    def completed(job: UnstructuredJob) -> UnstructuredJob:
        needed = kind.companion_of(job)
        found = None if needed is None else companions[needed.resource.kind].get(needed.key)
        return msgspec.structs.replace(job, companion=None if found is None else found.spec)

    return completed


def _follow_companions(
    kind: UnstructuredJobKind,
    jobs: Informer[UnstructuredJob],
    companions: Mapping[str, Informer[UnstructuredJob]],
    controller: JobController[UnstructuredJob],
) -> None:
    """Look at jobs again whenever what they need comes, changes or goes."""

    def needs(job: UnstructuredJob) -> tuple[tuple[str, Key], ...]:
        needed = kind.companion_of(job)
        return () if needed is None else ((needed.resource.kind, needed.key),)

    if not companions:
        return
    jobs.add_index(_NEEDS, needs)
    for name, informer in companions.items():

        def look_again(change: Change[UnstructuredJob], name: str = name) -> None:
            for job in jobs.by_index(_NEEDS, (name, change.key)):
                controller.reconciler.enqueue(job.metadata.key)

        informer.subscribe(look_again)


async def until_served(resource: Resource[Any], client: Client, clock: Clock) -> None:
    log = logger(__name__).bind(kind=resource.kind, api_version=resource.api_version)
    said = ""
    while problem := await _why_not_served(resource, client):
        if problem != said:
            log.warning("kind is not served yet", problem=problem)
            said = problem
        await clock.steady.sleep_until(clock.steady.now() + LOOK_AGAIN_S)
    log.info("kind is served")


async def _why_not_served(resource: Resource[Any], client: Client) -> str:
    """Empty when it is served."""
    try:
        served = await served_resources(client, resource.api_version)
    except (ApiError, Unreachable) as error:
        return str(error)
    if not served:
        return "its definition is not installed"
    names = {each.name for each in served}
    return "" if resource.plural in names else "its definition is not installed in this version"
