"""Running Volcano's controllers, each once the kinds it needs are served."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from quorate.api.batch import Job
from quorate.api.configuration_gang import Looked
from quorate.api.volcano import PodGroup
from quorate.api.volcano_job import Command
from quorate.controllers.informers import synced, tell_of_misfits
from quorate.controllers.shell import Shell
from quorate.controllers.volcano.job.job_controller import VolcanoJobController
from quorate.controllers.volcano.job.job_pods import MEMBERS, SELECTOR
from quorate.controllers.volcano.pod_groups.batch_job_group_controller import (
    BatchGroupController,
    BatchMemberships,
)
from quorate.controllers.volcano.pod_groups.group_pod import GROUP_PODS
from quorate.controllers.volcano.pod_groups.pod_group_controller import LonePodController
from quorate.controllers.volcano.pod_groups.scheduling_gate_controller import GateController
from quorate.controllers.volcano.queue_controller import VolcanoQueueController
from quorate.kube.discovery import served_by
from quorate.kube.errors import ApiError, Unreachable
from quorate.kube.informer import Informer
from quorate.kube.log import logger
from quorate.kube.resources import COMMANDS, JOBS, POD_GROUPS, QUEUES, VOLCANO_JOBS, Resource

LOOK_AGAIN_S: Final = 5.0  # one small request for each group of kinds that is not served


async def run_volcano(shell: Shell, memberships: BatchMemberships, jobs: Informer[Job] | None) -> None:
    """Wait until pod groups are served, then look after them and what makes them until cancelled.

    ``jobs``: those of batch/v1, where they are watched already, as they are queued.
    """
    rules = shell.configuration.gang
    if "batchJobs" not in rules.looks_after or not await _is_served(shell, POD_GROUPS):
        memberships.unserved()
    await _until_served(shell, POD_GROUPS)
    groups = Informer(shell.client, POD_GROUPS)
    commands = Informer(shell.client, COMMANDS)
    runs: Mapping[Looked, Callable[[], Coroutine[None, None, None]]] = {
        "volcanoJobs": lambda: _run_jobs(shell, groups, commands),
        "queues": lambda: _run_queues(shell, groups, commands),
        "pods": lambda: _run_pods(shell, groups),
        "batchJobs": lambda: _run_batch(shell, groups, memberships, jobs),
    }
    async with asyncio.TaskGroup() as tasks:
        await _watch(shell, tasks, groups)
        tasks.create_task(_run_commands(shell, commands), name="volcano commands")
        for name in rules.looks_after:
            tasks.create_task(runs[name](), name=f"volcano {name}")


async def _run_pods(shell: Shell, groups: Informer[PodGroup]) -> None:
    rules = shell.configuration.gang
    pods = [
        Informer(shell.client, GROUP_PODS, field_selector=f"spec.schedulerName={name}")
        for name in rules.scheduler_names
    ]
    async with asyncio.TaskGroup() as tasks:
        await _watch(shell, tasks, *pods)
        lone = LonePodController(shell, pods, groups, inherit=rules.inherit_owner_annotations)
        gates = GateController(shell, pods, groups)
        for reconciler in (lone.reconciler, lone.emptied, gates.reconciler):
            tasks.create_task(reconciler.run(), name=reconciler.name)


async def _run_batch(
    shell: Shell, groups: Informer[PodGroup], memberships: BatchMemberships, jobs: Informer[Job] | None
) -> None:
    memberships.known(groups)
    queued = jobs is not None
    async with asyncio.TaskGroup() as tasks:
        if jobs is None:
            jobs = Informer(shell.client, JOBS)
            await _watch(shell, tasks, jobs)
        reconciler = BatchGroupController(shell, jobs, groups, queued=queued).reconciler
        tasks.create_task(reconciler.run(), name=reconciler.name)


async def _run_commands(shell: Shell, commands: Informer[Command]) -> None:
    """Jobs and queues do without where there are no commands."""
    await _until_served(shell, COMMANDS)
    await commands.run()


async def _run_queues(shell: Shell, groups: Informer[PodGroup], commands: Informer[Command]) -> None:
    await _until_served(shell, QUEUES)
    queues = Informer(shell.client, QUEUES)
    async with asyncio.TaskGroup() as tasks:
        await _watch(shell, tasks, queues)
        reconciler = VolcanoQueueController(shell, queues, groups, commands).reconciler
        tasks.create_task(reconciler.run(), name=reconciler.name)


async def _run_jobs(shell: Shell, groups: Informer[PodGroup], commands: Informer[Command]) -> None:
    await _until_served(shell, VOLCANO_JOBS)
    jobs = Informer(shell.client, VOLCANO_JOBS)
    members = Informer(shell.client, MEMBERS, label_selector=SELECTOR)
    async with asyncio.TaskGroup() as tasks:
        await _watch(shell, tasks, jobs, members)
        keep = shell.configuration.gang.keep_pending_pods_on_rollback
        controller = VolcanoJobController(shell, jobs, groups, members, commands, keep_pending=keep)
        tasks.create_task(controller.run(), name=controller.reconciler.name)


async def _watch(shell: Shell, tasks: asyncio.TaskGroup, *informers: Informer[Any]) -> None:
    """Return once all of them know what is stored."""
    for informer in informers:
        tell_of_misfits(informer, shell.events)
        tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
    await synced(*informers)


async def _until_served(shell: Shell, *resources: Resource[Any]) -> None:
    """Most clusters have none of these kinds, and there is nothing wrong with that."""
    for resource in resources:
        while not await _is_served(shell, resource):
            await _pause(shell)
        logger(__name__).info("kind is served", kind=resource.kind, api_version=resource.api_version)


async def _is_served(shell: Shell, resource: Resource[Any]) -> bool:
    """The cluster's answer, asked for until there is one."""
    while True:
        try:
            served = await served_by(shell.client, resource.api_version)
        except (ApiError, Unreachable) as error:
            logger(__name__).warning("not known what is served", kind=resource.kind, problem=str(error))
            await _pause(shell)
        else:
            return resource.plural in {each.name for each in served}


async def _pause(shell: Shell) -> None:
    steady = shell.clock.steady
    await steady.sleep_until(steady.now() + LOOK_AGAIN_S)
