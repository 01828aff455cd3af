"""Forecasts: when what waits would start, from many runs of one world.

Each run draws other run times for the workloads that exist, with a seed of its own.  Jobs that will be
submitted are not known: a forecast is about the workloads that are there.
"""

import math
from collections.abc import Callable
from typing import Final

import msgspec

from quorate.api.meta import Key
from quorate.simulate.existing import existing_jobs
from quorate.simulate.player import play
from quorate.simulate.records import NEVER
from quorate.simulate.world import World

PLAYS: Final = 20


class StartTime(msgspec.Struct, frozen=True, rename="camel"):
    """When one waiting workload starts, in seconds from the beginning of the world.

    A quantile is None if the workload does not start in that part of the runs.
    """

    namespace: str
    name: str
    queue: str
    p50_s: float | None
    p90_s: float | None
    started: int  # in how many of the runs
    plays: int

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


def forecast(
    world: World, plays: int = PLAYS, on_progress: Callable[[int], object] = lambda played: None
) -> tuple[StartTime, ...]:
    """Return the start of each workload that waits for admission: the first to start first, then by key.

    The same world gives the same forecast.  ``on_progress`` gets the number of runs so far.
    """
    waiting = {
        number: job.workload
        for number, job in enumerate(existing_jobs(world))
        if job.admitted_ms is None and job.workload.spec.active
    }
    starts: dict[int, list[float]] = {number: [] for number in waiting}
    for number in range(plays if waiting else 0):
        scenario = msgspec.structs.replace(world.scenario, seed=world.scenario.seed + number)
        run = play(msgspec.structs.replace(world, scenario=scenario))
        for job, times in starts.items():  # existing workloads are the first jobs of a run
            admitted_ms = run.jobs.admitted_ms[job]
            times.append(math.inf if admitted_ms == NEVER else admitted_ms / 1000)
        on_progress(number + 1)
    found = [
        StartTime(
            namespace=workload.metadata.namespace,
            name=workload.metadata.name,
            queue=workload.spec.queue_name,
            p50_s=_quantile(starts[number], 0.5),
            p90_s=_quantile(starts[number], 0.9),
            started=sum(map(math.isfinite, starts[number])),
            plays=plays,
        )
        for number, workload in waiting.items()
    ]
    return tuple(sorted(found, key=_order))


def _quantile(times: list[float], part: float) -> float | None:
    """Return the smallest time within which at least ``part`` of the runs started it."""
    time = sorted(times)[math.ceil(part * len(times)) - 1]
    return time if math.isfinite(time) else None


def _order(start: StartTime) -> tuple[float, float, Key]:
    p50, p90 = (math.inf if each is None else each for each in (start.p50_s, start.p90_s))
    return p50, p90, start.key
