"""``quorate workload``: list, describe, explain, stop, resume and delete workloads, and list their pods."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from quorate.api.explanation import summary_of
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.cli.lazy_commands import LazyCommand, command_group
from quorate.cli.questions import confirm
from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs import printing as p
from quorate.cli.verbs.cluster_commands import in_namespace, in_namespaces
from quorate.cli.verbs.listing import list_objects, listed_summaries, print_whole, with_explanation
from quorate.cli.verbs.options import SomeWorkloads, Workloads
from quorate.cli.verbs.views import cluster_queue_of, describe_workload, workload_columns
from quorate.cli.verbs.writing import Results, delete_object, patch_spec
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.served import served_estimates
from quorate.inspect.explain.targets import OfWorkload
from quorate.inspect.job_names import OwnerResolver, job_filter, job_uids, named_workloads
from quorate.inspect.workload_lists import Status, pod_table, queue_positions, status_of
from quorate.kube.clock import WallClock
from quorate.kube.errors import NotFound
from quorate.kube.resources import LOCAL_QUEUES, PODS, WORKLOADS, Resource, metadata_of

workload = command_group(
    "Workloads, one for each job: list, describe, explain, stop, resume, delete, pods.",
    LazyCommand(
        "explain", "quorate.cli.verbs.explain.command:explain_workloads",
        "Explain why a workload is pending, with numbers, and what would let it start.",
    ),
)  # fmt: skip

_ALL: Final = "all"


@workload.command("list")
@in_namespaces
async def list_(
    connection: Connection,
    status: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATUS",
            help="Only this status: pending, quotareserved, admitted or finished; may be repeated.",
        ),
    ] = None,
    cluster_queue: Annotated[
        str,
        typer.Option(
            "--clusterqueue",
            "-c",
            metavar="NAME",
            help="Only workloads of this cluster queue.",
            autocompletion=completion.cluster_queues,
        ),
    ] = "",
    local_queue: Annotated[
        str,
        typer.Option(
            "--localqueue",
            "-q",
            metavar="NAME",
            help="Only workloads of this local queue.",
            autocompletion=completion.local_queues,
        ),
    ] = "",
    for_: Annotated[
        str,
        typer.Option(
            "--for", metavar="TYPE[.GROUP]/NAME", help="Only workloads of this job, such as job/train."
        ),
    ] = "",
    selector: o.LabelSelector = "",
    field_selector: o.FieldSelector = "",
    output: o.Format = o.Output.TABLE,
) -> None:
    """List workloads with their jobs, state and its reason, position in the queue and estimated start.

    [b]-o wide[/b] also shows the reason as a sentence, [b]-o json[/b] as [b]explanation[/b] of each workload.

    [b]Example:[/b] quorate workload list --status pending --all-namespaces
    """
    statuses = _statuses(status or [_ALL])
    now = WallClock().now()
    client, where = connection.client, connection.namespace
    belongs = await job_filter(connection, for_) if for_ else _any_workload
    queues = (await client.list(LOCAL_QUEUES, where)).items
    cluster_queues = {queue.metadata.key: queue.spec.cluster_queue for queue in queues}

    def is_listed(workload: Workload) -> bool:
        return (
            status_of(workload) in statuses
            and cluster_queue in ("", cluster_queue_of(workload, cluster_queues))
            and local_queue in ("", workload.spec.queue_name)
            and belongs(workload)
        )

    states = await listed_summaries(connection, "Workload")
    completed = with_explanation(Workload, states.of_workload)
    listed = await list_objects(connection, WORKLOADS, output, selector, field_selector, is_listed, completed)
    if listed:
        pending = (workload for workload in listed if status_of(workload) is Status.PENDING)
        positions, problem = await queue_positions(
            client, (Key(workload.metadata.namespace, workload.spec.queue_name) for workload in pending)
        )
        if problem:
            typer.echo(f"warning: no positions in queues: {problem}", err=True)
        estimates = await served_estimates(client, where) if positions else {}
        columns = workload_columns(
            now, cluster_queues, states, positions, estimates, namespaces=not connection.namespace
        )
        p.print_objects(columns, listed, output)


@workload.command()
@in_namespace
async def describe(connection: Connection, names: Workloads, output: o.Format = o.Output.TABLE) -> None:
    """Show the state of a workload, its requests, its admission and its conditions.

    [b]Example:[/b] quorate workload describe job/train
    """
    now = WallClock().now()
    targets = [target for name in names for target in await named_workloads(connection, name)]
    if p.is_structured(output):
        keys = [(WORKLOADS, target.metadata.key) for target in targets]
        await print_whole(connection, keys, output)
        return
    answers = Answers(connection, None)
    for target in targets:
        queues = (await connection.client.list(LOCAL_QUEUES, target.metadata.namespace)).items
        cluster_queues = {queue.metadata.key: queue.spec.cluster_queue for queue in queues}
        cluster_queue = cluster_queue_of(target, cluster_queues)
        explained = summary_of(await answers.of(OfWorkload(target)), target.metadata)
        p.print_sections(describe_workload(target, explained, cluster_queue, now))


@workload.command()
@in_namespace
async def stop(
    connection: Connection,
    names: Workloads,
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
) -> None:
    """Stop workloads: evict admitted ones, and keep them out of the queue until they are resumed.

    [b]Example:[/b] quorate workload stop job/train
    """
    await _set_active(connection, names, False, "stopped", Results(output, dry_run))


@workload.command()
@in_namespace
async def resume(
    connection: Connection,
    names: Workloads,
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
) -> None:
    """Resume stopped workloads: queue them again.

    [b]Example:[/b] quorate workload resume job/train
    """
    await _set_active(connection, names, True, "resumed", Results(output, dry_run))


async def _set_active(
    connection: Connection, names: list[str], active: bool, done: str, results: Results
) -> None:
    with results:
        for name in names:
            for target in await named_workloads(connection, name):
                key = target.metadata.key
                await patch_spec(connection, WORKLOADS, key, {"active": active}, done, results)


def _statuses(written: list[str]) -> frozenset[Status]:
    names = {name.strip().lower() for one in written for name in one.split(",")}
    unknown = sorted(names - {_ALL, *Status})
    if unknown:
        statuses = ", ".join((_ALL, *Status))
        raise typer.BadParameter(
            f"{unknown[0]!r} is no status (write one of: {statuses})", param_hint="--status"
        )
    return frozenset(Status) if _ALL in names else frozenset(map(Status, names))


def _any_workload(workload: Workload) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object to delete and the name of its workload, which may be the object itself."""

    resource: Resource[Any]
    key: Key
    uid: Uid
    workload: str

    def __str__(self) -> str:
        return p.qualified_name(self.resource, self.key.name)

    @property
    def is_job(self) -> bool:
        return self.resource is not WORKLOADS


@workload.command()
def delete(
    names: SomeWorkloads = None,
    all_: Annotated[bool, typer.Option("--all", help="All workloads of the namespace.")] = False,
    yes: o.Yes = False,
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
    namespace: o.Namespace = "",
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Delete workloads and the jobs that own them, after confirmation.

    [b]Example:[/b] quorate workload delete job/train
    """
    if all_ == bool(names):
        raise UsageError(
            "names of workloads or --all are needed" if not names else "--all and names exclude each other"
        )
    cluster = ClusterOptions(kubeconfig, context, namespace)
    deletions = with_cluster(cluster, lambda connection: _deletions(connection, names or ()))
    jobs = [deletion for deletion in deletions if deletion.is_job]
    if jobs and not yes and dry_run is o.DryRun.NONE:
        to_stderr = p.is_structured(output)
        typer.echo("This also deletes:", err=to_stderr)
        for job in jobs:
            typer.echo(f"- {job}, with workload {job.workload}", err=to_stderr)
        # Outside of the event loop, which would not deliver Ctrl-C before the answer.
        confirm("Do you want to proceed?", err=to_stderr)

    async def delete_all(connection: Connection) -> None:
        with Results(output, dry_run) as results:
            for deletion in deletions:
                await _delete(connection, deletion, results)

    with_cluster(cluster, delete_all)


async def _deletions(connection: Connection, names: Sequence[str]) -> Sequence[Deletion]:
    """Return one deletion per object of the named workloads, without names of all, in their order."""
    if names:
        workloads = [workload for name in names for workload in await named_workloads(connection, name)]
    else:
        workloads = [*(await connection.client.list(WORKLOADS, connection.namespace)).items]
    if not workloads:
        await connection.require_namespace()
        o.print_none_found(connection.namespace)
    owners = OwnerResolver(connection.client)
    deletions: dict[Uid, Deletion] = {}
    for workload in workloads:
        metadata = workload.metadata
        if not metadata.owner_references:
            deletions[metadata.uid] = Deletion(WORKLOADS, metadata.key, metadata.uid, metadata.name)
        for owner in metadata.owner_references:
            kind = await owners.resource_of(owner)
            if kind is None:
                raise UsageError(
                    f"{owner.kind} {owner.name} of workload {metadata.name} cannot be deleted: "
                    f"{connection.client.config.server} does not serve {owner.api_version}"
                )
            key = Key(metadata.namespace, owner.name)
            deletions.setdefault(owner.uid, Deletion(kind, key, owner.uid, metadata.name))
    return (*deletions.values(),)


async def _delete(connection: Connection, deletion: Deletion, results: Results) -> None:
    try:
        await delete_object(connection, deletion.resource, deletion.key, results, deletion.uid)
    except NotFound:
        typer.echo(f"{deletion} not found, already deleted", err=True)


@workload.command()
@in_namespace
async def pods(connection: Connection, names: Workloads, output: o.Format = o.Output.TABLE) -> None:
    """List the pods of workloads or jobs, with the columns of kubectl get pods.

    Pods are found through all levels of owner references, such as the jobs of a JobSet or the RayCluster of
    a RayJob.

    [b]Example:[/b] quorate workload pods job/train -o wide
    """
    wanted = frozenset([uid for name in names for uid in await job_uids(connection, name)])
    owners = OwnerResolver(connection.client)
    if p.is_structured(output):
        documents = (await connection.client.list(p.as_untyped(PODS), connection.namespace)).items
        chosen = await owners.descendants([metadata_of(document) for document in documents], wanted)
        kept = [(PODS, document) for document in documents if document["metadata"]["uid"] in chosen]
        p.print_documents(kept, output)
        return
    table = await pod_table(connection)
    chosen = await owners.descendants([row.object.metadata for row in table.rows], wanted)
    shown = [
        index
        for index, column in enumerate(table.column_definitions)
        if output is o.Output.WIDE or column.priority == 0
    ]
    rows = [
        [str(row.cells[index]) for index in shown] for row in table.rows if row.object.metadata.uid in chosen
    ]
    if rows:
        p.print_rows([table.column_definitions[index].name.upper() for index in shown], rows)
    else:
        await connection.require_namespace()
        o.print_none_found(connection.namespace)
