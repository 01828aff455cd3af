"""A local cluster that knows our kinds, with the queueing controllers and the gang scheduler or without.

The cluster itself knows nothing of Quorate: what makes it a queueing cluster is put together here.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from quorate.api.configuration import Configuration
from quorate.api.kueue import GROUP
from quorate.api.kueue.conversion import convert_version
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.cli.crds import gang_definitions, queueing_definitions
from quorate.cli.process import new_uid
from quorate.cli.run.apply import install_definitions
from quorate.cli.visibility import serve_visibility
from quorate.controllers.process import run_queueing
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.rest.config import load_rest_config
from quorate.local.cluster import Settings, run_cluster
from quorate.local.directory import LockedDirectory
from quorate.observe.replica import Replica
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import run_scheduler
from quorate.scheduler.scheduler import Options

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GangSchedulerSettings:
    """How a gang scheduler is to run beside the cluster."""

    configuration: SchedulerConfiguration
    options: Options


@asynccontextmanager
async def run_queueing_cluster(
    directory: LockedDirectory,
    settings: Settings,
    configuration: Configuration | None,
    clock: Clock,
    rng: random.Random,
    gang_scheduler: GangSchedulerSettings | None = None,
) -> AsyncIterator[Client]:
    """A cluster with our kinds installed, for as long as the block lasts.

    With a ``configuration`` the queueing controllers run beside it and are at work when the block begins, and
    so does the gang scheduler with ``gang_scheduler``; without, they are somebody else's to start.
    """
    async with (
        run_cluster(directory, settings, clock, rng, new_uid, {GROUP: convert_version}),
        Client(await load_rest_config(directory.kubeconfig), rng) as client,
    ):
        definitions = (*queueing_definitions(), *gang_definitions())
        await install_definitions(client, map(_without_conversion, definitions))
        async with AsyncExitStack() as stack:
            if configuration is not None:
                await stack.enter_async_context(_queueing(client, clock, rng, configuration))
            if gang_scheduler is not None:
                await stack.enter_async_context(_run_gang_scheduler(client, clock, gang_scheduler))
            yield client


@asynccontextmanager
async def _queueing(
    client: Client, clock: Clock, rng: random.Random, configuration: Configuration
) -> AsyncIterator[None]:
    """The queueing controllers, at work when the block begins."""
    replica = Replica("standalone", configuration.metrics.custom_labels)
    async with asyncio.TaskGroup() as tasks, serve_visibility(client, clock, replica):
        deciding = run_queueing(client, clock, DynamicConfiguration(configuration), rng, replica)
        controllers = tasks.create_task(deciding)
        await replica.ready.wait()
        yield
        controllers.cancel()


@asynccontextmanager
async def _run_gang_scheduler(
    client: Client, clock: Clock, gang_scheduler: GangSchedulerSettings
) -> AsyncIterator[None]:
    """The gang scheduler, at work when the block begins."""
    status = SchedulerStatus()
    async with asyncio.TaskGroup() as tasks:
        configured = DynamicConfiguration(gang_scheduler.configuration)
        scheduler = tasks.create_task(
            run_scheduler(client, clock, gang_scheduler.options, configured, status, None)
        )
        await status.ready.wait()
        yield
        scheduler.cancel()


def _without_conversion(definition: Json) -> Json:
    """The definition, silent about conversion.

    The cluster converts by itself until an installation brings a webhook for it, which must neither conflict
    with what we own nor be taken out when the cluster starts again.
    """
    spec = {name: value for name, value in definition["spec"].items() if name != "conversion"}
    return definition | {"spec": spec}
