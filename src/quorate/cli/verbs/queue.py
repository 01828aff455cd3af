"""``quorate queue``: list, describe, create, stop and resume cluster queues and local queues."""

from enum import StrEnum
from functools import partial
from typing import Annotated, Any, Final, Literal

import typer

from quorate.api.kueue import ClusterQueue, LocalQueue, StopPolicy
from quorate.api.meta import Key
from quorate.cli.lazy_commands import LazyCommand, command_group
from quorate.cli.questions import confirm
from quorate.cli.verbs import completion
from quorate.cli.verbs import options as o
from quorate.cli.verbs.listing import list_objects, print_whole
from quorate.cli.verbs.printing import is_structured, print_objects, print_sections
from quorate.cli.verbs.quota_options import pairs, resource_groups
from quorate.cli.verbs.views import (
    cluster_queue_columns,
    describe_cluster_queue,
    describe_local_queue,
    is_active,
    local_queue_columns,
)
from quorate.cli.verbs.writing import Results, create_object, patch_spec
from quorate.inspect.connection import ClusterOptions, Connection, with_cluster
from quorate.inspect.errors import UsageError
from quorate.inspect.formatting import plural
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, Resource

queue = command_group(
    "Cluster queues and local queues: list, describe, forecast, create, stop, resume.",
    LazyCommand(
        "forecast", "quorate.cli.simulate.forecast:forecast",
        "Show when the workloads that wait in a queue start, and what of it in the next hours.",
    ),
)  # fmt: skip


class Kind(StrEnum):
    CLUSTER = "cq"
    LOCAL = "lq"


_of_cluster: Final = partial(typer.Option, rich_help_panel="For cluster queues")
_of_local: Final = partial(typer.Option, rich_help_panel="For local queues")
_amounts: Final = partial(_of_cluster, metavar="FLAVOR:RESOURCE=AMOUNT;...")
_NAMES: Final = {
    **dict.fromkeys(("cq", "clusterqueue", "clusterqueues"), Kind.CLUSTER),
    **dict.fromkeys(("lq", "localqueue", "localqueues", "queue", "queues"), Kind.LOCAL),
}
_RESOURCES: Final[dict[Kind, Resource[Any]]] = {Kind.CLUSTER: CLUSTER_QUEUES, Kind.LOCAL: LOCAL_QUEUES}

Local = Annotated[bool, typer.Option("--local", help="Local queues rather than cluster queues.")]
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="[cq/|lq/]NAME...",
        help="Cluster queues; local queues with the prefix [b]lq/[/b] or with --local.",
        autocompletion=completion.queues,
    ),
]


@queue.command("list")
def list_(
    kind: Annotated[
        str, typer.Argument(metavar="[cq|lq]", help="The kind of queue.", show_default=False)
    ] = "",
    local: Local = False,
    active: Annotated[
        Literal["true", "false"] | None, typer.Option(help="Only queues that are active, or that are not.")
    ] = None,
    cluster_queue: Annotated[
        str,
        typer.Option(
            "--clusterqueue",
            "-c",
            metavar="NAME",
            help="Only local queues of this cluster queue.",
            autocompletion=completion.cluster_queues,
        ),
    ] = "",
    namespace: o.Namespace = "",
    all_namespaces: o.AllNamespaces = False,
    selector: o.LabelSelector = "",
    field_selector: o.FieldSelector = "",
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """List cluster queues, or with [b]lq[/b] or [b]--local[/b] local queues.

    [b]Example:[/b] quorate queue list lq --all-namespaces
    """
    selected = _kind_of(kind, local) if kind else _default(local)
    if selected is Kind.CLUSTER:
        _refuse_namespace(namespace, all_namespaces)
        if cluster_queue:
            raise UsageError("-c is for local queues (add --local)")
    cluster_options = ClusterOptions(kubeconfig, context, namespace, all_namespaces)
    now = WallClock().now()

    def is_listed(queue: ClusterQueue | LocalQueue) -> bool:
        return active is None or is_active(queue) == (active == "true")

    async def cluster_queues(connection: Connection) -> None:
        try:
            queues = await list_objects(
                connection, CLUSTER_QUEUES, output, selector, field_selector, is_listed
            )
        except Forbidden as error:
            raise UsageError(f"{error.message} (quorate queue list lq lists local queues)") from error
        print_objects(cluster_queue_columns(queues, now), queues, output)

    async def local_queues(connection: Connection) -> None:
        queues = await list_objects(
            connection, LOCAL_QUEUES, output, selector, field_selector,
            lambda queue: cluster_queue in ("", queue.spec.cluster_queue) and is_listed(queue),
        )  # fmt: skip
        print_objects(local_queue_columns(now, namespaces=all_namespaces), queues, output)

    with_cluster(cluster_options, cluster_queues if selected is Kind.CLUSTER else local_queues)


@queue.command()
def describe(
    names: Names,
    local: Local = False,
    namespace: o.Namespace = "",
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Show the quota and the usage of a queue, and why it is inactive.

    [b]Example:[/b] quorate queue describe research
    """
    targets = _targets(names, local, namespace)
    now = WallClock().now()

    async def show(connection: Connection) -> None:
        keys = [(kind, _key(connection, kind, name)) for kind, name in targets]
        if is_structured(output):
            await print_whole(connection, [(_RESOURCES[kind], key) for kind, key in keys], output)
            return
        for kind, key in keys:
            if kind is Kind.CLUSTER:
                described = await connection.client.get(CLUSTER_QUEUES, key)
                locals_ = await connection.client.list(LOCAL_QUEUES)
                print_sections(describe_cluster_queue(described, locals_.items, now))
            else:
                print_sections(describe_local_queue(await connection.client.get(LOCAL_QUEUES, key), now))

    with_cluster(ClusterOptions(kubeconfig, context, namespace), show)


@queue.command()
def create(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[cq/|lq/]NAME", help="A cluster queue; a local queue with the prefix [b]lq/[/b]."
        ),
    ],
    local: Local = False,
    nominal_quota: Annotated[
        list[str] | None, _amounts(help="nominalQuota of a flavor, by resource: spot:cpu=8;memory=36Gi.")
    ] = None,
    borrowing_limit: Annotated[
        list[str] | None, _amounts(help="borrowingLimit: the most that the queue may borrow from its cohort.")
    ] = None,
    lending_limit: Annotated[
        list[str] | None, _amounts(help="lendingLimit: the most that the queue lends to its cohort.")
    ] = None,
    cohort: Annotated[
        str,
        _of_cluster(
            metavar="NAME", help="Cohort: the group of cluster queues that lend quota to each other."
        ),
    ] = "",
    queuing_strategy: Annotated[
        Literal["BestEffortFIFO", "StrictFIFO"],
        _of_cluster(
            help="queueingStrategy: StrictFIFO blocks the queue while its first workload does not fit."
        ),
    ] = "BestEffortFIFO",
    namespace_selector: Annotated[
        list[str] | None,
        _of_cluster(
            metavar="KEY=VALUE",
            help="namespaceSelector: labels of the namespaces that may use the queue. Default: all.",
        ),
    ] = None,
    reclaim_within_cohort: Annotated[
        Literal["Never", "LowerPriority", "Any"] | None,
        _of_cluster(help="reclaimWithinCohort: which workloads of borrowing queues may be preempted."),
    ] = None,
    preemption_within_cluster_queue: Annotated[
        Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"] | None,
        _of_cluster(help="withinClusterQueue: which workloads of the same cluster queue may be preempted."),
    ] = None,
    cluster_queue: Annotated[
        str,
        _of_local(
            "--clusterqueue",
            "-c",
            metavar="NAME",
            help="The cluster queue of the local queue.",
            autocompletion=completion.cluster_queues,
        ),
    ] = "",
    ignore_unknown_cq: Annotated[
        bool, _of_local("--ignore-unknown-cq", "-i", help="Allow a cluster queue that does not exist yet.")
    ] = False,
    namespace: o.Namespace = "",
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Create a cluster queue, or with [b]lq/[/b] or [b]--local[/b] a local queue.

    [b]Example:[/b] quorate queue create research --nominal-quota "spot:cpu=40;memory=160Gi" --cohort science
    """
    ((kind, plain_name),) = _targets([name], local, namespace)
    fields = {
        "cohortName": cohort,
        "resourceGroups": resource_groups(nominal_quota or [], borrowing_limit or [], lending_limit or []),
        "preemption": {
            field: value
            for field, value in (
                ("reclaimWithinCohort", reclaim_within_cohort),
                ("withinClusterQueue", preemption_within_cluster_queue),
            )
            if value is not None
        },
    }
    labels = pairs("--namespace-selector", namespace_selector or [])
    has_cluster_options = any(fields.values()) or bool(labels)
    if kind is Kind.LOCAL and (has_cluster_options or not cluster_queue):
        raise UsageError(
            "a local queue has no quota (drop the options for cluster queues)"
            if has_cluster_options
            else "a local queue needs a cluster queue (write -c NAME)"
        )
    if kind is Kind.CLUSTER and cluster_queue:
        raise UsageError("-c is for local queues (write lq/NAME or --local)")

    async def write(connection: Connection) -> None:
        spec: dict[str, Any] = {"clusterQueue": cluster_queue}
        if kind is Kind.CLUSTER:
            selector = {"matchLabels": labels} if labels else {}
            spec = {field: value for field, value in fields.items() if value}
            spec |= {"queueingStrategy": queuing_strategy, "namespaceSelector": selector}
        elif not ignore_unknown_cq:
            await connection.client.get(CLUSTER_QUEUES, Key("", cluster_queue))
        with Results(output, dry_run) as results:
            await create_object(connection, _RESOURCES[kind], plain_name, spec, results)

    with_cluster(ClusterOptions(kubeconfig, context, namespace), write)


@queue.command()
def stop(
    names: Names,
    local: Local = False,
    keep_already_running: Annotated[
        bool, typer.Option("--keep-already-running", help="Admit no new workloads, but keep admitted ones.")
    ] = False,
    yes: o.Yes = False,
    namespace: o.Namespace = "",
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Stop queues: admit no new workloads and evict admitted ones, after confirmation.

    [b]Example:[/b] quorate queue stop research --keep-already-running
    """
    policy: StopPolicy = "Hold" if keep_already_running else "HoldAndDrain"
    cluster_options = ClusterOptions(kubeconfig, context, namespace)
    targets = _targets(names, local, namespace)

    async def evictions(connection: Connection) -> int:
        queues = [
            await connection.client.get(_RESOURCES[kind], _key(connection, kind, name))
            for kind, name in targets
        ]
        return sum(queue.status.reserving_workloads for queue in queues)

    if not (yes or keep_already_running) and dry_run is o.DryRun.NONE:
        evicted = with_cluster(cluster_options, evictions)
        if evicted:
            typer.echo(
                f"This evicts {plural(evicted, 'workload')} (--keep-already-running keeps them).", err=True
            )
            confirm("Do you want to proceed?", err=True)
    _set_policy(cluster_options, targets, policy, "stopped", dry_run, output)


@queue.command()
def resume(
    names: Names,
    local: Local = False,
    namespace: o.Namespace = "",
    dry_run: o.DryRunOption = o.DryRun.NONE,
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Resume stopped queues: admit workloads again.

    [b]Example:[/b] quorate queue resume lq/team-a --namespace team-a
    """
    cluster_options = ClusterOptions(kubeconfig, context, namespace)
    _set_policy(cluster_options, _targets(names, local, namespace), "None", "resumed", dry_run, output)


def _set_policy(
    cluster_options: ClusterOptions,
    targets: list[tuple[Kind, str]],
    policy: StopPolicy,
    done: str,
    dry_run: o.DryRun,
    output: o.Output,
) -> None:
    async def write(connection: Connection) -> None:
        with Results(output, dry_run) as results:
            for kind, name in targets:
                key = _key(connection, kind, name)
                spec = {"stopPolicy": policy}
                await patch_spec(connection, _RESOURCES[kind], key, spec, done, results)

    with_cluster(cluster_options, write)


def _targets(names: list[str], local: bool, namespace: str) -> list[tuple[Kind, str]]:
    """Return the kind and the name of each queue given."""
    targets: list[tuple[Kind, str]] = []
    for written in names:
        prefix, slash, name = written.rpartition("/")
        targets.append((_kind_of(prefix, local) if slash else _default(local), name))
    if all(kind is Kind.CLUSTER for kind, _ in targets):
        _refuse_namespace(namespace, False)
    return targets


def _kind_of(written: str, local: bool) -> Kind:
    name, _, group = written.lower().partition(".")
    kind = _NAMES.get(name)
    if kind is None or group not in ("", CLUSTER_QUEUES.group):
        raise UsageError(
            f"{written!r} is no kind of queue (write cq for cluster queues, lq for local queues)"
        )
    if local and kind is Kind.CLUSTER:
        raise UsageError(
            f"{written} selects cluster queues and --local selects local queues (drop one of the two)"
        )
    return kind


def _default(local: bool) -> Kind:
    return Kind.LOCAL if local else Kind.CLUSTER


def _refuse_namespace(namespace: str, all_namespaces: bool) -> None:
    """Refuse a namespace for cluster queues: the user may mean a local queue of the same name."""
    if namespace or all_namespaces:
        flag = "-A" if all_namespaces else "-n"
        raise UsageError(
            f"{flag} is for local queues (write lq, lq/NAME or --local); cluster queues have no namespace"
        )


def _key(connection: Connection, kind: Kind, name: str) -> Key:
    return Key("" if kind is Kind.CLUSTER else connection.namespace, name)
