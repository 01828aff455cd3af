"""Running Volcano's controllers, each once the kinds it needs are served."""

import asyncio
from typing import Any, Final

from quorate.controllers.informers import synced, tell_of_misfits
from quorate.controllers.shell import Shell
from quorate.controllers.volcano.jobs_controller import VolcanoJobController
from quorate.controllers.volcano.members import MEMBERS, SELECTOR
from quorate.kube.discovery import served_by
from quorate.kube.errors import ApiError, Unreachable
from quorate.kube.informer import Informer
from quorate.kube.log import logger
from quorate.kube.resources import COMMANDS, POD_GROUPS, VOLCANO_JOBS, Resource

LOOK_AGAIN_S: Final = 5.0  # one small request for each group of kinds that is not served


async def run_volcano(shell: Shell) -> None:
    """Wait until pod groups are served, then look after them and what makes them until cancelled."""
    await _until_served(shell, POD_GROUPS)
    groups = Informer(shell.client, POD_GROUPS)
    async with asyncio.TaskGroup() as tasks:
        await _watch(shell, tasks, groups)
        tasks.create_task(_run_jobs(shell, groups), name="volcano jobs")


async def _run_jobs(shell: Shell, groups: Informer[Any]) -> None:
    await _until_served(shell, VOLCANO_JOBS, COMMANDS)
    jobs = Informer(shell.client, VOLCANO_JOBS)
    members = Informer(shell.client, MEMBERS, label_selector=SELECTOR)
    commands = Informer(shell.client, COMMANDS)
    async with asyncio.TaskGroup() as tasks:
        await _watch(shell, tasks, jobs, members, commands)
        controller = VolcanoJobController(
            shell,
            jobs,
            groups,
            members,
            commands,
            keep_pending=shell.configuration.gang.keep_pending_pods_on_rollback,
        )
        tasks.create_task(controller.reconciler.run(), name=controller.reconciler.name)


async def _watch(shell: Shell, tasks: asyncio.TaskGroup, *informers: Informer[Any]) -> None:
    """Return once all of them know what is stored."""
    for informer in informers:
        tell_of_misfits(informer, shell.events)
        tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
    await synced(*informers)


async def _until_served(shell: Shell, *resources: Resource[Any]) -> None:
    """Most clusters have none of these kinds, and there is nothing wrong with that."""
    steady = shell.clock.steady
    for resource in resources:
        while not await _is_served(shell, resource):
            await steady.sleep_until(steady.now() + LOOK_AGAIN_S)
        logger(__name__).info("kind is served", kind=resource.kind, api_version=resource.api_version)


async def _is_served(shell: Shell, resource: Resource[Any]) -> bool:
    try:
        served = await served_by(shell.client, resource.api_version)
    except (ApiError, Unreachable):
        return False  # a server that is away serves nothing; whoever needs it says so
    return resource.plural in {each.name for each in served}
