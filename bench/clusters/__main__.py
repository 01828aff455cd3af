"""``python -m bench.clusters``: how long jobs wait for worker clusters, by dispatcher.

Plays the three worlds of ``bench.backfill``, each split over three, five and ten unequal clusters (see
``bench.clusters.worlds``), in virtual time.  EarliestStart knows run times exactly, as each job declares its
own, or learns run times and submissions from the past (``--learned``).  Two plays beside them show what a
dispatcher can reach: *one cluster* of the same size, in which no room is split, and the *large jobs alone*,
those that fit in at most two of the clusters.  Exits with status 1 if a limit of ``limits.yaml`` is broken.
"""

import sys
from collections.abc import Mapping
from functools import partial
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
from bench.backfill.worlds import GPUS, MODEL, PROCESSORS, WORLDS, Setting
from bench.clusters.worlds import EIGHTHS, UNLIKE, pooled_world, split_world
from bench.limits import check_limits
from quorate.controllers.multikueue.dispatch.dispatchers import (
    Dispatcher,
    Nomination,
    NominationInput,
    all_at_once,
    earliest_start,
    incremental_with,
)
from quorate.simulate.engine.clusters import Clusters
from quorate.simulate.engine.player import play as play_alone
from quorate.simulate.engine.recorder import Run
from quorate.simulate.estimates.cluster_starts import SimulatedStarts
from quorate.simulate.results.summary import waits_ms

JOBS: Final = 60
SEEDS: Final = range(1, 5)
PLAYS: Final = 3  # runs of one estimate: with run times drawn from those of the past
FIVE: Final = "5 clusters"  # for which all strategies are played
FIRST: Final = "BestEffortFIFO"
EASY: Final = "EASY"
STRATEGIES: Final[Mapping[str, Setting]] = {  # of the queues of the workers
    FIRST: Setting(FIRST),
    "StrictFIFO": Setting("StrictFIFO"),
    EASY: Setting("BestEffortFIFO", EASY, overestimate=1),
}
ALL: Final = "AllAtOnce"
THREE: Final = "Incremental"
LEARNED: Final = "EarliestStart, learned"
EXACT: Final = "EarliestStart"
ALONE: Final = "large jobs alone"  # with EarliestStart
POOLED: Final = "one cluster"
DISPATCHERS: Final[Mapping[str, Dispatcher]] = {
    ALL: all_at_once,
    THREE: incremental_with(3, in_configured_order=True),  # the step of Kueue
    LEARNED: earliest_start,
    EXACT: earliest_start,
    ALONE: earliest_start,
}
HEADER: Final = (  # of the Markdown table
    "mean wait, minutes", ALL, THREE, EXACT, ALONE, POOLED, f"{EXACT} ÷ {THREE}", "copies a job",
    f"copies, {ALL} ÷ it", f"copies and jobs, {ALL} ÷ it", "learned",
)  # fmt: skip
COLUMNS: Final = (
    "mean wait", "largest tenth", "others", "copies a job", "remote objects", "moved", "estimates a job",
)  # fmt: skip


class Figures(NamedTuple):
    """Of one run, or means of several; times in seconds."""

    mean: float  # wait of all jobs
    decile: float  # mean wait of the largest tenth of the jobs, and of those as large as the smallest of it
    others: float  # mean wait of the other jobs
    copies: float  # workloads created in workers, for each job
    moved: float  # of these: removed before the job started anywhere
    questions: float  # estimates that were played, for each job

    @property
    def remote_objects(self) -> float:
        """Objects created in workers for each job: its workloads, and the job itself where it starts."""
        return self.copies + 1


def main(
    jobs: Annotated[int, typer.Option(help="Jobs of each run.")] = JOBS,
    worlds: Annotated[list[str], typer.Option("--world", help="Worlds to play; all if not given.")] = [],  # noqa: B006
    sizes: Annotated[
        list[str], typer.Option("--clusters", help="Such as '5 clusters'; all if not given.")
    ] = [],  # noqa: B006
    learned: Annotated[
        bool, typer.Option(help="Play EarliestStart with learned run times too: slow.")
    ] = False,
    markdown: Annotated[bool, typer.Option(help="Print Markdown tables.")] = False,
) -> None:
    """Play each dispatcher in each world, and compare how long jobs wait with the limits."""
    console = Console(stderr=markdown)
    values: dict[str, list[float]] = {}
    names = worlds or list(WORLDS)
    if markdown:
        print(f"| {' | '.join(HEADER)} |\n{'|---' * len(HEADER)}|")  # noqa: T201
    with Progress(console=console, transient=True) as progress:
        cases = [
            (world, clusters, strategy)
            for world in names
            for clusters in sizes or EIGHTHS
            for strategy in STRATEGIES
            if clusters != UNLIKE or world == MODEL
            if clusters == FIVE or strategy == FIRST
        ]
        runs = progress.add_task("playing", total=len(cases) * (len(DISPATCHERS) + learned) * len(SEEDS))
        for world, clusters, strategy in cases:
            title = f"{world}, {clusters}, {strategy}"
            played = {}
            for name in (*DISPATCHERS, POOLED):
                if name == LEARNED and (not learned or strategy == EASY):
                    continue
                of_seeds = []
                for seed in SEEDS:
                    of_seeds.append(play(world, clusters, strategy, name, jobs, seed))
                    progress.update(runs, advance=1, description=f"{title}: {name}")
                played[name] = means(of_seeds)
            if jobs == JOBS:
                values |= _measures(title, played)
            if markdown:
                print(markdown_row(title, played), flush=True)  # noqa: T201
            else:
                console.print(_table(title, played))
    if not markdown:
        sys.exit(check_limits(values, console))


def play(world: str, clusters: str, strategy: str, name: str, jobs: int, seed: int) -> Figures:
    """Return the figures of one run."""
    setting = STRATEGIES[strategy]
    if name in (EXACT, ALONE):
        setting = setting._replace(overestimate=1)
    with TemporaryDirectory() as directory:
        if name == POOLED:
            alone = play_alone(pooled_world(world, setting, clusters, jobs, seed, Path(directory)))
            return _figures(world, alone)
        manager, workers = split_world(world, setting, clusters, jobs, seed, Path(directory))
        played = Clusters(manager, workers)
        plays = PLAYS if name == LEARNED else 1
        starts = SimulatedStarts(played, workers, plays, learns=name == LEARNED)
        dispatcher = DISPATCHERS[name]
        if name == ALONE:
            third = sorted(EIGHTHS[clusters])[-3] * PROCESSORS // 8  # the size of the third largest cluster
            dispatcher = partial(_above, world, third)
        asks = name not in (ALL, THREE)
        run = played.run(dispatcher, starts.starts_of) if asks else played.run(dispatcher)
    assert name == ALONE or not np.isnan(waits_ms(run.manager)).any(), "every job starts"
    return _figures(world, run.manager, run.copies, run.moved, starts.questions)


def _above(world: str, size: int, info: NominationInput) -> Nomination:
    """Nominate clusters for the jobs that have more processors or GPUs than ``size``, as EarliestStart."""
    (pods,) = info.workload.spec.pod_sets
    whole_nodes = world == GPUS and not info.workload.metadata.name.startswith("tuning")
    return earliest_start(info) if pods.count * (8 if whole_nodes else 1) > size else Nomination(clusters=())


def _figures(world: str, run: Run, copies: int = 0, moved: int = 0, questions: int = 0) -> Figures:
    waited_s, sizes = waits_ms(run) / 1000, sizes_of(world, run)
    ours = np.array([run.world.classes[at].name != "existing" for at in run.jobs.class_index])
    waited_s, sizes = np.nan_to_num(waited_s[ours]), sizes[ours]  # what never starts does not count
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
    """Return the values with limits: ratios of mean waits, and of the objects in workers."""
    exact, name = played[EXACT], f"clusters: {title}: {EXACT}"
    return {
        f"{name}: mean wait ÷ {THREE}": [exact.mean / played[THREE].mean],
        f"{name}: copies, {ALL} ÷ it": [played[ALL].copies / exact.copies],
    }


def _row(figures: Figures) -> tuple[str, ...]:
    waits = (f"{seconds / 60:,.1f} min" for seconds in figures[:3])
    numbers = (figures.copies, figures.remote_objects, figures.moved)
    return (*waits, *(f"{number:.2f}" for number in numbers), f"{figures.questions:.1f}")


def _table(title: str, played: Mapping[str, Figures]) -> Table:
    table = Table(title, box=SIMPLE_HEAD)
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for name, figures in played.items():
        table.add_row(name, *_row(figures))
    return table


def markdown_row(title: str, played: Mapping[str, Figures]) -> str:
    """Return the figures of a world as a row of a Markdown table, see ``HEADER``."""
    everywhere, three, exact = played[ALL], played[THREE], played[EXACT]
    waits = [played[name].mean / 60 for name in (ALL, THREE, EXACT, ALONE, POOLED)]
    learned = [f"{played[LEARNED].mean / three.mean:.2f}" if LEARNED in played else ""]
    ratios = [
        exact.mean / three.mean,
        exact.copies,
        everywhere.copies / exact.copies,
        everywhere.remote_objects / exact.remote_objects,
    ]
    cells = [title, *(f"{wait:,.1f}" for wait in waits), *(f"{ratio:.2f}" for ratio in ratios), *learned]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    typer.run(main)
