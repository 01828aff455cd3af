"""Flavors for workloads with several pod sets: a combination in which each pod set gets a flavor.

Pod sets choose flavors one after the other: each takes the best flavor that the earlier pod sets leave (see
``flavor_assigner``).  So an earlier pod set may take quota that a later pod set cannot do without, although
the earlier pod set fits another flavor too.  Whether that happens depends on the usage of other workloads:
without the other combinations, a workload could preempt some of that usage and not fit afterwards.

Kueue tries no other combinations, so that such a workload stays pending in an idle cluster.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from msgspec.structs import replace

from quorate.queueing.assignment import Assignment, AssignmentMode
from quorate.queueing.limits import MAX_COMBINATIONS
from quorate.queueing.pending.shape import PodSetShape
from quorate.queueing.scheduling.flavor_assigner import (
    FlavorCandidate,
    FlavorSearchInput,
    NominatedFlavors,
    assign_in_turn,
    is_preferred,
)


def assign_flavors(
    search_input: FlavorSearchInput,
    pod_sets: Sequence[PodSetShape],
    counts: Sequence[int],
    last_tried_flavors: Sequence[Mapping[str, int]],
) -> Assignment:
    """Choose flavors for ``counts`` pods of each of ``pod_sets``.

    ``last_tried_flavors`` is empty, or as long as ``pod_sets``.
    """
    in_turn = assign_in_turn(search_input, pod_sets, counts, last_tried_flavors)
    if (
        len(pod_sets) == 1
        or not in_turn.pod_sets  # the first pod set gets no flavor, whatever the others get
        or in_turn.mode > AssignmentMode.NO_CANDIDATES
        or search_input.nominated_flavors is not None
    ):
        return in_turn
    best = in_turn
    for flavors in islice(_combinations(search_input, pod_sets[:-1]), MAX_COMBINATIONS):
        other = assign_in_turn(replace(search_input, nominated_flavors=flavors), pod_sets, counts, ())
        if is_preferred(_candidate(other), _candidate(best), search_input.fungibility):
            best = other
            if best.mode is AssignmentMode.FIT:
                break
    return replace(best, last_tried_flavors=in_turn.last_tried_flavors)


def _candidate(assignment: Assignment) -> FlavorCandidate:
    return FlavorCandidate(assignment.mode, assignment.borrowing_level)


def _combinations(
    search_input: FlavorSearchInput, pod_sets: Sequence[PodSetShape]
) -> Iterator[NominatedFlavors]:
    """Yield all combinations of flavors for ``pod_sets``, in the order of the cluster queue."""
    groups = {id(group): group for group in search_input.groups.values()}.values()
    of_groups = [[dict.fromkeys(group.covered, flavor) for flavor in group.flavors] for group in groups]
    of_one = [dict(ChainMap(*flavors)) for flavors in product(*of_groups)]
    for of_each in product(of_one, repeat=len(pod_sets)):
        yield {pod_set.name: flavors for pod_set, flavors in zip(pod_sets, of_each, strict=True)}
