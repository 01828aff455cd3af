"""Audit of the places: what pods use of each leaf, and the domains of each flavor, computed from scratch.

The model updates all of it incrementally: the usage of each leaf when a workload gets or loses places, and
the trees of the flavors when nodes, pods and places change.  Each slice of the audit compares what belongs to
one moment.  Places that a cycle reserves for a preemptor count only while it runs.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from quorate.api.core.scheduling import Node
from quorate.api.meta import Key
from quorate.placement.resources import in_base_units
from quorate.placement.topology.tree import MAX_AMOUNT, Path, as_share
from quorate.queueing.topology.model import TopologyModel
from quorate.queueing.topology.places import Amounts, Places, UsedBy
from quorate.queueing.topology.trees import KnownTree
from quorate.queueing.topology.used_places import UsedPlaces

SLICE_SIZE: Final = 1_000  # places or nodes, at least

_T = TypeVar("_T")
_Usage = Mapping[Path, Mapping[UsedBy, Amounts]]


class PlaceMismatch(msgspec.Struct, frozen=True):
    """Another amount of a resource in the model than what the places, nodes and pods give."""

    leaf: Path  # or a node below a leaf: its name is the last value
    flavors: tuple[str, ...]  # of the pods, or of the tree; empty: hosts of flavors without a topology
    quantity: str  # "usage" of the pods, or what a tree has as "free" and "used"
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


PlaceDifference = PlaceMismatch | PlacesMismatch | DomainMismatch


def audit_places(
    model: TopologyModel,
    all_places: Callable[[], Mapping[Key, Places]],
    counted: Callable[[], Mapping[Key, Places]],
) -> Iterator[tuple[PlaceDifference, ...]]:
    """Yield the differences of one slice after the other.

    ``all_places`` are those of all workloads that have some, at the moment of the call, and ``counted`` those
    that count: their cluster queues exist.
    """
    present, with_places = all_places().keys(), model.occupants.with_places
    yield tuple(PlacesMismatch(key, key in with_places) for key in sorted(present ^ with_places))
    yield from _usage_slices(model, counted)
    for known in model.known_trees():
        yield from _tree_slices(model, known)


def _usage_slices(
    model: TopologyModel, counted: Callable[[], Mapping[Key, Places]]
) -> Iterator[tuple[PlaceDifference, ...]]:
    """Compare the usage of all leaves at the last moment, by then most of it has been computed."""
    sums = UsedPlaces()
    seen: dict[Key, Places] = {}
    size = 0
    for key, places in counted().items():
        seen[key] = places
        _count(sums, places, 1)
        size += 1 + len(places.all)
        if size >= SLICE_SIZE:
            yield ()
            size = 0
    current = counted()
    for key, places in seen.items():
        if current.get(key) is not places:
            _count(sums, places, -1)
    for key, places in current.items():
        if seen.get(key) is not places:
            _count(sums, places, 1)
    yield tuple(_usage_differences(model.used.by_leaf, sums.by_leaf))


def _count(sums: UsedPlaces, places: Places, times: int) -> None:
    for place in places.all:
        sums.count(place, times)


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


def _tree_slices(model: TopologyModel, known: KnownTree) -> Iterator[tuple[PlaceDifference, ...]]:
    """Compare a tree leaf by leaf; a tree that a node joins or leaves meanwhile is left to the next audit."""
    changes = model.domain_changes

    def is_current() -> bool:
        return model.domain_changes == changes and any(
            each.tree is known.tree for each in model.known_trees()
        )

    nodes_of: dict[Path, list[str]] = {}
    for start, names in _chunks([*model.nodes]):
        if start:
            yield ()
        if not is_current():
            return
        for name in names:
            node = model.nodes.get(name)
            if node is not None and model.is_in(node, known.of):
                nodes_of.setdefault(known.tree.recorded_values_of(node), []).append(name)
    leaves = known.tree.leaves
    if nodes_of.keys() != leaves:
        yield tuple(
            DomainMismatch(leaf, known.flavor, leaf in leaves) for leaf in sorted(nodes_of.keys() ^ leaves)
        )
        return
    for _, chunk in _chunks(list(nodes_of)):
        yield ()
        if not is_current():
            return
        yield tuple(
            difference
            for leaf in chunk
            for difference in _leaf_differences(
                model, known, leaf, [model.nodes[name] for name in nodes_of[leaf]]
            )
        )


def _chunks(items: Sequence[_T]) -> Iterator[tuple[int, Sequence[_T]]]:
    for start in range(0, len(items), SLICE_SIZE):
        yield start, items[start : start + SLICE_SIZE]


def _leaf_differences(
    model: TopologyModel, known: KnownTree, leaf: Path, nodes: Iterable[Node]
) -> Iterator[PlaceMismatch]:
    free: dict[str, int] = {}
    for node in nodes:
        of_node: dict[str, int] = {}
        _add_amounts(of_node, in_base_units(node.status.allocatable), 1)
        for amounts in model.foreign_on(node):
            _add_amounts(of_node, amounts, -1)
        _add_amounts(free, of_node, 1)
        if known.tree.below is not None:
            name = node.metadata.name
            yield from _mismatches(known, (*leaf, name), "free", known.tree.below.free_on(name), of_node)
    used: dict[str, int] = {}
    for amounts in model.used_in(known, leaf):
        for resource, amount in amounts.items():
            used[resource] = used.get(resource, 0) + amount
    of_tree = known.tree.amounts_of(leaf)
    for quantity, in_tree, computed in zip(("free", "used"), of_tree, (free, used), strict=True):
        yield from _mismatches(known, leaf, quantity, in_tree, computed)


def _mismatches(
    known: KnownTree, leaf: Path, quantity: str, in_tree: Amounts, computed: Amounts
) -> Iterator[PlaceMismatch]:
    for resource in sorted(in_tree.keys() | computed.keys()):
        have, want = in_tree.get(resource, 0), computed.get(resource, 0)
        is_exact = max(abs(have), abs(want)) < MAX_AMOUNT  # at the bound, the order of changes counts
        if have != want and is_exact:
            yield PlaceMismatch(leaf, (known.flavor,), quantity, resource, have, want)


def _add_amounts(total: dict[str, int], amounts: Mapping[str, int], times: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + as_share(amount) * times
