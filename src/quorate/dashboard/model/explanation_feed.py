"""The states and reasons of all workloads and pod groups, read again and again while the dashboard is used.

The longer a list takes, the longer the pause before the next one.  Where the controllers do not answer, this
process evaluates the cluster, as the commands do.
"""

import asyncio
from collections.abc import Callable

from quorate.dashboard.limits import EXPLAINED_REST, EXPLAINED_SLICE, SHORTEST_EXPLAINED_S
from quorate.dashboard.model.changes import Changed
from quorate.dashboard.model.model import DashboardModel
from quorate.dashboard.refreshing import refresh_while_used
from quorate.inspect.explain.summaries import summaries
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.log import logger
from quorate.kube.resources import POD_GROUPS, WORKLOADS


class ExplanationFeed:
    def __init__(
        self, model: DashboardModel, client: Client, clock: Clock, is_used: Callable[[], bool]
    ) -> None:
        self._model = model
        self._client = client
        self._clock = clock.steady
        self._is_used = is_used
        self._problem = ""

    async def run(self) -> None:
        """Read the summaries until cancelled."""
        await refresh_while_used(
            self.refresh, self._is_used, self._clock, SHORTEST_EXPLAINED_S, EXPLAINED_REST
        )

    async def refresh(self) -> None:
        """Read the summaries of all workloads and pod groups, and show them."""
        workloads = await summaries(self._client, WORKLOADS.kind, "")
        pod_groups = await summaries(self._client, POD_GROUPS.kind, "")
        problem = workloads.problem or pod_groups.problem
        if problem not in ("", self._problem):
            logger(__name__).warning("states are not those of the controllers", problem=problem)
        self._problem = problem
        data, note = self._model.data, self._model.changes.note
        for number, key in enumerate(data.workloads.set_summaries(workloads.by_key), start=1):
            if data.workloads.refresh(key):
                names = (data.cluster_queue_of_workload(key),)
                note(Changed("workload", key, tuple(filter(None, names))))
            if number % EXPLAINED_SLICE == 0:
                await asyncio.sleep(0)
        before, data.pod_group_summaries = data.pod_group_summaries, pod_groups.by_key
        for key in data.pod_groups:
            if before.get(key) != pod_groups.by_key.get(key):
                data.pod_group_revision += 1
                note(Changed("pod_group", key))
