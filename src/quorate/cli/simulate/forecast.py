"""``quorate forecast``: when the waiting workloads of a cluster would start."""

from datetime import datetime
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from quorate.api.meta import at_epoch
from quorate.cli.files import Config
from quorate.cli.simulate.live import Runs, read_cluster, report_origins
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import print_rows, print_value
from quorate.local.objects.tables.durations import human_duration
from quorate.simulate import forecast as forecasts
from quorate.simulate.forecast import PLAYS, StartTime
from quorate.simulate.snapshot import snapshot_world

QueueName = Annotated[
    str, typer.Option("--queue", "-q", metavar="NAME", help="Only workloads of this local queue.")
]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAME", help="Only workloads of this namespace.")
]
Plays = Annotated[int, typer.Option("--plays", min=1, max=1000, help="How many runs to simulate.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class Answer(msgspec.Struct, frozen=True, rename="camel"):
    """The output in JSON; times of ``workloads`` are seconds after ``at``."""

    at: datetime
    workloads: tuple[StartTime, ...]


def forecast(
    queue: QueueName = "",
    namespace: Namespace = "",
    plays: Plays = PLAYS,
    runs: Runs = "1h",
    as_json: AsJson = False,
    config: Config = None,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Show when the workloads that wait would start.

    It plays the queues and workloads of the cluster many times, with run times that finished workloads of the
    same kind or queue had. Half of the runs start a workload within P50, nine of ten within P90. Jobs that
    will be submitted later are not in it.

    [b]Example:[/b] quorate forecast --queue training
    """
    live = read_cluster(o.ClusterOptions(kubeconfig, context), config, runs)
    world = snapshot_world(live.objects, live.times, live.now, live.effective.configuration)
    columns = (TextColumn("playing"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("playing", total=plays)
        starts = forecasts.forecast(world, plays, lambda played: progress.update(task, completed=played))
    shown = [each for each in starts if queue in ("", each.queue) and namespace in ("", each.namespace)]
    if as_json:
        print_value(Answer(at_epoch(live.now), tuple(shown)), o.Output.JSON)
    elif shown:
        rows = [
            (each.namespace, each.name, each.queue, _after(each.p50_s), _after(each.p90_s), _share(each))
            for each in shown
        ]
        print_rows(("NAMESPACE", "WORKLOAD", "QUEUE", "STARTS P50", "P90", "STARTED IN"), rows)
    else:
        typer.echo("no workload waits", err=True)
    report_origins(live.times)


def _after(seconds: float | None) -> str:
    return "never" if seconds is None else f"in {human_duration(seconds)}"


def _share(start: StartTime) -> str:
    return f"{start.started} of {start.plays} runs"
