"""``quorate snapshot``: write a world that ``quorate simulate`` plays, from a live cluster."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.cli.errors import UsageError
from quorate.cli.files import Config
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_model import effective_configuration
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden
from quorate.kube.resources import PLACEABLE_NODES, RESOURCE_FLAVORS, WORKLOADS, Resource
from quorate.simulate.snapshot import KINDS, RunTimes, documents, run_times

File = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE", dir_okay=False, help="Where to write it. Default: stdout."),
]
Runs = Annotated[
    str,
    typer.Option(
        "--runs", metavar="DURATION",
        help="How long jobs run if no workload has finished and none declares its maximum execution time.",
    ),
]  # fmt: skip


def snapshot(
    file: File = None,
    runs: Runs = "1h",
    config: Config = None,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Write the queues and workloads of a cluster to a file that simulate plays.

    Run times are those of the finished workloads of each queue. Commands, environment and images of pods are
    left out. It lists queues, flavors, checks, workloads, namespaces and, with topologies, nodes of all
    namespaces.

    [b]Example:[/b] quorate snapshot --file today.yaml && quorate simulate today.yaml --change larger-quota.yaml
    """  # noqa: E501  the example is one line, to be copied
    try:
        assumed_s = parse_duration(runs)
    except InvalidDuration as error:
        raise UsageError(f"--runs {runs}: is not a duration (write 10m, 1h30m or 500ms)") from error
    now = WallClock().now()

    async def read(connection: o.Connection) -> tuple[str, list[RunTimes]]:
        client = connection.client
        effective = await effective_configuration(client, config)
        found: dict[Resource[Any], list[Any]] = {}
        kinds = list(KINDS)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        console = Console(stderr=True)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("reading", total=len(kinds))
            for resource in kinds:
                progress.update(task, description=f"reading {resource.plural}")
                try:
                    found[resource] = list((await client.list(resource)).items)
                except Forbidden as error:
                    needed = f"list {resource.plural} of all namespaces"
                    raise UsageError(f"a snapshot needs the permission to {needed}: {error}") from error
                progress.advance(task)
        if any(each.spec.topology_name for each in found[RESOURCE_FLAVORS]):
            found[PLACEABLE_NODES] = list((await client.list(PLACEABLE_NODES)).items)
        times = list(run_times(found[WORKLOADS], assumed_s))
        return "---\n".join(documents(found, times, now, effective.text)), times

    text, times = o.with_cluster(o.ClusterOptions(kubeconfig, context), read)
    if file is None:
        typer.echo(text, nl=False)
    else:
        try:
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"--file {file}: {(error.strerror or '').lower()}") from error
    for each in times:
        typer.echo(f"run times of {each.origin}", err=True)
