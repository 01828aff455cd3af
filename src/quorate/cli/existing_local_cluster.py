"""The commands of ``quorate local`` that act on an existing cluster."""

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import uvloop
import yaml

from quorate.api import codec
from quorate.api.meta import at_epoch
from quorate.cli.local_background import print_log, stop, stop_workers
from quorate.cli.local_option import DEFAULT_NAME, DataDir, Name, cluster_directory
from quorate.cli.questions import confirm
from quorate.cli.verbs import options as o
from quorate.cli.verbs.printing import is_structured, print_result
from quorate.inspect.errors import UsageError
from quorate.inspect.formatting import format_duration, plural
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import JOBS, NODES, PODS
from quorate.kube.rest.config import load_rest_config
from quorate.local.directory import ClusterDirectory, DirectoryInUse, RunningCluster
from quorate.local.runtime.supervisor import delete_runtime, end_runtime
from quorate.processes.local.kubeconfig_entries import (
    context_name,
    merge_kubeconfig,
    remove_merged_kubeconfig,
)
from quorate.processes.local.local_import import import_snapshot, read_cluster_snapshot

TOTAL: Final = "total"


def down(
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Also delete the state, without confirmation, as reset does.")
    ] = False,
    output: o.Format = o.Output.TABLE,
) -> None:
    """Stop the cluster.

    [b]Example:[/b] quorate local down --delete
    """
    directory = cluster_directory(name, data_dir)
    stopped = stop(directory)  # which stops its workers
    left_workers = stop_workers(directory.workers)
    left = 0 if stopped is not None else end_runtime(directory.path)
    if not (left or left_workers or delete) and stopped is None:
        raise UsageError(f"{directory.path}: no cluster runs here (quorate local up starts one)")
    lines = [f"ended {plural(left, 'container')} of a cluster that was killed"] if left else []
    lines += [
        f"stopped process {worker.pid} of a worker of a cluster that was killed" for worker in left_workers
    ]
    value = {"directory": str(directory.path), "process": None, "endedContainers": left}
    if stopped is not None:
        kept = "" if delete else f"; the state stays in {directory.path}"
        lines.append(f"stopped process {stopped.pid}{kept}")
        value["process"] = stopped.pid
    if delete:
        deleted_lines, deleted = _delete(directory)
        lines, value = [*lines, *deleted_lines], value | deleted
    print_result(lines, value, output)


def logs(
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new lines until the cluster stops.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="LINES", help="Print the last lines only. Default: all.")
    ] = None,
    output: o.LineFormat = "text",
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
    is_running = (lambda: directory.running() is not None) if follow else None
    print_log(directory.log, tail, is_running, typer.echo if output == "text" else _print_json_line)


def _print_json_line(line: str) -> None:
    typer.echo(codec.encode({"text": line}).decode())


def status(name: Name = DEFAULT_NAME, data_dir: DataDir = None, output: o.Format = o.Output.TABLE) -> None:
    """Show whether the cluster runs, its server, and its numbers of objects. Exit code 1 if it is stopped.

    [b]Example:[/b] quorate local status
    """
    directory = cluster_directory(name, data_dir)
    running = directory.running()
    rows = {"directory": str(directory.path), "cluster": "stopped"}
    value: dict[str, Any] = {**rows}
    if running is not None:
        if running.server:
            directory.restore_kubeconfig(running.server)
        rows["cluster"] = _state(running)
        rows |= {"server": running.server, "process": str(running.pid)}
        rows["up for"] = format_duration(WallClock().now() - running.since)
        rows["kubeconfig"] = str(directory.kubeconfig)
        rows["log"] = str(directory.log) if running.in_background else "on the terminal of the process"
        counts = uvloop.run(_object_counts(directory.kubeconfig)) if running.server else {}
        value = {
            **rows, "process": running.pid, "started": at_epoch(running.since), "objects": counts,
            "log": str(directory.log) if running.in_background else None,
        }  # fmt: skip
        del value["up for"]
        rows |= {kind: _total_text(by_phase) for kind, by_phase in counts.items()}
    if directory.workers:
        workers = {worker.path.name: worker.running() for worker in directory.workers}
        rows |= {name: _worker_text(worker) for name, worker in workers.items()}
        value["workers"] = {
            name: {"cluster": _state(worker), "server": worker and worker.server}
            for name, worker in workers.items()
        }
    width = max(map(len, rows)) + 2
    print_result((f"{title:<{width}}{text}" for title, text in rows.items()), value, output)
    if running is None:
        raise typer.Exit(1)


def _state(running: RunningCluster | None) -> str:
    if running is None:
        return "stopped"
    return "running" if running.is_ready else "starting"


def _worker_text(running: RunningCluster | None) -> str:
    return f"{_state(running)} {running.server if running is not None else ''}".rstrip()


def _total_text(by_phase: Mapping[str, int]) -> str:
    """Return ``3 (1 pending, 2 running)``, or only the number of objects that have no phase."""
    phases = ", ".join(f"{count} {phase.lower()}" for phase, count in by_phase.items() if phase != TOTAL)
    return f"{by_phase[TOTAL]} ({phases})" if phases else str(by_phase[TOTAL])


def import_(
    snapshots: Annotated[
        list[Path], typer.Argument(metavar="SNAPSHOT...", help="Files, or directories of files.")
    ],
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    quotas: Annotated[
        bool, typer.Option("--quotas", help="Import ResourceQuotas and LimitRanges as well.")
    ] = False,
    output: o.Format = o.Output.TABLE,
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

    imported = uvloop.run(store())
    lines = [f"imported: {_counts(imported)}"]
    if snapshot.skipped:
        lines.append(f"skipped: {_counts(snapshot.skipped)}")
    print_result(lines, {"imported": imported, "skipped": snapshot.skipped}, output)
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
    output: o.Format = o.Output.TABLE,
) -> None:
    """Print the kubeconfig of the cluster, or merge it into yours ([b]$KUBECONFIG[/b] or ~/.kube/config).

    While the cluster runs, its own kubeconfig is written again if it was deleted or changed.

    [b]Example:[/b] quorate local kubeconfig --merge
    """
    directory = cluster_directory(name, data_dir)
    context = context_name(directory)
    if merge and remove:
        raise UsageError("--merge has no effect with --remove (drop one of the two)")
    running = directory.running()
    if running is not None and running.server:
        directory.restore_kubeconfig(running.server)
    if merge:
        merged = merge_kubeconfig(directory)
        line = f"{merged}: context {context} added and made current"
        print_result([line], {"added": context, "kubeconfig": str(merged)}, output)
    elif remove:
        removed = remove_merged_kubeconfig(directory)
        if removed is None:
            raise UsageError(f"{context}: no kubeconfig has it (quorate local kubeconfig --merge adds it)")
        line = f"{removed}: context {context} removed"
        print_result([line], {"removed": context, "kubeconfig": str(removed)}, output)
    elif not directory.kubeconfig.exists():
        raise UsageError(f"{directory.kubeconfig}: does not exist (quorate local up starts a cluster)")
    else:
        text = directory.kubeconfig.read_text()
        print_result(text.splitlines(), yaml.safe_load(text), output)


def reset(
    name: Name = DEFAULT_NAME,
    data_dir: DataDir = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    output: o.Format = o.Output.TABLE,
) -> None:
    """Delete the state of a stopped cluster: objects, certificates, token, kubeconfig.

    [b]Example:[/b] quorate local reset --yes
    """
    directory = cluster_directory(name, data_dir)
    for part in (directory, *directory.workers):
        if (running := part.running()) is not None:
            raise DirectoryInUse(part.path, running)
    if not yes:
        confirm(f"delete the cluster in {directory.path}?", err=is_structured(output))
    lines, deleted = _delete(directory)
    print_result(lines, {"directory": str(directory.path), **deleted}, output)


def _counts(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _delete(directory: ClusterDirectory) -> tuple[list[str], dict[str, Any]]:
    """Delete the state and a merged context; return what was done as lines and as values."""
    merged = remove_merged_kubeconfig(directory)
    lines = [] if merged is None else [f"{merged}: context {context_name(directory)} removed"]
    delete_runtime(directory.path)
    now = WallClock().now()
    removed = [file for part in (*directory.workers, directory) for file in part.remove(now)]
    lines.append(f"{directory.path}: {plural(len(removed), 'file')} deleted")
    return lines, {"deletedFiles": len(removed), "kubeconfig": None if merged is None else str(merged)}


async def _object_counts(kubeconfig: Path) -> dict[str, dict[str, int]]:
    """Return the numbers of nodes, jobs and pods; those of pods also by phase."""
    async with Client(await load_rest_config(kubeconfig), random.Random()) as client:
        nodes, jobs, pods = [await client.list(resource) for resource in (NODES, JOBS, PODS)]
        phases = sorted(pod.status.phase for pod in pods.items)
        return {
            "nodes": {TOTAL: len(nodes.items)},
            "jobs": {TOTAL: len(jobs.items)},
            "pods": {TOTAL: len(phases), **Counter(phases)},
        }
