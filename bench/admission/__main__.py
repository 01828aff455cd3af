"""``python -m bench.admission``: see the package."""

import sys
import tempfile
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.admission.recorder import Record
from bench.admission.report import cost_measures, outcome_tables, real_server_measures, wait_measures
from bench.admission.run import NotDone, Outcome, Plan, run
from bench.limits import load
from bench.worlds import BASELINE, LARGE_SCALE, TOPOLOGIES
from quorate.processes.process_setup import run_until_signal


class Name(StrEnum):
    KUEUE = "kueue"
    LARGE = "large"
    TOPOLOGY = "topology"


WORLDS: Final = {Name.KUEUE: BASELINE, Name.LARGE: LARGE_SCALE, Name.TOPOLOGY: TOPOLOGIES}
QUORATE_CONTROLLERS: Final = f"{sys.executable} -m quorate controllers"
FLOOR_CONTROLLERS: Final = f"{sys.executable} -m bench.admission.floor"
NONE: Final = "none"


def main(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The cluster; without this option, run a local API server."),
    ] = None,
    world: Annotated[Name, typer.Option(help="The scenario of Kueue's benchmark.")] = Name.KUEUE,
    scale: Annotated[
        float, typer.Option(min=0.01, help="The part of its workloads to create, at the same rate.")
    ] = 1.0,
    controllers: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help=f"The command that runs the controllers with KUBECONFIG; [b]{NONE}[/b]: they run already.",
        ),
    ] = QUORATE_CONTROLLERS,
    pid: Annotated[
        int | None, typer.Option(metavar="PID", help="The process of controllers that run already.")
    ] = None,
    server_pid: Annotated[
        int | None,
        typer.Option(metavar="PID", help="The API server, if it does not listen on this machine's loopback."),
    ] = None,
    floor: Annotated[
        bool, typer.Option("--floor", help="Instead of controllers, run one that only writes admissions.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Check the limits of a kube-apiserver on this machine."),
    ] = False,
    floor_outcome: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Check the wall time too: the output of a run with --floor."),
    ] = None,
    within_s: Annotated[float, typer.Option(metavar="SECONDS", help="Give up after this long.")] = 1200.0,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all measurements to this file as JSON.")
    ] = None,
    leave: Annotated[
        bool, typer.Option("--leave", help="Do not delete the created objects at the end of the run.")
    ] = False,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the log of the controllers in this directory.")
    ] = None,
) -> None:
    """Measure admission over HTTP; check limits for the whole of kueue and topology on the local server."""
    console = Console()
    chosen = WORLDS[world].scaled(scale)
    if check and (kubeconfig is None or floor or chosen != WORLDS[world]):
        raise typer.BadParameter("--check is for whole scenarios with --kubeconfig and without --floor")
    with tempfile.TemporaryDirectory(prefix="quorate-bench-") as temporary:
        directory = keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        command = FLOOR_CONTROLLERS if floor else "" if controllers == NONE else controllers
        plan = Plan(chosen, kubeconfig, command, pid, within_s, directory, server_pid, leave)
        try:
            outcome = _run(plan, console)
        except* NotDone as failure:
            for each in failure.exceptions:
                console.print(f"[red]error[/]: {each}")
            sys.exit(2)
    console.print(outcome_tables(chosen, outcome))
    if output is not None:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(outcome)))
    # The limits apply to whole scenarios only, and without --check to those on the local server.
    found: dict[str, float] = {}
    if check:
        least = (
            None if floor_outcome is None else msgspec.json.decode(floor_outcome.read_bytes(), type=Outcome)
        )
        found = real_server_measures(chosen, outcome, least)
    elif kubeconfig is None and not floor and chosen in (BASELINE, TOPOLOGIES):
        found = cost_measures(chosen, outcome)
        if chosen == BASELINE:
            found |= wait_measures(chosen, outcome)
    sys.exit(1 if _exceeds_limits(found, console) else 0)


def _run(plan: Plan, console: Console) -> Outcome:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        created, finished = (
            progress.add_task(name, total=plan.world.workloads) for name in ("created", "finished")
        )

        def show(record: Record) -> None:
            progress.update(created, completed=record.workloads)
            progress.update(finished, completed=record.finished)

        return uvloop.run(run_until_signal(run(plan, show)))


def _exceeds_limits(found: Mapping[str, float], console: Console) -> bool:
    limits = load()
    for name, value in found.items():
        console.print(f"  {name}: {value:,.4g} ({limits.measures[name]})")
    broken = limits.broken(found)
    for name in broken:
        console.print(f"[red]broken[/]: {name}: {limits.measures[name].reason}")
    return bool(broken)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
