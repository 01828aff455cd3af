"""``python -m bench.queueing``: speed and decision quality of the queueing core, alone in one process.

Exits with status 1 if a limit of ``limits.yaml`` is broken.  Times are processor time, which other load on
the machine affects little; on an idle machine it equals real time.
"""

import sys
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.costs import (
    admission_cost_ratio,
    bytes_per_pending_workload,
    cohort_update_cost_ratio,
    planned_starts_cost_ratio,
    queue_update_cost_ratio,
)
from bench.limits import check_limits, number_table
from bench.virtual_time import Outcome, Simulation
from bench.worlds import BASELINE, LARGE_SCALE, World

WORLDS: Final = (BASELINE, LARGE_SCALE)
COSTS: Final[Mapping[str, Callable[[], float]]] = {
    "an admission: 100,000 pending ÷ 1,000": lambda: admission_cost_ratio(1_000, 100_000),
    "bytes a pending workload": lambda: bytes_per_pending_workload(20_000),
    "planned starts: an end, EASY ÷ None": lambda: planned_starts_cost_ratio(100, 10, 10_000),
    "quota of a queue: 1,000 queues ÷ 10": lambda: queue_update_cost_ratio(10, 1_000),
    "quota of their cohort: 1,000 ÷ 10": lambda: cohort_update_cost_ratio(10, 1_000),
}


def main(rounds: Annotated[int, typer.Option(min=1, help="Number of runs of each measure.")] = 3) -> None:
    """Measure the queueing core and compare it with its limits."""
    console = Console()
    values: dict[str, list[float]] = {}
    with _progress(console) as progress:
        for world in WORLDS:
            outcomes = [_run(world, progress) for _ in range(rounds)]
            console.print(_summary(world, outcomes[0]))
            for outcome in outcomes:
                for name, value in _measures(world, outcome).items():
                    values.setdefault(name, []).append(value)
        for name, measure in COSTS.items():
            task = progress.add_task(name, total=rounds)
            for _ in range(rounds):
                values.setdefault(name, []).append(measure())
                progress.advance(task)
            progress.remove_task(task)
    sys.exit(check_limits(values, console))


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _run(world: World, progress: Progress) -> Outcome:
    task = progress.add_task(f"{world.name}: {world.workloads:,} workloads", total=world.workloads)
    outcome = Simulation(world).run(lambda finished: progress.update(task, completed=finished))
    progress.remove_task(task)
    return outcome


def _measures(world: World, outcome: Outcome) -> dict[str, float]:
    measures = {
        f"{world.name}: end, s": outcome.finished_ms / 1000,
        f"{world.name}: admissions a second": outcome.admissions_per_s,
    }
    for name, waits in outcome.waits_ms.items():
        measures[f"{world.name}: mean wait, {name}, s"] = fmean(waits) / 1000
    return measures


def _summary(world: World, outcome: Outcome) -> Group:
    """Return the results of one run; all but the times are equal in every run."""
    waits_table = number_table("mean", "50 %", "90 %", "99 %", "longest", first="virtual time to admission")
    for name, waits in outcome.waits_ms.items():
        percentiles = [waits[len(waits) * percent // 100] for percent in (50, 90, 99)]
        waits_table.add_row(
            name, *(f"{wait / 1000:.1f} s" for wait in (fmean(waits), *percentiles, waits[-1]))
        )
    return Group(
        f"[bold]{world.name}[/]: {world.workloads:,} workloads in {world.cohorts} × {world.queues} queues",
        waits_table,
        f"  {outcome.admissions:,} admissions, {outcome.preemptions:,} preemptions, "
        f"{outcome.holds:,} reasons written, {outcome.cycles:,} cycles",
        f"  {outcome.finished_ms / 1000:.1f} s of virtual time, at least {world.lower_bound_s:.1f} s; "
        f"{outcome.processor_s:.1f} s of processor time\n",
    )


if __name__ == "__main__":
    typer.run(main)
