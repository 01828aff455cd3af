"""``quorate simulate backtest``: how well forecasts would have been in a scenario or trace."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from quorate.api.human_duration import human_duration
from quorate.cli.verbs.options import Output
from quorate.cli.verbs.printing import print_value
from quorate.inspect.configuration_files import InvalidFiles
from quorate.simulate.estimates import backtest as backtests
from quorate.simulate.estimates.backtest import Backtest
from quorate.simulate.inputs.world import InvalidWorld, read_world
from quorate.simulate.limits import BACKTEST_SAMPLES, PLAYS

Scenario = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        help="A file with a Scenario and manifests, a directory of such files, or a trace ([b].swf[/b]).",
    ),
]
Samples = Annotated[
    int, typer.Option("--samples", min=1, max=10_000, help="At how many submissions to forecast.")
]
Plays = Annotated[int, typer.Option("--plays", min=1, max=1000, help="How many runs a forecast takes.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, with every estimate.")]


def backtest(
    scenario: Scenario, samples: Samples = BACKTEST_SAMPLES, plays: Plays = PLAYS, as_json: AsJson = False
) -> None:
    """Tell how well forecasts would have been for the jobs of a scenario or trace.

    At some submissions it forecasts the queues as quorate queue forecast does, from what is there at that
    moment, from the run times of the jobs that have ended and from the submissions so far; then it compares
    with what came.

    [b]Example:[/b] quorate simulate backtest examples/simulate/two-teams.yaml --samples 10
    """
    try:
        world = read_world(scenario)
    except InvalidWorld as error:
        raise InvalidFiles(error.findings) from error
    columns = (TextColumn("forecasting"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("forecasting", total=samples)
        found = backtests.backtest(world, samples, plays, lambda done: progress.update(task, completed=done))
    if as_json:
        print_value(found, Output.JSON)
    else:
        typer.echo(_text(found))


def _text(found: Backtest) -> str:
    count = len(found.estimates)
    head = f"{found.submissions} submissions: {found.started_at_once} started at once, {count} waited"
    if found.coverage is None:
        return f"{head}; there was nothing to estimate"
    error = "unknown" if found.error_s is None else human_duration(found.error_s)
    wait = human_duration(found.median_wait_s) if found.median_wait_s is not None else "unknown"
    cold = sum(not each.learned_from for each in found.estimates)
    if cold:
        head += f"; before {cold} of them no job of their queue had ended"
    return (
        f"{head}\np90 held for {found.coverage:.0%} of them (85% to 95% is honest)\n"
        f"the median error of p50 is {error}, of a median wait of {wait}"
    )
