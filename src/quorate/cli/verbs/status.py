"""``quorate status``: the jobs of a user, the queues and the nodes, as squeue and sinfo show them."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from quorate.api.core import Resources
from quorate.api.explanation import NO_START
from quorate.api.meta import epoch
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_commands import in_namespaces
from quorate.cli.verbs.printing import is_structured, print_rows, print_value
from quorate.cli.verbs.views import starts_in
from quorate.inspect.connection import Connection
from quorate.inspect.formatting import amount_columns, format_duration
from quorate.inspect.status.capacity import NodesStatus, QueueStatus
from quorate.inspect.status.cluster import read_status
from quorate.inspect.status.jobs import JobStatus
from quorate.kube.clock import WallClock

_NOT_SHOWN: Final = ("ephemeral-storage", "pods")  # every node has them


@in_namespaces
async def status(
    connection: Connection,
    finished: Annotated[bool, typer.Option("--finished", help="Also the jobs that have ended.")] = False,
    output: o.ValueFormat = o.Output.TABLE,
) -> None:
    """Show your jobs with what they wait for, the queues and the nodes.

    TIME is the time since a job started or, if it waits, since it was queued. Amounts of queues are used and
    nominal quota, those of nodes are requested and allocatable.

    [b]Example:[/b] quorate status --all-namespaces
    """

    shown = await read_status(connection, finished=finished)
    if shown.problem:
        typer.echo(f"warning: {shown.problem}", err=True)
    if is_structured(output):
        print_value(shown, output)
        return
    namespaces = not connection.namespace
    _print_jobs(shown.jobs, WallClock().now(), namespaces=namespaces)
    _print_queues(shown.queues, namespaces=namespaces)
    _print_nodes(shown.nodes or ())


def _print_jobs(jobs: Sequence[JobStatus], now: float, *, namespaces: bool) -> None:
    titles = ["JOB", "QUEUE", "STATE", "PODS", "TIME", "STARTS IN", "WHY"]
    rows = [
        [
            job.name,
            job.queue,
            job.state,
            f"{job.running_pods}/{job.requested_pods}",
            "" if job.since is None else format_duration(now - epoch(job.since)),
            NO_START.get(job.state) or starts_in(job.estimate, now),
            _why(job),
        ]
        for job in jobs
    ]
    if rows:
        print_rows(*_with_namespaces(titles, rows, jobs, namespaces))
    else:
        typer.echo("no jobs wait or run")


def _why(job: JobStatus) -> str:
    """Return why the job waits; if it cannot start without a change, return the first sufficient change."""
    if job.state == "NeverFits" and job.enough:
        return f"{job.code}: {job.enough[0].removeprefix('either ')}"
    return job.why


def _print_queues(queues: Sequence[QueueStatus], *, namespaces: bool) -> None:
    if not queues:
        return
    used = [queue.used_by_queue if queue.used is None else queue.used for queue in queues]
    names, amounts = amount_columns(used, [queue.quota for queue in queues])
    titles = ["QUEUE", "CLUSTER QUEUE", "ACTIVE", "PENDING", "ADMITTED", *names]
    rows = [
        [
            queue.name,
            queue.cluster_queue,
            "yes" if queue.is_active else "no",
            str(queue.pending),
            str(queue.admitted),
            *cells,
        ]
        for queue, cells in zip(queues, amounts, strict=True)
    ]
    typer.echo()
    print_rows(*_with_namespaces(titles, rows, queues, namespaces))


def _print_nodes(flavors: Sequence[NodesStatus]) -> None:
    if not flavors:
        return
    used = [_countable(nodes.used or {}) for nodes in flavors]
    names, amounts = amount_columns(used, [_countable(nodes.allocatable) for nodes in flavors])
    rows = [
        [nodes.flavor or "(none)", str(nodes.nodes), str(nodes.available), *cells]
        for nodes, cells in zip(flavors, amounts, strict=True)
    ]
    typer.echo()
    print_rows(["FLAVOR", "NODES", "AVAILABLE", *names], rows)


def _with_namespaces(
    titles: list[str], rows: list[list[str]], shown: Sequence[JobStatus | QueueStatus], namespaces: bool
) -> tuple[list[str], list[list[str]]]:
    if not namespaces:
        return titles, rows
    return ["NAMESPACE", *titles], [[item.namespace, *row] for item, row in zip(shown, rows, strict=True)]


def _countable(resources: Resources) -> Resources:
    return {name: amount for name, amount in resources.items() if name not in _NOT_SHOWN}
