"""``quorate simulate``: play a scenario through the queueing core, as it is and with changes."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from quorate.cli.errors import UsageError
from quorate.cli.files import InvalidFiles
from quorate.cli.process import tune_garbage_collection
from quorate.cli.simulate.report import page
from quorate.cli.simulate.tables import print_comparison, print_summary
from quorate.cli.verbs.options import Output
from quorate.cli.verbs.printing import print_value
from quorate.simulate.comparison import Comparison, compare
from quorate.simulate.player import Run, play
from quorate.simulate.submissions import number_of_jobs
from quorate.simulate.summary import Summary, summarize
from quorate.simulate.world import InvalidWorld, World, changed, read_world


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """The output in JSON: the scenario as it is, and each change compared with it."""

    scenario: Summary
    changes: tuple[Comparison, ...]


Scenario = Annotated[
    Path,
    typer.Argument(
        metavar="SCENARIO", help="A file with a Scenario and manifests, or a directory of such files."
    ),
]
Changes = Annotated[
    list[Path] | None,
    typer.Option(
        "--change", metavar="FILE|DIR",
        help="Manifests to apply to the scenario: another quota, cohort, policy, Configuration or Scenario. "
        "Repeat it to compare several changes, each with the scenario as it is.",
    ),
]  # fmt: skip
ReportFile = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE.html", dir_okay=False,
        help="Also write a report with charts: one file that needs no network.",
    ),
]  # fmt: skip
OutputFormat = Annotated[Format, typer.Option("--output", "-o", help="The output format.")]


def simulate(
    scenario: Scenario,
    change: Changes = None,
    report: ReportFile = None,
    output: OutputFormat = Format.TABLE,
) -> None:
    """Play jobs through the queues in virtual time, as they are and with changes.

    The admission core and the lifecycle of workloads are those of the controllers; jobs are generated from
    their classes, or read from a trace.  The same input gives the same output.

    [b]Example:[/b] quorate simulate examples/simulate/two-teams.yaml --change examples/simulate/larger-quota.yaml
    """  # noqa: E501  the example is one line, to be copied
    try:
        world = read_world(scenario)
        variants = [(str(path), changed(world, path)) for path in change or ()]
    except InvalidWorld as error:
        raise InvalidFiles(error.findings) from error
    if len({name for name, _ in variants}) < len(variants):
        raise UsageError("--change names a file twice (each change is compared with the scenario as it is)")
    tune_garbage_collection()
    runs = _play_all([(str(scenario), world), *variants])
    first = runs[0]
    comparisons = [compare(name, first, run) for (name, _), run in zip(variants, runs[1:], strict=True)]
    if report is not None:
        names = [str(scenario), *(name for name, _ in variants)]
        _write_report(report, dict(zip(names, runs, strict=True)), comparisons)
    if output is Format.JSON:
        print_value(Answer(summarize(first), tuple(comparisons)), Output.JSON)
        return
    console = Console()
    print_summary(console, str(scenario), first)
    for comparison in comparisons:
        print_comparison(console, comparison)


def _write_report(path: Path, runs: Mapping[str, Run], comparisons: Sequence[Comparison]) -> None:
    try:
        path.write_text(page.report(runs, comparisons), encoding="utf-8")
    except page.NoCharts as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"--report {path}: {(error.strerror or '').lower()}") from error


def _play_all(worlds: Sequence[tuple[str, World]]) -> list[Run]:
    """Play the worlds one after another, with a progress bar on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        return [
            play(
                world,
                partial(_advance, progress, progress.add_task(name, total=number_of_jobs(world.scenario))),
            )
            for name, world in worlds
        ]


def _advance(progress: Progress, task: TaskID, ended: int) -> None:
    progress.update(task, completed=ended)
