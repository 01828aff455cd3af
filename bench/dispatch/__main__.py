"""``python -m bench.dispatch``: see the package."""

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.admission.run import NotDone
from bench.dispatch.run import Outcome, Plan, run
from bench.limits import check_limits
from quorate.api.names.multikueue import ALL_AT_ONCE
from quorate.processes.process_setup import run_until_signal

WHOLE: Final = (10_000, 5)  # jobs and worker clusters that the limit of the memory is for
MEMORY: Final = "dispatch: 10,000 workloads in 5 worker clusters: memory, MB"
FEWEST: Final = 60  # jobs, without which the statuses of the queues are many of the requests


def main(
    jobs: Annotated[int, typer.Option(min=1, help="The number of jobs.")] = WHOLE[0],
    workers: Annotated[int, typer.Option(min=1, max=20, help="Worker clusters.")] = WHOLE[1],
    runs_s: Annotated[float, typer.Option(metavar="SECONDS", help="How long a job runs.")] = 5.0,
    dispatcher: Annotated[
        str, typer.Option(metavar="NAME", help="multiKueue.dispatcherName of the manager.")
    ] = ALL_AT_ONCE,
    held: Annotated[
        bool, typer.Option(help="Keep all jobs waiting, and end once each worker has a copy of each.")
    ] = False,
    within_s: Annotated[float, typer.Option(metavar="SECONDS", help="Give up after this long.")] = 1800.0,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the logs of the controllers here.")
    ] = None,
) -> None:
    """Measure what a manager needs to give jobs to worker clusters over HTTP."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="quorate-bench-") as temporary:
        directory = keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        try:
            outcome = _run(Plan(workers, jobs, runs_s, dispatcher, within_s, directory, held), console)
        except* NotDone as failure:
            for each in failure.exceptions:
                console.print(f"[red]error[/]: {each}")
            sys.exit(2)
    console.print(_requests(outcome))
    usage = outcome.manager
    in_manager, in_workers = outcome.requests_per_admission(jobs)
    memory = {MEMORY: [usage.own_peak_bytes / 1e6]} if (jobs, workers) == WHOLE else {}
    manager_used = (
        f"manager {usage.cpu_s:,.1f} s CPU, {usage.peak_bytes / 1e6:,.0f} MB with estimates, "
        f"{usage.own_peak_bytes / 1e6:,.0f} MB alone"
    )
    if held:
        text = f"  {jobs * workers:,} copies after {outcome.dispatched_s:,.0f} s; {manager_used}"
        console.print(text, highlight=False)
        sys.exit(check_limits(memory, console))
    console.print(
        f"  {jobs:,} jobs in {workers} worker clusters: {outcome.admitted_early:,} admitted "
        f"before the last was created, all after {outcome.dispatched_s:,.0f} s, "
        f"finished after {outcome.finished_s:,.0f} s; {manager_used}",
        highlight=False,
    )
    console.print(f"  requests an admission: {in_manager:.1f} in the manager, {in_workers:.1f} in workers")
    found: dict[str, list[float]] = {}
    if jobs >= FEWEST:
        found["dispatch: requests in the manager an admission"] = [in_manager]
        if workers == 2:
            found["dispatch: requests in two worker clusters an admission"] = [in_workers]
    sys.exit(check_limits(found | memory, console))


def _requests(outcome: Outcome) -> Table:
    table = Table("request", "in the manager", "in worker clusters")
    for name in sorted({*outcome.in_manager, *outcome.in_workers}):
        table.add_row(name, f"{outcome.in_manager.get(name, 0):,}", f"{outcome.in_workers.get(name, 0):,}")
    return table


def _run(plan: Plan, console: Console) -> Outcome:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        admitted, finished = (progress.add_task(name, total=plan.jobs) for name in ("admitted", "finished"))

        def show(of_admitted: int, of_finished: int) -> None:
            progress.update(admitted, completed=of_admitted)
            progress.update(finished, completed=of_finished)

        return uvloop.run(run_until_signal(run(plan, show)))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
