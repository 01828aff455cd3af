"""Pages of workloads, and one workload in detail, as a caller may see them."""

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, Final

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
    "priority": lambda each: each.workload.spec.priority or 0,
    "state": attrgetter("state"),
    "since": attrgetter("since"),
    "reason": attrgetter("code"),
    "position": attrgetter("order"),  # see ``_by_position``
}


def workloads(data: ClusterData, viewer: Viewer, query: WorkloadQuery, estimates: Estimates) -> WorkloadPage:
    """Return a page of the workloads that the viewer may read and that match."""
    found = data.remembered(
        ("workloads", viewer, selection_of(query)), data.revision, lambda: _sorted(data, viewer, query)
    )
    offset, page = page_of(query, found)
    return WorkloadPage(
        total=len(found),
        offset=offset,
        items=tuple(row_of(data, viewer, each, estimates) for each in page),
        forecast_at=estimates.at,
    )


def _sorted(data: ClusterData, viewer: Viewer, query: WorkloadQuery) -> list[Listed]:
    found = _matching(data, viewer, query)
    name = query.sort or DEFAULT_SORT
    descending, name = name.startswith("-"), name.removeprefix("-")
    found.sort(key=attrgetter("order"))
    if name == "position":
        return _by_position(data, found, descending=descending)
    if name != "name" or descending:
        found.sort(key=SORTS[name], reverse=descending)
    return found


def _by_position(data: ClusterData, found: Iterable[Listed], *, descending: bool) -> list[Listed]:
    """Return workloads with a position first, by cluster queue, and the others after them by name."""
    ranked: list[tuple[str, int, Listed]] = []
    others: list[Listed] = []
    for listed in found:
        place = position_of(data, listed.key)
        if place is None:
            others.append(listed)
        else:
            ranked.append((*place, listed))
    ranked.sort(key=lambda each: each[:2], reverse=descending)
    return [listed for _, _, listed in ranked] + others


def _matching(data: ClusterData, viewer: Viewer, query: WorkloadQuery) -> list[Listed]:
    def matches(group: Group) -> bool:
        return (
            query.state in ("", group.state)
            and query.code in ("", group.code)
            and query.namespace in ("", group.local_queue.namespace)
            and query.local_queue in ("", group.local_queue.name)
            and query.cluster_queue in ("", data.cluster_queue_of(group))
        )

    found = [listed for _, members in data.readable(viewer, matches) for listed in members.values()]
    if query.q:
        text = query.q.lower()
        found = [listed for listed in found if text in listed.text]
    if query.label:
        key, has_value, value = query.label.partition("=")
        found = [
            listed
            for listed in found
            if (known := listed.workload.metadata.labels.get(key)) is not None
            and (not has_value or known == value)
        ]
    return found


def position_of(data: ClusterData, key: Key) -> tuple[str, int] | None:
    """Return the cluster queue in which a pending workload waits, and its position there, from 0."""
    entry = data.ledger.entries.get(key)
    if entry is None or not entry.cluster_queue:
        return None
    name = entry.cluster_queue
    found = positions(data, name).get(key)
    return None if found is None else (name, found)


def positions(data: ClusterData, cluster_queue: str) -> dict[Key, int]:
    """Return the pending workloads of a cluster queue with their positions."""

    def number() -> dict[Key, int]:
        pending = data.ledger.cluster_queues[cluster_queue].pending
        return {entry.key: index for index, entry in enumerate(pending.all_entries())}

    return data.remembered(("positions", cluster_queue), data.pending_revision(cluster_queue), number)


def row_of(data: ClusterData, viewer: Viewer, listed: Listed, estimates: Estimates) -> WorkloadRow:
    workload, group = listed.workload, listed.group
    metadata, spec, owner = workload.metadata, workload.spec, owner_of(workload)
    code, reason = data.reason_of(group)
    if not code:
        code, reason = listed.code, data.readable_text(listed.message, viewer.scope.namespaces)
    place = position_of(data, listed.key) if listed.waits else None
    p50, p90 = estimates.starts.get(listed.key, (None, None)) if listed.waits else (None, None)
    return WorkloadRow(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        job_kind="" if owner is None else owner.kind,
        job_name="" if owner is None else owner.name,
        local_queue=spec.queue_name,
        cluster_queue=data.cluster_queue_of(group),
        state=listed.state,
        priority=spec.priority or 0,
        pods=sum(pod_set.count for pod_set in spec.pod_sets),
        admitted_pods=_admitted_pods(listed),
        created_at=listed.created,
        since=listed.since,
        position=None if place is None else place[1],
        reason=reason,
        code=code,
        starts_p50_s=p50,
        starts_p90_s=p90,
    )


def _admitted_pods(listed: Listed) -> int | None:
    workload = listed.workload
    if not listed.group.reserved_in or workload.status.admission is None:
        return None
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return sum(
        counts.get(each.name, 0) if each.count is None else each.count
        for each in workload.status.admission.pod_set_assignments
    )
