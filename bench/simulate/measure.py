"""One simulation in a process of its own, because its peak memory counts."""

import resource
from collections.abc import Callable, Mapping
from multiprocessing import get_context
from time import process_time
from typing import Final, NamedTuple

from bench.simulate.worlds import bound_by_sessions, placed_on_nodes, queues_alone, waiting_workloads
from quorate.processes.process_setup import tune_garbage_collection
from quorate.simulate.engine.player import play
from quorate.simulate.estimates.rolling_forecast import RollingForecast
from quorate.simulate.inputs.scenario import BEGINS_S
from quorate.simulate.inputs.world import World

WORLDS: Final[Mapping[str, Callable[[int], World]]] = {
    "queues": queues_alone,
    "nodes": placed_on_nodes,
    "sessions": bound_by_sessions,
}
NOTICED_MS: Final = 1000


class Cost(NamedTuple):
    processor_s: float
    peak_mb: float
    waited: int  # jobs, for at least a second

    def __str__(self) -> str:
        return f"{self.processor_s:.0f} s, {self.peak_mb:.0f} MB; {self.waited:,} jobs waited"


class Refreshed(NamedTuple):
    processor_s: float
    runs: int
    estimated: int  # workloads with an estimate


def refreshed(waiting: int, queues: int, budget_s: float) -> Refreshed:
    """Return the cost of the first refresh of the estimates of so many workloads."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_refresh, (waiting, queues, budget_s))


def _refresh(waiting: int, queues: int, budget_s: float) -> Refreshed:
    tune_garbage_collection()
    forecast = RollingForecast(process_time)
    for kind, obj in waiting_workloads(waiting, queues):
        forecast.put(kind, obj)
    found = forecast.refresh(BEGINS_S + waiting, budget_s)
    return Refreshed(found.processor_s, found.runs, sum(each.p50 is not None for each in found.starts))


def measured(world: str, jobs: int) -> Cost:
    """Return the cost of one of ``WORLDS`` with so many jobs."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_play, (world, jobs))


def _play(name: str, jobs: int) -> Cost:
    tune_garbage_collection()
    world = WORLDS[name](jobs)
    before = process_time()
    run = play(world)
    taken = process_time() - before
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    records = run.jobs
    waited = sum(
        admitted - submitted >= NOTICED_MS
        for submitted, admitted in zip(records.submitted_ms, records.admitted_ms, strict=True)
    )
    left = sum(ended < 0 for ended in records.ended_ms)
    assert left == 0, f"{left} jobs never ended"
    return Cost(taken, peak_mb, waited)
