"""The commands of ``quorate local`` that act on an existing cluster."""

import random
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.table import Table

from quorate.cli.local_background import print_log, stop
from quorate.cli.local_kubeconfig import context_name, merge_kubeconfig, remove_merged_kubeconfig
from quorate.cli.local_option import DEFAULT_NAME, DataDir, Name, cluster_directory
from quorate.inspect.errors import UsageError
from quorate.inspect.formatting import plural
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import JOBS, NODES, PODS
from quorate.kube.rest.config import load_rest_config
from quorate.local.directory import ClusterDirectory, DirectoryInUse
from quorate.local.runtime.supervisor import delete_runtime, end_runtime
from quorate.processes.local.cluster_snapshot import read_cluster_snapshot
from quorate.processes.local.local_import import import_snapshot


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
    directory = cluster_directory(name, data_dir)
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
    directory = cluster_directory(name, data_dir)
    running = directory.running()
    if running is not None and not running.in_background:
        raise UsageError(
            f"{directory.path}: process {running.pid} writes its log to its terminal (no --detach)"
        )
    if not directory.log.exists():
        raise UsageError(f"{directory.log}: does not exist (quorate local up --detach writes it)")
    print_log(directory.log, tail, (lambda: directory.running() is not None) if follow else None)


def status(name: Name = DEFAULT_NAME, data_dir: DataDir = None) -> None:
    """Show whether the cluster runs, its server, and its numbers of objects. Exit code 1 if it is stopped.

    [b]Example:[/b] quorate local status
    """
    directory = cluster_directory(name, data_dir)
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
    directory = cluster_directory(name, data_dir)
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
    for check in (obj for obj in snapshot.objects if obj.resource.kind == "AdmissionCheck"):
        controller = check.body["spec"]["controllerName"]
        typer.echo(
            f"warning: {check}: nothing answers for {controller} in a local cluster, so that ClusterQueues "
            "with the check start no job (remove it from their admissionChecksStrategy)", err=True
        )  # fmt: skip


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
    directory = cluster_directory(name, data_dir)
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


def reset(
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete the state of a stopped cluster: objects, certificates, token, kubeconfig.

    [b]Example:[/b] quorate local reset --yes
    """
    directory = cluster_directory(name, data_dir)
    if (running := directory.running()) is not None:
        raise DirectoryInUse(directory.path, running)
    if not yes:
        typer.confirm(f"delete the cluster in {directory.path}?", abort=True)
    _delete(directory)


def _counts(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _delete(directory: ClusterDirectory) -> None:
    merged = remove_merged_kubeconfig(directory)
    if merged is not None:
        typer.echo(f"{merged}: context {context_name(directory)} removed")
    delete_runtime(directory.path)
    removed = directory.remove(WallClock().now())
    typer.echo(f"{directory.path}: {plural(len(removed), 'file')} deleted")


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
