"""``python -m bench.dashboard.admission``: the rate of admissions with and without a dashboard.

Pairs of runs of a part of Kueue's baseline benchmark on the local server; in each pair one run has a
dashboard, of which 200 clients read the event stream, while the jobs change far more often than 100 times a
second.  The order alternates.  The API server, the controllers and the jobs have one half of the cores to
themselves in all runs, the dashboard and its clients the other half, as if they were on machines of their
own: what is measured is what the dashboard costs them by its requests and watches.
"""

import os
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import typer
import uvloop
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.admission.__main__ import QUORATE_CONTROLLERS
from bench.admission.run import Outcome, Plan, run
from bench.admission.server import local_server
from bench.dashboard.event_readers import CLIENTS
from bench.dashboard.processes import running_dashboard, started
from bench.limits import check_limits, number_table
from bench.worlds import BASELINE, World
from quorate.local.directory import ClusterDirectory

WITHIN_S = 600.0


class Cores(NamedTuple):
    cluster: frozenset[int]
    dashboard: frozenset[int]


class Measured(NamedTuple):
    admissions_per_s: float
    controllers_cpu_s: float
    changes_per_s: float  # writes to the server that are no creation


def main(
    pairs: Annotated[int, typer.Option(min=1, help="How many runs with and without the dashboard.")] = 5,
    scale: Annotated[float, typer.Option(min=0.01, help="The part of the benchmark's workloads.")] = 0.1,
) -> None:
    """Compare the rate of admissions with and without a dashboard; check the limits."""
    console = Console()
    cores = _cores()
    os.sched_setaffinity(0, cores.cluster)  # of this process and of those that it starts
    world = BASELINE.scaled(scale)
    without: list[Measured] = []
    with_dashboard: list[Measured] = []
    for pair in track(range(pairs), "pairs", console=console, transient=True):
        for has_dashboard in (pair % 2 == 0, pair % 2 == 1):
            measured = uvloop.run(_measure(world, cores.dashboard if has_dashboard else None))
            (with_dashboard if has_dashboard else without).append(measured)
    console.print(_table(without, with_dashboard))
    runs = list(zip(with_dashboard, without, strict=True))
    found = {
        f"dashboard: admissions a second with {CLIENTS} streams ÷ without": [
            one.admissions_per_s / other.admissions_per_s for one, other in runs
        ],
        f"dashboard: CPU of the controllers with {CLIENTS} streams ÷ without": [
            one.controllers_cpu_s / other.controllers_cpu_s for one, other in runs
        ],
    }
    sys.exit(check_limits(found, console))


def _cores() -> Cores:
    available = sorted(os.sched_getaffinity(0))
    half = len(available) // 2
    if not half:
        raise typer.BadParameter("a dashboard beside a cluster is measured on two cores at least")
    return Cores(frozenset(available[:half]), frozenset(available[half:]))


async def _measure(world: World, cores: frozenset[int] | None) -> Measured:
    """Run ``world`` on a new server, with a dashboard on ``cores``; None: without."""
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quorate-bench-")))
        cluster = ClusterDirectory(directory / "cluster")
        kubeconfig = await stack.enter_async_context(local_server(directory / "cluster"))
        if cores is not None:
            dashboard = await stack.enter_async_context(
                running_dashboard(kubeconfig, directory / "history.db", cores)
            )
            clients = ("bench.dashboard.event_readers", dashboard.base, str(cluster.path / "token"))
            await stack.enter_async_context(started(clients, "reading", cores))
        plan = Plan(world, kubeconfig, QUORATE_CONTROLLERS, None, WITHIN_S, directory, leave=True)
        return _measured(await run(plan, lambda _: None))


def _measured(outcome: Outcome) -> Measured:
    controllers, wall_s = outcome.controllers, outcome.record.wall_s
    assert controllers is not None
    changes = sum(
        count for request, count in outcome.requests.items() if request.startswith("PATCH workloads")
    )
    return Measured(outcome.record.admissions / wall_s, controllers.cpu_s, changes / wall_s)


def _table(without: list[Measured], with_dashboard: list[Measured]) -> Table:
    table = number_table(
        "admissions a second", "CPU of the controllers, s", "their writes a second", first=""
    )
    for name, runs in (("without", without), ("with the dashboard", with_dashboard)):
        medians = (median(each) for each in zip(*runs, strict=True))
        table.add_row(name, *(f"{each:.3g}" for each in medians))
    return table


if __name__ == "__main__":
    typer.run(main)
