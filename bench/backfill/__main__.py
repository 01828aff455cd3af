"""``python -m bench.backfill``: how long jobs wait in a queue with planned starts, beside one without.

Plays three worlds (see ``bench.backfill.worlds``) with five seeds each, in virtual time.  A job declares its
run time, or two or five times that, as its maximum execution time, or nothing; then run times may be learned.
Exits with status 1 if a limit of ``limits.yaml`` is broken.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, NamedTuple

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.backfill.figures import Figures, jobs_in, means, play_setting
from bench.backfill.worlds import (
    GPUS,
    MODEL,
    SUPERCOMPUTER,
    WORLDS,
    Setting,
    large_then_short,
    racks_then_tens,
)
from bench.limits import check_limits

SEEDS: Final = range(1, 6)
BASELINE: Final = "BestEffortFIFO"
SETTINGS: Final[dict[str, Setting]] = {
    BASELINE: Setting("BestEffortFIFO"),
    "StrictFIFO": Setting("StrictFIFO"),
    "EASY, exact": Setting("BestEffortFIFO", "EASY", 1),
    "EASY, twice": Setting("BestEffortFIFO", "EASY", 2),
    "EASY, five times": Setting("BestEffortFIFO", "EASY", 5),
    "EASY, nothing declared": Setting("BestEffortFIFO", "EASY"),
}
# Jobs of at least half of the machine have priority 2, others that declare at most four hours 1.
WITH_CLASSES: Final[dict[str, Setting]] = {
    "BestEffortFIFO, classes": Setting("BestEffortFIFO", overestimate=2, classes=large_then_short),
    "Conservative of 3, classes, twice": Setting(
        "BestEffortFIFO", "Conservative", 2, depth=3, classes=large_then_short
    ),
}
# Racks first: then come gangs of ten nodes, and of each size shorter jobs before others.
OF_GPUS: Final[dict[str, Setting]] = {
    "Conservative of 3, exact": Setting("BestEffortFIFO", "Conservative", 1, depth=3),
    "BestEffortFIFO, racks first": Setting("BestEffortFIFO", overestimate=1, classes=racks_then_tens),
    "EASY, racks first, slack 50, exact": Setting(
        "BestEffortFIFO", "EASY", 1, slack=50, classes=racks_then_tens
    ),
}
# Ten planned starts in a queue take ten times as long to play as one, so that these have fewer jobs.
SHORT_JOBS: Final = 300
SHORT_WORLDS: Final = (SUPERCOMPUTER, MODEL, GPUS)
SHORT_SETTINGS: Final[dict[str, Setting]] = {
    BASELINE: Setting("BestEffortFIFO"),
    "EASY, twice": Setting("BestEffortFIFO", "EASY", 2),
    "EASY, learned": Setting("BestEffortFIFO", "EASY", learns=True),
    "Conservative, exact": Setting("BestEffortFIFO", "Conservative", 1),
    "Conservative, twice": Setting("BestEffortFIFO", "Conservative", 2),
    "Conservative, five times": Setting("BestEffortFIFO", "Conservative", 5),
    "Conservative, learned": Setting("BestEffortFIFO", "Conservative", learns=True),
}
COLUMNS: Final = (
    "mean wait",
    "largest tenth",
    "above half",
    "longest wait",
    "slowdown",
    "utilisation",
    "late (moved) of planned",
)


def main(
    jobs: Annotated[int, typer.Option(help="Jobs of each run; a third of them on the GPU cluster.")] = 1_500,
    worlds: Annotated[list[str], typer.Option("--world", help="Worlds to play; all if not given.")] = [],  # noqa: B006
    markdown: Annotated[
        bool, typer.Option(help="Print the tables of docs/concepts/large-jobs.md instead.")
    ] = False,
) -> None:
    """Play each setting with five seeds in each world, and compare how long jobs wait with the limits."""
    console = Console(stderr=markdown)
    rounds = [
        Round(world, world, jobs, SETTINGS | (OF_GPUS if world == GPUS else WITH_CLASSES))
        for world in worlds or WORLDS
    ]
    rounds += [
        Round(f"{world}, {jobs_in(world, SHORT_JOBS)} jobs", world, SHORT_JOBS, SHORT_SETTINGS)
        for world in SHORT_WORLDS
        if not worlds or world in worlds
    ]
    played = play_all(rounds, console)
    values: dict[str, list[float]] = {}
    for round_ in rounds:
        by_setting = played[round_.name]
        if markdown:
            print(markdown_table(round_.name, by_setting))  # noqa: T201
            continue
        console.print(_table(round_.name, by_setting))
        for name, setting in round_.settings.items():
            if setting.backfill:
                values |= _measures(f"backfill: {round_.name}: {name}", setting, by_setting[name], by_setting)
    if not markdown:
        sys.exit(check_limits(values, console))


class Round(NamedTuple):
    """Settings that are compared with each other on one world."""

    name: str
    world: str
    jobs: int
    settings: Mapping[str, Setting]


def play_all(rounds: Sequence[Round], console: Console) -> dict[str, dict[str, Figures]]:
    """Return the means of all seeds, by round and setting."""
    played: dict[str, dict[str, Figures]] = {round_.name: {} for round_ in rounds}
    with Progress(console=console) as progress:
        runs = progress.add_task("playing", total=sum(len(round_.settings) for round_ in rounds) * len(SEEDS))
        for round_ in rounds:
            for name, setting in round_.settings.items():
                of_seeds: list[Figures] = []
                for seed in SEEDS:
                    of_seeds.append(play_setting(round_.world, setting, round_.jobs, seed))
                    progress.update(runs, advance=1, description=f"{round_.name}: {name}")
                played[round_.name][name] = means(of_seeds)
    return played


def _measures(
    name: str, setting: Setting, figures: Figures, by_setting: Mapping[str, Figures]
) -> dict[str, list[float]]:
    """Return the values with limits: ratios to ``BASELINE``, and the planned starts that were not kept."""
    baseline = by_setting[BASELINE]
    values = {
        f"{name}: wait of the largest tenth ÷ BestEffortFIFO": [figures.decile / baseline.decile],
        f"{name}: wait of jobs above half ÷ BestEffortFIFO": [figures.large / baseline.large],
        f"{name}: mean wait ÷ BestEffortFIFO": [figures.mean / baseline.mean],
        f"{name}: utilisation ÷ BestEffortFIFO": [figures.utilisation / baseline.utilisation],
    }
    if setting.has_declared_bounds:
        values[f"{name}: planned starts not kept"] = [figures.late * len(SEEDS)]
    if setting.learns:
        values[f"{name}: share of planned starts revised"] = [figures.revised / max(1.0, figures.planned)]
    return values


def _row(figures: Figures) -> Sequence[str]:
    return (
        *(f"{seconds / 3600:.1f} h" for seconds in figures[:4]),
        f"{figures.slowdown:,.{0 if figures.slowdown > 10 else 1}f}",
        f"{figures.utilisation:.1%}",
        _late(figures),
    )


def _late(figures: Figures) -> str:
    if not figures.planned:
        return "-"
    late, moved, planned = (
        number * len(SEEDS) for number in (figures.late, figures.revised, figures.planned)
    )
    return f"{late:,.0f} ({moved:,.0f}) of {planned:,.0f}"


def _table(world: str, played: Mapping[str, Figures]) -> Table:
    table = Table(world, box=SIMPLE_HEAD)
    for title in COLUMNS:
        table.add_column(title, justify="right")
    for setting, figures in played.items():
        table.add_row(setting, *_row(figures))
    return table


def markdown_table(world: str, played: Mapping[str, Figures]) -> str:
    """Return the figures of a world as a Markdown table."""
    lines = [f"| {world} | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    lines += [f"| {setting} | {' | '.join(_row(figures))} |" for setting, figures in played.items()]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    typer.run(main)
