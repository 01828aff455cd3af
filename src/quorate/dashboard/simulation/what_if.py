"""Comparisons of the cluster as it is with manifests applied, for callers that may read all of it."""

import asyncio
from http import HTTPStatus

from aiohttp import web
from msgspec.structs import replace

from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.dashboard.limits import COMPARED_BYTES, DEADLINE_S
from quorate.dashboard.login.caller import Caller
from quorate.dashboard.responses import Refused, bad_request, forbidden, read_body
from quorate.dashboard.schema import WhatIfAnswer, WhatIfRequest
from quorate.dashboard.simulation.simulation_process import Cluster, Compared, Failure, WhatIfTask
from quorate.dashboard.simulation.simulations import simulate


class WhatIf:
    def __init__(self, cluster: Cluster, most_waiting: int) -> None:
        self._cluster = cluster
        self._most_waiting = most_waiting
        self._running = asyncio.Lock()
        self._waiting = 0

    async def what_if(self, request: web.Request, caller: Caller) -> WhatIfAnswer:
        scope = caller.viewer.scope
        if scope.namespaces is not None or not scope.cluster_queues:
            raise forbidden(
                "a comparison shows all workloads: it needs the permission to list workloads and "
                "clusterqueues (kueue.x-k8s.io) in all namespaces"
            )
        requested = await read_body(request, WhatIfRequest, COMPARED_BYTES)
        try:
            parse_duration(requested.run_duration)
        except InvalidDuration as error:
            raise bad_request(
                f"runDuration: {requested.run_duration!r} is not a duration (write 10m, 1h30m or 500ms)"
            ) from error
        if self._waiting >= self._most_waiting:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "TooManyRequests",
                "other comparisons run: try again in a minute",
            )
        self._waiting += 1
        try:
            async with self._running:
                cluster = replace(self._cluster, run_duration=requested.run_duration)
                outcome = await simulate(WhatIfTask(cluster=cluster, text=requested.manifests), DEADLINE_S)
        finally:
            self._waiting -= 1
        match outcome:
            case Compared(answer):
                return answer
            case Failure(problem):
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "SimulationFailed", problem)
            case other:
                raise AssertionError(f"a comparison was answered by {other}")
