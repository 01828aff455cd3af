"""``quorate workload explain``: why one waits, and what it would take."""

from collections.abc import Sequence

import msgspec
import typer

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.volcano import PENDING, UNSCHEDULABLE, PodGroup, find_condition
from quorate.cli.files import Config
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_model import effective_configuration, evaluate_all, load_state
from quorate.cli.verbs.explain.explanation import WorkloadExplanation, explanation_of
from quorate.cli.verbs.job_names import Workloads, named_workloads
from quorate.cli.verbs.printing import (
    Fields,
    ListSection,
    Section,
    TableSection,
    is_structured,
    print_sections,
    print_value,
)
from quorate.kube.clock import WallClock
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.resources import POD_GROUPS


def explain(
    names: Workloads,
    config: Config = None,
    namespace: o.Namespace = "",
    output: o.Format = o.Output.TABLE,
    kubeconfig: o.Kubeconfig = None,
    context: o.Context = "",
) -> None:
    """Say why a workload waits, in numbers, and what it would take to start it.

    The whole cluster is read and judged by the rules the controllers follow; nothing is written. Their
    Configuration is read from the cluster unless [b]--config[/b] gives one; which it was is told.

    [b]Example:[/b] quorate workload explain job/train
    """

    async def show(connection: o.Connection) -> None:
        used = await effective_configuration(connection.client, config)
        accounts = await _accounts(connection, names, used.configuration)
        typer.echo(f"judged by {used.origin}", err=True)
        for account in accounts:
            if is_structured(output):
                print_value(account, output)
            else:
                print_sections(explanation_sections(account))

    o.at(o.ClusterOptions(kubeconfig, context, namespace), show)


async def _accounts(
    connection: o.Connection, names: list[str], configuration: Configuration
) -> list[WorkloadExplanation]:
    found = [each for name in names for each in await named_workloads(connection, name)]
    now = WallClock().now()
    state = await load_state(connection.client, configuration, now)
    decided = evaluate_all(state, now)
    accounts = [explanation_of(state, decided, each) for each in found]
    groups = await _pod_groups(connection) if any(each.standing == "runs" for each in accounts) else ()
    return [with_pod_group(account, each, groups) for account, each in zip(accounts, found, strict=True)]


async def _pod_groups(connection: o.Connection) -> Sequence[PodGroup]:
    try:
        return (await connection.client.list(POD_GROUPS, connection.namespace)).items
    except (NotFound, Forbidden):
        return ()  # the cluster has no such kind, or the user is not to know


def with_pod_group(
    account: WorkloadExplanation, workload: Workload, groups: Sequence[PodGroup]
) -> WorkloadExplanation:
    """``account``; of one that is admitted, what the pod group of its job waits for, if it does."""
    jobs = {owner.uid for owner in workload.metadata.owner_references}
    for group in groups:
        of_job = any(owner.uid in jobs for owner in group.metadata.owner_references)
        if account.standing == "runs" and of_job and group.status.phase in ("", PENDING):
            lacks = find_condition(group.status.conditions, UNSCHEDULABLE)
            why = f": {lacks.reason}: {lacks.message}" if lacks is not None else ""
            says = (
                f"it is admitted, and its pod group waits{why} "
                f"(quorate podgroup explain {group.metadata.name} tells more)"
            )
            return msgspec.structs.replace(account, standing="has quota", says=says)
    return account


def explanation_sections(account: WorkloadExplanation) -> tuple[Section, ...]:
    before = ""
    if account.ahead is not None:
        more = ", ..." if account.ahead > len(account.first_ahead) else ""
        names = f": {', '.join(account.first_ahead)}{more}" if account.first_ahead else ""
        before = f"{account.ahead} pending{names}"
    facts = Fields((
        ("Workload", account.workload),
        ("Local queue", account.local_queue),
        ("Cluster queue", account.cluster_queue),
        ("Before it", before),
        ("State", account.standing),
        ("Because", account.says),
    ))  # fmt: skip
    numbers = tuple(
        (each.pod_set, each.flavor, each.resource, each.needed, each.free, each.short_by, each.at_most)
        for each in account.reasons
        if each.needed
    )
    held = tuple(
        (each.workload, each.cluster_queue, each.flavor, each.resource, each.amount,
         "being evicted" if each.evicted else "")
        for each in account.held_by
    )  # fmt: skip
    titles = ("POD SET", "FLAVOR", "RESOURCE", "NEEDS", "FREE", "SHORT BY", "AT MOST")
    return (
        facts,
        TableSection("In numbers", titles, numbers),
        TableSection("Held by", ("WORKLOAD", "CLUSTERQUEUE", "FLAVOR", "RESOURCE", "AMOUNT", ""), held),
        ListSection("It would take", account.would_take),
    )
