"""``quorate workload delete``: a job gone from the cluster together with its workload.

As in kueuectl the jobs are what is deleted, and their workloads go with them; a workload that no job owns is
deleted itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.cli.errors import UsageError
from quorate.cli.verbs import options as o
from quorate.cli.verbs.job_names import OwnerResolver, SomeWorkloads, named_workloads
from quorate.cli.verbs.printing import qualified_name
from quorate.kube.errors import NotFound
from quorate.kube.resources import WORKLOADS, Resource


@dataclass(frozen=True, slots=True)
class Deletion:
    """Something that is to be deleted, and the workload that goes with it: its own name, if it is one."""

    resource: Resource[Any]
    key: Key
    uid: Uid
    workload: str

    def __str__(self) -> str:
        return qualified_name(self.resource, self.key.name)

    @property
    def is_job(self) -> bool:
        return self.resource is not WORKLOADS


def delete(
    names: SomeWorkloads = None,
    all_: Annotated[bool, typer.Option("--all", help="All of the namespace.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    namespace: o.Namespace = "",
    dry_run: o.DryRunOption = o.DryRun.NONE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Delete workloads with the jobs they belong to, after asking.

    [b]Example:[/b] quorate workload delete job/train
    """
    if all_ == bool(names):
        raise UsageError(
            "name workloads, or give --all" if not names else "--all and names exclude each other"
        )
    cluster_options = o.ClusterOptions(kubeconfig, context, namespace)

    async def find(connection: o.Connection) -> Sequence[Deletion]:
        if names:
            found = [each for name in names for each in await named_workloads(connection, name)]
        else:
            found = [*(await connection.client.list(WORKLOADS, connection.namespace)).items]
        if not found:
            o.print_none_found(connection)
        return await _deletions(connection, found)

    doomed = o.at(cluster_options, find)
    jobs = [each for each in doomed if each.is_job]
    if jobs and not yes and dry_run is o.DryRun.NONE:
        typer.echo("This also deletes:")
        for job in jobs:
            typer.echo(f"- {job}, with workload {job.workload}")
        typer.confirm("Do you want to proceed?", abort=True)

    async def carry_out(connection: o.Connection) -> None:
        for each in doomed:
            await _delete(connection, each, dry_run)

    if doomed:
        o.at(cluster_options, carry_out)


async def _deletions(connection: o.Connection, workloads: Iterable[Workload]) -> Sequence[Deletion]:
    """Each object once, in the order of the workloads."""
    owners = OwnerResolver(connection.client)
    found: dict[Uid, Deletion] = {}
    for workload in workloads:
        metadata = workload.metadata
        if not metadata.owner_references:
            found[metadata.uid] = Deletion(WORKLOADS, metadata.key, metadata.uid, metadata.name)
        for owner in metadata.owner_references:
            kind = await owners.kind_of(owner)
            if kind is None:
                raise UsageError(
                    f"{owner.kind} {owner.name} of workload {metadata.name} cannot be deleted: "
                    f"{connection.client.config.server} does not serve {owner.api_version}"
                )
            key = Key(metadata.namespace, owner.name)
            found.setdefault(owner.uid, Deletion(kind, key, owner.uid, metadata.name))
    return (*found.values(),)


async def _delete(connection: o.Connection, doomed: Deletion, dry_run: o.DryRun) -> None:
    dry_run_suffix = "" if dry_run is o.DryRun.NONE else f" ({dry_run} dry run)"
    if dry_run is not o.DryRun.CLIENT:
        try:
            await connection.client.delete(
                doomed.resource, doomed.key, uid=doomed.uid, propagation="Background",
                dry_run=dry_run is o.DryRun.SERVER,
            )  # fmt: skip
        except NotFound:
            typer.echo(f"{doomed} is gone already")
            return
    typer.echo(f"{doomed} deleted{dry_run_suffix}")
