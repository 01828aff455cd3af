"""Pod groups and their queues, as a caller may see them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from quorate.api.core import Resources
from quorate.api.explanation import ExplanationSummary, summary_of
from quorate.api.meta import Key, at_epoch
from quorate.api.native_groups import GROUP as NATIVE
from quorate.api.native_groups import PREFIX
from quorate.api.volcano import COMPLETED, OPEN, PENDING, ROOT_QUEUE, RUNNING, PodGroup
from quorate.api.volcano import GROUP as VOLCANO
from quorate.dashboard.history.timeline import group_milestones
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.quota_use import from_quantity
from quorate.dashboard.model.workload_index import is_of_version, searched_text
from quorate.dashboard.queries import PodGroupQuery, Viewer, page_of, selection_of
from quorate.dashboard.schema import (
    Amount,
    GangQueueRow,
    PodGroupDetail,
    PodGroupPage,
    PodGroupRow,
    Transition,
)
from quorate.dashboard.views.live_reads import (
    as_listed,
    command,
    events_of,
    explanation_of,
    pod_rows,
    pods_of,
    readable_explanation,
)
from quorate.gang.explanation import explain_group
from quorate.kube.client import Client
from quorate.observe.explanation_lists import explain_with_pods


def phase_of(group: PodGroup) -> str:
    return group.status.phase or PENDING


DEFAULT_SORT: Final = "-created"
SORTS: Final[Mapping[str, Callable[[PodGroup], Any]]] = {
    "created": lambda group: group.metadata.creation_timestamp or at_epoch(0),
    "name": lambda group: group.metadata.key,
    "queue": lambda group: group.spec.queue,
    "phase": phase_of,
    "members": lambda group: group.spec.min_member,
}


def pod_groups(data: ClusterData, viewer: Viewer, query: PodGroupQuery) -> PodGroupPage:
    """Return a page of the pod groups that the viewer may read and that match."""
    groups = data.remembered(
        ("pod_groups", viewer, selection_of(query)),
        data.pod_group_revision,
        lambda: _sorted(data, viewer, query),
    )
    offset, page = page_of(query, groups)
    items = tuple(_row(data, viewer, group) for group in page)
    return PodGroupPage(total=len(groups), offset=offset, items=items)


def _sorted(data: ClusterData, viewer: Viewer, query: PodGroupQuery) -> list[PodGroup]:
    text = query.q.lower()
    groups = [
        group
        for key, group in sorted(data.pod_groups.items())
        if viewer.reads_pod_group(key)
        and query.namespace in ("", key.namespace)
        and query.queue in ("", group.spec.queue)
        and query.phase in ("", phase_of(group))
        and (not text or text in searched_text(group.metadata))
    ]
    name = query.sort or DEFAULT_SORT
    groups.sort(key=SORTS[name.removeprefix("-")], reverse=name.startswith("-"))
    return groups


def _row(data: ClusterData, viewer: Viewer, group: PodGroup) -> PodGroupRow:
    spec, status = group.spec, group.status
    summary = _summary_of(data, group)
    running = 0 if summary.pods is None else summary.pods.running or 0
    started = running + status.succeeded + status.failed
    return PodGroupRow(
        namespace=group.metadata.namespace,
        name=group.metadata.name,
        queue=spec.queue,
        phase=phase_of(group),
        state=summary.state,
        min_member=spec.min_member,
        running=running,
        pending=max(0, spec.min_member - started),
        succeeded=status.succeeded,
        failed=status.failed,
        priority_class=spec.priority_class_name,
        created_at=group.metadata.creation_timestamp or at_epoch(0),
        reason=readable_text(data, viewer, group, _why(group, summary)),
        code=summary.code,
    )


def _why(group: PodGroup, summary: ExplanationSummary) -> str:
    """Return why a group does not run, without its phase; empty if it does, or has ended."""
    if phase_of(group) in (RUNNING, COMPLETED) and summary.state != "Stuck":
        return ""
    return summary.message.removeprefix(f"its phase is {phase_of(group)}; ")


def _summary_of(data: ClusterData, group: PodGroup) -> ExplanationSummary:
    """Return the summary that the feed has read of this version of the group, else that of its status."""
    return _evaluated(data, group) or summary_of(explain_group(group), group.metadata)


def _evaluated(data: ClusterData, group: PodGroup) -> ExplanationSummary | None:
    summary = data.pod_group_summaries.get(group.metadata.key)
    return summary if is_of_version(summary, group.metadata) else None


def readable_text(data: ClusterData, viewer: Viewer, group: PodGroup, text: str) -> str:
    return data.readable_text(text, viewer.namespaces_of_group(group.metadata.name))


async def pod_group(
    data: ClusterData, viewer: Viewer, group: PodGroup, reader: Client, recorded: Iterable[Transition]
) -> PodGroupDetail:
    """Return one pod group, which the viewer may read."""
    key = group.metadata.key
    pods, events, (explanation, problem) = await asyncio.gather(
        pods_of(reader, key.namespace, ""),
        events_of(reader, key.namespace, [("PodGroup", key.name.removeprefix(PREFIX))]),
        explanation_of(reader, "podgroups", key),
    )
    members = [pod for pod in pods if pod.pod_group == key.name]

    def readable(text: str) -> str:
        return readable_text(data, viewer, group, text)

    if explanation is None:
        explanation = readable_explanation(explain_with_pods(group, None, pods, {}), readable)
        explanation = as_listed(explanation, _evaluated(data, group), readable)

    return PodGroupDetail(
        row=_row(data, viewer, group),
        min_resources={
            name: str(amount) for name, amount in sorted((group.spec.min_resources or {}).items())
        },
        milestones=group_milestones(group, recorded, readable),
        explanation=explanation,
        explanation_problem=problem,
        pods=pod_rows(members),
        events=events,
        commands=tuple(_commands(key)),
    )


def _commands(key: Key) -> Iterator[str]:
    where, name = ("-n", key.namespace), key.name.removeprefix(PREFIX)
    kind = f"podgroups.{VOLCANO if name == key.name else NATIVE}"
    yield command("quorate", "podgroup", "explain", key.name, *where)
    yield command("kubectl", "get", f"{kind}/{name}", *where, "-o", "yaml")
    yield command("kubectl", "get", "events", *where, "--field-selector", f"involvedObject.name={name}")


def gang_queues(data: ClusterData, viewer: Viewer) -> tuple[GangQueueRow, ...]:
    """Return the queues of pod groups: all, or only of the pod groups that the viewer may read."""
    return data.remembered(
        ("gang_queues", viewer), data.pod_group_revision, lambda: tuple(_queue_rows(data, viewer))
    )


def _queue_rows(data: ClusterData, viewer: Viewer) -> Iterator[GangQueueRow]:
    phases: dict[str, Counter[str]] = {}
    own: set[str] = set()
    for key, group in data.pod_groups.items():
        of_group = group.queue_name
        phases.setdefault(of_group, Counter())[phase_of(group)] += 1
        if viewer.reads_pod_group(key):
            own.add(of_group)
    for name, queue in sorted(data.gang_queues.items()):
        if viewer.pod_group_namespaces is None or name in own:
            yield GangQueueRow(
                name=name,
                parent="" if name == ROOT_QUEUE else queue.spec.parent or ROOT_QUEUE,
                state=queue.status.state or OPEN,
                weight=queue.spec.weight,
                allocated=_amounts(queue.status.allocated),
                deserved=_amounts(queue.spec.deserved),
                capability=_amounts(queue.spec.capability),
                pod_groups=dict(sorted(phases.get(name, Counter()).items())),
            )


def _amounts(resources: Resources) -> dict[str, Amount]:
    return {name: from_quantity(quantity) for name, quantity in sorted(resources.items())}
