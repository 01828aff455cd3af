"""All quantities of a quota tree, computed from scratch by their definitions.

This is slow and obvious on purpose: ``quota.tree`` must agree with it after any sequence of changes.  The
auditor of a running system and the property tests use it.
"""

from collections.abc import Iterable, Mapping

import msgspec

from quorate.quota import tree
from quorate.quota.amount import FlavorResource, Unlimited, Usage
from quorate.quota.tree import Limits, Node

_NO_QUOTA = Limits(0)


class Quantities(msgspec.Struct, frozen=True):
    """The quantities of one node for one flavor and resource."""

    subtree_quota: int
    guaranteed: int
    usage: int
    available: int
    potential_available: int


class Difference(msgspec.Struct, frozen=True):
    """A quantity for which the tree has another value than the definition."""

    node: str
    pair: FlavorResource
    quantity: str
    stored: int
    computed: int


def quantities(
    node: Node,
    pair: FlavorResource,
    usage: Mapping[Node, Usage],
    known: Mapping[Node, Quantities] | None = None,
) -> Quantities:
    """Return the quantities of ``node``, given the usage of each cluster queue.

    ``known`` are quantities of the same pair and usage, which are not computed again.
    """
    if known is not None and node in known:
        return known[node]
    subtree_quota, guaranteed = _subtree_quota(node, pair), _guaranteed(node, pair)
    used = _used(node, pair, usage)
    borrowing = node.limits.get(pair, _NO_QUOTA).borrowing
    if node.parent is None:
        return Quantities(subtree_quota, guaranteed, used, subtree_quota - used, subtree_quota)
    of_parent = quantities(node.parent, pair, usage, known)
    available, potential = of_parent.available, guaranteed + of_parent.potential_available
    if not isinstance(borrowing, Unlimited):
        from_parent = max(0, used - guaranteed)
        available = min(available, (subtree_quota - guaranteed) - from_parent + borrowing)
        potential = min(potential, subtree_quota + borrowing)
    return Quantities(subtree_quota, guaranteed, used, max(0, guaranteed - used) + available, potential)


def _subtree_quota(node: Node, pair: FlavorResource) -> int:
    nominal = node.limits.get(pair, _NO_QUOTA).nominal
    return nominal + sum(_subtree_quota(child, pair) - _guaranteed(child, pair) for child in node.children)


def _guaranteed(node: Node, pair: FlavorResource) -> int:
    lending = node.limits.get(pair, _NO_QUOTA).lending
    return 0 if isinstance(lending, Unlimited) else max(0, _subtree_quota(node, pair) - lending)


def _used(node: Node, pair: FlavorResource, usage: Mapping[Node, Usage]) -> int:
    own = usage.get(node, {}).get(pair, 0)
    return own + sum(max(0, _used(child, pair, usage) - _guaranteed(child, pair)) for child in node.children)


def audit(
    usage: Mapping[Node, Usage], pairs: Iterable[FlavorResource] | None = None
) -> tuple[Difference, ...]:
    """Return all differences in the trees of the cluster queues, given the usage of each.

    Only those of ``pairs``, if given.  Costs a few passes over the trees for each pair.
    """
    nodes = {member: None for queue in usage for member in (queue, *queue.path())}
    by_height = sorted(nodes, key=lambda node: node.height, reverse=True)  # parents first
    differences: list[Difference] = []
    for pair in sorted(pairs_of(usage) if pairs is None else pairs):
        known: dict[Node, Quantities] = {}
        for node in by_height:
            known[node] = quantities(node, pair, usage, known)
        for node in nodes:
            computed = known[node]
            stored = Quantities(
                tree.subtree_quota(node, pair),
                tree.guaranteed(node, pair),
                tree.used(node, pair),
                tree.available(node, pair),
                tree.potential_available(node, pair),
            )
            if stored == computed:
                continue
            differences.extend(
                Difference(node.name, pair, quantity, getattr(stored, quantity), getattr(computed, quantity))
                for quantity in Quantities.__struct_fields__
                if getattr(stored, quantity) != getattr(computed, quantity)
            )
    return tuple(differences)


def pairs_of(usage: Mapping[Node, Usage]) -> set[FlavorResource]:
    """Return every flavor and resource that the trees of the cluster queues, or their usage, name."""
    pairs: set[FlavorResource] = set()
    for node in {member: None for queue in usage for member in (queue, *queue.path())}:
        pairs.update(node.limits, node.subtree_quota, node.guaranteed, node.usage, usage.get(node, {}))
    return pairs
