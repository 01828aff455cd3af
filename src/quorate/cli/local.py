"""``quorate local``: a Kubernetes cluster on this machine."""

import asyncio
import os
import random
import signal
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from quorate.api.meta import Key
from quorate.cli.configuration_reload import ConfigurationInForce
from quorate.cli.errors import UsageError
from quorate.cli.files import (
    Config,
    SchedulerConf,
    read_configuration_text,
    read_scheduler_configuration_text,
)
from quorate.cli.process import run_until_signal, tune_garbage_collection
from quorate.cli.queueing_cluster import GangSchedulerSettings, run_queueing_cluster
from quorate.cli.run.cluster_description import (
    ClusterDescription,
    NodeCpu,
    NodeLevels,
    NodeMemory,
    NodePods,
    NodePools,
    Nodes,
    Speed,
    described_nodes,
    description_text,
    read_description_file,
    simulated_pools,
)
from quorate.cli.run.command import run
from quorate.cli.run.formatting import plural
from quorate.cli.run.node_topology import FLAVOR, TOPOLOGY, NodeTopology
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Invalid
from quorate.kube.log import configure
from quorate.kube.resources import JOBS, NODES, PODS, RESOURCE_FLAVORS, TOPOLOGIES
from quorate.kube.rest.config import load_rest_config
from quorate.local.cluster import Settings
from quorate.local.directory import DESCRIPTION, ClusterDirectory, DirectoryInUse, LockedDirectory
from quorate.scheduler.scheduler import SCHEDULER_NAMES, Options

DEFAULT_PORT: Final = 7443
DEFAULT_DASHBOARD_PORT: Final = 7444
_STOP_TIMEOUT_S: Final = 15.0

local = typer.Typer(
    no_args_is_help=True,
    help="A Kubernetes cluster on this machine: real API server and controllers, simulated nodes.",
    rich_markup_mode="rich",
)

DataDir = Annotated[
    Path, typer.Option(metavar="DIR", help="The directory for state, certificates and kubeconfig.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes any free port.")]
DEFAULT_DIRECTORY: Final = Path("~/.quorate/local")


class Scheduling(StrEnum):
    """Which schedulers run."""

    BOTH = "both"
    PLAIN = "plain"
    GANG = "gang"


@local.command()
def up(
    nodes: Nodes = None,
    node_cpu: NodeCpu = None,
    node_memory: NodeMemory = None,
    node_pods: NodePods = None,
    topology: NodeLevels = None,
    pool: NodePools = None,
    cluster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A description of the nodes, of kind Cluster; options override it."
        ),
    ] = None,
    speed: Speed = 1.0,
    data_dir: DataDir = DEFAULT_DIRECTORY,
    port: Port = DEFAULT_PORT,
    config: Config = None,
    without_controllers: Annotated[
        bool,
        typer.Option(
            "--without-controllers",
            help="Start no queueing controllers; run [b]quorate controllers[/b] separately.",
        ),
    ] = False,
    scheduling: Annotated[
        Scheduling,
        typer.Option(
            help="Which schedulers run: [b]plain[/b]: pods of default-scheduler; [b]gang[/b], for those of "
            "quorate, volcano and default-scheduler; or [b]both[/b], gang for those of quorate and volcano."
        ),
    ] = Scheduling.BOTH,
    scheduler_conf: SchedulerConf = None,
    dashboard: Annotated[
        bool,
        typer.Option("--dashboard", help="Also serve the dashboard, and print a link that logs in once."),
    ] = False,
    dashboard_port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="The port of the dashboard; 0 takes any free port."),
    ] = DEFAULT_DASHBOARD_PORT,
) -> None:
    """Start the cluster and keep it running until Ctrl-C.

    The state is kept: the next [b]up[/b] on the directory continues from it, on the nodes of the last one.

    [b]Example:[/b] quorate local up --nodes 2 --node-memory 8429Mi
    """
    options = described_nodes(nodes, node_cpu, node_memory, node_pods, topology, pool)
    described = None if cluster is None else options.override(read_description_file(cluster))
    if without_controllers and config is not None:
        raise UsageError("--config has no effect with --without-controllers (drop one of the two)")
    if scheduling is Scheduling.PLAIN and scheduler_conf is not None:
        raise UsageError("--scheduler-conf has no effect with --scheduling plain (drop one of the two)")
    in_force = None if without_controllers else _configuration(config)
    gang_scheduler = _gang_scheduler_settings(scheduling, scheduler_conf)
    configure("console")
    clock = WallClock()
    with ClusterDirectory(data_dir).lock(clock.now()) as directory:
        description = described or options.override(_earlier_description(directory))
        settings = Settings(
            simulated_pools(description), port, speed, plain_scheduler=scheduling is not Scheduling.GANG
        )

        async def serve() -> None:
            async with run_queueing_cluster(
                directory, settings, in_force, clock, random.Random(), gang_scheduler
            ) as client:
                directory.write(DESCRIPTION, description_text(description).encode())
                if description.topology is not None:
                    await _apply_topology(client, description.topology)
                typer.echo(f"export KUBECONFIG={directory.kubeconfig}")
                typer.echo(_next_steps(client.config.server, in_force is not None, directory.kubeconfig))
                if dashboard:
                    await _serve_dashboard(client, directory.kubeconfig, config, dashboard_port)
                await asyncio.Event().wait()  # until a signal cancels it

        try:
            tune_garbage_collection()
            uvloop.run(run_until_signal(serve()))
        except asyncio.CancelledError:
            typer.echo("stopped; the state is kept", err=True)


@local.command()
def down(data_dir: DataDir = DEFAULT_DIRECTORY) -> None:
    """Stop the cluster of a data directory.

    [b]Example:[/b] quorate local down
    """
    directory = ClusterDirectory(data_dir)
    running = directory.running()
    if running is None:
        raise UsageError(f"{directory.path}: no cluster runs here (quorate local up starts one)")
    os.kill(running.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while directory.running() is not None:
        if time.monotonic() >= deadline:
            raise UsageError(
                f"process {running.pid} has not stopped within {_STOP_TIMEOUT_S:g} s (kill -9 {running.pid})"
            )
        time.sleep(0.05)
    typer.echo(f"stopped process {running.pid}; the state stays in {directory.path}")


@local.command()
def status(data_dir: DataDir = DEFAULT_DIRECTORY) -> None:
    """Show whether the cluster runs, its server, and its numbers of objects. Exit code 1 if it is stopped.

    [b]Example:[/b] quorate local status
    """
    directory = ClusterDirectory(data_dir)
    running = directory.running()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("directory", str(directory.path))
    if running is None:
        table.add_row("cluster", "stopped")
        Console().print(table)
        raise typer.Exit(1)
    table.add_row("cluster", "running" if running.server else "starting")
    table.add_row("server", running.server)
    table.add_row("process", str(running.pid))
    table.add_row("up for", f"{WallClock().now() - running.since:.0f} s")
    table.add_row("kubeconfig", str(directory.kubeconfig))
    if running.server:
        for kind, count in uvloop.run(_object_counts(directory.kubeconfig)):
            table.add_row(kind, count)
    Console().print(table)


@local.command()
def reset(
    data_dir: DataDir = DEFAULT_DIRECTORY,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete the state of a stopped cluster: objects, certificates, token, kubeconfig.

    [b]Example:[/b] quorate local reset --yes
    """
    directory = ClusterDirectory(data_dir)
    if (running := directory.running()) is not None:
        raise DirectoryInUse(directory.path, running)
    if not yes:
        typer.confirm(f"delete the cluster in {directory.path}?", abort=True)
    removed = directory.remove(WallClock().now())
    typer.echo(f"{directory.path}: {plural(len(removed), 'file')} deleted")


local.command()(run)


def _earlier_description(directory: LockedDirectory) -> ClusterDescription:
    """Return the nodes of the last start, as a user may have changed them.  Raises ``InvalidFiles``."""
    path = directory.path / DESCRIPTION
    return read_description_file(path) if path.exists() else ClusterDescription()


def _configuration(path: Path | None) -> ConfigurationInForce:
    text, loaded = read_configuration_text(path)
    for warning in loaded.warnings:
        typer.echo(f"warning: {path}: {warning}", err=True)
    return ConfigurationInForce(path, text, loaded.configuration)


def _gang_scheduler_settings(scheduling: Scheduling, path: Path | None) -> GangSchedulerSettings | None:
    if scheduling is Scheduling.PLAIN:
        return None
    text, loaded = read_scheduler_configuration_text(path)
    for warning in loaded.warnings:
        typer.echo(f"warning: {path}: {warning}", err=True)
    names = (*SCHEDULER_NAMES, "default-scheduler") if scheduling is Scheduling.GANG else SCHEDULER_NAMES
    return GangSchedulerSettings(loaded.configuration, text, Options(names=names))


async def _serve_dashboard(client: Client, kubeconfig: Path, config: Path | None, port: int) -> None:
    """Serve the dashboard until cancelled."""
    from quorate.cli.dashboard.local_dashboard import serve_local_dashboard  # other commands need none of it

    await serve_local_dashboard(client, kubeconfig, config, port)


async def _apply_topology(client: Client, topology: NodeTopology) -> None:
    """Raise ``UsageError`` if the cluster has the objects and they cannot change to these."""
    try:
        await client.apply(TOPOLOGIES, Key("", TOPOLOGY), topology.topology)
        await client.apply(RESOURCE_FLAVORS, Key("", FLAVOR), topology.flavor)
    except Invalid as refusal:
        raise UsageError(
            f"--topology: the cluster has another Topology {TOPOLOGY} or ResourceFlavor {FLAVOR}: "
            f"{refusal.message} (quorate local reset deletes them, --data-dir makes another cluster)"
        ) from refusal


async def _object_counts(kubeconfig: Path) -> list[tuple[str, str]]:
    async with Client(await load_rest_config(kubeconfig), random.Random()) as client:
        nodes, jobs, pods = [await client.list(resource) for resource in (NODES, JOBS, PODS)]
        phases = [pod.status.phase for pod in pods.items]
        by_phase = ", ".join(f"{phases.count(phase)} {phase.lower()}" for phase in sorted(set(phases)))
        return [
            ("nodes", str(len(nodes.items))),
            ("jobs", str(len(jobs.items))),
            ("pods", f"{len(phases)} ({by_phase})" if by_phase else "0"),
        ]


def _next_steps(server: str, controllers: bool, kubeconfig: Path) -> str:
    lines = [
        f"# the cluster listens at {server}; in another terminal, after the line above: kubectl get nodes"
    ]
    if not controllers:
        lines.append(f"# start the queueing controllers: quorate controllers --kubeconfig {kubeconfig}")
    return "\n".join([*lines, "# Ctrl-C stops the cluster; its state is kept"])
