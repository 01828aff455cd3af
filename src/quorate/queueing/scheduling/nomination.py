"""Judging one head: may it be admitted at all, and with which flavors and counts."""

from collections.abc import Sequence
from typing import Final

import msgspec

from quorate.api.kueue import Workload
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.inadmissible_reasons import (
    ChecksFailed,
    InadmissibleReason,
    LimitRangeViolated,
    NamespaceMismatched,
    QueueInactive,
    RequestsAboveLimits,
)
from quorate.queueing.pending.queue import Entry, LastAssignment
from quorate.queueing.preemption.classical import Preemptor, Target, classical_targets
from quorate.queueing.preemption.fair_sharing import fair_targets
from quorate.queueing.preemption.simulation import UsageSimulation
from quorate.queueing.scheduling.flavor_assigner import (
    Assignment,
    AssignmentMode,
    FlavorCandidate,
    FlavorSearchInput,
    assign_flavors,
)
from quorate.queueing.scheduling.podset_reducer import PodSetCounts, reduce_counts
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, Usage


class Nomination(msgspec.Struct):
    """A head in flight: how it was judged, against the state as it was before the round."""

    entry: Entry
    queue: ClusterQueueState
    workload: Workload  # as judged
    requeues_before: int  # the queue's wake-ups when the head was popped
    assignment: Assignment | None  # None: inadmissible whatever the quota
    targets: tuple[Target, ...]  # whom to preempt first
    reasons: tuple[InadmissibleReason, ...]


def nominate(state: State, queue: ClusterQueueState, entry: Entry) -> Nomination:
    """Judge ``entry``, just popped from ``queue``; remembers in it which flavors were tried."""
    invalid = _invalid(state, queue, entry)
    requeues = queue.pending.requeues
    if invalid is not None:
        return Nomination(entry, queue, entry.workload, requeues, None, (), (invalid,))
    with state.without_replaced_slice(entry.workload, queue):
        assignment, targets = _choose(state, queue, entry)
    entry.last_assignment = LastAssignment(
        assignment.last_tried_flavors, entry.shape, state.cycles, state.generation(queue)
    )
    return Nomination(entry, queue, entry.workload, requeues, assignment, targets, assignment.reasons)


_Choice = tuple[Assignment, tuple[Target, ...]]


def _choose(state: State, queue: ClusterQueueState, entry: Entry) -> _Choice:
    """Flavors for as many pods as possible, and whom to preempt for that.

    More pods with preemption are better than fewer without.  When nothing works the answer is that for
    all the pods.

    Who preempted for fewer pods than all does not borrow further up for more of them once there is room:
    else it would have to stand back behind the very workloads it preempted, and so on for ever.
    """
    pod_sets = entry.shape.pod_sets
    start = _start(state, queue, entry)
    search = _Search(state, queue, entry)

    def judge(counts: Sequence[int]) -> _Choice:
        assignment = assign_flavors(_market(state, queue, search), pod_sets, counts, start)
        if not assignment.mode.needs_preemption:
            return assignment, ()
        return assignment, search.targets(assignment.usage, assignment.short)

    def attempt(counts: Sequence[int]) -> _Choice | None:
        assignment, targets = judge(counts)
        return (assignment, targets) if assignment.mode is AssignmentMode.FIT or targets else None

    whole = judge([pod_set.count for pod_set in pod_sets])
    choice: _Choice | None = whole
    if whole[0].mode is not AssignmentMode.FIT and not whole[1]:
        ranges = [PodSetCounts(pod_set.count, pod_set.min_count) for pod_set in pod_sets]
        choice = reduce_counts(ranges, attempt) if state.configuration.gates.partial_admission else None
    if choice is None:
        entry.preempting_assignment = None
        return whole
    if entry.preempting_assignment is not None and choice[0].level > entry.preempting_assignment.level:
        choice = attempt(entry.preempting_assignment.counts) or choice
    return choice


def could_ever_fit(state: State, queue: ClusterQueueState, entry: Entry) -> bool:
    """Whether ``entry`` would fit, with its fewest pods, if nothing else were running in its tree.

    The causes of a refusal do not tell: they speak of all the pods, and of the flavors tried last.
    Costs a pass over all reservations of the tree.
    """
    partial = state.configuration.gates.partial_admission
    pod_sets = entry.shape.pod_sets
    counts = [pod_set.min_count if partial else pod_set.count for pod_set in pod_sets]
    with UsageSimulation() as trial:
        for other in state.queues_below(queue.node.root):
            for reservation in other.reservations.values():
                trial.remove(reservation, other.node)
        market = _market(state, queue, _Search(state, queue, entry))
        return assign_flavors(market, pod_sets, counts, ()).mode is AssignmentMode.FIT


TIMESTAMP_BUFFER_S: Final = 300.0  # of the gate SchedulerTimestampPreemptionBuffer

_Question = tuple[frozenset[tuple[FlavorResource, int]], frozenset[FlavorResource]]


class _Search:
    """The search for victims, by the rules that are configured, on behalf of one head."""

    def __init__(self, state: State, queue: ClusterQueueState, entry: Entry) -> None:
        self._state = state
        self._queue = queue
        self._order = entry.order
        self._uid = entry.workload.metadata.uid
        # The oracle asks about one resource at a time, which is often all there is.
        self._found: dict[_Question, tuple[Target, ...]] = {}

    def targets(self, usage: Usage, short: frozenset[FlavorResource]) -> tuple[Target, ...]:
        """Whom to preempt so that ``usage`` fits, of which ``short`` does not."""
        key = frozenset(usage.items()), short
        if key not in self._found:
            self._found[key] = self._find(usage, short)
        return self._found[key]

    def _find(self, usage: Usage, short: frozenset[FlavorResource]) -> tuple[Target, ...]:
        configuration = self._state.configuration
        sharing, gates = configuration.fair_sharing, configuration.gates
        timestamp_buffer_s = TIMESTAMP_BUFFER_S if gates.scheduler_timestamp_preemption_buffer else 0.0
        node = self._queue.node
        within_quota = not any(tree.borrows_with(node, pair, amount) for pair, amount in usage.items())
        excluded_victims = self._state.preemption_history.excluded_victims(
            node.root, self._uid, within_quota=within_quota
        )
        preemptor = Preemptor(
            self._queue,
            self._order,
            usage,
            short,
            timestamp_buffer_s,
            excluded_victims - self._state.expected_evictions,
        )
        if sharing is not None:
            return fair_targets(
                preemptor,
                self._state.queues_below,
                sharing.preemption_strategies,
                reclaims=gates.fair_sharing_preempt_within_nominal,
            )
        return classical_targets(preemptor, self._state.queues_below)

    def offer(self, pair: FlavorResource, amount: int) -> FlavorCandidate:
        """See ``assignment.Oracle``."""
        targets = self.targets({pair: amount}, frozenset((pair,)))
        if not targets:
            return FlavorCandidate(AssignmentMode.NO_CANDIDATES, 0)
        with UsageSimulation() as trial:
            for target in targets:
                trial.remove(target.reservation, target.queue.node)
            level = tree.level(self._queue.node, pair, amount).height
        own = any(target.queue is self._queue for target in targets)
        return FlavorCandidate(AssignmentMode.PREEMPT if own else AssignmentMode.RECLAIM, level)


def _invalid(state: State, queue: ClusterQueueState, entry: Entry) -> InadmissibleReason | None:
    """What makes the workload inadmissible before any quota is looked at."""
    if any(check.state in ("Retry", "Rejected") for check in entry.workload.status.admission_checks):
        return ChecksFailed()
    if not state.is_active(queue):
        return QueueInactive("ClusterQueue", queue.name)
    namespace = entry.key.namespace
    if not queue.matches_namespace(state.namespaces.get(namespace, {})):
        return NamespaceMismatched(namespace, queue.name)
    if entry.shape.above_limits:
        return RequestsAboveLimits(entry.shape.above_limits)
    if findings := state.shapes.out_of_bounds(entry.workload):
        return LimitRangeViolated(findings)
    return None


def _start(state: State, queue: ClusterQueueState, entry: Entry) -> Sequence[dict[str, int]]:
    """Where the search for flavors begins: behind the flavors tried last time, if that still counts."""
    last_assignment = entry.last_assignment
    if last_assignment is None or last_assignment.shape is not entry.shape:
        return ()
    preserves = state.configuration.gates.flavor_fungibility_preserve_scan_progress
    is_recent = preserves and last_assignment.cycle >= state.cycles - 1
    if not is_recent and state.generation(queue) > last_assignment.generation:
        return ()
    missing = len(entry.shape.pod_sets) - len(last_assignment.last_tried_flavors)
    return (*last_assignment.last_tried_flavors, *({} for _ in range(missing)))


def _market(state: State, queue: ClusterQueueState, search: _Search) -> FlavorSearchInput:
    return FlavorSearchInput(
        queue.node,
        queue.groups,
        state.flavors,
        queue.spec.flavor_fungibility if state.configuration.gates.flavor_fungibility else None,
        queue.spec.preemption,
        state.configuration.fair_sharing is not None,
        state.configuration.resources.quota_check_strategy == "IgnoreUndeclared",
        search.offer,
    )
