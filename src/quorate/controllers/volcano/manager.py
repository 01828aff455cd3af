"""Run the Volcano controllers, each once the cluster serves the kinds that it needs."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from quorate.api.batch import Job
from quorate.api.configuration.gang import ManagedKind
from quorate.api.core.pod import Pod
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.names.volcano import JOB_NAME
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import Command
from quorate.api.volcano.job import Job as VolcanoJob
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import PodSelector, synced
from quorate.controllers.jobframework.reconciler import JobController
from quorate.controllers.volcano.hyper_nodes import NODE_LABELS, HyperNodeController
from quorate.controllers.volcano.job.job_controller import VolcanoJobController
from quorate.controllers.volcano.pod_groups.batch_job_group_controller import (
    BatchJobGroupController,
    BatchJobMemberships,
)
from quorate.controllers.volcano.pod_groups.pod_group_controller import (
    PodGroupController,
    SuspendedGroupController,
)
from quorate.controllers.volcano.pod_groups.scheduling_gates import SchedulingGateController
from quorate.controllers.volcano.queue_controller import VolcanoQueueController
from quorate.kube.discovery import wait_until_served
from quorate.kube.informer import Informer
from quorate.kube.resources import COMMANDS, HYPER_NODES, JOBS, POD_GROUPS, QUEUES, VOLCANO_JOBS, Resource
from quorate.kube.selection import Selection, Watched

# Makes the controller that queues the objects of an informer, for each kind that is queued.
QueueingControllers = Mapping[Resource[Any], Callable[[Informer[Any]], JobController[Any]]]


class GangPods:
    """The pods of each gang scheduler, and the pods of Volcano Jobs; made before the informers run."""

    def __init__(self, context: ControllerContext) -> None:
        pods = context.informers.pods
        self.of_schedulers = [
            pods.select(
                f"of {name}",
                PodSelector(fields=f"spec.schedulerName={name}"),
                partial(_is_of_scheduler, name),
                is_small=True,
            )
            for name in context.configuration.gang.scheduler_names
        ]
        self.of_jobs = pods.select(
            "of Volcano Jobs",
            PodSelector(JOB_NAME),
            lambda pod: JOB_NAME in pod.metadata.labels,
            is_small=True,
        )


def _is_of_scheduler(name: str, pod: Pod) -> bool:
    return pod.spec.scheduler_name == name


async def run_volcano(
    context: ControllerContext,
    memberships: BatchJobMemberships,
    queueing: QueueingControllers,
    batch_jobs: Informer[Job] | None,
    pods: GangPods,
) -> None:
    """Wait until pod groups are served, then run the configured controllers.

    ``batch_jobs``: the informer of batch/v1 Jobs if this process queues them.
    """
    rules = context.configuration.gang
    if "batchJobs" not in rules.managed_kinds:
        memberships.set_unserved()
    await wait_until_served(POD_GROUPS, context.client, context.clock, on_absent=memberships.set_unserved)
    groups = Informer(context.client, POD_GROUPS)
    commands = Informer(context.client, COMMANDS)
    runs: Mapping[ManagedKind, Callable[[], Coroutine[None, None, None]]] = {
        "volcanoJobs": lambda: _run_jobs(context, groups, commands, queueing, pods.of_jobs),
        "queues": lambda: _run_queues(context, groups, commands),
        "pods": lambda: _run_pods(context, groups, queueing, pods.of_schedulers),
        "hyperNodes": lambda: _run_hyper_nodes(context),
        "batchJobs": lambda: _run_batch(context, groups, memberships, batch_jobs),
    }
    async with asyncio.TaskGroup() as tasks:
        await _start_informers(context, tasks, groups)
        tasks.create_task(_run_commands(context, commands), name="volcano commands")
        for name in rules.managed_kinds:
            tasks.create_task(runs[name](), name=f"volcano {name}")


async def _run_pods(
    context: ControllerContext,
    groups: Informer[PodGroup],
    queueing: QueueingControllers,
    pods: list[Selection[Pod]],
) -> None:
    rules = context.configuration.gang
    async with asyncio.TaskGroup() as tasks:
        await _start_informers(context, tasks, *pods)
        controller = PodGroupController(context, pods, groups, inherit=rules.inherit_owner_annotations)
        gates = SchedulingGateController(context, pods, groups)
        reconcilers = [controller.pod_reconciler, controller.group_reconciler, gates.reconciler]
        if POD_GROUPS in queueing:
            labelled = Informer(context.client, POD_GROUPS, label_selector=QUEUE_NAME)
            await _start_informers(context, tasks, labelled)
            reconcilers.append(queueing[POD_GROUPS](labelled).reconciler)
            reconcilers.append(SuspendedGroupController(context, pods, labelled).reconciler)
        for reconciler in reconcilers:
            tasks.create_task(reconciler.run(), name=reconciler.name)


async def _run_batch(
    context: ControllerContext,
    groups: Informer[PodGroup],
    memberships: BatchJobMemberships,
    jobs: Informer[Job] | None,
) -> None:
    memberships.set_groups(groups)
    queued = jobs is not None
    async with asyncio.TaskGroup() as tasks:
        if jobs is None:
            jobs = Informer(context.client, JOBS)
            await _start_informers(context, tasks, jobs)
        reconciler = BatchJobGroupController(context, jobs, groups, queued=queued).reconciler
        tasks.create_task(reconciler.run(), name=reconciler.name)


async def _run_commands(context: ControllerContext, commands: Informer[Command]) -> None:
    """Run the informer of commands once they are served; the controllers do not wait."""
    await _until_served(context, COMMANDS)
    await commands.run()


async def _run_queues(
    context: ControllerContext, groups: Informer[PodGroup], commands: Informer[Command]
) -> None:
    await _until_served(context, QUEUES)
    queues = Informer(context.client, QUEUES)
    async with asyncio.TaskGroup() as tasks:
        await _start_informers(context, tasks, queues)
        reconciler = VolcanoQueueController(context, queues, groups, commands).reconciler
        tasks.create_task(reconciler.run(), name=reconciler.name)


async def _run_hyper_nodes(context: ControllerContext) -> None:
    """Keep HyperNodes once they are served; nodes are watched only if there are any, or may be."""
    await _until_served(context, HYPER_NODES)
    hyper_nodes = Informer(context.client, HYPER_NODES)
    nodes = Informer(context.client, NODE_LABELS)
    needed = asyncio.Event()
    if context.configuration.network_topology:
        needed.set()
    hyper_nodes.subscribe(lambda _: needed.set())
    async with asyncio.TaskGroup() as tasks:
        await _start_informers(context, tasks, hyper_nodes)
        await needed.wait()
        await _start_informers(context, tasks, nodes)
        reconciler = HyperNodeController(context, hyper_nodes, nodes).reconciler
        tasks.create_task(reconciler.run(), name=reconciler.name)


async def _run_jobs(
    context: ControllerContext,
    groups: Informer[PodGroup],
    commands: Informer[Command],
    queueing: QueueingControllers,
    pods: Selection[Pod],
) -> None:
    await _until_served(context, VOLCANO_JOBS)
    jobs = Informer(context.client, VOLCANO_JOBS)
    async with asyncio.TaskGroup() as tasks:
        await _start_informers(context, tasks, jobs, pods)
        is_queued: Callable[[VolcanoJob], bool] = _is_never_queued
        if VOLCANO_JOBS in queueing:
            queued = queueing[VOLCANO_JOBS](jobs)
            is_queued = queued.is_queued
            tasks.create_task(queued.reconciler.run(), name=queued.reconciler.name)
        keep = context.configuration.gang.keep_pending_pods_on_rollback
        controller = VolcanoJobController(
            context, jobs, groups, pods, commands, keep_pending=keep, is_queued=is_queued
        )
        tasks.create_task(controller.run(), name=controller.reconciler.name)


def _is_never_queued(job: VolcanoJob) -> bool:
    return False


async def _start_informers(context: ControllerContext, tasks: asyncio.TaskGroup, *informers: Watched) -> None:
    """Run ``informers`` in ``tasks`` and return once all of them have synced."""
    for informer in informers:
        tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
    await synced(*informers)


async def _until_served(context: ControllerContext, resource: Resource[Any]) -> None:
    """Return once the cluster serves the kind; most clusters never do, which is not an error."""
    await wait_until_served(resource, context.client, context.clock, on_absent=lambda: None)
