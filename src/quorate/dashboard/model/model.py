"""The model of the dashboard: all objects of the cluster, from informers.

It evaluates no workload: reasons are those in the objects' own status, and the explanation of one object is
requested from the controllers with the credentials of the user.  Kinds that the cluster does not serve, or
that the dashboard may not list, are looked for again from time to time; the views show everything else.
"""

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from typing import Any

from quorate.api.configuration import Configuration
from quorate.controllers.informers import synced
from quorate.dashboard.history.history import History
from quorate.dashboard.limits import LOOK_AGAIN_S
from quorate.dashboard.model.changes import Changed, ChangeFeed
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.informers import informers_of, record_changes
from quorate.dashboard.queries import Viewer
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import Forbidden
from quorate.kube.log import logger
from quorate.kube.manager.restart import run_restarting
from quorate.kube.resources import Resource
from quorate.scheduler.feeds import serves


class DashboardModel:
    """The data that all views show; ``ready`` is set once all kinds that the cluster serves are listed."""

    def __init__(self, clock: Clock, configuration: Configuration, history: History | None) -> None:
        self.ready = asyncio.Event()
        self.data = ClusterData(configuration)
        self._configuration = configuration
        self._clock = clock
        self.history = history  # None: no history is kept
        self.changes = ChangeFeed(clock, self._visible)

    def _visible(self, viewer: Viewer) -> Container[str]:
        return self.data.cluster_queues(viewer)

    async def follow(self, client: Client) -> None:
        """Keep the data up to date until cancelled.

        After a restart the views show the previous data until the new ones are complete.
        """
        data = ClusterData(self._configuration)
        pending = informers_of(data, client, self._clock, self.changes.note)
        if self.history is not None:
            record_changes(pending, data, self.history)
        async with asyncio.TaskGroup() as tasks:
            while True:
                available = [await _is_available(client, each.resource) for each in pending]
                started = [each for each, is_there in zip(pending, available, strict=True) if is_there]
                pending = [each for each in pending if each not in started]
                for informer in started:
                    tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
                await synced(*started)
                if started:
                    data.state.nodes.set_has_nodes(
                        not {"nodes", "pods"} & {each.resource.plural for each in pending}
                    )
                    self.data = data
                    self.changes.note(Changed("all"))
                self.ready.set()
                steady = self._clock.steady
                await steady.sleep_until(steady.now() + LOOK_AGAIN_S)


@asynccontextmanager
async def run_model(
    client: Client, clock: Clock, configuration: Configuration, history: History | None = None
) -> AsyncIterator[DashboardModel]:
    """Yield a model that follows the cluster, and records its history, within the block."""
    model = DashboardModel(clock, configuration, history)
    parts = [asyncio.create_task(_follow(client, clock, model), name="model of the dashboard")]
    if history is not None:
        parts.append(asyncio.create_task(_record(clock, model, history), name="history of the dashboard"))
    try:
        yield model
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)


async def _is_available(client: Client, resource: Resource[Any]) -> bool:
    """Return True if the cluster serves a kind and the dashboard may list it."""
    if not await serves(client, resource):
        return False
    try:
        await client.request("GET", resource.path(), query={"limit": "1"})
    except Forbidden as error:
        logger(__name__).warning(
            "kind left out: it may not be listed", kind=resource.plural, problem=str(error)
        )
        return False
    return True


async def _follow(client: Client, clock: Clock, model: DashboardModel) -> None:
    await run_restarting("model of the dashboard", lambda: model.follow(client), clock)


async def _record(clock: Clock, model: DashboardModel, history: History) -> None:
    async def record() -> None:
        await model.ready.wait()
        await history.run(lambda: model.data)

    await run_restarting("history of the dashboard", record, clock)
