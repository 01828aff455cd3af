"""Comparisons of the cluster as it is with manifests applied, for callers that may read all of it."""

import asyncio
from http import HTTPStatus
from typing import Final

from aiohttp import web
from msgspec.structs import replace

from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.dashboard.limits import COMPARED_BYTES, DEADLINE_S
from quorate.dashboard.login.sessions import Caller
from quorate.dashboard.responses import Refused, bad_request, forbidden, read_body
from quorate.dashboard.schema import WhatIfAnswer, WhatIfRequest
from quorate.dashboard.simulation.simulation_process import (
    Cluster,
    Compared,
    Failure,
    Foreseen,
    Outcome,
    OutlookTask,
    WhatIfTask,
    simulate,
)
from quorate.inspect.would_start import Outlook
from quorate.kube.resources import Json

_NEEDED: Final = (
    "it needs the permission to list workloads and clusterqueues (kueue.x-k8s.io) in all namespaces"
)


class WhatIf:
    def __init__(self, cluster: Cluster, most_waiting: int) -> None:
        self._cluster = cluster
        self._most_waiting = most_waiting
        self._running = asyncio.Lock()
        self._waiting = 0

    async def what_if(self, request: web.Request, caller: Caller) -> WhatIfAnswer:
        if not _reads_all(caller):
            raise forbidden(f"a comparison shows all workloads: {_NEEDED}")
        requested = await read_body(request, WhatIfRequest, COMPARED_BYTES)
        try:
            parse_duration(requested.run_duration)
        except InvalidDuration as error:
            raise bad_request(
                f"runDuration: {requested.run_duration!r} is not a duration (write 10m, 1h30m or 500ms)"
            ) from error
        cluster = replace(self._cluster, run_duration=requested.run_duration)
        outcome = await self._outcome(WhatIfTask(cluster=cluster, text=requested.manifests))
        assert isinstance(outcome, Compared), outcome
        return outcome.answer

    async def outlook(self, namespace: str, job: Json, caller: Caller) -> Outlook:
        """Return whether and when a job would start; ``Unknown`` if ``caller`` may not read all objects."""
        if not _reads_all(caller):
            return Outlook(starts="Unknown", message=f"whether it would start is not evaluated: {_NEEDED}")
        outcome = await self._outcome(OutlookTask(cluster=self._cluster, namespace=namespace, job=job))
        assert isinstance(outcome, Foreseen), outcome
        return outcome.outlook

    async def _outcome(self, task: WhatIfTask | OutlookTask) -> Outcome:
        """Return what the process of a simulation answers.

        Raises ``Refused`` if too many simulations wait, or if the process fails.
        """
        if self._waiting >= self._most_waiting:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "TooManyRequests",
                "other comparisons run: try again in a minute",
            )
        self._waiting += 1
        try:
            async with self._running:
                outcome = await simulate(task, DEADLINE_S)
        finally:
            self._waiting -= 1
        if isinstance(outcome, Failure):
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "SimulationFailed", outcome.problem)
        return outcome


def _reads_all(caller: Caller) -> bool:
    scope = caller.viewer.scope
    return scope.namespaces is None and scope.cluster_queues
