"""The model of the dashboard: all objects from informers, and every view of them for one caller.

It evaluates no workload: reasons are those in the objects' own status, and the explanation of one object is
requested from the controllers with the credentials of the user.  Kinds that the cluster does not serve are
looked for again from time to time.
"""

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.cli.dashboard import (
    node_views,
    overview,
    pod_group_views,
    queue_views,
    search,
    workload_detail,
    workload_views,
)
from quorate.cli.dashboard.changes import Changed, ChangeFeed
from quorate.cli.dashboard.cluster_data import ClusterData
from quorate.cli.dashboard.informers import informers_of
from quorate.cli.dashboard.queries import NO_ESTIMATES, Estimates, Gang, PodGroupQuery, Viewer, WorkloadQuery
from quorate.cli.dashboard.schema import (
    ClusterQueueDetail,
    ClusterQueueSummary,
    GangPlacement,
    GangQueueRow,
    LocalQueueSummary,
    NodesView,
    Overview,
    PodGroupDetail,
    PodGroupPage,
    SearchResult,
    WorkloadDetail,
    WorkloadPage,
)
from quorate.controllers.informers import synced
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.manager.restart import run_restarting
from quorate.scheduler.feeds import serves

LOOK_AGAIN_S: Final = 60.0  # for kinds that were not served


class DashboardModel:
    """See the module docstring.  ``ready`` is set once all kinds that the cluster serves are listed."""

    def __init__(self, clock: Clock, configuration: Configuration) -> None:
        self.ready = asyncio.Event()
        self.data = ClusterData(configuration)
        self._configuration = configuration
        self._clock = clock
        self._changes = ChangeFeed(clock, self._visible)

    # Views.

    def overview(self, viewer: Viewer, now: float) -> Overview:
        return overview.overview(self.data, viewer, now)

    def cluster_queues(self, viewer: Viewer) -> tuple[ClusterQueueSummary, ...]:
        return queue_views.cluster_queues(self.data, viewer, self._clock.now())

    def cluster_queue(self, viewer: Viewer, name: str) -> ClusterQueueDetail | None:
        """Return one cluster queue; None if it does not exist or the viewer may not see it."""
        return queue_views.cluster_queue(self.data, viewer, name, self._clock.now(), ())

    def local_queues(self, viewer: Viewer) -> tuple[LocalQueueSummary, ...]:
        return queue_views.local_queues(self.data, viewer, self._clock.now())

    def workloads(
        self, viewer: Viewer, query: WorkloadQuery, estimates: Estimates = NO_ESTIMATES
    ) -> WorkloadPage:
        return workload_views.workloads(self.data, viewer, query, estimates)

    async def workload(
        self, viewer: Viewer, key: Key, reader: Client, estimates: Estimates = NO_ESTIMATES
    ) -> WorkloadDetail | None:
        """Return one workload; ``reader`` has the credentials of the user."""
        return await workload_detail.workload(self.data, viewer, key, reader, (), estimates)

    def pod_groups(self, viewer: Viewer, query: PodGroupQuery) -> PodGroupPage:
        return pod_group_views.pod_groups(self.data, viewer, query)

    async def pod_group(self, viewer: Viewer, key: Key, reader: Client) -> PodGroupDetail | None:
        """Return one pod group; ``reader`` has the credentials of the user."""
        return await pod_group_views.pod_group(self.data, viewer, key, reader, ())

    def gang_queues(self, viewer: Viewer) -> tuple[GangQueueRow, ...]:
        return pod_group_views.gang_queues(self.data, viewer)

    def nodes(self, viewer: Viewer, topology: str, gang: Gang | None) -> NodesView | None:
        """Return the nodes; None if the topology does not exist or the viewer may not list nodes."""
        return node_views.nodes(self.data, viewer, topology, gang)

    def gang_placement(self, viewer: Viewer, gang: Gang) -> GangPlacement | None:
        """Return where a gang would go now; None if the viewer may not list nodes."""
        return node_views.gang_placement(self.data, viewer, gang)

    def search(self, viewer: Viewer, text: str, limit: int) -> SearchResult:
        return search.search(self.data, viewer, text, limit)

    def changes(self) -> ChangeFeed:
        return self._changes

    def _visible(self, viewer: Viewer) -> Container[str]:
        return self.data.cluster_queues(viewer)

    # Objects.

    async def follow(self, client: Client) -> None:
        """Keep the data up to date until cancelled.

        After a restart the views show the previous data until the new ones are complete.
        """
        data = ClusterData(self._configuration)
        pending = informers_of(data, client, self._clock, self._changes.note)
        async with asyncio.TaskGroup() as tasks:
            while True:
                served = [await serves(client, each.resource) for each in pending]
                started = [each for each, is_served in zip(pending, served, strict=True) if is_served]
                pending = [each for each in pending if each not in started]
                for informer in started:
                    tasks.create_task(informer.run(), name=f"watch {informer.resource.plural}")
                await synced(*started)
                if started:
                    data.state.set_has_nodes(True)
                    self.data = data
                    self._changes.note(Changed("all"))
                self.ready.set()
                steady = self._clock.steady
                await steady.sleep_until(steady.now() + LOOK_AGAIN_S)


@asynccontextmanager
async def run_model(
    client: Client, clock: Clock, configuration: Configuration
) -> AsyncIterator[DashboardModel]:
    """Yield a model that follows the cluster within the block."""
    model = DashboardModel(clock, configuration)
    following = asyncio.create_task(_follow(client, clock, model), name="model of the dashboard")
    try:
        yield model
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def _follow(client: Client, clock: Clock, model: DashboardModel) -> None:
    await run_restarting("model of the dashboard", lambda: model.follow(client), clock)
