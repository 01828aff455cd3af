"""Backtests: how well forecasts would have been, in a world of which the outcome is known.

At some of the submissions the world is forecast as ``quorate forecast`` would have done at that moment: from
the workloads that are there, and the run times of those that have ended.  The run then tells when each job
really started.  A p90 that holds for nine of ten is honest.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Final

import msgspec

from quorate.api.meta import Key
from quorate.kube.resources import WORKLOADS
from quorate.simulate.distributions import Choice
from quorate.simulate.forecast import forecast
from quorate.simulate.player import play
from quorate.simulate.records import NEVER, JobRecords
from quorate.simulate.scenario import Arrivals, JobClass
from quorate.simulate.simulated_job import SimulatedJob
from quorate.simulate.snapshot import quantiles
from quorate.simulate.submissions import MS, number_of_jobs
from quorate.simulate.world import World

SAMPLES: Final = 40
PLAYS: Final = 20
_ASSUMED_S: Final = 3600.0  # a run time, before any job has ended


class Estimate(msgspec.Struct, frozen=True, rename="camel"):
    """The forecast of one job that waited after its submission, and what came; seconds after submission."""

    job: int  # its number in the run
    p50_s: float
    p90_s: float  # infinite: it would start in less than nine of ten runs
    learned_from: int  # jobs of its queue that had ended
    waited_s: float  # infinite: it never started


class Backtest(msgspec.Struct, frozen=True, rename="camel"):
    submissions: int  # that were looked at
    started_at_once: int  # of these; nothing was to be estimated
    estimates: tuple[Estimate, ...]

    @property
    def coverage(self) -> float | None:
        """The part of the estimates of which the job started within its p90."""
        held = [each.waited_s <= each.p90_s for each in self.estimates]
        return sum(held) / len(held) if held else None

    @property
    def error_s(self) -> float | None:
        """The median distance of p50 from the wait, where both are finite."""
        both = [(each.p50_s, each.waited_s) for each in self.estimates]
        errors = [abs(p50 - waited) for p50, waited in both if math.isfinite(p50) and math.isfinite(waited)]
        return _at_median(errors)

    @property
    def median_wait_s(self) -> float | None:
        return _at_median([each.waited_s for each in self.estimates if math.isfinite(each.waited_s)])


def _at_median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def backtest(
    world: World,
    samples: int = SAMPLES,
    plays: int = PLAYS,
    on_progress: Callable[[int], object] = lambda done: None,
) -> Backtest:
    """Play ``world`` and forecast it at ``samples`` or fewer of its submissions, at equal distances.

    ``on_progress`` gets the number of submissions that were looked at.
    """
    submissions = number_of_jobs(world.scenario) or len(play(world).jobs)
    step = max(1, -(-submissions // samples))
    forecasts: dict[int, tuple[float, float, int]] = {}
    at_once = looked_at = 0

    def look(now_ms: int, first: int, jobs: Mapping[Key, SimulatedJob], records: JobRecords) -> None:
        """Forecast the jobs from number ``first`` on that are due to be looked at."""
        nonlocal at_once, looked_at
        for number in range(first, len(records)):
            if number % step:
                continue
            looked_at += 1
            on_progress(looked_at)
            job = next((each for each in jobs.values() if each.number == number), None)
            if job is None or records.admitted_ms[number] != NEVER:
                at_once += 1
                continue
            classes, seen = _learned(world, jobs, records)
            now = _world_at(world, now_ms, jobs, classes)
            start = next(each for each in forecast(now, plays) if each.key == job.key)
            p50, p90 = (math.inf if each is None else each for each in (start.p50_s, start.p90_s))
            forecasts[number] = p50, p90, seen.get(records.queue_index[number], 0)

    run = play(world, observe=look)
    estimates = []
    for number, (p50, p90, seen) in forecasts.items():
        admitted_ms = run.jobs.admitted_ms[number]
        waited = math.inf if admitted_ms == NEVER else (admitted_ms - run.jobs.submitted_ms[number]) / MS
        estimates.append(Estimate(number, p50, p90, seen, waited))
    return Backtest(looked_at, at_once, tuple(estimates))


def _learned(
    world: World, jobs: Mapping[Key, SimulatedJob], records: JobRecords
) -> tuple[tuple[JobClass, ...], Mapping[int, int]]:
    """Return a class for each queue with jobs, and how many jobs of each queue index have ended."""
    ended: dict[int, list[float]] = {}
    for number in range(len(records)):
        if records.ended_ms[number] != NEVER:
            ended.setdefault(records.queue_index[number], []).append(records.runs_ms[number] / MS)
    everywhere = sorted(seconds for several in ended.values() for seconds in several) or [_ASSUMED_S]
    queues = {
        (job.key.namespace, job.workload.spec.queue_name): records.queue_index[job.number]
        for job in jobs.values()
    }
    return (
        tuple(
            _class(number, queue, sorted(ended.get(index, everywhere)))
            for number, (queue, index) in enumerate(sorted(queues.items()))
        ),
        {index: len(several) for index, several in ended.items()},
    )


def _class(number: int, queue: tuple[str, str], ascending: Sequence[float]) -> JobClass:
    seconds = quantiles(ascending)
    runs = Choice(seconds, tuple(map(float, range(1, len(seconds) + 1))))
    return JobClass(f"queue-{number}", queue[0], (queue[1],), Arrivals(), (), runs)


def _world_at(
    world: World, now_ms: int, jobs: Mapping[Key, SimulatedJob], classes: tuple[JobClass, ...]
) -> World:
    """Return the world as a snapshot would have it at ``now_ms``."""
    scenario = msgspec.structs.replace(
        world.scenario, classes=(), traces=(), models=(), existing=classes,
        begins_s=world.begins_s + now_ms / MS, until_s=None,
    )  # fmt: skip
    kind = (WORKLOADS.api_version, WORKLOADS.kind)
    workloads = {(*kind, job.key): job.workload for job in jobs.values()}
    return msgspec.structs.replace(world, scenario=scenario, objects={**world.objects, **workloads})
