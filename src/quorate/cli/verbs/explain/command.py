"""``quorate workload explain``: why a workload is pending, and what would let it start."""

from collections.abc import Sequence
from functools import partial

import msgspec
import typer

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.volcano import PENDING, UNSCHEDULABLE, PodGroup, find_condition
from quorate.cli.files import Config
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_model import effective_configuration, evaluate_all, load_state
from quorate.cli.verbs.explain.explanation import WorkloadExplanation, explanation_of
from quorate.cli.verbs.explain.pods import pods_of_workloads, with_pods
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
from quorate.controllers.jobs.unserved import why_not_queued
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
    """Explain why a workload is pending, with numbers, and what would let it start.

    The command reads the whole cluster, evaluates it by the rules of the controllers, and writes nothing. It
    reads their Configuration from the cluster, unless [b]--config[/b] is given, and prints which it used.

    [b]Example:[/b] quorate workload explain job/train
    """

    async def show(connection: o.Connection) -> None:
        used = await effective_configuration(connection.client, config)
        explanations = await _explain_all(connection, names, used.configuration)
        typer.echo(f"evaluated with {used.origin}", err=True)
        for explanation in explanations:
            if is_structured(output):
                print_value(explanation, output)
            else:
                print_sections(explanation_sections(explanation))

    o.with_cluster(o.ClusterOptions(kubeconfig, context, namespace), show)


async def _explain_all(
    connection: o.Connection, names: list[str], configuration: Configuration
) -> list[WorkloadExplanation]:
    why = partial(why_not_queued, configuration.integrations)
    found = [each for name in names for each in await named_workloads(connection, name, why)]
    now = WallClock().now()
    state = await load_state(connection.client, configuration, now)
    decided = evaluate_all(state, now)
    explanations = [explanation_of(state, decided, each) for each in found]
    if not any(each.standing in ("runs", "has quota") for each in explanations):
        return explanations
    groups = await _pod_groups(connection)
    pods = await pods_of_workloads(connection.client, connection.namespace) or ()
    return [
        with_pod_group(with_pods(explanation, each, pods), each, groups)
        for explanation, each in zip(explanations, found, strict=True)
    ]


async def _pod_groups(connection: o.Connection) -> Sequence[PodGroup]:
    try:
        return (await connection.client.list(POD_GROUPS, connection.namespace)).items
    except (NotFound, Forbidden):
        return ()  # the cluster does not serve pod groups, or the user has no permission


def with_pod_group(
    explanation: WorkloadExplanation, workload: Workload, groups: Sequence[PodGroup]
) -> WorkloadExplanation:
    """Return the explanation, with what the pod group of the job waits for if the workload is admitted."""
    jobs = {owner.uid for owner in workload.metadata.owner_references}
    for group in groups:
        of_job = any(owner.uid in jobs for owner in group.metadata.owner_references)
        if explanation.standing in ("runs", "has quota") and of_job and group.status.phase in ("", PENDING):
            unschedulable = find_condition(group.status.conditions, UNSCHEDULABLE)
            detail = f": {unschedulable.reason}: {unschedulable.message}" if unschedulable is not None else ""
            says = (
                f"it is admitted, and its pod group waits{detail} "
                f"(quorate podgroup explain {group.metadata.name} shows more)"
            )
            return msgspec.structs.replace(explanation, standing="has quota", says=says)
    return explanation


def explanation_sections(explanation: WorkloadExplanation) -> tuple[Section, ...]:
    ahead = ""
    if explanation.ahead is not None:
        more = ", ..." if explanation.ahead > len(explanation.first_ahead) else ""
        names = f": {', '.join(explanation.first_ahead)}{more}" if explanation.first_ahead else ""
        ahead = f"{explanation.ahead} pending{names}"
    facts = Fields((
        ("Workload", explanation.workload),
        ("Local queue", explanation.local_queue),
        ("Cluster queue", explanation.cluster_queue),
        ("Ahead of it", ahead),
        ("State", explanation.standing),
        ("Reason", explanation.says),
    ))  # fmt: skip
    numbers = tuple(
        (each.pod_set, each.flavor, each.resource, each.needed, each.free, each.short_by, each.at_most)
        for each in explanation.reasons
        if each.needed
    )
    held = tuple(
        (each.workload, each.cluster_queue, each.flavor, each.resource, each.amount,
         "being evicted" if each.evicted else "")
        for each in explanation.held_by
    )  # fmt: skip
    titles = ("POD SET", "FLAVOR", "RESOURCE", "NEEDS", "FREE", "SHORT BY", "AT MOST")
    return (
        facts,
        TableSection("Quota", titles, numbers),
        TableSection("Quota used by", ("WORKLOAD", "CLUSTERQUEUE", "FLAVOR", "RESOURCE", "AMOUNT", ""), held),
        ListSection("Remedies", explanation.would_take),
    )
