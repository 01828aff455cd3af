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


class Forecast(msgspec.Struct, frozen=True):
    """``starts`` are in order: the first to start first, then by key."""

    starts: tuple[StartTime, ...]
    plays: int
    horizon_s: float | None  # up to which the only run was played, from its beginning; None: to its end


def forecast(
    world: World, plays: int = PLAYS, on_progress: Callable[[int], object] = lambda played: None
) -> tuple[StartTime, ...]:
    """Return the start of each workload that waits for admission: the first to start first, then by key.

    The same world gives the same forecast.  ``on_progress`` gets the number of runs so far.
    """
    return bounded_forecast(world, plays, lambda: False, on_progress).starts


def bounded_forecast(
    world: World,
    plays: int,
    is_over: Callable[[], bool],
    on_progress: Callable[[int], object] = lambda played: None,
) -> Forecast:
    """Return the forecast of as many runs as end before ``is_over`` returns True, at most ``plays``.

    If not even the first one ends, it counts as far as it was played.
    """
    waiting = {
        number: job.workload
        for number, job in enumerate(existing_jobs(world))
        if job.admitted_ms is None and job.workload.spec.active
    }
    starts: dict[int, list[float]] = {number: [] for number in waiting}
    played, horizon_s = 0, None
    while waiting and played < plays and (played == 0 or not is_over()):
        scenario = msgspec.structs.replace(world.scenario, seed=world.scenario.seed + played)
        run = play(msgspec.structs.replace(world, scenario=scenario), is_over=is_over)
        if is_over():
            if played > 0:
                break
            horizon_s = run.ended_ms / 1000
        for job, times in starts.items():  # existing workloads are the first jobs of a run
            admitted_ms = run.jobs.admitted_ms[job]
            times.append(math.inf if admitted_ms == NEVER else admitted_ms / 1000)
        played += 1
        on_progress(played)
    found = [
        StartTime(
            namespace=workload.metadata.namespace,
            name=workload.metadata.name,
            queue=workload.spec.queue_name,
            p50_s=_quantile(starts[number], 0.5),
            p90_s=_quantile(starts[number], 0.9),
            started=sum(map(math.isfinite, starts[number])),
            plays=played,
        )
        for number, workload in waiting.items()
    ]
    return Forecast(tuple(sorted(found, key=_order)), played, horizon_s)


def _quantile(times: list[float], part: float) -> float | None:
    """Return the smallest time within which at least ``part`` of the runs started it."""
    time = sorted(times)[math.ceil(part * len(times)) - 1]
    return time if math.isfinite(time) else None


def _order(start: StartTime) -> tuple[float, float, Key]:
    p50, p90 = (math.inf if each is None else each for each in (start.p50_s, start.p90_s))
    return p50, p90, start.key
