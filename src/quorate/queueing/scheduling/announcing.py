"""Compares a planned start with what was announced, and names what moved it later."""

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from quorate.api.core.scheduling import Node
from quorate.api.meta import Key, is_true
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.ledger import Ledger
from quorate.queueing.planning.announced_starts import (
    AnnouncedStart,
    Cause,
    as_read_in,
    kept,
    moved,
)
from quorate.queueing.scheduling.timeline import PlannedStart, Timeline
from quorate.quota import tree


def announced_start(
    ledger: Ledger,
    queue: ClusterQueueState,
    plan: PlannedStart,
    earlier: Sequence[PlannedStart],
    timeline: Timeline,
    now: float,
) -> AnnouncedStart:
    """Return the announcement of ``plan``, given the former announcement.

    An announcement stays as it is until all workloads that the plan waits for should have ended, and after a
    restart until run times have been learned again.  With ``slack_percent`` a new announcement is later than
    the plan, and does not move earlier.
    """
    slack_s = (plan.at - now) * queue.planned_start_rules.slack_percent / 100 if plan.at < math.inf else 0.0
    new = AnnouncedStart(
        at=plan.latest + slack_s,
        origin=plan.origin,
        ended=plan.ended,
        made_at=now,
        planned_at=plan.at,
        latest=plan.latest,
        capacity={pair: tree.potential_available(queue.node, pair) for pair in plan.assignment.usage},
        nodes=frozenset(
            node for place in plan.assignment.placement.places() for node in ledger.topology.nodes_at(place)
        ),
    )
    former = ledger.announced.get(plan.entry.key)
    if former is None:
        return new
    forgot = former.origin == "Learned" and not ledger.bound_inputs.learned
    if plan.at <= max(former.at, now) or forgot:
        if slack_s and former.at < math.inf:
            new = msgspec.structs.replace(new, at=max(new.at, former.at))
        return kept(former, new)
    return moved(former, new, _cause(ledger, queue, plan, former, earlier, timeline))


def slack_left_s(ledger: Ledger, queue: ClusterQueueState, latest: Mapping[Key, float]) -> float:
    """Return by how many seconds all planned starts of a queue may move later within their announcements.

    ``latest``: the planned starts if all earlier workloads run ``LONGEST`` times their learned run time.
    """
    if not queue.planned_start_rules.slack_percent:
        return 0.0
    announced = ledger.announced
    left = [
        announced[key].at - at if key in announced else 0.0 for key, at in latest.items() if at < math.inf
    ]
    return max(0.0, min(left, default=0.0))


def _cause(
    ledger: Ledger,
    queue: ClusterQueueState,
    plan: PlannedStart,
    former: AnnouncedStart,
    earlier: Sequence[PlannedStart],
    timeline: Timeline,
) -> Cause:
    """Return what moved a planned start later, the plainest cause first."""

    def named(key: Key) -> Key:
        return as_read_in(plan.entry.key.namespace, key)

    if lost := [name for name in sorted(former.nodes) if not _is_usable(ledger.topology.nodes.get(name))]:
        return Cause("NodeLost", f"node {lost[0]} was lost")
    for pair, amount in sorted(former.capacity.items()):
        if tree.potential_available(queue.node, pair) < amount:
            return Cause("QuotaCut", f"quota of {pair.resource} in flavor {pair.flavor} was cut")
    overdue = next(overrunning(plan, timeline), None)
    if overdue is not None:
        return Cause("BoundOverrun", f"{named(overdue.key)} runs longer than expected")
    since = [
        end.reservation
        for end in timeline.ends
        if end.at > former.at
        and end.reservation.reserved_at >= former.made_at
        and _needs(plan, end.reservation)
    ]
    for reservation in sorted(since, key=lambda holder: -holder.reserved_at):
        if reservation.order < queue.pending.order(plan.entry):
            return _precedence(named(reservation.key))
        if reservation.admission.cluster_queue != queue.name:
            text = f"{named(reservation.key)} uses quota of its own cluster queue, which was to be borrowed"
            return Cause("QuotaReclaimed", text)
    for other in reversed(earlier):
        announced = ledger.announced.get(other.entry.key)
        if announced is None or announced.made_at >= former.made_at:
            return _precedence(named(other.entry.key))
    return Cause("StateChanged", "workloads, bounds or queues have changed")


def _precedence(workload: Key) -> Cause:
    return Cause("HigherPriorityArrived", f"{workload}, which comes first, needs what was planned")


def _is_usable(node: Node | None) -> bool:
    return node is not None and not node.spec.unschedulable and is_true(node.status.conditions, "Ready")


def overrunning(plan: PlannedStart, timeline: Timeline) -> Iterator[Reservation]:
    """Yield what runs longer than a bound that is not enforced, and uses what ``plan`` needs."""
    for end in timeline.ends:
        if end.is_overdue and _needs(plan, end.reservation):
            yield end.reservation


def _needs(plan: PlannedStart, reservation: Reservation) -> bool:
    return bool(plan.assignment.usage.keys() & reservation.usage.keys())
