"""Audit of nodes, pods and places: what uses each leaf, and what pod constraints read, computed from scratch.

The model updates all of it incrementally: the usage of each leaf when a workload gets or loses places, and
the trees of the flavors and the cluster when nodes, pods and places change.  Each slice of the
audit compares what belongs to one moment.  Places that a cycle reserves for a preemptor count only while it
runs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from quorate.api.meta import Key
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.audit import SumMismatch, audit_cluster
from quorate.placement.topology.tree import MAX_AMOUNT, Path
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.occupants import Name, Nominated
from quorate.queueing.nodes.places import Amounts, Places, UsedBy, UsedPlaces
from quorate.queueing.nodes.pod_constraints import HeldKey, PodConstraints
from quorate.queueing.nodes.trees import KnownTree

SLICE_SIZE: Final = 1_000  # workloads, nodes or pods

_K = TypeVar("_K")
_T = TypeVar("_T")
_Usage = Mapping[Path, Mapping[UsedBy, Amounts]]


class PlaceMismatch(msgspec.Struct, frozen=True):
    """Another amount of a resource in the model than what the places, nodes and pods give."""

    leaf: Path
    flavors: tuple[str, ...]  # of the pods, or of the tree; empty: hosts of flavors without a topology
    quantity: str  # "usage" of the pods, or what a tree has as "used", or its number of "nodes"
    resource: str
    in_model: int
    computed: int


class PlacesMismatch(msgspec.Struct, frozen=True):
    """A workload of which the pods count although its places do, or of which neither counts."""

    key: Key
    in_model: bool  # the places count


class DomainMismatch(msgspec.Struct, frozen=True):
    """A leaf that a tree lacks, or has although no node is in it."""

    leaf: Path
    flavor: str
    in_model: bool


class ConstraintMismatch(msgspec.Struct, frozen=True):
    """Another number of pods, or of terms of anti-affinity, in the model than what pods and places give."""

    quantity: str
    of: str  # a host, a pod or a namespace
    in_model: int
    computed: int


NodeDifference = PlaceMismatch | PlacesMismatch | DomainMismatch | ConstraintMismatch | SumMismatch


def audit_nodes(
    model: TopologyModel,
    all_places: Callable[[], Mapping[Key, Places]],
    counted: Callable[[], Mapping[Key, Places]],
) -> Iterator[tuple[NodeDifference, ...]]:
    """Yield the differences, slice by slice.

    ``all_places`` returns the places of all workloads that have any at the moment of the call, ``counted``
    the places of workloads with an existing cluster queue, which count.
    """
    present, with_places = all_places().keys(), model.occupants.with_places
    yield tuple(PlacesMismatch(key, key in with_places) for key in sorted(present ^ with_places))
    yield from _place_slices(model, counted)
    for kept in model.known_trees():
        yield from _tree_slices(model, kept)
    yield from audit_pods(model.constraints)
    yield from audit_cluster(model.cluster)


def _add_up(
    current: Callable[[], Mapping[_K, _T]],
    add: Callable[[_T, int], None],
    size_of: Callable[[_T], int] = lambda _: 1,
) -> Iterator[tuple[()]]:
    """Add up values in slices, then those at once that changed meanwhile.

    ``add`` is called with a value and 1, or -1 to take it back.
    """
    seen: dict[_K, _T] = {}
    size = 0
    for key, value in current().items():
        seen[key] = value
        add(value, 1)
        size += size_of(value)
        if size >= SLICE_SIZE:
            yield ()
            size = 0
    now = current()
    for key in seen.keys() | now.keys():
        before, after = seen.get(key), now.get(key)
        if before != after:
            if before is not None:
                add(before, -1)
            if after is not None:
                add(after, 1)


# Places.


def _place_slices(
    model: TopologyModel, counted: Callable[[], Mapping[Key, Places]]
) -> Iterator[tuple[NodeDifference, ...]]:
    """Compare the usage of all leaves, and the pods with places that pod constraints read."""
    sums = PlaceSums()
    yield from _add_up(counted, sums.add, lambda places: 1 + len(places.all))
    usage = _usage_differences(model.used.by_leaf, sums.used.by_leaf)
    yield (*usage, *held_differences(model.constraints, sums.held))


class PlaceSums:
    """What all places use, and how many pods they have by host and template."""

    def __init__(self) -> None:
        self.used = UsedPlaces()
        self.held: Counter[HeldKey] = Counter()

    def add(self, places: Places, times: int) -> None:
        for place in places.all:
            self.used.count(place, times)
            if place.on_host and place.template is not None:
                self.held[place.values[-1], place.template] += place.pods * times


def held_differences(constraints: PodConstraints, sums: Counter[HeldKey]) -> list[ConstraintMismatch]:
    held, view = constraints.held, constraints.view
    compared = [("held pods", key, held.get(key, 0)) for key in held.keys() | sums.keys()]
    compared += [
        ("held pods in the view", key, constraints.cluster.held_pods(key))
        for key in (held.keys() | sums.keys() if view is not None else ())
        if view is not None and key not in view.held
    ]
    differences = [
        ConstraintMismatch(quantity, key[0], pods, sums[key])
        for quantity, key, pods in compared
        if pods != sums[key]
    ]
    return sorted(differences, key=lambda difference: (difference.quantity, difference.of))


def _usage_differences(in_model: _Usage, computed: _Usage) -> Iterator[PlaceMismatch]:
    for leaf in sorted(in_model.keys() | computed.keys()):
        of_model, of_places = in_model.get(leaf, {}), computed.get(leaf, {})
        for used in sorted(of_model.keys() | of_places.keys()):
            have, want = of_model.get(used, {}), of_places.get(used, {})
            for resource in sorted(have.keys() | want.keys()):
                if have.get(resource, 0) != want.get(resource, 0):
                    yield PlaceMismatch(
                        leaf, used.flavors, "usage", resource, have.get(resource, 0), want.get(resource, 0)
                    )


def _tree_slices(model: TopologyModel, kept: KnownTree) -> Iterator[tuple[NodeDifference, ...]]:
    """Compare a tree leaf by leaf; a tree that a node joins or leaves meanwhile is left to the next audit."""
    changes = model.domain_changes

    def is_current() -> bool:
        return model.domain_changes == changes and any(
            other.tree is kept.tree for other in model.known_trees()
        )

    nodes_of = Counter[Path]()
    for start, names in _chunks([*model.nodes]):
        if start:
            yield ()
        if not is_current():
            return
        for name in names:
            node = model.nodes.get(name)
            if node is not None and model.is_in(node, kept.of):
                nodes_of[kept.tree.recorded_values_of(node)] += 1
    leaves = kept.tree.leaves
    if nodes_of.keys() != leaves:
        yield tuple(
            DomainMismatch(leaf, kept.flavor, leaf in leaves) for leaf in sorted(nodes_of.keys() ^ leaves)
        )
        return
    for _, chunk in _chunks(list(nodes_of)):
        yield ()
        if not is_current():
            return
        yield tuple(
            difference
            for leaf in chunk
            for difference in _leaf_differences(model, kept, leaf, nodes_of[leaf])
        )


def _chunks(items: Sequence[_T]) -> Iterator[tuple[int, Sequence[_T]]]:
    for start in range(0, len(items), SLICE_SIZE):
        yield start, items[start : start + SLICE_SIZE]


def _leaf_differences(
    model: TopologyModel, kept: KnownTree, leaf: Path, nodes: int
) -> Iterator[PlaceMismatch]:
    in_leaf = kept.tree.nodes_in(leaf)
    if in_leaf != nodes:
        yield PlaceMismatch(leaf, (kept.flavor,), "nodes", "", in_leaf, nodes)
    used = Counter[str]()
    for amounts in model.used_in(kept, leaf):
        used.update(amounts)
    _, in_tree = kept.tree.amounts_of(leaf)
    for resource in sorted(in_tree.keys() | used.keys()):
        have, want = in_tree.get(resource, 0), used[resource]
        is_exact = max(abs(have), abs(want)) < MAX_AMOUNT  # at the bound, the order of changes counts
        if have != want and is_exact:
            yield PlaceMismatch(leaf, (kept.flavor,), "used", resource, have, want)


# Pods.


def audit_pods(constraints: PodConstraints) -> Iterator[tuple[ConstraintMismatch, ...]]:
    """Compare the pods without a place with the pods of the cluster one by one, then the sums of all pods."""
    in_cluster = [name for name in constraints.cluster.occupants if isinstance(name, Key | Nominated)]
    for _, names in _chunks(list(dict.fromkeys([*constraints.occupants.by_name, *in_cluster]))):
        yield tuple(_pod_differences(constraints, names))
    sums = PodConstraints(Cluster(), constraints.occupants)
    yield from _add_up(lambda: dict(constraints.occupants.by_name), sums.count)
    for (host, template), pods in constraints.held.items():
        sums.hold(host, template, pods)
    compared = [
        ("sum over pods", "", constraints.sum, sums.sum),
        ("sum over pods with constraints", "", constraints.sum_constrained, sums.sum_constrained),
        *(
            ("terms of anti-affinity", namespace, constraints.repelled[namespace], sums.repelled[namespace])
            for namespace in sorted(sums.repelled.keys() | constraints.repelled.keys())
        ),
    ]
    yield tuple(
        ConstraintMismatch(quantity, of, in_model, computed)
        for quantity, of, in_model, computed in compared
        if in_model != computed
    )


def _pod_differences(constraints: PodConstraints, names: Iterable[Name]) -> Iterator[ConstraintMismatch]:
    """Compare the node of each pod, its amounts and, once the filters read it, its labels."""
    view, occupants = constraints.view, constraints.occupants
    for name in names:
        counted, occupant = constraints.cluster.occupants.get(name), occupants.by_name.get(name)
        is_read = view is not None and name not in view.pods
        in_cluster = in_model = None
        if counted is not None:
            of_shape = counted.shape.labels if is_read else {}
            in_cluster = counted.node, counted.state, counted.shape.amounts, of_shape
        if occupant is not None and occupants.counts(occupant):
            labels = occupant.pod.metadata.labels if is_read and occupant.pod is not None else {}
            in_model = occupant.node, occupant.state, constraints.plain_shape(occupant).amounts, labels
        if in_cluster != in_model:
            is_elsewhere = in_cluster is not None and in_model is not None
            quantity = (
                "pods in the view with their node, amounts and labels" if is_elsewhere else "pods in the view"
            )
            in_view = int(in_cluster is not None and not is_elsewhere)
            yield ConstraintMismatch(quantity, str(name), in_view, int(in_model is not None))
