"""``quorate local``: a Kubernetes cluster on this machine."""

import asyncio
import random
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from quorate.api.meta import Key
from quorate.api.syntax import is_dns_label
from quorate.cli.cluster_snapshot import read_cluster_snapshot
from quorate.cli.configuration_reload import ConfigurationInForce
from quorate.cli.errors import UsageError
from quorate.cli.files import (
    Config,
    SchedulerConf,
    read_configuration_text,
    read_scheduler_configuration_text,
)
from quorate.cli.local_background import IN_BACKGROUND, print_log, start_in_background, stop
from quorate.cli.local_import import import_snapshot
from quorate.cli.local_kubeconfig import (
    context_name,
    merge_kubeconfig,
    remove_merged_kubeconfig,
    update_merged_kubeconfig,
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
)
from quorate.cli.run.command import run
from quorate.cli.run.formatting import plural
from quorate.cli.run.node_topology import FLAVOR, TOPOLOGY, NodeTopology
from quorate.cli.run.process_runtime import (
    Images,
    NodeName,
    NodeResources,
    Runtime,
    RuntimeChoice,
    RuntimeOptions,
)
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Invalid
from quorate.kube.log import configure
from quorate.kube.resources import JOBS, NODES, PODS, RESOURCE_FLAVORS, TOPOLOGIES
from quorate.kube.rest.config import load_rest_config
from quorate.local.cluster import Settings
from quorate.local.directory import DESCRIPTION, ClusterDirectory, DirectoryInUse, LockedDirectory
from quorate.local.runtime.supervisor import delete_runtime, end_runtime
from quorate.scheduler.scheduler import SCHEDULER_NAMES, Options

DEFAULT_NAME: Final = "local"
DEFAULT_PORT: Final = 7443  # of the cluster with that name
DASHBOARD_LINK: Final = "# dashboard: "
_SEPARATE_CONTROLLERS: Final = "# start the queueing controllers: quorate controllers --kubeconfig "
DEFAULT_DASHBOARD_PORT: Final = 7444

local = typer.Typer(
    no_args_is_help=True,
    help="A Kubernetes cluster on this machine: real API server and controllers, simulated nodes.\n\n"
    "[b]Keep a cluster:[/b] quorate local up --detach --merge-kubeconfig, kubectl get nodes, "
    "quorate local down --delete\n\n"
    "[b]Run a directory of manifests:[/b] quorate examples copy, quorate local run examples/all-or-nothing",
    rich_markup_mode="rich",
)

DataDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The directory for state, certificates and kubeconfig. Default: ~/.quorate/NAME.",
    ),
]
Name = Annotated[
    str,
    typer.Option(metavar="NAME", help="The name of the cluster: several can run beside each other."),
]
Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="The port to listen on; 0 takes any free port. "
        f"Default: {DEFAULT_PORT}, or any free port with --name.",
    ),
]


def _directory(name: str, data_dir: Path | None) -> ClusterDirectory:
    """Return the directory of a cluster.  Raises ``UsageError``."""
    if not is_dns_label(name):
        raise UsageError(f"--name: {name!r} is not a name of small letters, digits and hyphens (write test)")
    if data_dir is not None and name != DEFAULT_NAME:
        raise UsageError("--name has no effect with --data-dir (drop one of the two)")
    return ClusterDirectory(data_dir or Path("~/.quorate") / name)


class Scheduling(StrEnum):
    """Which schedulers run."""

    BOTH = "both"
    PLAIN = "plain"
    GANG = "gang"


def _options(name: str, data_dir: Path | None) -> str:
    """Return the options that name the same cluster to another command."""
    if data_dir is not None:
        return f" --data-dir {data_dir}"
    return "" if name == DEFAULT_NAME else f" --name {name}"


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
    runtime: RuntimeChoice = Runtime.SIMULATED,
    node_name: NodeName = "",
    node: NodeResources = "",
    image: Images = None,
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Run in the background, and return when the cluster is ready."),
    ] = False,
    wait: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="How long [b]--detach[/b] waits for the cluster."),
    ] = 120.0,
    merge: Annotated[
        bool,
        typer.Option(
            "--merge-kubeconfig",
            help="Add the context of the cluster to your kubeconfig ([b]$KUBECONFIG[/b] or ~/.kube/config) "
            "and make it current. [b]down --delete[/b] removes it.",
        ),
    ] = False,
    in_background: Annotated[bool, typer.Option(IN_BACKGROUND, hidden=True)] = False,
    port: Port = None,
    config: Config = None,
    without_controllers: Annotated[
        bool,
        typer.Option(
            "--without-controllers",
            help="Start no queueing controllers and provide no roles for users: "
            "run [b]quorate controllers[/b], or install them.",
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
    """Start the cluster and keep it running until Ctrl-C, or in the background.

    The state is kept: the next [b]up[/b] on the directory continues from it, on the nodes of the last one.

    [b]Example:[/b] quorate local up --detach --nodes 2 --pool name=gpu,count=4,cpu=64,nvidia.com/gpu=8
    """
    cluster_directory = _directory(name, data_dir)
    options = described_nodes(nodes, node_cpu, node_memory, node_pods, topology, pool)
    described = None if cluster is None else read_description_file(cluster)
    runtime_options = RuntimeOptions(runtime, node_name, node, image or ())
    if without_controllers and config is not None:
        raise UsageError("--config has no effect with --without-controllers (drop one of the two)")
    if scheduling is Scheduling.PLAIN and scheduler_conf is not None:
        raise UsageError("--scheduler-conf has no effect with --scheduling plain (drop one of the two)")
    in_force = None if without_controllers else _configuration(config)
    gang_scheduler = _gang_scheduler_settings(scheduling, scheduler_conf)
    if detach and not in_background:
        _start_in_background(cluster_directory, _options(name, data_dir), wait, dashboard, merge)
        return
    configure("console")
    clock = WallClock()
    port = (DEFAULT_PORT if name == DEFAULT_NAME else 0) if port is None else port
    with cluster_directory.lock(clock.now(), in_background=in_background) as directory:
        # The node of this machine does not take the place of the nodes of an earlier start.
        earlier = _earlier_description(directory) if runtime is Runtime.SIMULATED else ClusterDescription()
        described = described or earlier
        description = options.override(described)
        pools, process_runtime = runtime_options.nodes(options, described)
        settings = Settings(pools, port, speed, scheduling is not Scheduling.GANG, process_runtime)

        async def serve() -> None:
            async with run_queueing_cluster(
                directory, settings, in_force, clock, random.Random(), gang_scheduler,
                has_roles=not without_controllers,
            ) as client:  # fmt: skip
                if process_runtime is None:
                    directory.write(DESCRIPTION, description_text(description).encode())
                if description.topology is not None:
                    await _apply_topology(client, description.topology)
                if merge:
                    merge_kubeconfig(cluster_directory)
                else:
                    update_merged_kubeconfig(cluster_directory)
                typer.echo(_next_steps(client.config.server, cluster_directory, merge))
                if in_force is None:
                    typer.echo(f"{_SEPARATE_CONTROLLERS}{directory.kubeconfig}")
                if not in_background:
                    typer.echo("# Ctrl-C stops the cluster; its state is kept")
                directory.publish_ready()
                if dashboard:
                    await _serve_dashboard(client, directory.kubeconfig, config, dashboard_port)
                await asyncio.Event().wait()  # until a signal cancels it

        try:
            tune_garbage_collection()
            uvloop.run(run_until_signal(serve()))
        except asyncio.CancelledError:
            typer.echo("stopped; the state is kept", err=True)


@local.command()
def down(
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Also delete the state, without confirmation, as reset does.")
    ] = False,
) -> None:
    """Stop the cluster.

    [b]Example:[/b] quorate local down --delete
    """
    directory = _directory(name, data_dir)
    stopped = stop(directory)
    left = 0 if stopped is not None else end_runtime(directory.path)
    if left:
        typer.echo(f"ended {plural(left, 'container')} of a cluster that was killed")
    elif stopped is None and not delete:
        raise UsageError(f"{directory.path}: no cluster runs here (quorate local up starts one)")
    if stopped is not None:
        kept = "" if delete else f"; the state stays in {directory.path}"
        typer.echo(f"stopped process {stopped.pid}{kept}")
    if delete:
        _delete(directory)


@local.command()
def logs(
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until the cluster stops.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="LINES", help="Print the last lines only. Default: all.")
    ] = None,
) -> None:
    """Print the log of a cluster that was started in the background.

    [b]Example:[/b] quorate local logs --follow --tail 20
    """
    directory = _directory(name, data_dir)
    running = directory.running()
    if running is not None and not running.in_background:
        raise UsageError(
            f"{directory.path}: process {running.pid} writes its log to its terminal (no --detach)"
        )
    if not directory.log.exists():
        raise UsageError(f"{directory.log}: does not exist (quorate local up --detach writes it)")
    print_log(directory.log, tail, (lambda: directory.running() is not None) if follow else None)


@local.command()
def status(name: Name = DEFAULT_NAME, data_dir: DataDir = None) -> None:
    """Show whether the cluster runs, its server, and its numbers of objects. Exit code 1 if it is stopped.

    [b]Example:[/b] quorate local status
    """
    directory = _directory(name, data_dir)
    running = directory.running()
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row("directory", str(directory.path))
    if running is None:
        table.add_row("cluster", "stopped")
        Console().print(table)
        raise typer.Exit(1)
    table.add_row("cluster", "running" if running.is_ready else "starting")
    table.add_row("server", running.server)
    table.add_row("process", str(running.pid))
    table.add_row("up for", f"{WallClock().now() - running.since:.0f} s")
    table.add_row("kubeconfig", str(directory.kubeconfig))
    table.add_row("log", str(directory.log) if running.in_background else "on the terminal of the process")
    if running.server:
        for kind, count in uvloop.run(_object_counts(directory.kubeconfig)):
            table.add_row(kind, count)
    Console().print(table)


@local.command("import")
def import_(
    snapshots: Annotated[
        list[Path], typer.Argument(metavar="SNAPSHOT...", help="Files, or directories of files.")
    ],
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    quotas: Annotated[
        bool, typer.Option("--quotas", help="Import ResourceQuotas and LimitRanges as well.")
    ] = False,
) -> None:
    """Import nodes, queues, flavors, cohorts, topologies and priority classes of a real cluster.

    A file is what [b]kubectl get nodes,clusterqueues,localqueues -A -o yaml[/b] or [b]quorate snapshot[/b]
    writes. Nodes are simulated, with their labels, taints and allocatable resources. Namespaces that queues
    need are created. Objects of other kinds, Secrets among them, are skipped. Nothing is stored unless all
    files can be read and the server accepts all objects.

    [b]Example:[/b] quorate local import real.yaml
    """
    directory = _directory(name, data_dir)
    snapshot = read_cluster_snapshot(snapshots, with_quotas=quotas)
    running = directory.running()
    if running is None or not running.server:
        raise UsageError(
            f"{directory.path}: no cluster runs here (start one: quorate local up --detach --nodes 0)"
        )

    async def store() -> Counter[str]:
        async with Client(await load_rest_config(directory.kubeconfig), random.Random()) as client:
            return await import_snapshot(client, snapshot)

    typer.echo(f"imported: {_counts(uvloop.run(store()))}")
    if snapshot.skipped:
        typer.echo(f"skipped: {_counts(snapshot.skipped)}")


@local.command()
def kubeconfig(
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    merge: Annotated[
        bool, typer.Option("--merge", help="Add the context to your kubeconfig and make it current.")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the context from your kubeconfig.")
    ] = False,
) -> None:
    """Print the kubeconfig of the cluster, or merge it into yours ([b]$KUBECONFIG[/b] or ~/.kube/config).

    [b]Example:[/b] quorate local kubeconfig --merge
    """
    directory = _directory(name, data_dir)
    context = context_name(directory)
    if merge and remove:
        raise UsageError("--merge has no effect with --remove (drop one of the two)")
    if merge:
        typer.echo(f"{merge_kubeconfig(directory)}: context {context} added and made current")
    elif remove:
        removed = remove_merged_kubeconfig(directory)
        if removed is None:
            raise UsageError(f"{context}: no kubeconfig has it (quorate local kubeconfig --merge adds it)")
        typer.echo(f"{removed}: context {context} removed")
    elif not directory.kubeconfig.exists():
        raise UsageError(f"{directory.kubeconfig}: does not exist (quorate local up starts a cluster)")
    else:
        typer.echo(directory.kubeconfig.read_text(), nl=False)


@local.command()
def reset(
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete the state of a stopped cluster: objects, certificates, token, kubeconfig.

    [b]Example:[/b] quorate local reset --yes
    """
    directory = _directory(name, data_dir)
    if (running := directory.running()) is not None:
        raise DirectoryInUse(directory.path, running)
    if not yes:
        typer.confirm(f"delete the cluster in {directory.path}?", abort=True)
    _delete(directory)


local.command()(run)


def _counts(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _delete(directory: ClusterDirectory) -> None:
    merged = remove_merged_kubeconfig(directory)
    if merged is not None:
        typer.echo(f"{merged}: context {context_name(directory)} removed")
    delete_runtime(directory.path)
    removed = directory.remove(WallClock().now())
    typer.echo(f"{directory.path}: {plural(len(removed), 'file')} deleted")


def _start_in_background(
    directory: ClusterDirectory, options: str, wait_s: float, dashboard: bool, merged: bool
) -> None:
    """Start this command line in the background, and print what to type next once it is ready."""
    running, log = start_in_background(
        directory, wait_s, lambda text: not dashboard or DASHBOARD_LINK in text
    )
    typer.echo(_next_steps(running.server, directory, merged))
    for line in log.splitlines():
        if line.startswith((_SEPARATE_CONTROLLERS, DASHBOARD_LINK)):
            typer.echo(line)
    commands = ("status", "logs --follow", "down")
    typer.echo(f"# then: {', '.join(f'quorate local {command}{options}' for command in commands)}")


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


def _next_steps(server: str, directory: ClusterDirectory, merged: bool) -> str:
    """Return lines for a shell: where the cluster is, and what to type next."""
    if merged:
        current = f"context {context_name(directory)} is current"
        return f"# the cluster listens at {server}; {current}: kubectl get nodes"
    return (
        f"export KUBECONFIG={directory.kubeconfig}\n"
        f"# the cluster listens at {server}; in a terminal, after the line above: kubectl get nodes"
    )
