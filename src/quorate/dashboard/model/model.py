"""The model of the dashboard: all objects from informers, and every view of them for one caller.

It evaluates no workload: reasons are those in the objects' own status, and the explanation of one object is
requested from the controllers with the credentials of the user.  Kinds that the cluster does not serve, or
that the dashboard may not list, are looked for again from time to time; the views show everything else.
"""

import asyncio
from collections.abc import AsyncIterator, Container
from contextlib import asynccontextmanager
from typing import Any, Final

from quorate.api.configuration import Configuration
from quorate.api.meta import Key, ObjectMeta
from quorate.controllers.informers import synced
from quorate.dashboard.history.history import History
from quorate.dashboard.history.series import Range, no_series
from quorate.dashboard.model.changes import Changed, ChangeFeed
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.informers import informers_of, record_changes
from quorate.dashboard.queries import NO_ESTIMATES, Estimates, Gang, PodGroupQuery, Viewer, WorkloadQuery
from quorate.dashboard.schema import (
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
    Series,
    Transition,
    WorkloadDetail,
    WorkloadPage,
)
from quorate.dashboard.views import (
    node_views,
    overview,
    pod_group_views,
    queue_views,
    search,
    workload_detail,
    workload_views,
)
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import Forbidden
from quorate.kube.log import logger
from quorate.kube.manager.restart import run_restarting
from quorate.kube.resources import Resource
from quorate.scheduler.feeds import serves

LOSSES_MAX: Final = 50  # evictions and preemptions that are shown of a cluster queue
LOOK_AGAIN_S: Final = 60.0  # for kinds that were not served


class DashboardModel:
    """See the module docstring.  ``ready`` is set once all kinds that the cluster serves are listed."""

    def __init__(self, clock: Clock, configuration: Configuration, history: History | None) -> None:
        self.ready = asyncio.Event()
        self.data = ClusterData(configuration)
        self._configuration = configuration
        self._clock = clock
        self._history = history
        self._changes = ChangeFeed(clock, self._visible)

    # Views.

    def overview(self, viewer: Viewer, now: float) -> Overview:
        return overview.overview(self.data, viewer, now)

    def cluster_queues(self, viewer: Viewer) -> tuple[ClusterQueueSummary, ...]:
        return queue_views.cluster_queues(self.data, viewer, self._clock.now())

    def cluster_queue(self, viewer: Viewer, name: str) -> ClusterQueueDetail | None:
        """Return one cluster queue; None if it does not exist or the viewer may not see it."""
        losses = self._history.losses(self.data, viewer, name, LOSSES_MAX) if self._history else ()
        return queue_views.cluster_queue(self.data, viewer, name, self._clock.now(), losses)

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
        listed = self.data.workloads.by_key.get(key)
        if listed is None or not viewer.reads(key):
            return None
        recorded = await self._recorded(viewer, listed.workload.metadata)
        return await workload_detail.workload(self.data, viewer, key, reader, recorded, estimates)

    def pod_groups(self, viewer: Viewer, query: PodGroupQuery) -> PodGroupPage:
        return pod_group_views.pod_groups(self.data, viewer, query)

    async def pod_group(self, viewer: Viewer, key: Key, reader: Client) -> PodGroupDetail | None:
        """Return one pod group; ``reader`` has the credentials of the user."""
        group = self.data.pod_groups.get(key)
        if group is None or not viewer.reads_pod_groups_of(key.namespace):
            return None
        recorded = await self._recorded(viewer, group.metadata)
        return await pod_group_views.pod_group(self.data, viewer, key, reader, recorded)

    async def _recorded(self, viewer: Viewer, metadata: ObjectMeta) -> tuple[Transition, ...]:
        if self._history is None:
            return ()
        return await self._history.of_object(self.data, viewer, metadata.uid)

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

    async def overview_history(self, viewer: Viewer, range_: Range) -> Series:
        if self._history is None:
            return no_series(range_)
        return await self._history.overview(self.data, viewer, range_)

    async def cluster_queue_history(self, viewer: Viewer, name: str, range_: Range) -> Series | None:
        """Return the series of a cluster queue; None if the viewer may not see its totals."""
        if self._history is None:
            return no_series(range_) if name in self.data.cluster_queues(viewer) else None
        return await self._history.cluster_queue(self.data, viewer, name, range_)

    async def transitions(self, viewer: Viewer, cluster_queue: str, limit: int) -> tuple[Transition, ...]:
        """Return the latest evictions and preemptions of workloads that the viewer may read."""
        if self._history is None:
            return ()
        return await self._history.transitions(self.data, viewer, cluster_queue, limit)

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
        if self._history is not None:
            record_changes(pending, data, self._history)
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
                    self._changes.note(Changed("all"))
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
