"""Nomination of a head: whether it may be admitted, with which flavors and counts, and what to preempt."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial

import msgspec
from msgspec.structs import replace

from quorate.api.core.scheduling import Node
from quorate.api.kueue import ResourceFlavor, Workload
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.assignment import Assignment, AssignmentMode
from quorate.queueing.cluster_queue import ClusterQueueState, FlavorGroup, Reservation
from quorate.queueing.conditions import has_failed_check
from quorate.queueing.decisions import ConditionReason, Hold
from quorate.queueing.pending.entry import Entry, LastAssignment
from quorate.queueing.pending.ordering import affects_scheduling
from quorate.queueing.pending.shape import ShapeRegistry
from quorate.queueing.preemption.candidates import Target
from quorate.queueing.scheduling.assignment_places import Choice, candidate_with_places, with_places
from quorate.queueing.scheduling.flavor_assigner import FlavorSearchInput, NominatedFlavors
from quorate.queueing.scheduling.flavor_combinations import assign_flavors
from quorate.queueing.scheduling.pod_sets_to_place import kept_nodes, may_need_places
from quorate.queueing.scheduling.podset_reducer import PodSetCounts, reduce_counts
from quorate.queueing.scheduling.preemption_search import PreemptionSearch
from quorate.queueing.state import State
from quorate.queueing.topology.placing import NO_PLACEMENT, topology_mismatch
from quorate.quota import tree
from quorate.quota.amount import FlavorResource


class Nomination(msgspec.Struct):
    """A head in flight and its assignment, computed on the state at the beginning of the round."""

    entry: Entry
    queue: ClusterQueueState
    groups: Mapping[str, FlavorGroup]  # of the queue
    workload: Workload  # the object that was evaluated
    requests_version: int  # of its requests
    version: int  # of the tree when the search for flavors began, see ``Ledger.version``
    assignment: Assignment | None  # None: inadmissible whatever the quota
    targets: tuple[Target, ...]  # to be preempted first
    reasons: tuple[r.InadmissibleReason, ...]
    is_recomputed: bool = False  # its pods were placed again after an earlier head took their places

    @property
    def is_searching(self) -> bool:
        """Return True if the head has flavors left to try."""
        last = self.entry.last_assignment
        return last is not None and last.has_untried_flavors

    @property
    def has_lost(self) -> bool:
        """Return True if another head took quota or places that the search for this head had found."""
        last = self.entry.last_assignment
        return last is not None and last.has_lost


def nominate(state: State, queue: ClusterQueueState, entry: Entry, round_number: int) -> Nomination:
    """Evaluate ``entry``, just popped from ``queue``; record in it which flavors were tried."""
    invalid = _inadmissible_reason(state, queue, entry)
    requests = entry.requests_version
    if invalid is not None:
        entry.last_assignment = None  # a search that ended before tells nothing about this outcome
        version = state.ledger.version(queue.node)
        return Nomination(entry, queue, queue.groups, entry.workload, requests, version, None, (), (invalid,))
    assignment, targets = _assign(state, queue, entry, round_number, None)
    last, reasons = entry.last_assignment, _with_window(state, queue, entry, assignment)
    assert last is not None, f"{entry.key} was assigned without a record"
    return Nomination(
        entry, queue, queue.groups, entry.workload, requests, last.version, assignment, targets, reasons
    )


def _with_window(
    state: State, queue: ClusterQueueState, entry: Entry, assignment: Assignment
) -> tuple[r.InadmissibleReason, ...]:
    """Return the reasons; with the window that keeps nodes, if pods have no places beside those nodes."""
    if assignment.mode is AssignmentMode.FIT or not assignment.has_no_room:
        return assignment.reasons
    kept = kept_nodes(state, queue, entry.workload)
    if kept is None:
        return assignment.reasons
    window = r.ReservedWindow(kept.window.name, *kept.interval, (), len(kept.names))
    return (*assignment.reasons, window)


def is_outdated(nomination: Nomination, shapes: ShapeRegistry) -> bool:
    """Return True if the workload left its queue or changed since the nomination (as rounds pause)."""
    entry = nomination.entry
    if nomination.queue.pending.in_flight is not entry:
        return True
    version = entry.requests_version
    if nomination.requests_version != version or shapes.is_out_of_date(version, entry.key.namespace):
        return True
    return entry.workload is not nomination.workload and affects_scheduling(
        nomination.workload, entry.workload
    )


def assign_again(
    state: State, nomination: Nomination, assignment: Assignment, round_number: int
) -> Assignment:
    """Replace ``assignment`` of ``nomination`` by one for the current usage, with the same flavors."""
    flavors = {pods.name: pods.flavors for pods in assignment.pod_sets}
    nomination.entry.last_assignment = None
    new, targets = _assign(state, nomination.queue, nomination.entry, round_number, flavors)
    nomination.assignment, nomination.targets, nomination.reasons = new, targets, new.reasons
    return new


def _assign(
    state: State,
    queue: ClusterQueueState,
    entry: Entry,
    round_number: int,
    nominated_flavors: NominatedFlavors | None,
) -> Choice:
    ledger, last = state.ledger, entry.last_assignment
    start = _last_tried_flavors(state, queue, entry, round_number)
    replaced = queue.reservations.get(entry.shape.replaces)
    if replaced is None:
        assignment, targets = _choose_counts(state, queue, entry, start, nominated_flavors)
    else:
        with ledger.without_replaced_slice(replaced):
            assignment, targets = _choose_counts(state, queue, entry, start, nominated_flavors)
    version, progress, rounds, has_lost = ledger.version(queue.node), ledger.progress, 1, False
    reasons = assignment.reasons
    if start and last is not None and last.has_untried_flavors:
        version, progress, rounds, has_lost = last.version, last.progress, last.rounds + 1, last.has_lost
        reasons = _with_earlier(entry, reasons, last.reasons)
        if assignment.mode is not AssignmentMode.FIT and not targets:
            assignment = replace(assignment, reasons=reasons)
    # The search would never end if each pod set began again whenever another one goes on.
    has_ended = bool(start) and rounds >= most_rounds(queue, entry)
    entry.last_assignment = LastAssignment(
        () if has_ended else assignment.last_tried_flavors,
        entry.shape,
        round_number,
        ledger.generation(queue),
        version,
        progress,
        rounds,
        has_lost,
        reasons,
    )
    return assignment, targets


def _with_earlier(
    entry: Entry, reasons: Sequence[r.PodSetReason], earlier: Sequence[r.PodSetReason]
) -> tuple[r.PodSetReason, ...]:
    """Return the reasons of all flavors of a search by pod set, with the newest amounts of each."""

    def subject(reason: r.PodSetReason) -> object:
        if isinstance(reason, r.QuotaShort | r.QuotaExceeded):
            return reason.pod_set, reason.flavor, reason.resource
        return reason

    newest = {subject(reason): reason for reason in (*earlier, *reasons)}.values()
    names = [pod_set.name for pod_set in entry.shape.pod_sets]
    return tuple(sorted(newest, key=lambda reason: names.index(reason.pod_set)))


def pass_over(nomination: Nomination, flavor: str) -> None:
    """Let the search of a head go on after ``flavor``, which is blocked, though it may have seen others."""
    last, assignment = nomination.entry.last_assignment, nomination.assignment
    if last is None or assignment is None:
        return

    def passed(resource: str) -> int:
        flavors = nomination.groups[resource].flavors
        return -1 if flavor == flavors[-1] else flavors.index(flavor)

    tried = [
        {
            resource: passed(resource) if assigned.flavors.get(resource) == flavor else index
            for resource, index in of_pod_set.items()
        }
        for of_pod_set, assigned in zip(last.last_tried_flavors, assignment.pod_sets, strict=False)
    ]
    nomination.entry.last_assignment = replace(last, last_tried_flavors=tuple(tried))


def most_rounds(queue: ClusterQueueState, entry: Entry) -> int:
    """Return after how many rounds a search for flavors ends, whatever it has tried."""
    return sum(len(group.flavors) for group in queue.groups.values()) * len(entry.shape.pod_sets)


def _choose_counts(
    state: State,
    queue: ClusterQueueState,
    entry: Entry,
    start: Sequence[Mapping[str, int]],
    nominated_flavors: NominatedFlavors | None,
) -> Choice:
    """Return the assignment for as many pods as possible, and its preemption targets.

    ``start``: after which flavors the search begins, see ``assign_flavors``.

    More pods with preemption are better than fewer pods without.  If no counts are admissible, the result is
    the one for all pods.

    A workload that preempted for fewer pods than all of them does not borrow from a higher level for more
    pods once quota is available: otherwise it would have to yield to the workloads it preempted, endlessly.
    """
    pod_sets = entry.shape.pod_sets
    evaluate = _evaluation(state, queue, entry, start, nominated_flavors)

    fewer_need_room = False

    def attempt(counts: Sequence[int]) -> Choice | None:
        nonlocal fewer_need_room
        assignment, targets = evaluate(counts)
        if assignment.mode is AssignmentMode.FIT or targets:
            return assignment, targets
        fewer_need_room |= assignment.needs_room
        return None

    full = evaluate([pod_set.count for pod_set in pod_sets])
    choice: Choice | None = full
    if full[0].mode is not AssignmentMode.FIT and not full[1]:
        ranges = [PodSetCounts(pod_set.count, pod_set.min_count) for pod_set in pod_sets]
        partial_admission = state.configuration.gates.partial_admission
        choice = reduce_counts(ranges, attempt) if partial_admission else None
    if choice is None:
        entry.preempting_assignment = None
        return (replace(full[0], fewer_need_room=True), full[1]) if fewer_need_room else full
    preempting = entry.preempting_assignment
    if preempting is not None and choice[0].borrowing_level > preempting.borrowing_level:
        choice = attempt(preempting.counts) or choice
    return choice


def _evaluation(
    state: State,
    queue: ClusterQueueState,
    entry: Entry,
    start: Sequence[Mapping[str, int]],
    nominated_flavors: NominatedFlavors | None,
    preempts: bool = True,
) -> Callable[[Sequence[int]], Choice]:
    """Return the function that evaluates some counts of pods."""
    preemption = PreemptionSearch(
        state, queue, entry.workload, queue.pending.preempting_order(entry), is_allowed=preempts
    )
    search_input = _search_input(state, queue, entry, preemption, nominated_flavors)

    def evaluate(counts: Sequence[int]) -> Choice:
        assignment = assign_flavors(search_input, entry.shape.pod_sets, counts, start)
        if search_input.topology_mismatch is not None:  # otherwise no pods need places
            return with_places(state, queue, entry, assignment, preemption)
        return assignment, preemption.targets_of(assignment)

    return evaluate


class Supposition(msgspec.Struct, frozen=True):
    """What differs from the state in an evaluation that decides nothing."""

    more_quota: Mapping[FlavorResource, int] = {}  # nominal, of the cluster queue
    flavors: Mapping[str, ResourceFlavor] = {}  # that do not exist
    covered: frozenset[str] = frozenset()  # resources that the first resource group covers in addition
    nodes: tuple[Node, ...] = ()  # that do not exist
    preempts: bool = True  # with given counts only; otherwise it waits where it would preempt


def evaluate_supposing(
    state: State,
    queue: ClusterQueueState,
    entry: Entry,
    supposition: Supposition,
    counts: Sequence[int] | None = None,
    nominated_flavors: NominatedFlavors | None = None,
) -> Choice:
    """Return the assignment of a pending workload as if ``supposition`` were true, and what it preempts.

    ``counts`` of its pod sets are evaluated; None: the counts that a cycle would choose.
    """
    groups = queue.groups
    replaced = queue.reservations.get(entry.shape.replaces)
    with (
        tree.with_more_quota(queue.node, supposition.more_quota),
        nullcontext() if replaced is None else state.ledger.without_replaced_slice(replaced),
        state.ledger.topology.with_nodes(supposition.nodes),
    ):
        state.flavors.update(supposition.flavors)
        queue.groups = with_covered(groups, supposition.covered)
        try:
            if counts is None:
                return _choose_counts(state, queue, entry, (), nominated_flavors)
            return _evaluation(state, queue, entry, (), nominated_flavors, supposition.preempts)(counts)
        finally:
            queue.groups = groups
            for name in supposition.flavors:
                del state.flavors[name]


def with_covered(groups: dict[str, FlavorGroup], resources: frozenset[str]) -> dict[str, FlavorGroup]:
    """Return the groups of which the first covers ``resources`` as well."""
    if not resources:
        return groups
    first = next(iter(groups.values()))
    covering = replace(first, covered=first.covered | resources)
    return groups | dict.fromkeys(sorted(covering.covered), covering)


def could_ever_fit(state: State, queue: ClusterQueueState, entry: Entry) -> bool:
    """Return True if ``entry`` would fit, with its minimum counts, in an otherwise empty tree.

    The reasons of a refusal do not answer this: they are about all the pods and the flavors tried last.
    Costs a pass over all nodes of the tree, however many reservations there are.
    """
    partial = state.configuration.gates.partial_admission
    pod_sets = entry.shape.pod_sets
    counts = [pod_set.min_count if partial else pod_set.count for pod_set in pod_sets]
    with tree.without_usage(queue.node.root):
        preemption = PreemptionSearch(state, queue, entry.workload, queue.pending.preempting_order(entry))
        # By quota alone: nodes may come, and other workloads may leave them.
        search_input = replace(_search_input(state, queue, entry, preemption, None), with_places=None)
        return assign_flavors(search_input, pod_sets, counts, ()).mode is AssignmentMode.FIT


def place_again(state: State, nomination: Nomination, assignment: Assignment) -> Choice:
    """Place the pods of a nomination on the current state, with the same flavors and counts."""
    entry = nomination.entry
    preemption = PreemptionSearch(
        state, nomination.queue, entry.workload, nomination.queue.pending.preempting_order(entry)
    )
    by_quota = replace(
        assignment,
        mode=assignment.quota_mode,
        placement=NO_PLACEMENT,
        reasons=tuple(
            reason
            for reason in assignment.reasons
            if not isinstance(reason, r.PlacementRefused | r.NodesLackRoom)
        ),
    )
    replaced = nomination.queue.reservations.get(entry.shape.replaces)
    with nullcontext() if replaced is None else state.ledger.without_replaced_slice(replaced):
        return with_places(state, nomination.queue, entry, by_quota, preemption)


def replace_lost_places(
    state: State, nomination: Nomination, assignment: Assignment, round_number: int
) -> None:
    """Assign a nomination again that lost its places: with the same flavors, and fewer pods if need be."""
    placed, targets = place_again(state, nomination, assignment)
    fits = placed.mode is AssignmentMode.FIT or bool(targets)
    if not fits and any(pods.min_count < pods.count for pods in nomination.entry.shape.pod_sets):
        assign_again(state, nomination, assignment, round_number)
        return
    nomination.assignment, nomination.targets, nomination.reasons = placed, targets, placed.reasons


def _inadmissible_reason(state: State, queue: ClusterQueueState, entry: Entry) -> r.InadmissibleReason | None:
    """Return what makes the workload inadmissible regardless of quota."""
    return (
        r.ChecksFailed() if has_failed_check(entry.workload) else state.ledger.misconfiguration(queue, entry)
    )


def _last_tried_flavors(
    state: State, queue: ClusterQueueState, entry: Entry, round_number: int
) -> Sequence[dict[str, int]]:
    """Return after which flavors the search resumes; empty if the last assignment is out of date."""
    last = entry.last_assignment
    if last is None or last.shape is not entry.shape:
        return ()
    preserves = state.configuration.gates.flavor_fungibility_preserve_scan_progress
    is_recent = preserves and last.round_number >= round_number - 1
    if not is_recent and state.ledger.generation(queue) > last.generation:
        return ()
    missing = len(entry.shape.pod_sets) - len(last.last_tried_flavors)
    return (*last.last_tried_flavors, *({} for _ in range(missing)))


def _kept_flavors(reservation: Reservation) -> NominatedFlavors:
    """Return the flavors of the slice that a workload replaces, for pod sets with pods.

    These pods keep running.  A pod set without pods may get another flavor.
    """
    sizes = {pod_set.name: pod_set.count for pod_set in reservation.workload.spec.pod_sets}
    return {
        assignment.name: assignment.flavors
        for assignment in reservation.admission.pod_set_assignments
        if (sizes.get(assignment.name, 0) if assignment.count is None else assignment.count)
    }


def _search_input(
    state: State,
    queue: ClusterQueueState,
    entry: Entry,
    preemption: PreemptionSearch,
    nominated_flavors: NominatedFlavors | None,
) -> FlavorSearchInput:
    configuration = state.configuration
    replaced = state.ledger.reservations.get(entry.shape.replaces)  # left out of ``queue`` meanwhile
    if replaced is not None and replaced.admission.cluster_queue != queue.name:
        replaced = None
    mismatch = places = None
    if may_need_places(state, entry):
        is_topology_queue = state.ledger.topology.is_topology_queue(queue.name, queue.groups)
        mismatch = partial(topology_mismatch, state.ledger.topology, is_topology_queue=is_topology_queue)
        places = partial(candidate_with_places, state, queue, entry, preemption)
    return FlavorSearchInput(
        queue.node,
        queue.groups,
        state.flavors,
        queue.spec.flavor_fungibility if configuration.gates.flavor_fungibility else None,
        queue.spec.preemption,
        configuration.fair_sharing is not None,
        configuration.resources.quota_check_strategy == "IgnoreUndeclared",
        preemption.simulate,
        nominated_flavors,
        {} if replaced is None else _kept_flavors(replaced),
        {} if replaced is None else replaced.usage,
        mismatch,
        places,
    )


def hold(
    nomination: Nomination, condition: ConditionReason, reasons: tuple[r.InadmissibleReason, ...], now: float
) -> Hold:
    """Return the decision to keep a workload pending, which its entry keeps.  ``now``: epoch seconds."""
    entry = nomination.entry
    metadata = entry.workload.metadata
    entry.is_explained = True
    entry.hold = Hold(
        key=entry.key,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        condition_reason=condition,
        reasons=reasons,
        requests=entry.shape.requests,
        groups=nomination.queue.spec.resource_groups,
        evaluated_at=now,
    )
    return entry.hold
