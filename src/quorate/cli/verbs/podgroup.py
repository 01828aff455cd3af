"""``quorate podgroup``: list pod groups and explain why they are pending."""

from quorate.api.explanation import ExplanationSummary
from quorate.api.meta import Key, epoch
from quorate.api.native_groups import PodGroup as NativePodGroup
from quorate.api.volcano import PENDING, PodGroup
from quorate.cli.lazy_commands import LazyCommand, command_group
from quorate.cli.verbs import options as o
from quorate.cli.verbs.cluster_commands import in_namespaces
from quorate.cli.verbs.listing import list_objects, listed_summaries, with_explanation
from quorate.cli.verbs.printing import Column, age, as_untyped, is_structured, print_objects
from quorate.inspect.connection import Connection
from quorate.inspect.explain.summaries import Summaries
from quorate.inspect.listed_groups import native_pod_groups, stored_native_groups
from quorate.kube.clock import WallClock
from quorate.kube.resources import NATIVE_POD_GROUPS, POD_GROUPS

podgroup = command_group(
    "Pod groups, sets of pods that start together: list, explain.",
    LazyCommand(
        "explain", "quorate.cli.verbs.explain.pod_groups:explain",
        "Explain why a pod group is pending: each check, its position, and its next attempt.",
    ),
)  # fmt: skip


@podgroup.command("list")
@in_namespaces
async def list_(
    connection: Connection, selector: o.LabelSelector = "", output: o.Format = o.Output.TABLE
) -> None:
    """List pod groups with their state and the reason for it.

    Kubernetes' own groups have [b]scheduling.k8s.io/[/b] before their name.

    [b]-o wide[/b] also shows the reason as a sentence, [b]-o json[/b] as [b]explanation[/b] of each.

    [b]Example:[/b] quorate podgroup list --all-namespaces
    """
    now = WallClock().now()
    states = await listed_summaries(connection, "PodGroup")
    where = (connection.namespace, selector)
    kind, native, documents = as_untyped(NATIVE_POD_GROUPS), None, None
    if is_structured(output):
        kind, documents = await stored_native_groups(connection.client, kind, *where)
    else:
        native = await native_pod_groups(connection.client, *where)
    explained = with_explanation(NativePodGroup, states.of_native_group)
    groups = await list_objects(
        connection,
        POD_GROUPS,
        output,
        selector,
        completed=with_explanation(PodGroup, states.of_pod_group),
        others=native or (),
        other_documents=[(kind, explained(document)) for document in documents or ()],
        may_be_unserved=native is not None or documents is not None,
    )
    columns = _columns(now, states, namespaces=not connection.namespace)
    print_objects(columns, sorted(groups, key=_age_rank), output)


def _age_rank(group: PodGroup) -> tuple[float, Key]:
    """Sort by age, the oldest first, which is the order of evaluation."""
    created = group.metadata.creation_timestamp
    return (0.0 if created is None else epoch(created), group.metadata.key)


def _running(summary: ExplanationSummary) -> int:
    return 0 if summary.pods is None else summary.pods.running or 0


def _columns(now: float, states: Summaries, *, namespaces: bool) -> tuple[Column[PodGroup], ...]:
    where: tuple[Column[PodGroup], ...] = (Column("NAMESPACE", lambda group: group.metadata.namespace),)
    return (
        *(where if namespaces else ()),
        Column("NAME", lambda group: group.metadata.name),
        Column("QUEUE", lambda group: group.spec.queue),
        Column("PHASE", lambda group: group.status.phase or PENDING),
        Column("MIN", lambda group: str(group.spec.min_member)),
        Column("RUNNING", lambda group: str(_running(states.of_pod_group(group)))),
        Column("AGE", lambda group: age(group.metadata.creation_timestamp, now)),
        Column("STATE", lambda group: states.of_pod_group(group).state),
        Column("REASON", lambda group: states.of_pod_group(group).code),
        Column("MESSAGE", lambda group: states.of_pod_group(group).message, wide=True),
    )
