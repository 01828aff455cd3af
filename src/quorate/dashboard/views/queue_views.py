"""Cluster queues and local queues as a caller may see them: totals, and its own workloads."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from quorate.api.kueue import ACTIVE
from quorate.api.meta import at_epoch, find_condition, is_true
from quorate.dashboard.limits import FREQUENT_REASONS_OF_QUEUE, SCHEDULED_WORKLOADS
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.quota_use import borrowers, lenders, quota_of_queue
from quorate.dashboard.queries import Viewer
from quorate.dashboard.schema import (
    ClusterQueueDetail,
    ClusterQueueSummary,
    LocalQueueSummary,
    ReasonCount,
    ScheduledWorkload,
    Transition,
)
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.planning.announced_starts import stored_announcement
from quorate.queueing.windows import Window


class Reasons:
    """How many workloads wait for each reason, with the message of one of them."""

    def __init__(self) -> None:
        self._workloads: Counter[str] = Counter()
        self._examples: dict[str, str] = {}

    def add(self, code: str, workloads: int, example: str) -> None:
        self._workloads[code] += workloads
        self._examples.setdefault(code, example)

    def update(self, other: "Reasons") -> None:
        for code, workloads in other._workloads.items():
            self.add(code, workloads, other._examples[code])

    def most_frequent(self, number: int) -> tuple[ReasonCount, ...]:
        ranked = sorted(self._workloads.items(), key=lambda row: (-row[1], row[0]))
        return tuple(
            ReasonCount(code=code, workloads=workloads, example=self._examples[code])
            for code, workloads in ranked[:number]
        )


def reasons_by_cluster_queue(data: ClusterData, viewer: Viewer) -> dict[str, Reasons]:
    """Return the reasons of the waiting workloads that the viewer may read."""
    return data.remembered(("reasons", viewer), data.revision, lambda: _reasons(data, viewer))


def _reasons(data: ClusterData, viewer: Viewer) -> dict[str, Reasons]:
    result: dict[str, Reasons] = {}
    for group, members in data.readable(viewer, lambda group: bool(group.code)):
        if group.state == "Deactivated":
            continue
        code, text = data.reason_of(group)
        example = text or data.readable_text(next(iter(members.values())).message, viewer.scope.namespaces)
        reasons = result.setdefault(data.cluster_queue_of(group), Reasons())
        reasons.add(code or group.code, len(members), example)
    return result


def cluster_queues(data: ClusterData, viewer: Viewer, now: float) -> tuple[ClusterQueueSummary, ...]:
    return data.remembered(
        ("cluster_queue_summaries", viewer),
        data.revision,
        lambda: tuple(summary_of(data, viewer, queue, now) for queue in data.cluster_queues(viewer).values()),
    )


def summary_of(
    data: ClusterData, viewer: Viewer, queue: ClusterQueueState, now: float
) -> ClusterQueueSummary:
    status = data.state.cluster_queue_status(queue.name, now)
    active = find_condition(status.conditions, ACTIVE)
    is_active = active is not None and active.status == "True"
    sharing, reasons = status.fair_sharing, reasons_by_cluster_queue(data, viewer).get(queue.name)
    return ClusterQueueSummary(
        name=queue.name,
        cohort=queue.spec.cohort_name,
        active=is_active,
        inactive_reason="" if active is None or is_active else active.message,
        stop_policy=queue.spec.stop_policy,
        strategy=queue.spec.queueing_strategy,
        pending=status.pending_workloads,
        reserving=status.reserving_workloads,
        admitted=status.admitted_workloads,
        quota=quota_of_queue(queue),
        weighted_share=None if sharing is None else float(sharing.weighted_share),
        reasons=() if reasons is None else reasons.most_frequent(FREQUENT_REASONS_OF_QUEUE),
    )


def cluster_queue(
    data: ClusterData, viewer: Viewer, name: str, now: float, transitions: Iterable[Transition]
) -> ClusterQueueDetail | None:
    """Return one cluster queue; None if it does not exist or the viewer may not see it."""
    visible = data.cluster_queues(viewer)
    queue = visible.get(name)
    if queue is None:
        return None
    others = [
        other for other in visible.values() if other is not queue and other.node.root is queue.node.root
    ]
    spec = queue.spec
    preemption = spec.preemption
    return ClusterQueueDetail(
        summary=summary_of(data, viewer, queue, now),
        local_queues=tuple(
            local_queue
            for local_queue in local_queues(data, viewer, now)
            if local_queue.cluster_queue == name
        ),
        preemption={
            "withinClusterQueue": preemption.within_cluster_queue,
            "reclaimWithinCohort": preemption.reclaim_within_cohort,
            "borrowWithinCohort": preemption.borrow_within_cohort.policy,
        },
        admission_checks=tuple(
            sorted({rule.name for rule in spec.admission_checks_strategy.admission_checks})
        ),
        borrows_from=lenders(queue, others),
        lends_to=borrowers(queue, others),
        transitions=tuple(transitions),
        schedule=schedule(viewer, queue, data.state.ledger.windows, now),
        may_stop=False,
    )


def local_queues(data: ClusterData, viewer: Viewer, now: float) -> tuple[LocalQueueSummary, ...]:
    result = []
    for key, queue in data.local_queues(viewer):
        assert queue.object is not None, f"{key} does not exist"
        status = data.state.local_queue_status(key, now)
        result.append(
            LocalQueueSummary(
                namespace=key.namespace,
                name=key.name,
                cluster_queue=queue.cluster_queue,
                active=is_true(status.conditions, ACTIVE),
                stop_policy=queue.object.spec.stop_policy,
                pending=status.pending_workloads,
                reserving=status.reserving_workloads,
                admitted=status.admitted_workloads,
            )
        )
    return tuple(result)


def schedule(
    viewer: Viewer, queue: ClusterQueueState, windows: Iterable[Window], now: float
) -> tuple[ScheduledWorkload, ...]:
    """Return the workloads with quota, and those with a planned start, that the viewer may read, by start.

    Before them are the Reservations of flavors of the queue, or of nodes.  Empty if the queue plans no starts
    and nothing is reserved.  Of many workloads that run, those are left out that end last.
    """
    reserved = tuple(_reserved(queue, windows, now)) if viewer.scope.cluster_queues else ()
    if not queue.backfills and not reserved:
        return ()
    planned = sorted(_planned(viewer, queue), key=lambda row: (row.starts, row.namespace, row.name))
    running = sorted(_running(viewer, queue, now), key=lambda row: (row.ends is None, row.ends, row.name))
    shown = [*running[: max(0, SCHEDULED_WORKLOADS - len(planned))], *planned[:SCHEDULED_WORKLOADS]]
    shown.sort(key=lambda row: (row.state == "Planned", row.starts, row.namespace, row.name))
    return (*reserved, *shown)


def _reserved(queue: ClusterQueueState, windows: Iterable[Window], now: float) -> Iterator[ScheduledWorkload]:
    """Yield the current or next window of each Reservation that concerns the queue."""
    flavors = {pair.flavor for pair in queue.node.limits}
    for window in sorted(windows, key=lambda window: window.name):
        if window.spec.nodes is None and flavors.isdisjoint(pair.flavor for pair in window.amounts):
            continue
        for interval in window.occurrences(now)[:1]:
            yield ScheduledWorkload(
                namespace="",
                name=window.name,
                state="Reserved",
                starts=at_epoch(interval.opens),
                ends=at_epoch(interval.closes) if math.isfinite(interval.closes) else None,
                origin="",
                was=None,
                cause=window.spec.purpose,
            )


def _running(viewer: Viewer, queue: ClusterQueueState, now: float) -> Iterator[ScheduledWorkload]:
    for reservation in queue.reservations.values():
        if not viewer.reads(reservation.key):
            continue
        bound = queue.bound(reservation.workload)
        since = now if reservation.admitted_at is None else reservation.admitted_at
        ends = bound.ends_at(since, now)
        yield ScheduledWorkload(
            namespace=reservation.key.namespace,
            name=reservation.key.name,
            state="Running",
            starts=at_epoch(since),
            ends=at_epoch(ends) if math.isfinite(ends) else None,
            origin=bound.origin or "",
            was=None,
            cause="",
        )


def _planned(viewer: Viewer, queue: ClusterQueueState) -> Iterator[ScheduledWorkload]:
    """Yield the workloads with a planned start at a time that is known."""
    for entry in queue.pending.unordered():
        announced = stored_announcement(entry.workload) if viewer.reads(entry.key) else None
        if announced is None or math.isinf(announced.at):
            continue
        ends = announced.at + queue.bound(entry.workload).seconds
        last = announced.revisions[-1] if announced.revisions else None
        yield ScheduledWorkload(
            namespace=entry.key.namespace,
            name=entry.key.name,
            state="Planned",
            starts=at_epoch(announced.at),
            ends=at_epoch(ends) if math.isfinite(ends) else None,
            origin=announced.origin,
            was=at_epoch(last.at) if last is not None and math.isfinite(last.at) else None,
            cause="" if last is None else last.reason,
        )
