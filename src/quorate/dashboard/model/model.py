"""The model of the dashboard: all objects of the cluster, from informers.

It evaluates no workload: reasons are those in the objects' own status, and the explanation of one object is
requested from the controllers with the credentials of the user.  Kinds that the cluster does not serve, or
that the dashboard may not list, are looked for again from time to time; the views show everything else.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Sequence
from contextlib import asynccontextmanager

from quorate.api.configuration import Configuration
from quorate.controllers.informers import synced
from quorate.dashboard.limits import LOOK_AGAIN_S
from quorate.dashboard.model.changes import Changed, ChangeFeed
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.informers import informers_of
from quorate.dashboard.queries import Viewer
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import Forbidden
from quorate.kube.informer import Informer
from quorate.kube.log import logger
from quorate.kube.manager.restart import restarting
from quorate.kube.selection import Watched
from quorate.scheduler.feeds import find_served

FollowInformers = Callable[[Sequence[Watched], ClusterData], None]


class DashboardModel:
    """The data that all views show; ``ready`` is set once all kinds that the cluster serves are listed."""

    def __init__(self, clock: Clock, configuration: Configuration, follow: FollowInformers) -> None:
        """``follow`` is called with new informers, which feed the data, before they run."""
        self.ready = asyncio.Event()
        self.data = ClusterData(configuration)
        self._configuration = configuration
        self._clock = clock
        self._follow = follow
        self.changes = ChangeFeed(clock, self._visible)

    def _visible(self, viewer: Viewer) -> Container[str]:
        return self.data.cluster_queues(viewer)

    async def follow(self, client: Client) -> None:
        """Keep the data up to date until cancelled.

        After a restart the views show the previous data until the new ones are complete.
        """
        data = ClusterData(self._configuration)
        pending = informers_of(data, client, self._clock, self.changes.note)
        self._follow(pending, data)
        async with asyncio.TaskGroup() as tasks:
            while True:
                available = [await _is_available(client, informer) for informer in pending]
                started = [
                    informer for informer, is_there in zip(pending, available, strict=True) if is_there
                ]
                pending = [informer for informer in pending if informer not in started]
                for informer in started:
                    tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
                await synced(*started)
                if started:
                    data.state.nodes.set_has_nodes(
                        not {"nodes", "pods"} & {informer.resource.plural for informer in pending}
                    )
                    self.data = data
                    self.changes.note(Changed("all"))
                self.ready.set()
                steady = self._clock.steady
                await steady.sleep_until(steady.now() + LOOK_AGAIN_S)


@asynccontextmanager
async def run_model(
    client: Client,
    clock: Clock,
    configuration: Configuration,
    follow: FollowInformers = lambda informers, data: None,
) -> AsyncIterator[DashboardModel]:
    """Yield a model that follows the cluster within the block."""
    model = DashboardModel(clock, configuration, follow)
    async with restarting("model of the dashboard", lambda: model.follow(client), clock):
        yield model


async def _is_available(client: Client, informer: Watched) -> bool:
    """Return True if the cluster serves the kind of an informer and the dashboard may list it.

    The informer gets the kind in the version that the cluster serves.
    """
    resource = await find_served(client, informer.resource)
    if resource is None:
        return False
    if isinstance(informer, Informer):
        informer.resource = resource
    try:
        await client.request("GET", resource.path(), query={"limit": "1"})
    except Forbidden as error:
        logger(__name__).warning(
            "kind left out: it may not be listed", kind=resource.plural, problem=str(error)
        )
        return False
    return True
