"""What the commands that simulate share: the option of run times, their origins, and the progress."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from quorate.simulate.estimates.snapshot import RunTimes

Runs = Annotated[
    str,
    typer.Option(
        "--runs", metavar="DURATION",
        help="How long to assume that a job runs, if none of its kind or queue has finished and it declares "
        "no maximum execution time.",
    ),
]  # fmt: skip

_MOST_ORIGINS: Final = 20


def report_origins(times: list[RunTimes]) -> None:
    """Print on stderr where the run times of each queue and kind of work are from."""
    for run_times in times[:_MOST_ORIGINS]:
        typer.echo(f"run times of {run_times.origin}", err=True)
    if len(times) > _MOST_ORIGINS:
        typer.echo(f"and run times of {len(times) - _MOST_ORIGINS} others", err=True)


@contextmanager
def progress_bar(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows how many of ``total`` steps are done, on a terminal."""
    columns = (TextColumn(text), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(text, total=total)
        yield lambda done: progress.update(task, completed=done)
