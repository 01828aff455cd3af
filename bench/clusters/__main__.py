"""``python -m bench.clusters``: how long jobs wait for worker clusters, by dispatcher.

Plays the three worlds of ``bench.backfill``, each split over three and five unequal clusters (see
``bench.clusters.worlds``), in virtual time.  EarliestStart knows run times exactly, as each job declares its
own, or learns run times and submissions from the past (``--learned``).  Exits with status 1 if a limit of
``limits.yaml`` is broken; only the Lublin–Feitelson world has limits.
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
from bench.clusters.worlds import EIGHTHS, split_world
from bench.limits import check_limits
from quorate.controllers.multikueue.dispatch.dispatchers import Dispatcher, all_at_once, incremental_with
from quorate.controllers.multikueue.dispatch.earliest_start import earliest_start
from quorate.simulate.engine.clusters import Clusters
from quorate.simulate.estimates.cluster_starts import SimulatedStarts
from quorate.simulate.results.summary import waits_ms

JOBS: Final = 60
LIMITED: Final = (MODEL,)  # worlds with limits
SEEDS: Final = range(1, 3)
PLAYS: Final = 3  # runs of one estimate: with run times drawn from those of the past
STRATEGIES: Final = ("BestEffortFIFO", "StrictFIFO")  # of the queues of the workers
ALL: Final = "AllAtOnce"
ONE: Final = "Incremental, step 1"
THREE: Final = "Incremental, step 3"
LEARNED: Final = "EarliestStart, learned"
EXACT: Final = "EarliestStart, exact"
DISPATCHERS: Final[Mapping[str, Dispatcher]] = {
    ALL: all_at_once,
    THREE: incremental_with(3, in_configured_order=True),
    ONE: incremental_with(1, in_configured_order=True),
    LEARNED: earliest_start,
    EXACT: earliest_start,
}
COLUMNS: Final = ("mean wait", "largest tenth", "copies a job", "moved", "questions a job")


class Figures(NamedTuple):
    """Of one run, or means of several; times in seconds."""

    mean: float  # wait of all jobs
    decile: float  # mean wait of the largest tenth of the jobs, and of those as large as the smallest of it
    copies: float  # workloads created in workers, for each job
    moved: float  # of these: removed before the job started anywhere
    questions: float  # estimates that were asked for, for each job


def main(
    jobs: Annotated[int, typer.Option(help="Jobs of each run.")] = JOBS,
    worlds: Annotated[list[str], typer.Option("--world", help="Worlds to play; all if not given.")] = [],  # noqa: B006
    learned: Annotated[
        bool, typer.Option(help="Play EarliestStart with learned run times too: slow.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option(help="Print the tables of docs/concepts/many-clusters.md.")
    ] = False,
) -> None:
    """Play each dispatcher with two seeds in each world, and compare how long jobs wait with the limits."""
    console = Console(stderr=markdown)
    values: dict[str, list[float]] = {}
    names = worlds or list(WORLDS)
    with Progress(console=console, transient=True) as progress:
        dispatchers = [name for name in DISPATCHERS if learned or name != LEARNED]
        total = len(names) * len(EIGHTHS) * len(STRATEGIES) * len(dispatchers) * len(SEEDS)
        runs = progress.add_task("playing", total=total)
        for world in names:
            for clusters in EIGHTHS:
                for strategy in STRATEGIES:
                    title = f"{world}, {clusters} clusters, {strategy}"
                    played = {}
                    for name in dispatchers:
                        of_seeds = []
                        for seed in SEEDS:
                            of_seeds.append(play(world, clusters, strategy, name, jobs, seed))
                            progress.update(runs, advance=1, description=f"{title}: {name}")
                        played[name] = means(of_seeds)
                    if world in LIMITED and jobs == JOBS:
                        values |= _measures(title, played)
                    if markdown:
                        print(markdown_table(title, played), flush=True)  # noqa: T201
                    else:
                        console.print(_table(title, played))
    if not markdown:
        sys.exit(check_limits(values, console))


def play(world: str, clusters: int, strategy: str, name: str, jobs: int, seed: int) -> Figures:
    """Return the figures of one run."""
    setting = Setting(strategy, overestimate=1 if name == EXACT else None)
    with TemporaryDirectory() as directory:
        manager, workers = split_world(world, setting, clusters, jobs, seed, Path(directory))
        played = Clusters(manager, workers)
        plays = 1 if name == EXACT else PLAYS
        starts = SimulatedStarts(played, workers, plays, learns=name == LEARNED)
        if name in (LEARNED, EXACT):
            run = played.run(DISPATCHERS[name], starts.starts_of)
        else:
            run = played.run(DISPATCHERS[name])
    waited_s, sizes = waits_ms(run.manager) / 1000, sizes_of(world, run.manager)
    assert not np.isnan(waited_s).any(), "every job starts"
    smallest = np.sort(sizes)[-(-len(sizes) * 9 // 10)]
    return Figures(
        mean=float(waited_s.mean()),
        decile=float(waited_s[sizes >= smallest].mean()),
        copies=run.copies / len(sizes),
        moved=run.moved / len(sizes),
        questions=starts.questions / len(sizes),
    )


def means(runs: list[Figures]) -> Figures:
    return Figures(*(float(np.mean(values)) for values in zip(*runs, strict=True)))


def _measures(title: str, played: Mapping[str, Figures]) -> dict[str, list[float]]:
    """Return the values with limits: ratios of mean waits, and of the copies in workers."""
    exact, name = played[EXACT], f"clusters: {title}: {EXACT}"
    return {
        f"{name}: mean wait ÷ {ONE}": [exact.mean / played[ONE].mean],
        f"{name}: mean wait ÷ {THREE}": [exact.mean / played[THREE].mean],
        f"{name}: copies, {ALL} ÷ it": [played[ALL].copies / exact.copies],
    }


def _row(figures: Figures) -> tuple[str, ...]:
    waits = (f"{seconds / 60:,.1f} min" for seconds in figures[:2])
    return (*waits, *(f"{number:.2f}" for number in figures[2:4]), f"{figures.questions:.1f}")


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
