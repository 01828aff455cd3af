"""``python -m bench.churn``: measure CPU and memory of controllers and scheduler while pods change.

Exits with status 1 if a limit of ``limits.yaml`` is exceeded, unless the world is smaller.
"""

import shlex
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.churn.run import Plan, Stage, run
from bench.limits import check_limits
from quorate.processes.process_setup import run_until_signal

CONTROLLERS: Final = f"{sys.executable} -m quorate controllers"
SCHEDULER: Final = f"{sys.executable} -m quorate scheduler"


def main(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An empty cluster; without this option, run a local API server."),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1)] = 5_000,
    pods: Annotated[
        int, typer.Option(min=1, help="Bound pods; every second one is of a queued job.")
    ] = 50_000,
    rate: Annotated[int, typer.Option(min=1, help="Changes of pods a second.")] = 200,
    seconds: Annotated[int, typer.Option(min=1, help="How long pods change.")] = 60,
    controllers: Annotated[
        str, typer.Option(metavar="COMMAND", help="The command that runs the controllers with KUBECONFIG.")
    ] = CONTROLLERS,
    scheduler: Annotated[
        str, typer.Option(metavar="COMMAND", help="The command that runs the scheduler with KUBECONFIG.")
    ] = SCHEDULER,
) -> None:
    """Measure what the changes of pods cost, and compare it with the limits."""
    console = Console()
    commands = {"controllers": shlex.split(controllers), "scheduler": shlex.split(scheduler)}
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with tempfile.TemporaryDirectory() as directory, Progress(*columns, console=console) as progress:
        task = progress.add_task("nodes")

        def show(stage: Stage, done: int, of: int) -> None:
            progress.update(task, description=stage, completed=done, total=of)

        plan = Plan(nodes, pods, rate, seconds, Path(directory), kubeconfig, commands)
        costs = uvloop.run(run_until_signal(run(plan, show)))
    values = {
        f"churn: {name}: {measure}": [value]
        for name, cost in costs.items()
        for measure, value in (
            ("µs of CPU a pod change", cost.cpu_s * 1e6 / (rate * seconds)),
            ("peak memory, MB", cost.peak_bytes / 1e6),
        )
    }
    sys.exit(check_limits(values, console))


if __name__ == "__main__":
    typer.run(main)
