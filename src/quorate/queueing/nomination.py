"""Judging one head: may it be admitted at all, and with which flavors and counts."""

from collections.abc import Sequence

import msgspec

from quorate.api.kueue import Workload
from quorate.queueing.assignment import Assignment, Market, Mode, Offer, assign
from quorate.queueing.causes import (
    Cause,
    ChecksFailed,
    NamespaceMismatched,
    QueueInactive,
    RequestsAboveLimits,
)
from quorate.queueing.pending import Entry, Resume
from quorate.queueing.queues import ClusterQueueState
from quorate.queueing.state import State
from quorate.quota.amount import FlavorResource


class Nomination(msgspec.Struct):
    """A head in flight: how it was judged, against the state as it was before the round."""

    entry: Entry
    queue: ClusterQueueState
    workload: Workload  # as judged
    wakes_before: int  # the queue's wake-ups when the head was popped
    assignment: Assignment | None  # None: inadmissible whatever the quota
    causes: tuple[Cause, ...]


def nominate(state: State, queue: ClusterQueueState, entry: Entry) -> Nomination:
    """Judge ``entry``, just popped from ``queue``; remembers in it which flavors were tried."""
    invalid = _invalid(state, queue, entry)
    wakes = queue.pending.wakes
    if invalid is not None:
        return Nomination(entry, queue, entry.workload, wakes, None, (invalid,))
    generation = state.generation(queue)
    start = _start(entry.resume, entry, state.cycles, generation)
    counts = [pod_set.count for pod_set in entry.shape.pod_sets]
    assignment = assign(_market(state, queue), entry.shape.pod_sets, counts, start)
    entry.resume = Resume(assignment.positions, entry.shape, state.cycles, generation)
    return Nomination(entry, queue, entry.workload, wakes, assignment, assignment.causes)


def _invalid(state: State, queue: ClusterQueueState, entry: Entry) -> Cause | None:
    """What makes the workload inadmissible before any quota is looked at."""
    if any(check.state in ("Retry", "Rejected") for check in entry.workload.status.admission_checks):
        return ChecksFailed()
    if not state.is_active(queue):
        return QueueInactive("ClusterQueue", queue.name)
    namespace = entry.key.namespace
    if not queue.welcomes(state.namespaces.get(namespace, {})):
        return NamespaceMismatched(namespace, queue.name)
    if entry.shape.above_limits:
        return RequestsAboveLimits(entry.shape.above_limits)
    return None


def _start(resume: Resume | None, entry: Entry, cycle: int, generation: int) -> Sequence[dict[str, int]]:
    """Where the search for flavors begins: behind the flavors tried last time, if that still counts."""
    if resume is None or resume.shape is not entry.shape:
        return ()
    is_recent = resume.cycle >= cycle - 1
    if not is_recent and generation > resume.generation:
        return ()
    missing = len(entry.shape.pod_sets) - len(resume.positions)
    return (*resume.positions, *({} for _ in range(missing)))


def _market(state: State, queue: ClusterQueueState) -> Market:
    def nobody(pair: FlavorResource, amount: int) -> Offer:
        return Offer(Mode.NO_CANDIDATES, 0)

    preemption = queue.spec.preemption
    return Market(
        queue.node,
        queue.groups,
        state.flavors,
        queue.spec.flavor_fungibility,
        preemption.borrow_within_cohort.policy != "Never",
        state.configuration.resources.quota_check_strategy == "IgnoreUndeclared",
        nobody,
    )
