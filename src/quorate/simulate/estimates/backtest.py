"""Backtests: how well forecasts would have been, in a world of which the outcome is known.

At some of the submissions the world is forecast as ``quorate queue forecast`` would have done at that moment:
from the present workloads, the run times of ended workloads, and the submissions so far.  The run then tells
when each job really started.  A p90 that holds for nine of ten is honest.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import median

import msgspec

from quorate.api.meta import Key
from quorate.simulate.engine.player import play
from quorate.simulate.engine.records import NEVER, JobRecords
from quorate.simulate.engine.simulated_job import SimulatedJob
from quorate.simulate.estimates.forecast import forecast
from quorate.simulate.estimates.observed_history import ObservedHistory, waiting_jobs
from quorate.simulate.inputs.submissions import MS, number_of_jobs
from quorate.simulate.inputs.world import World
from quorate.simulate.limits import BACKTEST_SAMPLES, PLAYS


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
        held = [estimate.waited_s <= estimate.p90_s for estimate in self.estimates]
        return sum(held) / len(held) if held else None

    @property
    def error_s(self) -> float | None:
        """The median distance of p50 from the wait, where both are finite."""
        both = [(estimate.p50_s, estimate.waited_s) for estimate in self.estimates]
        errors = [abs(p50 - waited) for p50, waited in both if math.isfinite(p50) and math.isfinite(waited)]
        return _at_median(errors)

    @property
    def median_wait_s(self) -> float | None:
        return _at_median(
            [estimate.waited_s for estimate in self.estimates if math.isfinite(estimate.waited_s)]
        )


def _at_median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def backtest(
    world: World,
    samples: int = BACKTEST_SAMPLES,
    plays: int = PLAYS,
    on_progress: Callable[[int], object] = lambda done: None,
) -> Backtest:
    """Play ``world`` and forecast it at ``samples`` or fewer of its submissions, at equal distances.

    ``on_progress`` gets the number of submissions that were looked at.
    """
    submissions = number_of_jobs(world.scenario) or len(play(world).jobs)
    looks = _Looks(world, max(1, -(-submissions // samples)), plays, on_progress)
    run = play(world, observe=looks.look)
    estimates = []
    for number, (p50, p90, learned) in looks.forecasts.items():
        admitted_ms = run.jobs.admitted_ms[number]
        waited = math.inf if admitted_ms == NEVER else (admitted_ms - run.jobs.submitted_ms[number]) / MS
        estimates.append(Estimate(number, p50, p90, learned, waited))
    return Backtest(looks.count, looks.at_once, tuple(estimates))


class _Looks:
    """The forecasts of a run while it is played, at every ``step``-th submission."""

    def __init__(self, world: World, step: int, plays: int, on_progress: Callable[[int], object]) -> None:
        self._step, self._plays, self._on_progress = step, plays, on_progress
        self._history = ObservedHistory(world)
        self._running: dict[int, SimulatedJob] = {}  # by number: submitted, and not seen ended yet
        self.count = 0
        self.at_once = 0  # jobs that were admitted when they were looked at
        self.forecasts: dict[int, tuple[float, float, int]] = {}  # by number: p50 and p90 in s, known jobs

    def look(self, now_ms: int, first: int, jobs: Mapping[Key, SimulatedJob], records: JobRecords) -> None:
        """Forecast the jobs from number ``first`` on that are due to be looked at."""
        submitted = _latest(jobs, first)
        self._learn(submitted, records)
        for number in range(-(-first // self._step) * self._step, len(records), self._step):
            self.count += 1
            self._on_progress(self.count)
            waiting = submitted.get(number)
            if waiting is None or records.admitted_ms[number] != NEVER:
                self.at_once += 1
                continue
            workloads = [job.workload for job in jobs.values()]
            now = self._history.world_at(now_ms, workloads, waiting_jobs(jobs))
            start = next(start for start in forecast(now, self._plays) if start.key == waiting.key)
            p50, p90 = (math.inf if seconds is None else seconds for seconds in (start.p50_s, start.p90_s))
            self.forecasts[number] = p50, p90, self._history.known_of(waiting.workload)

    def _learn(self, submitted: Mapping[int, SimulatedJob], records: JobRecords) -> None:
        for job in submitted.values():
            self._history.submitted(job.workload)
        self._running.update(submitted)
        ended = [number for number in self._running if records.ended_ms[number] != NEVER]
        for number in sorted(ended, key=lambda number: (records.ended_ms[number], number)):
            self._history.ended(self._running.pop(number))


def _latest(jobs: Mapping[Key, SimulatedJob], first: int) -> dict[int, SimulatedJob]:
    """Return the jobs from number ``first`` on, which are the last ones in ``jobs``."""
    chosen: dict[int, SimulatedJob] = {}
    for job in reversed(jobs.values()):  # type: ignore[call-overload]  # a dictionary
        if job.number < first:
            break
        chosen[job.number] = job
    return dict(sorted(chosen.items()))
