"""Flavor assignment: which flavors a workload gets in its cluster queue, given the current usage.

Each pod set gets one flavor per resource group.  Flavors are tried in the order of the cluster queue,
beginning after the last flavor that was tried before.  ``flavorFungibility`` of the queue decides which
flavor is taken when the first one does not simply fit.  The requests of earlier pod sets of the workload
count against later ones.

The result contains every refusal, so that all messages come from the same value.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from quorate.api.core import NodeSelectorTerm, tolerates
from quorate.api.kueue import FlavorFungibility, Preemption, ResourceFlavor
from quorate.api.meta import matches_requirement
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.assignment import Assignment, AssignmentMode, PodSetFlavors
from quorate.queueing.cluster_queue import FlavorGroup
from quorate.queueing.pending.shape import PodSetShape
from quorate.quota import tree
from quorate.quota.amount import PODS, FlavorResource, Usage, total
from quorate.quota.tree import Node


class FlavorCandidate(msgspec.Struct, frozen=True):
    """How one flavor, or one resource of it, can satisfy a request."""

    mode: AssignmentMode
    borrowing_level: int  # height in the cohort tree from which quota is borrowed; 0 within nominal quota


_NO_FIT: Final = FlavorCandidate(AssignmentMode.NO_FIT, 0)


class PreemptionOracle(Protocol):
    """Simulates preemption for a request that exceeds the available quota."""

    def __call__(self, pair: FlavorResource, amount: int) -> FlavorCandidate:
        """Return the mode, never FIT, and the borrowing level once the targets are removed."""
        ...


class PlacesOracle(Protocol):
    """Asks the nodes whether pods with some flavors would have places."""

    def __call__(
        self,
        pod_sets: Sequence[PodSetFlavors],
        usage: Mapping[FlavorResource, int],
        pairs_needing_preemption: frozenset[FlavorResource],
        candidate: FlavorCandidate,
    ) -> tuple[FlavorCandidate, tuple[r.PodSetReason, ...]]:
        """Return ``candidate``, or a worse one where the pods lack places, with the reasons.

        ``pod_sets`` are some of the workload, each with the flavors that it has so far.
        """
        ...


NominatedFlavors = Mapping[str, Mapping[str, str]]  # a flavor by pod set and resource


class FlavorSearchInput(msgspec.Struct, frozen=True):
    """The flavors and rules of one cluster queue, and its node in the quota tree."""

    node: Node
    groups: Mapping[str, FlavorGroup]  # by each covered resource
    resource_flavors: Mapping[str, ResourceFlavor]  # all that exist; a flavor of ``groups`` may be missing
    fungibility: FlavorFungibility | None  # None: the first flavor that fits, else the first of the best mode
    preemption: Preemption
    fair_sharing: bool
    ignores_undeclared: bool  # resources that no group covers need no quota
    simulate_preemption: PreemptionOracle
    nominated_flavors: NominatedFlavors | None  # the only flavors to try, where there are any; None: all
    kept_flavors: NominatedFlavors  # the flavors in which pods of the workload run already
    replaced_usage: Usage  # of the slice that the workload replaces, which is left out of the tree
    # Why a flavor cannot serve the topology request of a pod set, None if it can; None: any flavor can.
    topology_mismatch: Callable[[PodSetShape, str, Collection[str]], r.TopologyMismatched | None] | None
    with_places: PlacesOracle | None  # None: no pods need places

    @property
    def can_preempt_while_borrowing(self) -> bool:
        """Return True if a request that exceeds the queue's own quota may preempt."""
        if self.fair_sharing and self.preemption.reclaim_within_cohort != "Never":
            return True
        return self.preemption.borrow_within_cohort.policy != "Never"


def assign_in_turn(
    search_input: FlavorSearchInput,
    pod_sets: Sequence[PodSetShape],
    counts: Sequence[int],
    last_tried_flavors: Sequence[Mapping[str, int]],
) -> Assignment:
    """Choose flavors for ``counts`` pods of each of ``pod_sets``, one after the other.

    ``last_tried_flavors`` is empty, or as long as ``pod_sets``.
    """
    usage: dict[FlavorResource, int] = {}
    needing_preemption: set[FlavorResource] = set()
    assigned: dict[int, PodSetFlavors] = {}  # by index of the pod set
    tried: dict[int, dict[str, int]] = {}
    reasons: list[r.PodSetReason] = []
    mode, borrowing_level = AssignmentMode.FIT, 0
    groups = _ALONE if len(pod_sets) == 1 else _groups(pod_sets)
    for members in groups:
        first = members[0]
        requests = _requests(search_input, pod_sets[first], counts[first])
        shapes: Sequence[PodSetShape] = (pod_sets[first],)
        own_counts: Sequence[int] = (counts[first],)
        own_requests: Sequence[dict[str, int]] = (requests,)
        if len(members) > 1:
            shapes = [pod_sets[index] for index in members]
            own_counts = [counts[index] for index in members]
            own_requests = [_requests(search_input, pod_sets[index], counts[index]) for index in members]
            requests = total(own_requests)
        start = last_tried_flavors[first] if last_tried_flavors else {}
        search = _PodSetSearch(search_input, shapes, own_counts, requests, usage, start)
        if mode is AssignmentMode.FIT:
            search.earlier = tuple(assigned.values())
        search.run()
        reasons += search.reasons
        if search.reasons and len(shapes) > 1:
            reasons += [
                replace(reason, pod_set=shape.name) for shape in shapes[1:] for reason in search.reasons
            ]
        if search.failed:
            mode = AssignmentMode.NO_FIT
            break
        for resource, flavor in search.flavors.items():
            pair = FlavorResource(flavor, resource)
            usage[pair] = usage.get(pair, 0) + requests[resource]
            candidate = search.candidates[resource]
            if candidate.mode is not AssignmentMode.FIT:
                needing_preemption.add(pair)
                mode = min(mode, candidate.mode)
            borrowing_level = max(borrowing_level, candidate.borrowing_level)
        for index, own in zip(members, own_requests, strict=True):
            flavors = search.flavors
            if own is not requests:
                flavors = {name: flavor for name, flavor in flavors.items() if name in own}
                # The nodes of the group have the labels and taints of its topology flavor.
                flavors = flavors or _topology_flavors(search_input, search.flavors)
            charged = {resource: own[resource] for resource in flavors if resource in own}
            assigned[index] = PodSetFlavors(pod_sets[index].name, counts[index], flavors, charged)
            tried[index] = search.last_tried_flavors
    if groups is _ALONE:
        in_order, tried_in_order = tuple(assigned.values()), tuple(tried.values())
    else:
        in_order = tuple([assigned[index] for index in sorted(assigned)])
        tried_in_order = tuple([tried.get(index, {}) for index in range(max(tried, default=-1) + 1)])
    return Assignment(
        in_order,
        mode,
        borrowing_level,
        usage,
        frozenset(needing_preemption),
        tuple(reasons),
        tried_in_order,
        quota_mode=mode,
    )


_ALONE: Final = [[0]]  # the groups of one pod set


def _groups(pod_sets: Sequence[PodSetShape]) -> list[list[int]]:
    """Return the indices of pod sets that share a flavor: of one pod set, or of a topology group."""
    groups: dict[str | int, list[int]] = {}
    for index, pod_set in enumerate(pod_sets):
        groups.setdefault(pod_set.topology.group or index, []).append(index)
    return list(groups.values())


def _topology_flavors(search_input: FlavorSearchInput, flavors: Mapping[str, str]) -> dict[str, str]:
    """Return those of ``flavors``, by resource, that have a topology."""
    stored = search_input.resource_flavors
    return {name: flavor for name, flavor in flavors.items() if stored[flavor].spec.topology_name}


def _requests(search_input: FlavorSearchInput, pod_set: PodSetShape, count: int) -> dict[str, int]:
    requests = pod_set.request(count)
    if PODS in search_input.groups:
        requests[PODS] = count
    return requests


class _PodSetSearch:
    """The search for the flavors of one pod set, or of all pod sets of a topology group."""

    def __init__(
        self,
        search_input: FlavorSearchInput,
        pod_sets: Sequence[PodSetShape],
        counts: Sequence[int],
        requests: Mapping[str, int],
        previous_usage: Mapping[FlavorResource, int],
        start: Mapping[str, int],
    ) -> None:
        self._input = search_input
        self._pod_sets = pod_sets
        self._pod_set = pod_sets[0]
        self._counts = counts
        self._requests = requests
        self._previous_usage = previous_usage  # of the earlier pod sets of the workload
        # Earlier pod sets, which the nodes hold as well; empty unless all of them fit.
        self.earlier: tuple[PodSetFlavors, ...] = ()
        self._start = start  # by resource: the index of the last flavor tried before
        self.flavors: dict[str, str] = {}  # by resource, of the groups assigned so far
        self.candidates: dict[str, FlavorCandidate] = {}  # likewise
        self.last_tried_flavors: dict[str, int] = {}  # likewise
        self.reasons: list[r.PodSetReason] = []
        self.failed = False

    def run(self) -> None:
        in_order = sorted(self._requests)
        for resource in in_order:
            if resource in self.flavors:
                continue
            group = self._input.groups.get(resource)
            if group is not None:
                self._assign_group(resource, group, [name for name in in_order if name in group.covered])
            elif self._requests[resource] > 0 and not self._input.ignores_undeclared:
                self.reasons.append(r.ResourceUncovered(self._pod_set.name, resource))
                self.failed = True
            if self.failed:
                return

    def _assign_group(self, resource: str, group: FlavorGroup, resources: Sequence[str]) -> None:
        """Choose one flavor for ``resources``, all that are requested of ``group``: ``resource`` is first."""
        best, best_flavor, best_by_resource = _NO_FIT, "", {}
        reasons: list[r.PodSetReason] = []
        without_places: dict[str, tuple[r.PodSetReason, ...]] = {}  # by flavor: why pods have no places
        asks_nodes = self._input.with_places is not None and len(group.flavors) > 1
        nominated = (self._input.nominated_flavors or {}).get(self._pod_set.name, {})
        tried = -1
        for tried in range(self._start.get(resource, -1) + 1, len(group.flavors)):
            name = group.flavors[tried]
            if nominated.get(resource, name) != name:
                continue
            incompatible = self._incompatibility(name, group)
            if incompatible is not None:
                reasons.append(incompatible)
                continue
            # Each resource is evaluated, also after one that cannot fit.
            by_resource = {}
            for of_group in resources:
                by_resource[of_group] = self._evaluate_resource(FlavorResource(name, of_group), reasons)
            candidate = by_resource[resource] if len(by_resource) == 1 else self._worst(by_resource.values())
            if asks_nodes and candidate.mode > AssignmentMode.NO_CANDIDATES:
                candidate, without_places[name] = self._ask_nodes(name, by_resource, candidate)
                if candidate.mode is AssignmentMode.NO_FIT:
                    reasons += without_places.pop(name)
            stops = not _should_try_next_flavor(candidate, self._input.fungibility)
            if stops or self._is_preferred(candidate, best):
                best, best_flavor, best_by_resource = candidate, name, by_resource
            if stops:
                break
        # With PreemptionOverBorrowing a resource that borrows is worse than one that needs preemption.
        if best.mode is not AssignmentMode.FIT or (
            len(resources) > 1 and {one.mode for one in best_by_resource.values()} != {AssignmentMode.FIT}
        ):
            self.reasons.extend(reasons)
            for name in without_places:  # those of the best flavor follow from all pod sets
                self.reasons.extend(without_places[name] if name != best_flavor else ())
        if best.mode is AssignmentMode.NO_FIT:
            self.failed = True
            return
        # Without fungibility every search begins at the first flavor.
        tried_all = tried == len(group.flavors) - 1 or self._input.fungibility is None
        last_tried = -1 if tried_all else tried
        for name in resources:
            self.flavors[name], self.last_tried_flavors[name] = best_flavor, last_tried
            self.candidates[name] = best_by_resource[name]

    def _ask_nodes(
        self, name: str, by_resource: Mapping[str, FlavorCandidate], candidate: FlavorCandidate
    ) -> tuple[FlavorCandidate, tuple[r.PodSetReason, ...]]:
        """Return ``candidate``, or a worse one if the pods have no places with the flavor ``name``.

        Quota in a flavor without nodes that can hold the pods is no alternative to preemption in another
        flavor.
        """
        assert self._input.with_places is not None, "the caller checks it"
        usage = dict(self._previous_usage) if self.earlier else {}
        for resource in by_resource:
            pair = FlavorResource(name, resource)
            usage[pair] = self._previous_usage.get(pair, 0) + self._requests[resource]
        pairs = frozenset(
            FlavorResource(name, resource)
            for resource, of_resource in by_resource.items()
            if of_resource.mode is not AssignmentMode.FIT
        )
        flavors = {**self.flavors, **dict.fromkeys(by_resource, name)}
        pod_sets = [
            PodSetFlavors(pod_set.name, count, flavors, {})
            for pod_set, count in zip(self._pod_sets, self._counts, strict=True)
        ]
        return self._input.with_places((*self.earlier, *pod_sets), usage, pairs, candidate)

    def _incompatibility(self, name: str, group: FlavorGroup) -> r.PodSetReason | None:
        for pod_set in self._pod_sets:
            if self._input.kept_flavors and self._keeps_another(pod_set, name, group):
                return r.AffinityMismatched(pod_set.name, name)
            reason = flavor_incompatibility(pod_set, name, self._input.resource_flavors.get(name))
            if reason is None and self._input.topology_mismatch is not None:
                reason = self._input.topology_mismatch(pod_set, name, group.covered)
            if reason is not None:
                return reason
        return None

    def _keeps_another(self, pod_set: PodSetShape, name: str, group: FlavorGroup) -> bool:
        kept = self._input.kept_flavors.get(pod_set.name, {})
        return any(kept.get(resource, name) != name for resource in group.covered)

    def _evaluate_resource(self, pair: FlavorResource, reasons: list[r.PodSetReason]) -> FlavorCandidate:
        """Return how a resource of a flavor can satisfy the request; append what is short to ``reasons``."""
        given, node, pod_set = self._input, self._input.node, self._pod_set.name
        previous = self._previous_usage.get(pair, 0)
        requested = self._requests[pair.resource]
        needed = previous + requested
        available = max(0, tree.available(node, pair))
        if needed <= available:
            return FlavorCandidate(AssignmentMode.FIT, tree.borrowing_level(node, pair, needed).height)
        maximum = tree.potential_available(node, pair)
        if needed > maximum:
            reasons.append(
                r.QuotaExceeded(pod_set, pair.flavor, pair.resource, previous, requested, available, maximum)
            )
            return _NO_FIT
        reasons.append(r.QuotaShort(pod_set, pair.flavor, pair.resource, needed, available, maximum))
        level = tree.borrowing_level(node, pair, needed)
        added = needed - given.replaced_usage.get(pair, 0)  # a slice competes for what it adds
        if added <= tree.nominal(node, pair) or level.may_reclaim or given.can_preempt_while_borrowing:
            candidate = given.simulate_preemption(pair, needed)
            if candidate.mode is AssignmentMode.NO_CANDIDATES:
                return FlavorCandidate(candidate.mode, level.height)
            return candidate
        return _NO_FIT

    def _worst(self, candidates: Iterable[FlavorCandidate]) -> FlavorCandidate:
        worst = FlavorCandidate(AssignmentMode.FIT, 0)
        for candidate in candidates:
            if self._is_preferred(worst, candidate):
                worst = candidate
        return worst

    def _is_preferred(self, one: FlavorCandidate, other: FlavorCandidate) -> bool:
        return is_preferred(one, other, self._input.fungibility)


def is_preferred(one: FlavorCandidate, other: FlavorCandidate, fungibility: FlavorFungibility | None) -> bool:
    """Return True if ``one`` is strictly better than ``other``.

    A flavor without preemption candidates is worse than every flavor that can be had, whatever
    ``flavorFungibility.preference`` says; among several of them the lowest borrowing level is the best.
    """
    if one.mode is AssignmentMode.NO_FIT:
        return False
    if other.mode is AssignmentMode.NO_FIT:
        return True
    if (one.mode is AssignmentMode.NO_CANDIDATES) is not (other.mode is AssignmentMode.NO_CANDIDATES):
        return other.mode is AssignmentMode.NO_CANDIDATES
    if fungibility is None:
        return one.mode > other.mode
    if fungibility.preference == "PreemptionOverBorrowing":
        return (-one.borrowing_level, one.mode) > (-other.borrowing_level, other.mode)
    return (one.mode, -one.borrowing_level) > (other.mode, -other.borrowing_level)


def _should_try_next_flavor(candidate: FlavorCandidate, fungibility: FlavorFungibility | None) -> bool:
    if candidate.mode in (AssignmentMode.NO_FIT, AssignmentMode.NO_CANDIDATES):
        return True
    if fungibility is None:
        return candidate.mode is not AssignmentMode.FIT
    if candidate.mode is not AssignmentMode.FIT and fungibility.when_can_preempt == "TryNextFlavor":
        return True
    return candidate.borrowing_level > 0 and fungibility.when_can_borrow == "TryNextFlavor"


def flavor_incompatibility(
    pod_set: PodSetShape, name: str, flavor: ResourceFlavor | None
) -> r.PodSetReason | None:
    """Return why the pods cannot run on the flavor ``name``, quota aside; None if they can.

    Compares taints, node selector and required node affinity with the flavor.  A selector key that is not
    among the flavor's node labels is ignored: some node of the flavor may have the label.
    """
    if flavor is None:
        return r.FlavorMissing(pod_set.name, name)
    for taint in flavor.spec.node_taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerates(
            (*pod_set.tolerations, *flavor.spec.tolerations), taint
        ):
            return r.TaintUntolerated(pod_set.name, name, taint.key, taint.value, taint.effect)
    if not pod_set.node_selector and pod_set.affinity is None:
        return None
    labels = flavor.spec.node_labels
    contradicts_selector = any(
        key in labels and labels[key] != value for key, value in pod_set.node_selector.items()
    )
    if contradicts_selector or not _matches_affinity(pod_set.affinity, labels):
        return r.AffinityMismatched(pod_set.name, name)
    return None


def _matches_affinity(terms: tuple[NodeSelectorTerm, ...] | None, labels: dict[str, str]) -> bool:
    """Return True if one term holds; requirements on keys that are not in ``labels`` are ignored."""
    if terms is None:
        return True
    return any(
        all(
            matches_requirement(requirement, labels)
            for requirement in term.match_expressions
            if requirement.key in labels
        )
        for term in terms
    )
