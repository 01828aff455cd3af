"""How long jobs are assumed to run: the option of the commands that simulate, and what is used instead."""

from typing import Annotated, Final

import typer

from quorate.simulate.estimates.snapshot import RunTimes

Runs = Annotated[
    str,
    typer.Option(
        "--runs", metavar="DURATION",
        help="How long jobs run if no workload has finished and none declares its maximum execution time.",
    ),
]  # fmt: skip

_MOST_ORIGINS: Final = 20


def report_origins(times: list[RunTimes]) -> None:
    """Print on stderr where the run times of each queue and kind of work are from."""
    for each in times[:_MOST_ORIGINS]:
        typer.echo(f"run times of {each.origin}", err=True)
    if len(times) > _MOST_ORIGINS:
        typer.echo(f"and run times of {len(times) - _MOST_ORIGINS} others", err=True)
