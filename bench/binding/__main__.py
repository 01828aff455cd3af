"""``python -m bench.binding``: see the package."""

import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.admission.run import NotDone
from bench.binding.run import Outcome, Plan, run
from bench.limits import load
from quorate.processes.process_setup import run_until_signal

BINDS_AT_ONCE = 64
GANGS_OF = (10, 50)  # members; smaller gangs cost more, as each has a status to write


def main(
    pods: Annotated[int, typer.Option(min=50, help="The number of pods in gangs.")] = 3000,
    at_once: Annotated[int, typer.Option(min=1, help="Concurrent bind calls.")] = BINDS_AT_ONCE,
    members: Annotated[
        list[int] | None,
        typer.Option(min=1, help="The size of the gangs. Default: a run with 10, one with 50."),
    ] = None,
    bound: Annotated[int, typer.Option(min=0, help="Further pods that have nodes before.")] = 0,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An empty cluster, for one --members. Default: a local server."),
    ] = None,
    native: Annotated[bool, typer.Option("--native", help="Gangs are pod groups of Kubernetes.")] = False,
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each size; the medians count.")] = 1,
    within_s: Annotated[float, typer.Option(metavar="SECONDS", help="Give up after this long.")] = 300.0,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the scheduler's log in this directory.")
    ] = None,
) -> None:
    """Measure how fast gangs are bound over HTTP, compared with bare bind calls."""
    sizes = members or GANGS_OF
    if kubeconfig is not None and (len(sizes) != 1 or rounds != 1):
        raise typer.BadParameter("the objects of a run stay in the cluster: name one --members, one round")
    console = Console()
    limits = load()
    found: dict[str, float] = {}
    kind = "native groups" if native else "gangs"
    for size in sizes:
        ratios = []
        for number in range(rounds):
            with tempfile.TemporaryDirectory(prefix="quorate-bench-") as temporary:
                directory = (keep or Path(temporary)) / f"{size}-{number}"
                directory.mkdir(parents=True)
                try:
                    plan = Plan(pods // size, size, at_once, within_s, directory, kubeconfig, bound, native)
                    outcome = _run(plan, console)
                except* NotDone as failure:
                    for each in failure.exceptions:
                        console.print(f"[red]error[/]: {each}")
                    sys.exit(2)
            ratios.append(outcome.ratio)
            console.print(f"  {kind} of {size}: {outcome.summary(plan.pods)}", highlight=False)
        found[f"binding: {kind} of {size}: pods a second ÷ bare binds"] = median(ratios)
    for name, value in found.items():
        console.print(f"  {name}: {value:,.4g} ({limits.measures.get(name, 'no limit')})")
    # A real server's bare binds cost more, so that the limits are those of the local one.
    broken = limits.broken(found) if kubeconfig is None and not bound and members is None else []
    for name in broken:
        console.print(f"[red]broken[/]: {name}: {limits.measures[name].reason}")
    sys.exit(1 if broken else 0)


def _run(plan: Plan, console: Console) -> Outcome:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bound = progress.add_task("bound", total=plan.pods)
        return uvloop.run(run_until_signal(run(plan, lambda pods: progress.update(bound, completed=pods))))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
