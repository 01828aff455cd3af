"""Pages of workloads, and one workload in detail, as a caller may see them."""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

from quorate.api.explanation import TAKES_TURNS
from quorate.api.meta import Key
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.workload_index import Group, Listed, owner_of
from quorate.dashboard.queries import Estimates, Viewer, WorkloadQuery, page_of, selection_of
from quorate.dashboard.schema import WorkloadPage, WorkloadRow

DEFAULT_SORT: Final = "-created"
# By name of the order: the attribute of ``Listed``.  Equal ones are in the order of their names.
SORTS: Final[Mapping[str, Callable[[Listed], Any]]] = {
    "created": attrgetter("created_s"),
    "name": attrgetter("order"),
    "priority": lambda listed: listed.workload.spec.priority or 0,
    "state": attrgetter("state"),
    "since": attrgetter("since"),
    "reason": attrgetter("code"),
    "position": attrgetter("order"),  # see ``_by_position``
}


def workloads(data: ClusterData, viewer: Viewer, query: WorkloadQuery, estimates: Estimates) -> WorkloadPage:
    """Return a page of the workloads that the viewer may read and that match."""
    matching = data.remembered(
        ("workloads", viewer, selection_of(query)), data.revision, lambda: _sorted(data, viewer, query)
    )
    offset, page = page_of(query, matching)
    return WorkloadPage(
        total=len(matching),
        offset=offset,
        items=tuple(row_of(data, viewer, listed, estimates) for listed in page),
        forecast_at=estimates.at,
    )


def _sorted(data: ClusterData, viewer: Viewer, query: WorkloadQuery) -> list[Listed]:
    matching = _matching(data, viewer, query)
    name = query.sort or DEFAULT_SORT
    descending, name = name.startswith("-"), name.removeprefix("-")
    matching.sort(key=attrgetter("order"))
    if name == "position":
        return _by_position(data, matching, descending=descending)
    if name != "name" or descending:
        matching.sort(key=SORTS[name], reverse=descending)
    return matching


def _by_position(data: ClusterData, matching: Iterable[Listed], *, descending: bool) -> list[Listed]:
    """Return workloads with a position first, by cluster queue, and the others after them by name."""
    ranked: list[tuple[str, int, Listed]] = []
    others: list[Listed] = []
    for listed in matching:
        place = position_of(data, listed.key)
        if place is None:
            others.append(listed)
        else:
            ranked.append((*place, listed))
    ranked.sort(key=lambda row: row[:2], reverse=descending)
    return [listed for _, _, listed in ranked] + others


def _matching(data: ClusterData, viewer: Viewer, query: WorkloadQuery) -> list[Listed]:
    def matches(group: Group) -> bool:
        return (
            query.state in ("", data.state_of(group))
            and query.code in ("", data.reason_of(group)[0] or group.code)
            and query.namespace in ("", group.local_queue.namespace)
            and query.local_queue in ("", group.local_queue.name)
            and query.cluster_queue in ("", data.cluster_queue_of(group))
        )

    matching = [listed for _, members in data.readable(viewer, matches) for listed in members.values()]
    if query.q:
        text = query.q.lower()
        matching = [listed for listed in matching if text in listed.text]
    if query.label:
        key, has_value, value = query.label.partition("=")
        matching = [
            listed
            for listed in matching
            if (label := listed.labels.get(key)) is not None and (not has_value or label == value)
        ]
    return matching


def position_of(data: ClusterData, key: Key) -> tuple[str, int] | None:
    """Return the cluster queue in which a pending workload waits, and its position there, from 0."""
    entry = data.ledger.entries.get(key)
    if entry is None or not entry.cluster_queue:
        return None
    name = entry.cluster_queue
    position = positions(data, name).get(key)
    return None if position is None else (name, position)


def positions(data: ClusterData, cluster_queue: str) -> dict[Key, int]:
    """Return the pending workloads of a cluster queue with their positions."""

    def number() -> dict[Key, int]:
        pending = data.ledger.cluster_queues[cluster_queue].pending
        return {entry.key: index for index, entry in enumerate(pending.all_entries())}

    return data.remembered(("positions", cluster_queue), data.pending_revision(cluster_queue), number)


def row_of(data: ClusterData, viewer: Viewer, listed: Listed, estimates: Estimates) -> WorkloadRow:
    workload, group = listed.workload, listed.group
    metadata, spec, owner = workload.metadata, workload.spec, owner_of(workload)
    state = data.state_of(group)
    code, reason = data.reason_of(group)
    if code in ("", listed.code):  # its own text may say more: what it was evicted for
        code, reason = listed.code, data.readable_text(listed.message, viewer.scope.namespaces)
    place = position_of(data, listed.key) if state in TAKES_TURNS else None
    p50, p90 = estimates.starts.get(listed.key, (None, None)) if state in TAKES_TURNS else (None, None)
    return WorkloadRow(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        job_kind="" if owner is None else owner.kind,
        job_name="" if owner is None else owner.name,
        local_queue=spec.queue_name,
        cluster_queue=data.cluster_queue_of(group),
        state=state,
        priority=spec.priority or 0,
        pods=sum(pod_set.count for pod_set in spec.pod_sets),
        admitted_pods=_admitted_pods(listed),
        created_at=listed.created,
        since=listed.since,
        position=None if place is None else place[1],
        reason=reason,
        code=code,
        starts_p50=p50,
        starts_p90=p90,
    )


def _admitted_pods(listed: Listed) -> int | None:
    workload = listed.workload
    if not listed.group.reserved_in or workload.status.admission is None:
        return None
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return sum(
        counts.get(assignment.name, 0) if assignment.count is None else assignment.count
        for assignment in workload.status.admission.pod_set_assignments
    )
