"""What controllers of a simulated cluster know at one moment: workloads, and what the past teaches."""

from collections.abc import Iterable, Mapping

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.kube.resources import WORKLOADS
from quorate.queueing.planning.work_kinds import WorkKind, kind_of, queue_of
from quorate.simulate.engine.simulated_job import SimulatedJob
from quorate.simulate.estimates.expected_arrivals import ArrivalStore
from quorate.simulate.estimates.run_time_store import RunTimeStore
from quorate.simulate.estimates.snapshot import run_times, with_expected, with_run_times
from quorate.simulate.inputs.submissions import MS
from quorate.simulate.inputs.world import World
from quorate.simulate.limits import ASSUMED_RUN_S


class ObservedHistory:
    """Submissions so far, and the run times of the jobs that have ended."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._arrivals = ArrivalStore()
        self._run_times = RunTimeStore()

    def submitted(self, workload: Workload) -> None:
        self._arrivals.learn(workload)

    def ended(self, job: SimulatedJob) -> None:
        runs_s = (job.submission.starts_ms + job.submission.runs_ms) / MS
        self._run_times.add(kind_of(job.workload), str(job.number), runs_s)

    def known_of(self, workload: Workload) -> int:
        """Return how many jobs of the queue of a workload have ended, at most as many as are kept."""
        return len(self._run_times.times_of(WorkKind(queue_of(workload))))

    def world_at(self, now_ms: int, workloads: Iterable[Workload], waiting: int) -> World:
        """Return the world as a forecast sees it at ``now_ms``, with ``workloads``, of which some wait."""
        workloads = list(workloads)
        world, now = self._world, self._world.begins_s + now_ms / MS
        scenario = msgspec.structs.replace(
            world.scenario, classes=(), traces=(), models=(), begins_s=now, until_s=None
        )
        snapshot = msgspec.structs.replace(world.with_objects(WORKLOADS, workloads), scenario=scenario)
        with_times = with_run_times(snapshot, run_times(workloads, ASSUMED_RUN_S, self._run_times))
        expected = self._arrivals.expected(self._run_times, now, ASSUMED_RUN_S, waiting)
        return with_expected(with_times, expected)


def waiting_jobs(jobs: Mapping[Key, SimulatedJob]) -> int:
    """Return how many of ``jobs`` do not run."""
    return sum(not job.is_running for job in jobs.values())
