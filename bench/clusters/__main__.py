"""``python -m bench.clusters``: how long jobs wait for worker clusters, by dispatcher.

Plays the three worlds of ``bench.backfill``, each split over three and five unequal clusters (see
``bench.clusters.worlds``), in virtual time.  EarliestStart knows run times exactly, as each job declares its
own, or learns run times and submissions from the past (``--learned``).  Beside them is one cluster of the
same size, in which no room is split.  Exits with status 1 if a limit of ``limits.yaml`` is broken.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final, NamedTuple

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.backfill.figures import sizes_of
from bench.backfill.worlds import MODEL, WORLDS, Setting
from bench.clusters.worlds import EIGHTHS, UNLIKE, pooled_world, split_world
from bench.limits import check_limits
from quorate.controllers.multikueue.dispatch.dispatchers import Dispatcher, all_at_once, incremental_with
from quorate.controllers.multikueue.dispatch.earliest_start import earliest_start
from quorate.simulate.engine.clusters import Clusters
from quorate.simulate.engine.player import play as play_alone
from quorate.simulate.engine.recorder import Run
from quorate.simulate.estimates.cluster_starts import SimulatedStarts
from quorate.simulate.results.summary import waits_ms

JOBS: Final = 60
SEEDS: Final = range(1, 3)
PLAYS: Final = 3  # runs of one estimate: with run times drawn from those of the past
STRATEGIES: Final = ("BestEffortFIFO", "StrictFIFO")  # of the queues of the workers
ALL: Final = "AllAtOnce"
ONE: Final = "Incremental, step 1"
THREE: Final = "Incremental, step 3"
LEARNED: Final = "EarliestStart, learned"
EXACT: Final = "EarliestStart, exact"
POOLED: Final = "one cluster"
DISPATCHERS: Final[Mapping[str, Dispatcher]] = {
    ALL: all_at_once,
    THREE: incremental_with(3, in_configured_order=True),
    ONE: incremental_with(1, in_configured_order=True),
    LEARNED: earliest_start,
    EXACT: earliest_start,
}
COLUMNS: Final = ("mean wait", "largest tenth", "others", "copies a job", "moved", "questions a job")


class Figures(NamedTuple):
    """Of one run, or means of several; times in seconds."""

    mean: float  # wait of all jobs
    decile: float  # mean wait of the largest tenth of the jobs, and of those as large as the smallest of it
    others: float  # mean wait of the other jobs
    copies: float  # workloads created in workers, for each job
    moved: float  # of these: removed before the job started anywhere
    questions: float  # estimates that were asked for, for each job


def main(
    jobs: Annotated[int, typer.Option(help="Jobs of each run.")] = JOBS,
    worlds: Annotated[list[str], typer.Option("--world", help="Worlds to play; all if not given.")] = [],  # noqa: B006
    learned: Annotated[
        bool, typer.Option(help="Play EarliestStart with learned run times too: slow.")
    ] = False,
    markdown: Annotated[bool, typer.Option(help="Print Markdown tables.")] = False,
) -> None:
    """Play each dispatcher with two seeds in each world, and compare how long jobs wait with the limits."""
    console = Console(stderr=markdown)
    values: dict[str, list[float]] = {}
    names = worlds or list(WORLDS)
    with Progress(console=console, transient=True) as progress:
        dispatchers = [name for name in DISPATCHERS if learned or name != LEARNED]
        total = len(names) * len(EIGHTHS) * len(STRATEGIES) * (len(dispatchers) + 1) * len(SEEDS)
        runs = progress.add_task("playing", total=total)
        for world in names:
            for clusters in EIGHTHS:
                if clusters == UNLIKE and world != MODEL:
                    continue
                for strategy in STRATEGIES:
                    title = f"{world}, {clusters}, {strategy}"
                    played = {}
                    for name in (*dispatchers, POOLED):
                        of_seeds = []
                        for seed in SEEDS:
                            of_seeds.append(play(world, clusters, strategy, name, jobs, seed))
                            progress.update(runs, advance=1, description=f"{title}: {name}")
                        played[name] = means(of_seeds)
                    if jobs == JOBS:
                        values |= _measures(title, played)
                    if markdown:
                        print(markdown_table(title, played), flush=True)  # noqa: T201
                    else:
                        console.print(_table(title, played))
    if not markdown:
        sys.exit(check_limits(values, console))


def play(world: str, clusters: str, strategy: str, name: str, jobs: int, seed: int) -> Figures:
    """Return the figures of one run."""
    setting = Setting(strategy, overestimate=1 if name == EXACT else None)
    with TemporaryDirectory() as directory:
        if name == POOLED:
            alone = play_alone(pooled_world(world, setting, clusters, jobs, seed, Path(directory)))
            return _figures(world, alone)
        manager, workers = split_world(world, setting, clusters, jobs, seed, Path(directory))
        played = Clusters(manager, workers)
        plays = 1 if name == EXACT else PLAYS
        starts = SimulatedStarts(played, workers, plays, learns=name == LEARNED)
        if name in (LEARNED, EXACT):
            run = played.run(DISPATCHERS[name], starts.starts_of)
        else:
            run = played.run(DISPATCHERS[name])
    return _figures(world, run.manager, run.copies, run.moved, starts.questions)


def _figures(world: str, run: Run, copies: int = 0, moved: int = 0, questions: int = 0) -> Figures:
    waited_s, sizes = waits_ms(run) / 1000, sizes_of(world, run)
    ours = np.array([run.world.classes[at].name != "existing" for at in run.jobs.class_index])
    waited_s, sizes = waited_s[ours], sizes[ours]
    assert not np.isnan(waited_s).any(), "every job starts"
    smallest = np.sort(sizes)[-(-len(sizes) * 9 // 10)]
    return Figures(
        mean=float(waited_s.mean()),
        decile=float(waited_s[sizes >= smallest].mean()),
        others=float(waited_s[sizes < smallest].mean()),
        copies=copies / len(sizes),
        moved=moved / len(sizes),
        questions=questions / len(sizes),
    )


def means(runs: list[Figures]) -> Figures:
    return Figures(*(float(np.mean(values)) for values in zip(*runs, strict=True)))


def _measures(title: str, played: Mapping[str, Figures]) -> dict[str, list[float]]:
    """Return the values with limits: ratios of mean waits, and of the copies in workers."""
    exact, name = played[EXACT], f"clusters: {title}: {EXACT}"
    values = {
        f"{name}: mean wait ÷ {ONE}": [exact.mean / played[ONE].mean],
        f"{name}: mean wait ÷ {THREE}": [exact.mean / played[THREE].mean],
        f"{name}: copies, {ALL} ÷ it": [played[ALL].copies / exact.copies],
    }
    if "StrictFIFO" not in title:  # with which one cluster stops as a whole, and is no bound
        values[f"{name}: mean wait ÷ {POOLED}"] = [exact.mean / played[POOLED].mean]
        values[f"{name}: wait of the others ÷ {ONE}"] = [exact.others / played[ONE].others]
    return values


def _row(figures: Figures) -> tuple[str, ...]:
    waits = (f"{seconds / 60:,.1f} min" for seconds in figures[:3])
    return (*waits, *(f"{number:.2f}" for number in figures[3:5]), f"{figures.questions:.1f}")


def _table(title: str, played: Mapping[str, Figures]) -> Table:
    table = Table(title, box=SIMPLE_HEAD)
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for name, figures in played.items():
        table.add_row(name, *_row(figures))
    return table


def markdown_table(title: str, played: Mapping[str, Figures]) -> str:
    """Return the figures of a world as a Markdown table."""
    lines = [f"| {title} | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(_row(figures))} |" for name, figures in played.items()]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    typer.run(main)
