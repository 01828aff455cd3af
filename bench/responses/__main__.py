"""``python -m bench.responses``: measure how long clients of busy controllers wait.

CPU time of the controllers between a request and its response is compared with the limits: unlike wall time,
it does not depend on other processes of the machine.  Exits with status 1 if a limit of ``limits.yaml`` is
exceeded.
"""

import shlex
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.console import Console

from bench.limits import check_limits
from bench.responses.run import Outcome, Plan, run
from quorate.processes.process_setup import run_until_signal

CONTROLLERS: Final = f"{sys.executable} -m quorate controllers"


def main(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An empty cluster; without this option, run a local API server."),
    ] = None,
    queues: Annotated[int, typer.Option(min=1, help="Cluster queues of one cohort.")] = 20,
    workloads: Annotated[int, typer.Option(min=1, help="Pending workloads.")] = 6_000,
    edits: Annotated[int, typer.Option(min=1, help="Edits of the quota of one queue.")] = 4,
    every_s: Annotated[float, typer.Option(metavar="SECONDS", help="Time between edits.")] = 3.0,
    rounds: Annotated[int, typer.Option(min=1, help="Number of runs of the controllers.")] = 1,
    controllers: Annotated[
        str, typer.Option(metavar="COMMAND", help="The command that runs the controllers with KUBECONFIG.")
    ] = CONTROLLERS,
) -> None:
    """Measure the waits, and compare them with the limits."""
    console = Console()
    command = shlex.split(controllers)
    outcomes: list[Outcome] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="quorate-bench-") as directory:
            plan = Plan(queues, workloads, edits, every_s, Path(directory), kubeconfig, command)
            outcome = uvloop.run(run_until_signal(run(plan)))
        outcomes.append(outcome)
        for what, of_clock in (("wall", outcome.wall), ("CPU", outcome.cpu)):
            for name, waits in of_clock.items():
                median, p99, longest = (1000 * seconds for seconds in waits)
                console.print(
                    f"{name}: {what} p50 {median:.1f} ms, p99 {p99:.1f} ms, longest {longest:.1f} ms"
                )
        console.print(f"{outcome.requests} requests, CPU of the controllers {outcome.usage.own_cpu_s:.2f} s")
    measured = {
        f"responses: {name}: p99, ms of CPU": [1000 * outcome.cpu[name].p99_s for outcome in outcomes]
        for name in outcomes[0].cpu
    }
    sys.exit(check_limits(measured, console))


if __name__ == "__main__":
    typer.run(main)
