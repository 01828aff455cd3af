"""``quorate local up``: start a Kubernetes cluster on this machine."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import uvloop
from msgspec.structs import replace

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.cli.configuration_options import Config, SchedulerConf
from quorate.cli.local_background import (
    IN_BACKGROUND,
    WorkerProcess,
    end_workers,
    start_in_background,
    start_worker,
)
from quorate.cli.local_option import (
    DEFAULT_DASHBOARD_PORT,
    DEFAULT_NAME,
    DataDir,
    Name,
    cluster_directory,
    options_text,
)
from quorate.cli.run import node_options as n
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import print_result
from quorate.inspect.configuration_files import read_configuration_text, read_scheduler_configuration_text
from quorate.inspect.errors import UsageError
from quorate.kube.client import Client
from quorate.kube.clock import Clock, WallClock
from quorate.kube.errors import Invalid
from quorate.kube.log import configure
from quorate.kube.resources import RESOURCE_FLAVORS, TOPOLOGIES
from quorate.local.cluster import Settings
from quorate.local.controllers.scheduler import SCHEDULER_NAME
from quorate.local.directory import CONTEXT, DESCRIPTION, ClusterDirectory, LockedDirectory
from quorate.local.server.registry.feature_gates import GATES, InvalidGate, disabled_gates
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.local.cluster_description import (
    ClusterDescription,
    description_text,
    read_description_file,
)
from quorate.processes.local.kubeconfig_entries import (
    context_name,
    merge_kubeconfig,
    update_merged_kubeconfig,
    worker_contexts,
)
from quorate.processes.local.node_pools import FLAVOR, TOPOLOGY, NodeTopology
from quorate.processes.local.pod_runtime import Runtime
from quorate.processes.local.queueing_cluster import GangSchedulerSettings, run_queueing_cluster
from quorate.processes.local.worker_clusters import connect_workers
from quorate.processes.process_setup import run_until_signal, tune_garbage_collection
from quorate.scheduler.scheduler import SCHEDULER_NAMES, Options

DEFAULT_PORT: Final = 7443  # of the cluster with that name
DASHBOARD_LINK: Final = "# dashboard: "
_SEPARATE_CONTROLLERS: Final = "# start the queueing controllers: quorate controllers --kubeconfig "

Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="The port to listen on; 0 takes any free port. "
        f"Default: that of the last start, then {DEFAULT_PORT}, or any free port with --name.",
    ),
]


class Scheduling(StrEnum):
    """Which schedulers run."""

    BOTH = "both"
    PLAIN = "plain"
    GANG = "gang"


@n.with_nodes
def up(
    nodes: n.NodeOptions,
    cluster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A description of the nodes, of kind Cluster; options override it."
        ),
    ] = None,
    clusters: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=21,  # a MultiKueueConfig lists at most 20 workers
            help="How many clusters: this one, and with 2 or more worker clusters (worker-1, ...) with the "
            "same nodes. Jobs of its queue [b]batch[/b] are dispatched to the workers by MultiKueue. "
            "Default: those of the last start, then 1.",
        ),
    ] = None,
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Run in the background, and return when the cluster is ready.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="How long [b]--detach[/b] waits for the cluster.")
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
        int, typer.Option(min=0, max=65535, help="The port of the dashboard; 0 takes any free port.")
    ] = DEFAULT_DASHBOARD_PORT,
    feature_gates: Annotated[
        str,
        typer.Option(
            metavar="NAME=BOOL,...",
            help=f"Feature gates of Kubernetes' own pod groups: {', '.join(sorted(GATES))}. "
            "All except WorkloadWithJob are on by default.",
        ),
    ] = "",
    output: o.Format = o.Output.TABLE,
) -> None:
    """Start the cluster and keep it running until Ctrl-C, or in the background.

    The state is kept: the next [b]up[/b] on the directory continues from it, on the nodes of the last one.

    [b]Example:[/b] quorate local up --detach --nodes 2 --pool name=gpu,count=4,cpu=64,nvidia.com/gpu=8
    """
    place = cluster_directory(name, data_dir)
    described = None if cluster is None else read_description_file(cluster)
    if without_controllers and config is not None:
        raise UsageError("--config has no effect with --without-controllers (drop one of the two)")
    if scheduling is Scheduling.PLAIN and scheduler_conf is not None:
        raise UsageError("--scheduler-conf has no effect with --scheduling plain (drop one of the two)")
    if without_controllers and scheduling is Scheduling.GANG and not in_background:
        typer.echo(
            "warning: no controllers make pod groups for plain pods, and gang places no pod without a group "
            f"(run quorate controllers with {SCHEDULER_NAME} in gangScheduling.schedulerNames)",
            err=True,
        )
    runtime = nodes.runtime.runtime
    if runtime is not Runtime.SIMULATED and clusters not in (None, 1):
        raise UsageError(f"--clusters has no effect with --runtime {runtime} (drop one of the two)")
    try:
        gates_off = disabled_gates(feature_gates)
    except InvalidGate as error:
        raise UsageError(f"--feature-gates: {error}") from error
    start = _Start(
        place,
        config,
        None if without_controllers else _configuration(config, scheduling),
        _gang_scheduler_settings(scheduling, scheduler_conf),
        merge,
        dashboard_port if dashboard else None,
        in_background,
        o.Output.TABLE if in_background else output,  # the process that started it reads its log
    )
    if detach and not in_background:
        _start_in_background(place, options_text(name, data_dir), wait, dashboard, merge, output)
        return
    configure("console")
    if port is None:
        port = place.last_port or (DEFAULT_PORT if name == DEFAULT_NAME else 0)
    with place.lock(start.clock.now(), in_background=in_background) as directory:
        # The node of this machine does not take the place of the nodes of an earlier start.
        earlier = _earlier_description(directory) if runtime is Runtime.SIMULATED else ClusterDescription()
        described = described or earlier
        description = nodes.description.override(described)
        pools, process_runtime = nodes.runtime.nodes(nodes.description, described)
        plain_scheduler = scheduling is not Scheduling.GANG
        settings = Settings(pools, port, nodes.speed, plain_scheduler, process_runtime, gates_off)
        count = len(place.workers) if clusters is None else clusters - 1
        workers: list[WorkerProcess] = []
        try:
            shared = _worker_options(nodes.speed, scheduling, scheduler_conf, feature_gates)
            workers.extend(
                start_worker(place.worker(number), description_text(description), shared)
                for number in range(1, count + 1)
            )
            tune_garbage_collection()
            uvloop.run(run_until_signal(start.serve(directory, settings, description, workers)))
        except asyncio.CancelledError:
            typer.echo("stopped; the state is kept", err=True)
        finally:
            end_workers(workers)


@dataclass(frozen=True, slots=True)
class _Start:
    """How the options of the command say that a cluster is started."""

    place: ClusterDirectory
    config: Path | None
    in_force: ConfigurationInForce | None  # None: without controllers, and without roles for users
    gang_scheduler: GangSchedulerSettings | None
    merge: bool
    dashboard_port: int | None  # None: no dashboard
    in_background: bool
    output: o.Output
    clock: Clock = field(default_factory=WallClock)

    async def serve(
        self,
        directory: LockedDirectory,
        settings: Settings,
        description: ClusterDescription,
        workers: Sequence[WorkerProcess],
    ) -> None:
        """Run the cluster until cancelled; print how to reach it once it is ready."""
        async with run_queueing_cluster(
            directory, settings, self.in_force, self.clock, random.Random(), self.gang_scheduler,
            has_roles=self.in_force is not None,
        ) as client:  # fmt: skip
            if settings.runtime is None:
                directory.write(DESCRIPTION, description_text(description).encode())
            if description.topology is not None:
                await _apply_topology(client, description.topology)
            if workers:
                await _connect_workers(client, self.in_force, workers)
                self.place.restore_kubeconfig(client.config.server)
            if self.merge:
                merge_kubeconfig(self.place)
            else:
                update_merged_kubeconfig(self.place)
            self._print_connection(client.config.server)
            directory.publish_ready()
            if self.dashboard_port is not None:
                await _serve_dashboard(client, directory.kubeconfig, self.config, self.dashboard_port)
            await asyncio.Event().wait()  # until a signal cancels it

    def _print_connection(self, server: str) -> None:
        lines = [*_next_steps(server, self.place, self.merge)]
        if self.in_force is None:
            lines.append(f"{_SEPARATE_CONTROLLERS}{self.place.kubeconfig}")
        if not self.in_background:
            lines.append("# Ctrl-C stops the cluster; its state is kept")
        print_result(lines, _connection(server, self.place, self.merge), self.output)


def _worker_options(
    speed: float, scheduling: Scheduling, scheduler_conf: Path | None, feature_gates: str
) -> tuple[str, ...]:
    """Return the options of this command line that a worker cluster shares."""
    options = ["--speed", str(speed), "--scheduling", scheduling]
    if scheduler_conf is not None:
        options += ["--scheduler-conf", str(scheduler_conf.absolute())]
    if feature_gates:
        options += ["--feature-gates", feature_gates]
    return tuple(options)


async def _connect_workers(
    client: Client, in_force: ConfigurationInForce | None, workers: Sequence[WorkerProcess]
) -> None:
    """Wait for the workers, and store in the manager how its controllers reach them."""
    await asyncio.gather(*(worker.until_ready() for worker in workers))
    configuration = Configuration() if in_force is None else in_force.configured.current
    kubeconfigs = {worker.name: worker.directory.kubeconfig for worker in workers}
    await connect_workers(client, configuration.namespace, kubeconfigs)


def _start_in_background(
    directory: ClusterDirectory, options: str, wait_s: float, dashboard: bool, merged: bool, output: o.Output
) -> None:
    """Start this command line in the background, and print what to type next once it is ready."""
    running, log = start_in_background(
        directory, wait_s, lambda text: not dashboard or DASHBOARD_LINK in text
    )
    further = [line for line in log.splitlines() if line.startswith((_SEPARATE_CONTROLLERS, DASHBOARD_LINK))]
    commands = ("status", "logs --follow", "down")
    then = f"# then: {', '.join(f'quorate local {command}{options}' for command in commands)}"
    links = [word for line in further for word in line.split() if word.startswith("http://")]
    value = {**_connection(running.server, directory, merged), "process": running.pid}
    value["dashboard"] = links[0] if links else None
    print_result((*_next_steps(running.server, directory, merged), *further, then), value, output)


def _earlier_description(directory: LockedDirectory) -> ClusterDescription:
    """Return the nodes of the last start, as a user may have changed them.  Raises ``InvalidFiles``."""
    path = directory.path / DESCRIPTION
    return read_description_file(path) if path.exists() else ClusterDescription()


def _configuration(path: Path | None, scheduling: Scheduling) -> ConfigurationInForce:
    text, loaded = read_configuration_text(path)
    for warning in loaded.warnings:
        typer.echo(f"warning: {path}: {warning}", err=True)
    if scheduling is not Scheduling.GANG:
        return ConfigurationInForce(path, text, loaded.configuration)
    return ConfigurationInForce(path, text, loaded.configuration, _with_groups_of_default_scheduler)


def _with_groups_of_default_scheduler(configuration: Configuration) -> Configuration:
    """Add pod groups for pods of default-scheduler: the gang scheduler places no pod without a group."""
    names = dict.fromkeys((*configuration.gang.scheduler_names, SCHEDULER_NAME))
    return replace(configuration, gang=replace(configuration.gang, scheduler_names=tuple(names)))


def _gang_scheduler_settings(scheduling: Scheduling, path: Path | None) -> GangSchedulerSettings | None:
    if scheduling is Scheduling.PLAIN:
        return None
    text, loaded = read_scheduler_configuration_text(path)
    for warning in loaded.warnings:
        typer.echo(f"warning: {path}: {warning}", err=True)
    names = (*SCHEDULER_NAMES, SCHEDULER_NAME) if scheduling is Scheduling.GANG else SCHEDULER_NAMES
    return GangSchedulerSettings(loaded.configuration, text, Options(names=names))


async def _serve_dashboard(client: Client, kubeconfig: Path, config: Path | None, port: int) -> None:
    """Serve the dashboard until cancelled."""
    from quorate.cli.local_dashboard import serve_local_dashboard  # other commands need none of it

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


def _next_steps(server: str, directory: ClusterDirectory, merged: bool) -> tuple[str, ...]:
    """Return lines for a shell: where the cluster is, and what to type next."""
    workers = worker_contexts(directory, merged)
    further = (f"# worker clusters: kubectl --context {' or '.join(workers)}",) if workers else ()
    if merged:
        current = f"context {context_name(directory)} is current"
        return (f"# the cluster listens at {server}; {current}: kubectl get nodes", *further)
    return (
        f"export KUBECONFIG={directory.kubeconfig}",
        f"# the cluster listens at {server}; in a terminal, after the line above: kubectl get nodes",
        *further,
    )


def _connection(server: str, directory: ClusterDirectory, merged: bool) -> dict[str, Any]:
    context = context_name(directory) if merged else CONTEXT
    return {
        "server": server, "kubeconfig": str(directory.kubeconfig), "context": context,
        "workers": worker_contexts(directory, merged),
    }  # fmt: skip
