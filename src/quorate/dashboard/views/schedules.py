"""What runs in a cluster queue until when, what is planned to start in it, and what is reserved."""

import math
from collections.abc import Iterable, Iterator

from quorate.api.meta import at_epoch
from quorate.dashboard.limits import SCHEDULED_WORKLOADS
from quorate.dashboard.queries import Viewer
from quorate.dashboard.schema import ScheduledWorkload
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.planning.announced_starts import stored_announcement
from quorate.queueing.windows.window import Window


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
