"""The places of the pods of one workload, given the flavors that it gets."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack

import msgspec
from msgspec.structs import replace

from quorate.api.core import NodeSelector
from quorate.placement.topology.assignment import place
from quorate.placement.topology.counting import Capacity, host_shortage
from quorate.placement.topology.leaf_hosts import Pods
from quorate.placement.topology.pod_limits import PodLimits
from quorate.placement.topology.request import NO_TOPOLOGY, PodSetRequest
from quorate.placement.topology.search import PlacedPods, PlacementFailure
from quorate.placement.topology.tree import DomainTree, Path
from quorate.placement.vectors import np
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.places import LEVELS, Amounts, Domains, Place, host_request, without_places
from quorate.queueing.nodes.pod_templates import Template
from quorate.queueing.nodes.trees import labels_of
from quorate.queueing.pending.shape import PodSetShape
from quorate.queueing.topology.elastic_slices import PreviousPlaces, extend, previous_places

# What pods use, by flavors and values of each leaf.
_Needed = tuple[tuple[tuple[str, ...], Path, Amounts], ...]


class PodSetPlaces(msgspec.Struct, frozen=True):
    """Where the pods of one pod set run: the recorded values of each leaf, in order, and its pods."""

    name: str
    flavors: tuple[str, ...]  # the topology flavor; empty: hosts, of flavors without a topology
    levels: tuple[str, ...]
    domains: tuple[tuple[Path, int], ...]
    per_pod: Amounts
    template: Template | None = None
    as_of: int | None = None  # ``PodConstraints.version``, if limits were read
    kept: Domains = ()  # those of the replaced slice that stay: the tree counts them as used already

    def new_places(self) -> Iterator[Place]:
        kept = dict(self.kept)
        more = [(values, count - kept.get(values, 0)) for values, count in self.domains]
        return replace(self, domains=tuple(domain for domain in more if domain[1] > 0)).places()

    def places(self) -> Iterator[Place]:
        for values, count in self.domains:
            amounts = {resource: amount * count for resource, amount in self.per_pod.items()}
            yield Place(self.flavors, values, self.levels == LEVELS, amounts, count, self.template)


class PodSetToPlace(msgspec.Struct, frozen=True):
    """A pod set that got quota, with its topology flavor, or the flavors of its resources."""

    shape: PodSetShape
    count: int
    flavors: frozenset[str]
    on_hosts: bool = False  # its flavors have no topology: any of their hosts will do
    template: Template | None = None
    previous: Domains = ()  # the places of the slice that is replaced: its pods stay there
    kept_hosts: frozenset[str] = frozenset()  # host names of the nodes that windows keep for others


class Placement(msgspec.Struct, frozen=True):
    """The places of all pod sets that need some, or why there are none."""

    pod_sets: tuple[PodSetPlaces, ...] = ()
    failures: tuple[r.PlacementRefused | r.NodesLackRoom, ...] = ()
    needed: _Needed = ()

    def places(self) -> list[Place]:
        return [taken for pod_set in self.pod_sets for taken in pod_set.places()]


NO_PLACEMENT = Placement()


def topology_mismatch(
    model: TopologyModel,
    pod_set: PodSetShape,
    flavor: str,
    covered: Collection[str],
    *,
    is_topology_queue: bool,
) -> r.TopologyMismatched | None:
    """Return why ``flavor`` cannot serve the topology request of ``pod_set``; None if it can.

    ``covered`` are the resources of the flavor's group.  A plain flavor may serve resources that pods do not
    request themselves, because only transformations make them.  ``is_topology_queue``: all flavors of the
    cluster queue are topology flavors.
    """
    if not model.is_on:
        return None
    problem: r.TopologyProblem | None = None
    request = pod_set.topology
    if request is NO_TOPOLOGY or not request.is_explicit:
        if model.is_topology_flavor(flavor) and not is_topology_queue:
            problem = r.TopologyProblem.NO_REQUEST
    elif not model.is_topology_flavor(flavor):
        if not any(resource in covered for resource in pod_set.on_node):
            return None
        problem = r.TopologyProblem.NO_TOPOLOGY
    else:
        levels, named = model.levels(flavor), request.levels
        if levels is None:
            problem = r.TopologyProblem.UNKNOWN_TOPOLOGY
        elif request.unconstrained is False and not named:
            problem = r.TopologyProblem.NO_LEVEL
        else:
            for level in named:  # for each head: a set would cost more
                if level not in levels:
                    problem = r.TopologyProblem.NO_LEVEL
    return r.TopologyMismatched(pod_set.name, flavor, problem) if problem else None


def place_pod_sets(
    model: TopologyModel, pod_sets: Sequence[PodSetToPlace], *, is_empty: bool = False
) -> Placement:
    """Place the pods of a workload, flavor by flavor by name, then those without a topology.

    Each pod set finds the capacity that the earlier ones leave.  ``is_empty``: as if no pods had been placed
    in any topology.
    """
    for pod_set in pod_sets:  # called several times for each head: a generator would cost more
        if pod_set.template is not None and model.constraints.may_limit(pod_set.template):
            return _place_pod_sets(model, pod_sets, is_empty=is_empty)
    memo, version = model.placements, model.version
    if is_empty:
        memo, version = model.empty_placements, model.capacity_version
    key = tuple(
        [
            (
                id(pod_set.shape),
                pod_set.count,
                pod_set.flavors,
                pod_set.template,
                pod_set.previous,
                pod_set.kept_hosts,
            )
            for pod_set in pod_sets
        ]
    )
    cached = memo.get(key, version)
    if cached is not None:
        assert isinstance(cached, Placement), "only placements are put here"
        return cached
    placement = _place_pod_sets(model, pod_sets, is_empty=is_empty)
    size = sum([len(pod_set.domains) for pod_set in placement.pod_sets])
    memo.put(key, [pod_set.shape for pod_set in pod_sets], placement, size)
    return placement


def failures_without_pods(
    model: TopologyModel, pod_sets: Sequence[PodSetToPlace]
) -> tuple[r.PlacementRefused | r.NodesLackRoom, ...]:
    """Return which pod sets have no places even if the nodes had no pods at all; empty if all have."""
    if not model.cluster.used.any():
        return place_pod_sets(model, pod_sets, is_empty=True).failures
    with model.without_pods():
        return _place_pod_sets(model, pod_sets, is_empty=True).failures


def _place_pod_sets(model: TopologyModel, pod_sets: Sequence[PodSetToPlace], *, is_empty: bool) -> Placement:
    if len(pod_sets) == 1:
        return _place_alone(model, pod_sets[0], is_empty=is_empty)
    groups: dict[tuple[bool, tuple[str, ...]], list[PodSetToPlace]] = {}
    for pod_set in pod_sets:
        assert pod_set.on_hosts or len(pod_set.flavors) == 1, "the caller checks it"
        groups.setdefault((pod_set.on_hosts, tuple(sorted(pod_set.flavors))), []).append(pod_set)
    with ExitStack() as placed_so_far:
        return _place_groups(model, pod_sets, groups, placed_so_far, is_empty=is_empty)


def _place_alone(model: TopologyModel, pod_set: PodSetToPlace, *, is_empty: bool) -> Placement:
    """Place the only pod set of a workload, which most have."""
    if not pod_set.count:
        return NO_PLACEMENT
    flavors = tuple(sorted(pod_set.flavors))
    placed = _place_in_tree(model, pod_set.on_hosts, flavors, pod_set, None, (), is_empty=is_empty)
    if not isinstance(placed, list):
        return Placement((), (placed,))
    return Placement(tuple(placed), (), _needed(placed))


def _place_groups(
    model: TopologyModel,
    pod_sets: Sequence[PodSetToPlace],
    groups: Mapping[tuple[bool, tuple[str, ...]], Sequence[PodSetToPlace]],
    placed_so_far: ExitStack,
    *,
    is_empty: bool,
) -> Placement:
    """``placed_so_far`` takes back the constraints of the pods that were placed."""
    placed: list[PodSetPlaces] = []
    failures: list[r.PlacementRefused | r.NodesLackRoom] = []
    assumed: list[Place] = []
    for (on_hosts, flavors), members in sorted(groups.items()):
        for workers, leader in _units(members):
            outcome = _place_in_tree(model, on_hosts, flavors, workers, leader, assumed, is_empty=is_empty)
            if (
                isinstance(outcome, r.PlacementRefused)
                and leader is not None
                and outcome.pod_set == workers.shape.name
            ):  # about the first of the group
                first = next(member for member in members if member is workers or member is leader)
                outcome = replace(outcome, pod_set=first.shape.name)
            if not isinstance(outcome, list):
                failures.append(outcome)
                break
            placed += outcome
            if is_empty:
                assumed += [taken for pod_set in outcome for taken in pod_set.places()]
                continue
            new = [new_place for pod_set in outcome for new_place in pod_set.new_places()]
            assumed += new
            model.constraints.assume(new, placed_so_far)
    order = {pod_set.shape.name: index for index, pod_set in enumerate(pod_sets)}
    placed.sort(key=lambda pod_set: order[pod_set.name])
    return Placement((), tuple(failures)) if failures else Placement(tuple(placed), (), _needed(placed))


def _place_in_tree(
    model: TopologyModel,
    on_hosts: bool,
    flavors: tuple[str, ...],
    workers: PodSetToPlace,
    leader: PodSetToPlace | None,
    assumed: Sequence[Place],
    *,
    is_empty: bool,
) -> list[PodSetPlaces] | r.PlacementRefused | r.NodesLackRoom:
    tree = model.host_tree(flavors) if on_hosts else model.tree(flavors[0])
    if tree is None:
        unknown = "workload requires Topology, but there is no TAS cache information"
        text = "the nodes are not known yet" if on_hosts else unknown
        return r.PlacementRefused(workers.shape.name, text)
    return _place_unit(model, tree, flavors, workers, leader, assumed, is_empty=is_empty)


def _needed(pod_sets: Sequence[PodSetPlaces]) -> _Needed:
    """Return what the pods use of each leaf."""
    if len(pod_sets) == 1:  # no two places of one pod set are in one leaf
        alone = pod_sets[0]
        per_pod = [(resource, amount) for resource, amount in alone.per_pod.items() if amount]
        return tuple(
            [
                (alone.flavors, values, {resource: amount * count for resource, amount in per_pod})
                for values, count in alone.domains
            ]
        )
    return _sums([place for pod_set in pod_sets for place in pod_set.places()])


def _sums(places: Iterable[Place]) -> _Needed:
    needed: dict[tuple[tuple[str, ...], Path], dict[str, int]] = {}
    for taken in places:
        amounts = needed.setdefault((taken.flavors, taken.values), {})
        for resource, amount in taken.amounts.items():
            if amount:
                amounts[resource] = amounts.get(resource, 0) + amount
    return tuple([(*leaf, amounts) for leaf, amounts in needed.items()])


def _units(pod_sets: Sequence[PodSetToPlace]) -> Iterator[tuple[PodSetToPlace, PodSetToPlace | None]]:
    """Return each pod set alone, or the workers and the leader of each group, in order."""
    groups: dict[str, list[PodSetToPlace]] = {}
    for pod_set in pod_sets:
        groups.setdefault(pod_set.shape.topology.group or f"/{pod_set.shape.name}", []).append(pod_set)
    for of_group in groups.values():
        members = [member for member in of_group if member.count]
        if len(members) == 2:
            first, second = members
            yield (second, first) if second.count > first.count else (first, second)
        else:
            for member in members:
                yield member, None


def _place_unit(
    model: TopologyModel,
    tree: DomainTree,
    flavors: Sequence[str],
    workers: PodSetToPlace,
    leader: PodSetToPlace | None,
    assumed: Sequence[Place],
    *,
    is_empty: bool,
) -> list[PodSetPlaces] | r.PlacementRefused | r.NodesLackRoom:
    topology_flavors = () if workers.on_hosts else tuple(flavors)
    capacity = _capacity_beside(tree, topology_flavors, assumed, is_empty=is_empty)
    request = without_kept_nodes(tree, workers, pod_set_request(model, workers))
    as_of: int | None = None
    if workers.on_hosts:
        limits = _limits(model, workers, capacity, request)
        if limits is not None:
            assert workers.template is not None, "pods without a template have no limits"
            as_of = model.constraints.version(workers.template)
            request = without_kept_nodes(tree, workers, replace(request, limits=limits.pods))
    previous = previous_places(tree, workers.previous, None if leader is None else leader.previous)
    if workers.on_hosts:
        lack = _lack_beside(previous, capacity, request, limits)
        if lack is not None:
            return lack
    of_leader = None if leader is None else without_kept_nodes(tree, leader, pod_set_request(model, leader))
    if previous is None:
        outcome = place(capacity, request, of_leader, profile=model.profile)
    else:
        outcome = extend(capacity, request, of_leader, previous, model.profile)
    if isinstance(outcome, PlacementFailure):
        about = leader if outcome.of_leader and leader is not None else workers
        return r.PlacementRefused(about.shape.name, outcome.text, outcome.fitting, outcome.requested)
    result = [_places(tree, topology_flavors, workers, outcome.workers, as_of)]
    if leader is not None:
        result.append(_places(tree, topology_flavors, leader, outcome.leader, as_of))
    if previous is None:
        return result
    kept = [pod_set.previous for pod_set in (workers, leader) if pod_set is not None]
    return [replace(places, kept=domains) for places, domains in zip(result, kept, strict=True)]


def _capacity_beside(
    tree: DomainTree, topology_flavors: tuple[str, ...], assumed: Sequence[Place], *, is_empty: bool
) -> Capacity:
    """Return what the leaves of ``tree`` have left beside the places in ``assumed``."""
    by_leaf: dict[int, dict[str, int]] = {}
    pods_by_leaf: dict[int, list[Pods]] = {}
    for taken in assumed:
        leaf = tree.leaf_of(taken.values)
        is_here = taken.on_host if tree.has_hosts else taken.flavors == topology_flavors
        if leaf is not None and is_here:
            amounts = by_leaf.setdefault(leaf, {})
            for resource, amount in taken.amounts.items():
                amounts[resource] = amounts.get(resource, 0) + amount
            if not tree.has_hosts and taken.pods:
                pods_by_leaf.setdefault(leaf, []).append((host_request(taken), taken.pods))
    return Capacity(tree, by_leaf, is_empty, pods_by_leaf)


def lack_of_room(model: TopologyModel, pod_set: PodSetToPlace) -> r.NodesLackRoom | None:
    """Return which pods fit no host, without choosing hosts for the others; None if all fit."""
    if pod_set.template is not None and model.constraints.may_limit(pod_set.template):
        return _lack_on_hosts(model, pod_set)
    key = id(pod_set.shape), pod_set.count, pod_set.flavors
    cached = model.reports.get(key, model.version)
    if cached is None:
        cached = (_lack_on_hosts(model, pod_set),)
        model.reports.put(key, (pod_set.shape,), cached, 1)
    return cached[0]


def _lack_on_hosts(model: TopologyModel, pod_set: PodSetToPlace) -> r.NodesLackRoom | None:
    tree = model.host_tree(pod_set.flavors)
    if tree is None:
        return None
    capacity, request = Capacity(tree), pod_set_request(model, pod_set)
    limits = _limits(model, pod_set, capacity, request)
    if limits is not None:
        request = replace(request, limits=limits.pods)
    return _lack_of_room(capacity, request, limits)


def limited_request(
    model: TopologyModel, pod_set: PodSetToPlace, capacity: Capacity, missing: Mapping[str, int]
) -> PodSetRequest:
    """Return the request for as many pods as leave hosts, to be placed on any other hosts.

    ``missing``: how many pods leave each host.
    """
    request, tree = pod_set_request(model, pod_set), capacity.tree
    count = sum(missing.values())
    leaving = [Place((), (host,), True, {}, -pods, pod_set.template) for host, pods in missing.items()]
    with ExitStack() as without_leaving:
        model.constraints.assume(leaving, without_leaving)
        limits = _limits(model, pod_set, capacity, replace(request, count=count))
    allowed = np.full(tree.leaf_count, count) if limits is None else limits.pods
    leaves = [tree.leaf_of((host,)) for host in missing]
    allowed[[leaf for leaf in leaves if leaf is not None]] = 0
    return replace(request, limits=allowed)


def _limits(
    model: TopologyModel, pod_set: PodSetToPlace, capacity: Capacity, request: PodSetRequest
) -> PodLimits | None:
    """Return how many pods each host takes by other constraints than resources; None: they limit none."""
    constraints, template = model.constraints, pod_set.template
    if template is None or not constraints.may_limit(template):
        return None
    labels = labels_of(model.flavors[name] for name in pod_set.flavors if name in model.flavors)
    return constraints.limits(capacity, request, template, labels)


def _lack_beside(
    previous: PreviousPlaces | None, capacity: Capacity, request: PodSetRequest, limits: PodLimits | None
) -> r.NodesLackRoom | None:
    """Return which pods fit no host beside the pods of the replaced slice, which keep their places."""
    kept = 0 if previous is None else min(request.count, sum(placed.pods for placed in previous.workers))
    if not kept:
        return _lack_of_room(capacity, request, limits)
    if kept == request.count:
        return None
    lack = _lack_of_room(capacity, replace(request, count=request.count - kept), limits)
    if lack is None:
        return None
    of_all = _lack_of_room(capacity, request, limits)
    assert of_all is not None, "more pods need no less room"
    return msgspec.structs.replace(of_all, fitting=kept + lack.fitting)


def _lack_of_room(
    capacity: Capacity, request: PodSetRequest, limits: PodLimits | None
) -> r.NodesLackRoom | None:
    shortage = host_shortage(capacity, request, None if limits is None else limits.passing)
    if shortage is None:
        return None
    rejecting = () if limits is None else limits.failures
    return r.NodesLackRoom(
        pod_set=request.name,
        requested=request.count,
        fitting=shortage.fitting,
        nodes=shortage.hosts,
        accepting=shortage.accepting,
        resource=shortage.resource,
        needed=shortage.needed,
        best=shortage.best,
        at_most=shortage.at_most,
        fitting_at_most=shortage.fitting_at_most,
        rejecting=rejecting,
    )


def without_kept_nodes(tree: DomainTree, pod_set: PodSetToPlace, request: PodSetRequest) -> PodSetRequest:
    """Return the request without the nodes that windows keep; of a tree above hosts, nothing is left out."""
    leaves = [
        leaf
        for name in (pod_set.kept_hosts if tree.has_hosts else ())
        if (leaf := tree.leaf_of((name,))) is not None
    ]
    if not leaves:
        return request
    limits = np.full(tree.leaf_count, pod_set.count) if request.limits is None else request.limits.copy()
    limits[leaves] = 0
    return replace(request, limits=limits)


def pod_set_request(model: TopologyModel, pod_set: PodSetToPlace) -> PodSetRequest:
    """Return what the pods of a set request, with the tolerations of their flavors."""
    shape = pod_set.shape
    flavors = [model.flavors[name] for name in sorted(pod_set.flavors) if name in model.flavors]
    tolerations = [toleration for flavor in flavors for toleration in flavor.spec.tolerations]
    return PodSetRequest(
        name=shape.name,
        count=pod_set.count,
        per_pod=shape.on_node,
        topology=shape.topology,
        node_selector=shape.node_selector,
        affinity=None if shape.affinity is None else NodeSelector(node_selector_terms=shape.affinity),
        preferred_affinity=shape.preferred_affinity,
        tolerations=(*shape.tolerations, *tolerations),
    )


def _places(
    tree: DomainTree,
    flavors: tuple[str, ...],
    pod_set: PodSetToPlace,
    placed: Sequence[PlacedPods],
    as_of: int | None,
) -> PodSetPlaces:
    domains = tuple((tree.recorded_values(domain.leaf), domain.pods) for domain in placed)
    shape, levels = pod_set.shape, tree.recorded_levels
    return PodSetPlaces(shape.name, flavors, levels, domains, shape.on_node, pod_set.template, as_of)


def fits(model: TopologyModel, placement: Placement, held: Sequence[Place] = ()) -> bool:
    """Return True if the places of ``placement`` are still free, or are among those in ``held``.

    Pods with other constraints than resources that got places meanwhile may have taken them.
    """
    for pod_set in placement.pod_sets:
        template, as_of = pod_set.template, pod_set.as_of
        if template is not None and as_of not in (None, model.constraints.version(template)):
            return False
    beyond = without_places(placement.places(), held) if held else None
    for flavors, values, amounts in placement.needed if beyond is None else _sums(beyond):
        tree = model.tree(flavors[0]) if flavors else model.host_tree(())
        if tree is None or not tree.has_room(values, amounts):
            return False
        if tree.below is not None:
            places = placement.places() if beyond is None else beyond
            placed = (taken for taken in places if taken.pods and taken.values == values)
            here = [(host_request(taken), taken.pods) for taken in placed]
            column = tree.column_of(values)
            if column is None or not tree.below.takes(column, here):
                return False
    return True
