"""Which flavors a workload would get in its cluster queue, as things are: the flavor assignment.

Each pod set gets one flavor per resource group.  Flavors are tried in the order of the queue, from where
the last search left off; which one is taken when the first does not simply fit is the queue's
``flavorFungibility``.  The quota that earlier pod sets of the workload take counts against later ones.

The answer holds every refusal, so that whoever asks for a reason reads the same value.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

import msgspec

from quorate.api.core import NodeSelectorTerm, Taint, Toleration
from quorate.api.kueue import FlavorFungibility, Preemption, ResourceFlavor
from quorate.api.meta import matches_requirement
from quorate.queueing.cluster_queue import FlavorGroup
from quorate.queueing.inadmissible_reasons import (
    AffinityMismatched,
    FlavorMissing,
    PodSetReason,
    QuotaExceeded,
    QuotaShort,
    ResourceUncovered,
    TaintUntolerated,
)
from quorate.queueing.pending.shape import PodSetShape
from quorate.quota import tree
from quorate.quota.amount import PODS, FlavorResource
from quorate.quota.tree import Node


class AssignmentMode(IntEnum):
    """How a request could be met, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # by preemption, if there were somebody to preempt
    PREEMPT = 2  # by preempting in the own cluster queue
    RECLAIM = 3  # by preempting in other cluster queues only
    FIT = 4

    @property
    def needs_preemption(self) -> bool:
        return AssignmentMode.NO_FIT < self < AssignmentMode.FIT


class FlavorCandidate(NamedTuple):
    """How one flavor, or one resource of it, could serve a request."""

    mode: AssignmentMode
    level: int  # how far up the cohort tree quota is borrowed; 0 within nominal


_IMPOSSIBLE: Final = FlavorCandidate(AssignmentMode.NO_FIT, 0)


class PreemptionOracle(Protocol):
    """Simulates preemption for a request that exceeds what is free."""

    def __call__(self, pair: FlavorResource, amount: int) -> FlavorCandidate:
        """Whom preemption would hit; never FIT.  The level is that after the victims are gone."""
        ...


class FlavorSearchInput(msgspec.Struct, frozen=True):
    """What a cluster queue offers: its groups, its place in the quota tree, its rules of choice."""

    node: Node
    groups: Mapping[str, FlavorGroup]  # by each resource covered
    flavors: Mapping[str, ResourceFlavor]  # all there are; a name may be missing
    fungibility: FlavorFungibility | None  # None: the first flavor that fits, else the first of the best mode
    preemption: Preemption
    is_fair: bool  # fair sharing decides who is preempted
    ignores_uncovered: bool
    oracle: PreemptionOracle

    @property
    def preempts_while_borrowing(self) -> bool:
        """Whether somebody may go for a request that exceeds the queue's own quota."""
        if self.is_fair and self.preemption.reclaim_within_cohort != "Never":
            return True
        return self.preemption.borrow_within_cohort.policy != "Never"


class PodSetFlavors(msgspec.Struct, frozen=True):
    name: str
    count: int
    flavors: dict[str, str]  # by resource
    requests: dict[str, int]  # totals, exactly of the resources that have a flavor


class Assignment(msgspec.Struct, frozen=True):
    pod_sets: tuple[PodSetFlavors, ...]  # up to the first that got no flavor
    mode: AssignmentMode
    level: int
    usage: dict[FlavorResource, int]
    short: frozenset[FlavorResource]  # what would have to be freed by preemption
    reasons: tuple[PodSetReason, ...]  # every refusal, unless the group found a fit in the end
    last_tried_flavors: tuple[dict[str, int], ...]  # per pod set and resource: see pending.Resume


def assign_flavors(
    market: FlavorSearchInput,
    pod_sets: Sequence[PodSetShape],
    counts: Sequence[int],
    start: Sequence[Mapping[str, int]],
) -> Assignment:
    """Choose flavors for ``counts`` pods of each of ``pod_sets``.

    ``start`` holds the remembered positions; it is empty, or as long as ``pod_sets``.
    """
    usage: dict[FlavorResource, int] = {}
    modes: dict[FlavorResource, AssignmentMode] = {}
    chosen: list[PodSetFlavors] = []
    last_tried_flavors: list[dict[str, int]] = []
    reasons: list[PodSetReason] = []
    mode, level = AssignmentMode.FIT, 0
    for index, (pod_set, count) in enumerate(zip(pod_sets, counts, strict=True)):
        requests = pod_set.request(count)
        if PODS in market.groups:
            requests[PODS] = count
        search = _Search(market, pod_set, requests, usage, start[index] if start else {})
        search.run()
        reasons.extend(search.reasons)
        if search.failed:
            mode = AssignmentMode.NO_FIT
            break
        for resource, flavor in search.flavors.items():
            pair = FlavorResource(flavor, resource)
            usage[pair] = usage.get(pair, 0) + requests[resource]
            modes[pair] = min(modes.get(pair, AssignmentMode.FIT), search.offers[resource].mode)
        for offer in search.offers.values():
            mode, level = min(mode, offer.mode), max(level, offer.level)
        charged = {resource: requests[resource] for resource in search.flavors}
        chosen.append(PodSetFlavors(pod_set.name, count, search.flavors, charged))
        last_tried_flavors.append(search.last_tried_flavors)
    return Assignment(
        tuple(chosen),
        mode,
        level,
        usage,
        frozenset(pair for pair, worst in modes.items() if worst.needs_preemption),
        tuple(reasons),
        tuple(last_tried_flavors),
    )


class _Search:
    """The flavors of one pod set."""

    def __init__(
        self,
        market: FlavorSearchInput,
        pod_set: PodSetShape,
        requests: Mapping[str, int],
        earlier: Mapping[FlavorResource, int],
        start: Mapping[str, int],
    ) -> None:
        self._market = market
        self._pod_set = pod_set
        self._requests = requests
        self._earlier = earlier  # usage of the pod sets before this one
        self._start = start
        self.flavors: dict[str, str] = {}  # by resource, of the groups settled so far
        self.offers: dict[
            str, FlavorCandidate
        ] = {}  # likewise: how the flavor of the group would serve the resource
        self.last_tried_flavors: dict[str, int] = {}  # likewise
        self.reasons: list[PodSetReason] = []
        self.failed = False

    def run(self) -> None:
        for resource in sorted(self._requests):
            if resource in self.flavors:
                continue
            group = self._market.groups.get(resource)
            if group is not None:
                self._settle(resource, group)
            elif self._requests[resource] > 0 and not self._market.ignores_uncovered:
                self.reasons.append(ResourceUncovered(self._pod_set.name, resource))
                self.failed = True
            if self.failed:
                return

    def _settle(self, resource: str, group: FlavorGroup) -> None:
        """Choose one flavor for all requested resources of ``group``; ``resource`` is one of them."""
        wanted = [name for name in sorted(self._requests) if name in group.covered]
        best, best_flavor, best_offers = _IMPOSSIBLE, "", {}
        reasons: list[PodSetReason] = []
        tried = -1
        for tried in range(self._start.get(resource, -1) + 1, len(group.flavors)):
            flavor = group.flavors[tried]
            refused = flavor_incompatibility(self._pod_set, flavor, self._market.flavors.get(flavor))
            if refused is not None:
                reasons.append(refused)
                continue
            offers = self._offers(flavor, wanted, reasons)
            offer = self._worst(offers.values())
            if self._is_better(offer, best):
                best, best_flavor, best_offers = offer, flavor, offers
            if not _should_try_next_flavor(offer, self._market.fungibility):
                break
        if best.mode is not AssignmentMode.FIT:
            self.reasons.extend(reasons)
        if best.mode is AssignmentMode.NO_FIT:
            self.failed = True
            return
        # Without fungibility each search is a whole one.
        is_whole = tried == len(group.flavors) - 1 or self._market.fungibility is None
        last = -1 if is_whole else tried
        for name in wanted:
            self.flavors[name], self.last_tried_flavors[name] = best_flavor, last
            self.offers[name] = best_offers[name]

    def _offers(
        self, flavor: str, wanted: Sequence[str], reasons: list[PodSetReason]
    ) -> dict[str, FlavorCandidate]:
        """How ``flavor`` could serve each of ``wanted``; ends at the first that it never can."""
        offers: dict[str, FlavorCandidate] = {}
        for resource in wanted:
            offers[resource] = offer = self._offer(FlavorResource(flavor, resource), reasons)
            if offer.mode is AssignmentMode.NO_FIT:
                break
        return offers

    def _offer(self, pair: FlavorResource, reasons: list[PodSetReason]) -> FlavorCandidate:
        market, node = self._market, self._market.node
        earlier = self._earlier.get(pair, 0)
        requested = self._requests[pair.resource]
        needed = earlier + requested
        free = max(0, tree.available(node, pair))
        if needed <= free:
            return FlavorCandidate(AssignmentMode.FIT, tree.level(node, pair, needed).height)
        at_most = tree.potential_available(node, pair)
        if needed > at_most:
            reasons.append(
                QuotaExceeded(
                    self._pod_set.name, pair.flavor, pair.resource, earlier, requested, free, at_most
                )
            )
            return _IMPOSSIBLE
        reasons.append(QuotaShort(self._pod_set.name, pair.flavor, pair.resource, needed, free, at_most))
        level = tree.level(node, pair, needed)
        if needed <= tree.nominal(node, pair) or level.may_reclaim or market.preempts_while_borrowing:
            offer = market.oracle(pair, needed)
            return (
                FlavorCandidate(offer.mode, level.height)
                if offer.mode is AssignmentMode.NO_CANDIDATES
                else offer
            )
        return _IMPOSSIBLE

    def _worst(self, offers: Iterable[FlavorCandidate]) -> FlavorCandidate:
        worst = FlavorCandidate(AssignmentMode.FIT, 0)
        for offer in offers:
            if self._is_better(worst, offer):
                worst = offer
        return worst

    def _is_better(self, one: FlavorCandidate, other: FlavorCandidate) -> bool:
        return is_preferred(one, other, self._market.fungibility)


def is_preferred(one: FlavorCandidate, other: FlavorCandidate, fungibility: FlavorFungibility | None) -> bool:
    """Whether ``one`` is strictly the better choice."""
    for hopeless in (AssignmentMode.NO_FIT, AssignmentMode.NO_CANDIDATES):
        if one.mode is hopeless:
            return other.mode < hopeless
        if other.mode is hopeless:
            return True
    if fungibility is None:
        return one.mode > other.mode
    if fungibility.preference == "PreemptionOverBorrowing":
        return (-one.level, one.mode) > (-other.level, other.mode)
    return (one.mode, -one.level) > (other.mode, -other.level)


def _should_try_next_flavor(offer: FlavorCandidate, fungibility: FlavorFungibility | None) -> bool:
    """Whether the search goes on after a flavor that could serve like ``offer``."""
    if offer.mode in (AssignmentMode.NO_FIT, AssignmentMode.NO_CANDIDATES):
        return True
    if fungibility is None:
        return offer.mode is not AssignmentMode.FIT
    if offer.mode is not AssignmentMode.FIT and fungibility.when_can_preempt == "TryNextFlavor":
        return True
    return offer.level > 0 and fungibility.when_can_borrow == "TryNextFlavor"


def flavor_incompatibility(
    pod_set: PodSetShape, name: str, flavor: ResourceFlavor | None
) -> PodSetReason | None:
    """Why the pods cannot run on the flavor called ``name``; None if they can."""
    if flavor is None:
        return FlavorMissing(pod_set.name, name)
    tolerations = (*pod_set.tolerations, *flavor.spec.tolerations)
    for taint in flavor.spec.node_taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            return TaintUntolerated(pod_set.name, name, taint.key, taint.value, taint.effect)
    labels = flavor.spec.node_labels
    selects_other = any(
        key in labels and labels[key] != value for key, value in pod_set.node_selector.items()
    )
    if selects_other or not _affine(pod_set.affinity, labels):
        return AffinityMismatched(pod_set.name, name)
    return None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return bool(toleration.key) and toleration.value == taint.value
        case _:
            return False


def _affine(terms: tuple[NodeSelectorTerm, ...] | None, labels: dict[str, str]) -> bool:
    """Whether one of ``terms`` holds, as far as it concerns the flavor; a term it does not concern holds."""
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
