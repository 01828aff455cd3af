"""Forecasts of when waiting workloads start, computed again and again while the dashboard is used.

A process of its own plays the cluster within a budget of processor time, so that a larger backlog gets fewer
runs, not an older forecast.  Between two forecasts it rests, so that it uses a third of a core at most.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from quorate.api.meta import Key
from quorate.cli.dashboard.queries import NO_ESTIMATES, Estimates, Viewer
from quorate.cli.dashboard.schema import Forecast
from quorate.cli.dashboard.simulation.simulation_process import Cluster, Failure, Forecasted, ForecastTask
from quorate.cli.dashboard.simulation.simulations import simulate
from quorate.kube.clock import Clock
from quorate.kube.log import logger

BUDGET_S: Final = 8.0  # of processor time for the runs; reading 10,000 workloads takes another second or two
DEADLINE_S: Final = 120.0
SHORTEST_PERIOD_S: Final = 30.0
_REST: Final = 2.0  # times the duration of the last one
_NONE: Final = Forecast(at=None, plays=0, horizon_s=None, took_s=0.0, problem="", starts=())


class Forecasts:
    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        is_used: Callable[[], bool],
        cluster_queue_of: Callable[[Key], str],
        announce: Callable[[], None],
    ) -> None:
        """``cluster_queue_of`` a local queue; ``announce`` is called after each forecast."""
        self.estimates: Estimates = NO_ESTIMATES
        self._cluster = cluster
        self._clock = clock.steady
        self._is_used = is_used
        self._cluster_queue_of = cluster_queue_of
        self._announce = announce
        self._latest = _NONE

    async def run(self) -> None:
        """Compute forecasts until cancelled."""
        while True:
            begin = self._clock.now()
            if self._is_used():
                await self._refresh()
                period_s = max(SHORTEST_PERIOD_S, (self._clock.now() - begin) * (1 + _REST))
            else:
                period_s = 1.0
            await self._clock.sleep_until(begin + period_s)

    async def _refresh(self) -> None:
        match await simulate(ForecastTask(cluster=self._cluster, budget_s=BUDGET_S), DEADLINE_S):
            case Forecasted(forecast):
                starts = {
                    Key(each.namespace, each.name): (each.p50_s, each.p90_s) for each in forecast.starts
                }
                self._latest, self.estimates = forecast, Estimates(forecast.at, starts)
            case Failure(problem):
                logger(__name__).warning("no forecast", problem=problem)
                self._latest = replace(self._latest, problem=problem)
            case other:
                raise AssertionError(f"a forecast was answered by {other}")
        self._announce()

    def seen_by(self, viewer: Viewer, cluster_queue: str) -> Forecast:
        """Return the estimates of the workloads that the viewer may read, of one queue if it is named."""
        starts = tuple(
            each
            for each in self._latest.starts
            if viewer.reads_namespace(each.namespace)
            and cluster_queue in ("", self._cluster_queue_of(Key(each.namespace, each.local_queue)))
        )
        return replace(self._latest, starts=starts)
