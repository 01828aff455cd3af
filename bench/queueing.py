"""``python -m bench.queueing``: how fast the queueing core is, and how good, alone in one process.

Ends with status 1 when a limit of ``limits.yaml`` is broken.  Times are processor time, so that what else
runs on the machine disturbs little; on an idle machine it is real time.
"""

import sys
from collections.abc import Callable, Mapping
from statistics import fmean
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.costs import bytes_pending, cohort_change, crowding, queue_change
from bench.verdicts import hold_to_limits, table
from bench.virtual_time import Outcome, Run
from bench.worlds import BASELINE, LARGE_SCALE, World

WORLDS: Final = (BASELINE, LARGE_SCALE)
COSTS: Final[Mapping[str, Callable[[], float]]] = {
    "an admission: 100,000 pending ÷ 1,000": lambda: crowding(1_000, 100_000),
    "bytes a pending workload": lambda: bytes_pending(20_000),
    "quota of a queue: 1,000 queues ÷ 10": lambda: queue_change(10, 1_000),
    "quota of their cohort: 1,000 ÷ 10": lambda: cohort_change(10, 1_000),
}


def main(rounds: Annotated[int, typer.Option(min=1, help="How often to measure each thing.")] = 3) -> None:
    """Measure the queueing core, and hold it to its limits."""
    console = Console()
    values: dict[str, list[float]] = {}
    with _progress(console) as progress:
        for world in WORLDS:
            outcomes = [_run(world, progress) for _ in range(rounds)]
            console.print(_how_it_went(world, outcomes[0]))
            for outcome in outcomes:
                for name, value in _measures(world, outcome).items():
                    values.setdefault(name, []).append(value)
        for name, measure in COSTS.items():
            task = progress.add_task(name, total=rounds)
            for _ in range(rounds):
                values.setdefault(name, []).append(measure())
                progress.advance(task)
            progress.remove_task(task)
    sys.exit(hold_to_limits(values, console))


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def _run(world: World, progress: Progress) -> Outcome:
    task = progress.add_task(f"{world.name}: {world.workloads:,} workloads", total=world.workloads)
    outcome = Run(world).to_the_end(lambda finished: progress.update(task, completed=finished))
    progress.remove_task(task)
    return outcome


def _measures(world: World, outcome: Outcome) -> dict[str, float]:
    """What has limits."""
    measures = {
        f"{world.name}: end, s": outcome.finished_ms / 1000,
        f"{world.name}: admissions a second": outcome.admissions_per_s,
    }
    for name, waits in outcome.waits_ms.items():
        measures[f"{world.name}: mean wait, {name}, s"] = fmean(waits) / 1000
    return measures


def _how_it_went(world: World, outcome: Outcome) -> Group:
    """One run; all but the times is the same in every run."""
    waits_table = table("mean", "50 %", "90 %", "99 %", "longest", first="virtual time to admission")
    for name, waits in outcome.waits_ms.items():
        parts = [waits[len(waits) * percent // 100] for percent in (50, 90, 99)]
        waits_table.add_row(name, *(f"{wait / 1000:.1f} s" for wait in (fmean(waits), *parts, waits[-1])))
    return Group(
        f"[bold]{world.name}[/]: {world.workloads:,} workloads in {world.cohorts} × {world.queues} queues",
        waits_table,
        f"  {outcome.admissions:,} admissions, {outcome.preemptions:,} preemptions, "
        f"{outcome.holds:,} reasons written, {outcome.cycles:,} cycles",
        f"  {outcome.finished_ms / 1000:.1f} s of virtual time, at best {world.floor_s:.1f} s; "
        f"{outcome.processor_s:.1f} s of processor time\n",
    )


if __name__ == "__main__":
    typer.run(main)
