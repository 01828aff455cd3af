"""The operations that read: each answers with what the model shows to the caller."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from msgspec.structs import replace

from quorate.api.meta import Key
from quorate.dashboard import schema as s
from quorate.dashboard.login.authorization import Authorization
from quorate.dashboard.login.caller import Caller
from quorate.dashboard.model.model import DashboardModel
from quorate.dashboard.serving import parameters as p
from quorate.dashboard.serving.responses import bad_request, not_found
from quorate.dashboard.simulation.forecasts import Forecasts
from quorate.kube.clock import Clock
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS, Resource

Handler = Callable[[web.Request, Caller], Awaitable[Any]]


class Reads:
    def __init__(
        self, model: DashboardModel, authorization: Authorization, forecasts: Forecasts, clock: Clock
    ) -> None:
        self._model = model
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
        return self._model.overview(caller.viewer, self._clock.now())

    async def _cluster_queues(
        self, request: web.Request, caller: Caller
    ) -> tuple[s.ClusterQueueSummary, ...]:
        return self._model.cluster_queues(caller.viewer)

    async def _cluster_queue(self, request: web.Request, caller: Caller) -> s.ClusterQueueDetail:
        name = request.match_info["name"]
        found = self._model.cluster_queue(caller.viewer, name)
        if found is None:
            raise not_found(f"the cluster queue {name}")
        return replace(found, may_stop=await self._may_patch(caller, CLUSTER_QUEUES, Key("", name)))

    async def _local_queues(self, request: web.Request, caller: Caller) -> tuple[s.LocalQueueSummary, ...]:
        return self._model.local_queues(caller.viewer)

    async def _workloads(self, request: web.Request, caller: Caller) -> s.WorkloadPage:
        return self._model.workloads(caller.viewer, p.workload_query(request), self._forecasts.estimates)

    async def _workload(self, request: web.Request, caller: Caller) -> s.WorkloadDetail:
        key = _key(request)
        client, estimates = caller.session.client, self._forecasts.estimates
        found = await self._model.workload(caller.viewer, key, client, estimates)
        if found is None:
            raise not_found(f"the workload {key}")
        return replace(found, may_stop=await self._may_patch(caller, WORKLOADS, key))

    async def _pod_groups(self, request: web.Request, caller: Caller) -> s.PodGroupPage:
        return self._model.pod_groups(caller.viewer, p.pod_group_query(request))

    async def _pod_group(self, request: web.Request, caller: Caller) -> s.PodGroupDetail:
        key = _key(request)
        found = await self._model.pod_group(caller.viewer, key, caller.session.client)
        if found is None:
            raise not_found(f"the pod group {key}")
        return found

    async def _gang_queues(self, request: web.Request, caller: Caller) -> tuple[s.GangQueueRow, ...]:
        return self._model.gang_queues(caller.viewer)

    async def _nodes(self, request: web.Request, caller: Caller) -> s.NodesView:
        topology = p.text(request, "topology")
        found = self._model.nodes(caller.viewer, topology, p.gang(request))
        if found is None:
            raise not_found(f"the topology {topology}" if topology and caller.viewer.nodes else "the nodes")
        return found

    async def _gang_placement(self, request: web.Request, caller: Caller) -> s.GangPlacement:
        gang = p.gang(request)
        if gang is None:
            raise bad_request("pods: write how many pods the gang has, and what each requests: pods=8&cpu=4")
        found = self._model.gang_placement(caller.viewer, gang)
        if found is None:
            raise not_found("the nodes")
        return found

    async def _search(self, request: web.Request, caller: Caller) -> s.SearchResult:
        return self._model.search(caller.viewer, p.text(request, "q"), p.number(request, "limit", 20, 100))

    async def _overview_history(self, request: web.Request, caller: Caller) -> s.Series:
        return await self._model.overview_history(caller.viewer, p.range_(request))

    async def _cluster_queue_history(self, request: web.Request, caller: Caller) -> s.Series:
        name = request.match_info["name"]
        found = await self._model.cluster_queue_history(caller.viewer, name, p.range_(request))
        if found is None:
            raise not_found(f"the cluster queue {name}")
        return found

    async def _transitions(self, request: web.Request, caller: Caller) -> tuple[s.Transition, ...]:
        limit = p.number(request, "limit", 100, 500)
        return await self._model.transitions(caller.viewer, p.text(request, "clusterQueue"), limit)

    async def _forecast(self, request: web.Request, caller: Caller) -> s.Forecast:
        return self._forecasts.seen_by(caller.viewer, p.text(request, "clusterQueue"))

    async def _may_patch(self, caller: Caller, resource: Resource[Any], key: Key) -> bool:
        return await self._authorization.may_patch(caller.session.user, resource, key)


def _key(request: web.Request) -> Key:
    return Key(request.match_info["namespace"], request.match_info["name"])
