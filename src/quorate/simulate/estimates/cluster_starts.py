"""When clusters would start a workload that does not exist in them yet: what EarliestStart dispatches by."""

from collections.abc import Callable, Mapping
from typing import Final

from quorate.api.meta import Key
from quorate.api.names import multikueue
from quorate.controllers.multikueue.dispatch.dispatchers import (
    ClusterStart,
    StartsBy,
    StartsLater,
    cluster_start,
    configured_dispatchers,
)
from quorate.simulate.engine.clusters import Clusters, ClustersRun
from quorate.simulate.engine.simulated_job import SimulatedJob
from quorate.simulate.estimates.forecast import forecast_one
from quorate.simulate.estimates.observed_history import ObservedHistory, waiting_jobs
from quorate.simulate.inputs.cluster_worlds import cluster_worlds
from quorate.simulate.inputs.worker_clusters import ALL_AT_ONCE, EARLIEST_START, INCREMENTAL
from quorate.simulate.inputs.world import World
from quorate.simulate.limits import CLUSTER_PLAYS

_NAMES: Final = {
    ALL_AT_ONCE: multikueue.ALL_AT_ONCE,
    INCREMENTAL: multikueue.INCREMENTAL,
    EARLIEST_START: multikueue.EARLIEST_START,
}


class SimulatedStarts:
    """Forecasts of the workers of a run, by what their controllers would know."""

    def __init__(
        self, clusters: Clusters, worlds: Mapping[str, World], plays: int, *, learns: bool = True
    ) -> None:
        """``learns``: take run times and submissions from the past, otherwise from the jobs' declarations."""
        self.questions = 0
        self._answers: dict[tuple[str, Key], tuple[int, ClusterStart]] = {}  # with ``changes`` at that time
        self._clusters = clusters
        self._plays = plays
        self._histories = {name: ObservedHistory(world) for name, world in worlds.items()}
        if learns:
            clusters.on_copied = lambda name, copy: self._histories[name].submitted(copy.workload)
            clusters.on_ended = lambda name, copy: self._histories[name].ended(copy)

    def starts_of(self, job: SimulatedJob) -> Mapping[str, ClusterStart]:
        """Return when the workers would start a job of the manager."""
        return {name: self._start_in(name, job) for name in self._clusters.workers}

    def _start_in(self, name: str, job: SimulatedJob) -> ClusterStart:
        """Return when a worker would start a job; the last answer holds until something happens there."""
        player, changes = self._clusters.workers[name], self._clusters.changes[name]
        now = player.clock.now
        answered, start = self._answers.get((name, job.key), (-1, StartsLater()))
        is_past = isinstance(start, StartsBy) and start.p50 <= now
        if answered == changes and not is_past:
            return start
        self.questions += 1
        workloads = {copy.key: copy.workload for copy in player.jobs.values()}
        waiting = waiting_jobs(player.jobs)
        if job.key not in workloads:
            workloads[job.key] = player.workload_of(job.submission)
            waiting += 1
        world = self._histories[name].world_at(player.clock.ms, workloads.values(), waiting)
        start = cluster_start(forecast_one(world, job.key, self._plays), now)
        self._answers[name, job.key] = changes, start
        return start


def play_clusters(
    world: World, dispatcher: str, on_progress: Callable[[int], object] = lambda ended: None
) -> ClustersRun:
    """Play a world with worker clusters; ``dispatcher`` is a name from the scenario's ``dispatchers``.

    EarliestStart knows what the controllers of the workers would have learned.  Raises ``InvalidWorld``.
    """
    manager, workers = cluster_worlds(world)
    clusters = Clusters(manager, workers)
    dispatch = configured_dispatchers(world.configuration)[_NAMES[dispatcher]]
    if dispatcher != EARLIEST_START:
        return clusters.run(dispatch, on_progress=on_progress)
    starts = SimulatedStarts(clusters, workers, CLUSTER_PLAYS)
    return clusters.run(dispatch, starts.starts_of, on_progress)
