"""Forecasts of when waiting workloads start, refreshed again and again while the dashboard is used.

They are the estimates that the controllers serve, which explanations show too.  Where none are served,
a process of its own plays the cluster within a budget of processor time, so that a larger backlog gets fewer
runs, not an older forecast.  Between two forecasts it rests, so that it uses a third of a core at most.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from math import inf
from typing import Final

from msgspec.structs import replace

from quorate.api.explanation import StartEstimate as ServedEstimate
from quorate.api.meta import Key
from quorate.dashboard.limits import BUDGET_S, DEADLINE_S, FORECAST_REST, SHORTEST_PERIOD_S
from quorate.dashboard.queries import NO_ESTIMATES, Estimates, Viewer
from quorate.dashboard.refreshing import refresh_while_used
from quorate.dashboard.schema import Forecast, StartEstimate
from quorate.dashboard.simulation.simulation_process import (
    Cluster,
    Failure,
    Forecasted,
    ForecastTask,
    simulate,
)
from quorate.inspect.explain.served import served_estimates
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.log import logger

_NONE: Final = Forecast(at=None, plays=0, horizon_s=None, took_s=0.0, problem="", starts=())


class Forecasts:
    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        clock: Clock,
        is_used: Callable[[], bool],
        local_queue_of: Callable[[Key], str],
        cluster_queue_of: Callable[[Key], str],
        announce: Callable[[], None],
    ) -> None:
        """Queues are names: ``local_queue_of`` a workload, ``cluster_queue_of`` a local queue.

        ``announce`` is called after each forecast.
        """
        self.estimates: Estimates = NO_ESTIMATES
        self._cluster = cluster
        self._client = client
        self._clock = clock.steady
        self._is_used = is_used
        self._local_queue_of = local_queue_of
        self._cluster_queue_of = cluster_queue_of
        self._announce = announce
        self._latest = _NONE

    async def run(self) -> None:
        """Compute forecasts until cancelled."""
        await refresh_while_used(self._refresh, self._is_used, self._clock, SHORTEST_PERIOD_S, FORECAST_REST)

    async def _refresh(self) -> None:
        served = await served_estimates(self._client, "")
        if served:
            self._replace(self._forecast_of(served))
        else:
            await self._compute()
        self._announce()

    def _forecast_of(self, served: Mapping[Key, ServedEstimate]) -> Forecast:
        at = max(estimate.computed_at for estimate in served.values())
        starts = [
            StartEstimate(
                namespace=key.namespace,
                name=key.name,
                local_queue=self._local_queue_of(key),
                p50=estimate.p50,
                p90=estimate.p90,
            )
            for key, estimate in sorted(served.items())
        ]
        starts.sort(key=lambda start: (_or_never(start.p50), _or_never(start.p90)))
        runs = min(estimate.runs for estimate in served.values())
        return replace(_NONE, at=at, plays=runs, starts=tuple(starts))

    def _replace(self, forecast: Forecast) -> None:
        starts = {Key(start.namespace, start.name): (start.p50, start.p90) for start in forecast.starts}
        self._latest, self.estimates = forecast, Estimates(forecast.at, starts)

    async def _compute(self) -> None:
        match await simulate(ForecastTask(cluster=self._cluster, budget_s=BUDGET_S), DEADLINE_S):
            case Forecasted(forecast):
                self._replace(forecast)
            case Failure(problem):
                logger(__name__).warning("no forecast", problem=problem)
                self._latest = replace(self._latest, problem=problem)
            case other:
                raise AssertionError(f"a forecast was answered by {other}")

    def seen_by(self, viewer: Viewer, cluster_queue: str) -> Forecast:
        """Return the estimates of the workloads that the viewer may read, of one queue if it is named."""
        starts = tuple(
            start
            for start in self._latest.starts
            if viewer.reads_namespace(start.namespace)
            and cluster_queue in ("", self._cluster_queue_of(Key(start.namespace, start.local_queue)))
        )
        return replace(self._latest, starts=starts)


def _or_never(moment: datetime | None) -> float:
    return inf if moment is None else moment.timestamp()
