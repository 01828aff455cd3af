"""Places of the pods of one head, with the flavors that were found, or after preemption."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.assignment import Assignment, AssignmentMode, PodSetFlavors
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.pending.entry import Entry
from quorate.queueing.preemption.candidates import Target
from quorate.queueing.preemption.simulation import UsageSimulation
from quorate.queueing.scheduling.flavor_assigner import FlavorCandidate
from quorate.queueing.scheduling.pod_sets_to_place import pod_sets_to_place
from quorate.queueing.scheduling.preemption_search import PreemptionSearch
from quorate.queueing.state import State
from quorate.queueing.topology.placing import PodSetToPlace, failures_without_pods, place_pod_sets
from quorate.quota.amount import FlavorResource

Choice = tuple[Assignment, tuple[Target, ...]]  # an assignment, and what it preempts


def with_places(
    state: State, queue: ClusterQueueState, entry: Entry, assignment: Assignment, preemption: PreemptionSearch
) -> Choice:
    """Place the pods of topology flavors; return the assignment with the places, and preemption targets.

    Enough quota without enough room is a case for preemption.  It does not fit only if the pods would have no
    places if no pods had been placed in the topologies.
    """
    requested = pod_sets_to_place(state, queue, entry, assignment)
    if isinstance(requested, r.PlacementRefused):
        return replace(assignment, mode=AssignmentMode.NO_FIT, reasons=(*assignment.reasons, requested)), ()
    model, to_place = state.ledger.topology, requested.pod_sets
    if requested.delayed:
        assignment = replace(assignment, delayed=requested.delayed)
    if to_place and assignment.mode is AssignmentMode.FIT:
        placement = place_pod_sets(model, to_place)
        if not placement.failures:
            return replace(assignment, placement=placement), ()
        reasons: tuple[r.PodSetReason, ...] = ()
        if assignment.reasons:
            refused = {failure.pod_set for failure in placement.failures}
            reasons = tuple([reason for reason in assignment.reasons if reason.pod_set in refused])
        assignment = replace(assignment, mode=AssignmentMode.PREEMPT, reasons=(*reasons, *placement.failures))
    if not (to_place and assignment.mode.needs_preemption):
        return assignment, preemption.targets_of(assignment)
    in_empty = place_pod_sets(model, to_place, is_empty=True)
    if in_empty.failures:
        reasons = _with_at_most(assignment.reasons, failures_without_pods(model, to_place), is_no_fit=True)
        return replace(assignment, mode=AssignmentMode.NO_FIT, reasons=reasons), ()
    reasons = _with_at_most(assignment.reasons, (), is_no_fit=False)
    pairs = assignment.pairs_needing_preemption
    if len(pairs) < len(assignment.usage):
        flavors = {flavor for pod_set in to_place for flavor in pod_set.flavors}
        pairs |= {pair for pair in assignment.usage if pair.flavor in flavors}
    assignment = replace(assignment, reasons=reasons, pairs_needing_preemption=pairs, placement=in_empty)
    if preemption.finds_none(assignment.usage, pairs):
        return assignment, ()

    def has_places() -> bool:
        return not place_pod_sets(model, to_place).failures

    if _fits_with_more_room(model, to_place) and has_places():
        targets = preemption.targets(assignment.usage, pairs)
    else:
        targets = preemption.targets(assignment.usage, pairs, has_places)
    if targets:
        with UsageSimulation() as simulation:
            for target in targets:
                simulation.remove(target.reservation, target.queue.node)
            assignment = replace(assignment, placement=place_pod_sets(model, to_place))
    return assignment, targets


def candidate_with_places(
    state: State,
    queue: ClusterQueueState,
    entry: Entry,
    preemption: PreemptionSearch,
    pod_sets: Sequence[PodSetFlavors],
    usage: Mapping[FlavorResource, int],
    pairs_needing_preemption: frozenset[FlavorResource],
    candidate: FlavorCandidate,
) -> tuple[FlavorCandidate, tuple[r.PodSetReason, ...]]:
    """Implement ``PlacesOracle``: the pod sets that have no flavors yet need no places."""
    by_name = {pod_set.name: pod_set for pod_set in pod_sets}
    assignment = Assignment(
        tuple(
            [
                by_name.get(pod_set.name, PodSetFlavors(pod_set.name, 0, {}, {}))
                for pod_set in entry.shape.pod_sets
            ]
        ),
        candidate.mode,
        candidate.borrowing_level,
        dict(usage),
        pairs_needing_preemption,
        (),
        (),
    )
    requested = pod_sets_to_place(state, queue, entry, assignment)
    if isinstance(requested, r.PlacementRefused) or not requested.pod_sets:
        return candidate, ()  # the flavors of other resource groups may give places
    placed, targets = with_places(state, queue, entry, assignment, preemption)
    if placed.mode is AssignmentMode.FIT:
        return candidate, ()
    mode = AssignmentMode.NO_FIT
    if placed.mode is not AssignmentMode.NO_FIT:
        mode = preemption.mode_of(targets)
    return FlavorCandidate(mode, candidate.borrowing_level), placed.reasons


def _with_at_most(
    reasons: Iterable[r.PodSetReason],
    without_pods: Iterable[r.PlacementRefused | r.NodesLackRoom],
    *,
    is_no_fit: bool,
) -> tuple[r.PodSetReason, ...]:
    """Return the reasons with how many pods would have places without other pods, where that is known.

    ``without_pods``: the failures if nodes had no pods; ``is_no_fit``: as in ``PlacementRefused``.
    """
    refused = {failure.pod_set: failure for failure in without_pods}

    def with_at_most(reason: r.PlacementRefused | r.QuotaShort) -> r.PodSetReason:
        if isinstance(reason, r.QuotaShort):
            return replace(reason, is_no_fit=True) if is_no_fit else reason
        refusal, at_most = refused.get(reason.pod_set), None if refused else reason.requested
        if isinstance(refusal, r.PlacementRefused):
            at_most = refusal.fitting
        return replace(reason, at_most=at_most, is_no_fit=is_no_fit)

    of_room = (r.PlacementRefused, r.QuotaShort)
    return tuple([with_at_most(reason) if isinstance(reason, of_room) else reason for reason in reasons])


def _fits_with_more_room(model: TopologyModel, to_place: Sequence[PodSetToPlace]) -> bool:
    """Return True if pods that have places now would also have places if other pods were gone.

    The pods of a second pod set may not, because the first pod set would get other places.
    """
    templates = [pod_set.template for pod_set in to_place]
    return len(to_place) == 1 and not any(
        template is not None and model.constraints.may_limit(template) for template in templates
    )
