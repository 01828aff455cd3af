"""The operations that read: each answers with what a view of the model shows to the caller."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web
from msgspec.structs import replace

from quorate.api.meta import Key, ObjectMeta
from quorate.dashboard import schema as s
from quorate.dashboard.history.history import History
from quorate.dashboard.history.series import no_series
from quorate.dashboard.login.authorization import Authorization
from quorate.dashboard.login.sessions import Caller
from quorate.dashboard.model.model import DashboardModel
from quorate.dashboard.queries import PodGroupQuery, Viewer, WorkloadQuery
from quorate.dashboard.responses import bad_request, not_found
from quorate.dashboard.serving import parameters as p
from quorate.dashboard.simulation.forecasts import Forecasts
from quorate.dashboard.views import (
    node_views,
    overview,
    pod_group_views,
    queue_views,
    search,
    workload_detail,
    workload_views,
)
from quorate.kube.clock import Clock
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS, Resource

_LOSSES_MAX: Final = 50  # evictions and preemptions that are shown of a cluster queue

Handler = Callable[[web.Request, Caller], Awaitable[Any]]


class Reads:
    def __init__(
        self,
        model: DashboardModel,
        history: History | None,
        authorization: Authorization,
        forecasts: Forecasts,
        clock: Clock,
    ) -> None:
        self._model = model
        self._history = history
        self._authorization = authorization
        self._forecasts = forecasts
        self._clock = clock

    def handlers(self) -> dict[str, Handler]:
        return {
            "getOverview": self._overview,
            "listClusterQueues": self._cluster_queues,
            "getClusterQueue": self._cluster_queue,
            "listLocalQueues": self._local_queues,
            "listWorkloads": self._workloads,
            "getWorkload": self._workload,
            "listPodGroups": self._pod_groups,
            "getPodGroup": self._pod_group,
            "listGangQueues": self._gang_queues,
            "getNodes": self._nodes,
            "placeGang": self._gang_placement,
            "search": self._search,
            "getOverviewHistory": self._overview_history,
            "getClusterQueueHistory": self._cluster_queue_history,
            "listTransitions": self._transitions,
            "getForecast": self._forecast,
        }

    async def _overview(self, request: web.Request, caller: Caller) -> s.Overview:
        return overview.overview(self._model.data, caller.viewer, self._clock.now())

    async def _cluster_queues(
        self, request: web.Request, caller: Caller
    ) -> tuple[s.ClusterQueueSummary, ...]:
        return queue_views.cluster_queues(self._model.data, caller.viewer, self._clock.now())

    async def _cluster_queue(self, request: web.Request, caller: Caller) -> s.ClusterQueueDetail:
        name, data, viewer = request.match_info["name"], self._model.data, caller.viewer
        history = self._history
        losses = () if history is None else history.losses(data, viewer, name, _LOSSES_MAX)
        detail = queue_views.cluster_queue(data, viewer, name, self._clock.now(), losses)
        if detail is None:
            raise not_found(f"the cluster queue {name}")
        return replace(detail, may_stop=await self._may_patch(caller, CLUSTER_QUEUES, Key("", name)))

    async def _local_queues(self, request: web.Request, caller: Caller) -> tuple[s.LocalQueueSummary, ...]:
        return queue_views.local_queues(self._model.data, caller.viewer, self._clock.now())

    async def _workloads(self, request: web.Request, caller: Caller) -> s.WorkloadPage:
        query = p.list_query(request, WorkloadQuery, workload_views.SORTS)
        return workload_views.workloads(self._model.data, caller.viewer, query, self._forecasts.estimates)

    async def _workload(self, request: web.Request, caller: Caller) -> s.WorkloadDetail:
        key, data, viewer = _key(request), self._model.data, caller.viewer
        listed = data.workloads.by_key.get(key)
        if listed is None or not viewer.reads(key):
            raise not_found(f"the workload {key}")
        recorded = await self._recorded(viewer, listed.workload.metadata)
        client, estimates = caller.session.client, self._forecasts.estimates
        detail = await workload_detail.workload(data, viewer, listed, client, recorded, estimates)
        return replace(detail, may_stop=await self._may_patch(caller, WORKLOADS, key))

    async def _pod_groups(self, request: web.Request, caller: Caller) -> s.PodGroupPage:
        query = p.list_query(request, PodGroupQuery, pod_group_views.SORTS)
        return pod_group_views.pod_groups(self._model.data, caller.viewer, query)

    async def _pod_group(self, request: web.Request, caller: Caller) -> s.PodGroupDetail:
        key, data, viewer = _key(request), self._model.data, caller.viewer
        group = data.pod_groups.get(key)
        if group is None or not viewer.reads_pod_group(key):
            raise not_found(f"the pod group {key}")
        recorded = await self._recorded(viewer, group.metadata)
        return await pod_group_views.pod_group(data, viewer, group, caller.session.client, recorded)

    async def _recorded(self, viewer: Viewer, metadata: ObjectMeta) -> tuple[s.Transition, ...]:
        history = self._history
        return () if history is None else await history.of_object(self._model.data, viewer, metadata.uid)

    async def _gang_queues(self, request: web.Request, caller: Caller) -> tuple[s.GangQueueRow, ...]:
        return pod_group_views.gang_queues(self._model.data, caller.viewer)

    async def _nodes(self, request: web.Request, caller: Caller) -> s.NodesView:
        topology = p.text(request, "topology")
        view = node_views.nodes(self._model.data, caller.viewer, topology, p.gang(request))
        if view is None:
            raise not_found(f"the topology {topology}" if topology and caller.viewer.nodes else "the nodes")
        return view

    async def _gang_placement(self, request: web.Request, caller: Caller) -> s.GangPlacement:
        gang = p.gang(request)
        if gang is None:
            raise bad_request("pods: write how many pods the gang has, and what each requests: pods=8&cpu=4")
        placement = node_views.gang_placement(self._model.data, caller.viewer, gang)
        if placement is None:
            raise not_found("the nodes")
        return placement

    async def _search(self, request: web.Request, caller: Caller) -> s.SearchResult:
        text, limit = p.text(request, "q"), p.number(request, "limit", 20, 100)
        return search.search(self._model.data, caller.viewer, text, limit)

    async def _overview_history(self, request: web.Request, caller: Caller) -> s.Series:
        range_, history = p.range_(request), self._history
        if history is None:
            return no_series(range_)
        return await history.overview(self._model.data, caller.viewer, range_)

    async def _cluster_queue_history(self, request: web.Request, caller: Caller) -> s.Series:
        name, range_, data = request.match_info["name"], p.range_(request), self._model.data
        history, viewer = self._history, caller.viewer
        if history is not None:
            series = await history.cluster_queue(data, viewer, name, range_)
        else:
            series = no_series(range_) if name in data.cluster_queues(viewer) else None
        if series is None:
            raise not_found(f"the cluster queue {name}")
        return series

    async def _transitions(self, request: web.Request, caller: Caller) -> tuple[s.Transition, ...]:
        limit, history = p.number(request, "limit", 100, 500), self._history
        if history is None:
            return ()
        cluster_queue = p.text(request, "clusterQueue")
        return await history.transitions(self._model.data, caller.viewer, cluster_queue, limit)

    async def _forecast(self, request: web.Request, caller: Caller) -> s.Forecast:
        return self._forecasts.seen_by(caller.viewer, p.text(request, "clusterQueue"))

    async def _may_patch(self, caller: Caller, resource: Resource[Any], key: Key) -> bool:
        return await self._authorization.may_patch(caller.session.user, resource, key)


def _key(request: web.Request) -> Key:
    return Key(request.match_info["namespace"], request.match_info["name"])
