"""``quorate simulate backtest``: how well forecasts would have been in a scenario or trace."""

from pathlib import Path
from typing import Annotated

import typer

from quorate.cli.simulate.run_times import progress_bar
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import is_structured, print_value
from quorate.inspect.configuration_files import InvalidFiles
from quorate.inspect.formatting import format_duration
from quorate.simulate.estimates import backtest as backtests
from quorate.simulate.estimates.backtest import Backtest
from quorate.simulate.inputs.cluster_worlds import reject_clusters
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
    int,
    typer.Option(
        "--samples", min=1, max=10_000, help="At how many submissions of the trace to make a forecast."
    ),
]
Plays = Annotated[
    int,
    typer.Option(
        "--plays",
        min=1,
        max=1000,
        help="How many times each forecast plays the queue; more take longer and steady p90.",
    ),
]


def backtest(
    scenario: Scenario,
    samples: Samples = BACKTEST_SAMPLES,
    plays: Plays = PLAYS,
    output: o.ValueFormat = o.Output.TABLE,
) -> None:
    """Tell how well forecasts would have been for the jobs of a scenario or trace.

    At some submissions it forecasts the queues as quorate queue forecast does, from what is there at that
    moment, from the run times of the jobs that have ended and from the submissions so far; then it compares
    with what came.

    [b]Example:[/b] quorate simulate backtest examples/simulate/two-teams.yaml --samples 10
    """
    try:
        world = read_world(scenario)
        reject_clusters(world, "quorate simulate backtest")
    except InvalidWorld as error:
        raise InvalidFiles(error.findings) from error
    with progress_bar("forecasting", samples) as show:
        result = backtests.backtest(world, samples, plays, show)
    if is_structured(output):
        print_value(result, output)
    else:
        typer.echo(_text(result))


def _text(result: Backtest) -> str:
    count = len(result.estimates)
    head = f"{result.submissions} submissions: {result.started_at_once} started at once, {count} waited"
    if result.coverage is None:
        return f"{head}; there was nothing to estimate"
    error = "unknown" if result.error_s is None else format_duration(result.error_s)
    wait = format_duration(result.median_wait_s) if result.median_wait_s is not None else "unknown"
    cold = sum(not estimate.learned_from for estimate in result.estimates)
    if cold:
        head += f"; before {cold} of them no job of their queue had ended"
    return (
        f"{head}\np90 held for {result.coverage:.0%} of them (85% to 95% is honest)\n"
        f"the median error of p50 is {error}, of a median wait of {wait}"
    )
