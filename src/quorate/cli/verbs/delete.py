"""``quorate workload delete``: delete jobs together with their workloads.

As in kueuectl, the job is deleted and garbage collection deletes its workload; a workload without an owner is
deleted itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_commands import in_namespace
from quorate.cli.verbs.options import SomeWorkloads
from quorate.cli.verbs.printing import is_structured, qualified_name
from quorate.cli.verbs.writing import Results, delete_object
from quorate.inspect.connection import Connection
from quorate.inspect.errors import UsageError
from quorate.inspect.job_names import OwnerResolver, named_workloads
from quorate.kube.errors import NotFound
from quorate.kube.resources import WORKLOADS, Resource


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object to delete and the name of its workload, which may be the object itself."""

    resource: Resource[Any]
    key: Key
    uid: Uid
    workload: str

    def __str__(self) -> str:
        return qualified_name(self.resource, self.key.name)

    @property
    def is_job(self) -> bool:
        return self.resource is not WORKLOADS


@in_namespace
async def delete(
    connection: Connection,
    names: SomeWorkloads = None,
    all_: Annotated[bool, typer.Option("--all", help="All workloads of the namespace.")] = False,
    yes: o.Yes = False,
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
) -> None:
    """Delete workloads and the jobs that own them, after confirmation.

    [b]Example:[/b] quorate workload delete job/train
    """
    if all_ == bool(names):
        raise UsageError(
            "names of workloads or --all are needed" if not names else "--all and names exclude each other"
        )
    if names:
        workloads = [workload for name in names for workload in await named_workloads(connection, name)]
    else:
        workloads = [*(await connection.client.list(WORKLOADS, connection.namespace)).items]
    if not workloads:
        o.print_none_found(connection.namespace)
    deletions = await _deletions(connection, workloads)
    jobs = [deletion for deletion in deletions if deletion.is_job]
    if jobs and not yes and dry_run is o.DryRun.NONE:
        to_stderr = is_structured(output)
        typer.echo("This also deletes:", err=to_stderr)
        for job in jobs:
            typer.echo(f"- {job}, with workload {job.workload}", err=to_stderr)
        typer.confirm("Do you want to proceed?", abort=True, err=to_stderr)
    with Results(output, dry_run) as results:
        for deletion in deletions:
            await _delete(connection, deletion, results)


async def _deletions(connection: Connection, workloads: Iterable[Workload]) -> Sequence[Deletion]:
    """Return one deletion per object, in the order of the workloads."""
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
