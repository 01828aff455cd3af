"""Forecasts: when waiting workloads would start, from many runs of one world.

Each run draws other run times, and other jobs that are still to be submitted, with a seed of its own.  It
ends once each workload that waits has started.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from quorate.api.explanation import FEWEST_RUNS, Confidence, StartAnswer
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.kube.resources import WORKLOADS
from quorate.queueing.conditions import is_finished
from quorate.queueing.explain import outcome_of, spare_quota
from quorate.queueing.inadmissible_reasons import QueueInactive, QueueMissing
from quorate.queueing.state import State
from quorate.simulate.engine.player import Rest, play_until_started
from quorate.simulate.engine.records import NEVER
from quorate.simulate.inputs.existing import ExistingJob, existing_jobs, is_running
from quorate.simulate.inputs.world import World
from quorate.simulate.limits import (
    COARSE_STEPS,
    CONFIDENT_RUNS,
    FEWEST_RUN_TIMES,
    FINE_STEPS,
    MANY_WAITING,
    PLAYS,
)


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

    If not even the first run ends, it counts as far as it was played.
    """
    waiting = waiting_workloads(world)
    starts: dict[int, list[float]] = {number: [] for number in waiting}
    played, horizon_s = 0, None
    while waiting and played < plays and (played == 0 or not is_over()):
        run = play_waiting(world, waiting, played, is_over)
        if is_over():
            if played > 0:
                break
            horizon_s = run.ended_s
        for job, seconds in run.starts_s.items():
            starts[job].append(seconds)
        played += 1
        on_progress(played)
    quantiles = [_start_time(workload, starts[number]) for number, workload in waiting.items()]
    return Forecast(tuple(sorted(quantiles, key=_order)), played, horizon_s)


def _start_time(workload: Workload, starts_s: Sequence[float]) -> StartTime:
    """Return the quantiles of the starts of a workload, one for each run."""
    return StartTime(
        namespace=workload.metadata.namespace,
        name=workload.metadata.name,
        queue=workload.spec.queue_name,
        p50_s=quantile(starts_s, 0.5),
        p90_s=quantile(starts_s, 0.9),
        started=sum(map(math.isfinite, starts_s)),
        plays=len(starts_s),
    )


def forecast_one(
    world: World, key: Key, plays: int = PLAYS, is_over: Callable[[], bool] = lambda: False
) -> StartAnswer:
    """Return when the workload ``key`` of ``world`` starts, which waits; the other workloads are not awaited.

    A workload that starts in the first run at once does so in each: that is then the only run.  The start is
    unknown if ``is_over`` returned True before the first run ended.
    """
    waiting = waiting_workloads(world)
    number = next(number for number, workload in waiting.items() if workload.metadata.key == key)
    never: list[str] = []
    spare: float | None = None

    def look(state: State, now: float) -> None:
        """Note at the first instant whether the workload starts, and whether it can start at all."""
        nonlocal spare
        if now != world.begins_s:
            return
        spare, facts = spare_quota(state, key), outcome_of(state, key)
        if facts is None or facts.hold is None:
            return
        has_no_queue = any(isinstance(reason, QueueMissing | QueueInactive) for reason in facts.hold.reasons)
        if facts.can_never_fit or facts.exceeds_nodes or has_no_queue:
            never.append(facts.hold.message)

    starts: list[float] = []
    while len(starts) < plays and not is_over():
        run = play_waiting(world, waiting, len(starts), lambda: bool(never) or is_over(), key, look)
        if never:
            return StartAnswer(starts="Never", reason=never[0])
        if is_over() and math.isinf(run.starts_s[number]):
            break  # it was cut
        starts.append(run.starts_s[number])
        if starts == [0.0]:
            break
    if not starts:
        return StartAnswer(starts="Unknown", reason="it was not estimated in time")
    p50_s = quantile(starts, 0.5)
    if p50_s is None:
        return StartAnswer(starts="Later")
    return StartAnswer(
        starts="Within",
        p50_seconds=p50_s,
        p90_seconds=quantile(starts, 0.9),
        spare=spare if p50_s == 0 else None,
    )


def waiting_workloads(world: World) -> dict[int, Workload]:
    """Return the workloads that wait for admission, by their number in a run."""
    existing = (workload for workload in world.of_kind(WORKLOADS) if not is_finished(workload))
    return {
        number: workload
        for number, workload in enumerate(existing)
        if workload.spec.active and not is_running(workload)
    }


class WaitingRun(NamedTuple):
    """One run of the waiting workloads, in seconds from the beginning of the world."""

    starts_s: dict[int, float]  # by number in the run, infinite for what does not start
    ended_s: float


def play_waiting(
    world: World,
    waiting: Collection[int],
    number: int,
    is_over: Callable[[], bool] = lambda: False,
    awaited: Key | None = None,
    at_rest: Rest = lambda state, now: None,
) -> WaitingRun:
    """Play the world until what waits has started, or ``awaited`` has; each number is another run."""
    scenario = msgspec.structs.replace(world.scenario, seed=world.scenario.seed + number)
    again = msgspec.structs.replace(world, scenario=scenario)
    existing = tuple(existing_jobs(again))
    is_exact = awaited is not None and len(waiting) < MANY_WAITING
    resolution_ms = 1 if is_exact else _resolution_ms(existing, len(waiting))
    run = play_until_started(again, existing, resolution_ms, is_over, awaited, at_rest)
    admitted = {job: run.jobs.admitted_ms[job] for job in waiting}  # existing workloads are the first jobs
    starts_s = {job: math.inf if ms == NEVER else ms / 1000 for job, ms in admitted.items()}
    return WaitingRun(starts_s, run.ended_ms / 1000)


def _resolution_ms(existing: Iterable[ExistingJob], waiting: int) -> int:
    """Return a part of the usual run time: starts need not be more exact."""
    runs_ms = [job.submission.runs_ms for job in existing]
    return max(1, int(median(runs_ms)) // (FINE_STEPS if waiting < MANY_WAITING else COARSE_STEPS))


def confidence_of(runs: int, samples: int, *, is_own_kind: bool) -> Confidence:
    """Return how far an estimate of ``runs`` can be relied on.

    ``samples``: finished workloads of its kind, or else of its queue, of which the run times are known.
    """
    if runs < FEWEST_RUNS or samples < FEWEST_RUN_TIMES:
        return "low"
    is_high = is_own_kind and runs >= CONFIDENT_RUNS and samples >= CONFIDENT_RUNS
    return "high" if is_high else "medium"


def quantile(times: Sequence[float], part: float) -> float | None:
    """Return the time within which the workload starts in the next run with probability ``part``.

    After ``n`` values, the next value is at most the value of rank ``r`` with probability ``r / (n + 1)``.
    """
    rank = min(len(times), math.ceil(part * (len(times) + 1)))
    time = sorted(times)[rank - 1]
    return time if math.isfinite(time) else None


def _order(start: StartTime) -> tuple[float, float, Key]:
    p50, p90 = (math.inf if seconds is None else seconds for seconds in (start.p50_s, start.p90_s))
    return p50, p90, start.key
