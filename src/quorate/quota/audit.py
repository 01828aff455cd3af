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


def quantities(node: Node, pair: FlavorResource, usage: Mapping[Node, Usage]) -> Quantities:
    """Return the quantities of ``node``, given the usage of each cluster queue."""
    return _of_tree(node.root, pair, usage)[node]


def _of_tree(root: Node, pair: FlavorResource, usage: Mapping[Node, Usage]) -> dict[Node, Quantities]:
    """Return the quantities of all nodes of a tree, which may be deeper than recursion."""
    nodes = [root]  # parents first
    for node in nodes:
        nodes.extend(node.children)
    subtree_quota: dict[Node, int] = {}
    guaranteed: dict[Node, int] = {}
    used: dict[Node, int] = {}
    for node in reversed(nodes):
        own = node.limits.get(pair, _NO_QUOTA)
        lent = sum(subtree_quota[child] - guaranteed[child] for child in node.children)
        taken = sum(max(0, used[child] - guaranteed[child]) for child in node.children)
        subtree_quota[node] = own.nominal + lent
        kept = 0 if isinstance(own.lending, Unlimited) else max(0, subtree_quota[node] - own.lending)
        guaranteed[node] = kept
        used[node] = usage.get(node, {}).get(pair, 0) + taken
    quantities: dict[Node, Quantities] = {}
    for node in nodes:
        of_parent = None if node.parent is None else quantities[node.parent]
        quantities[node] = _quantities(
            node, pair, subtree_quota[node], guaranteed[node], used[node], of_parent
        )
    return quantities


def _quantities(
    node: Node,
    pair: FlavorResource,
    subtree_quota: int,
    guaranteed: int,
    used: int,
    of_parent: Quantities | None,
) -> Quantities:
    if of_parent is None:
        return Quantities(subtree_quota, guaranteed, used, subtree_quota - used, subtree_quota)
    borrowing = node.limits.get(pair, _NO_QUOTA).borrowing
    available, potential = of_parent.available, guaranteed + of_parent.potential_available
    if not isinstance(borrowing, Unlimited):
        from_parent = max(0, used - guaranteed)
        available = min(available, (subtree_quota - guaranteed) - from_parent + borrowing)
        potential = min(potential, subtree_quota + borrowing)
    return Quantities(subtree_quota, guaranteed, used, max(0, guaranteed - used) + available, potential)


def _in_tree(node: Node, pair: FlavorResource, of_parents: Mapping[Node, Quantities]) -> Quantities:
    """Return the quantities that the tree has for ``node``, given the quantities of its parent."""
    above = None if node.parent is None else of_parents[node.parent]
    return Quantities(
        tree.subtree_quota(node, pair),
        tree.guaranteed(node, pair),
        tree.used(node, pair),
        tree.available_below(node, pair, 0 if above is None else above.available),
        tree.potential_available_below(node, pair, 0 if above is None else above.potential_available),
    )


def audit(
    usage: Mapping[Node, Usage], pairs: Iterable[FlavorResource] | None = None
) -> tuple[Difference, ...]:
    """Return all differences in the trees of the cluster queues, given the usage of each.

    If ``pairs`` are given, only their differences.  Costs a few passes over the trees for each pair.
    """
    nodes = {member: None for queue in usage for member in (queue, *queue.path())}
    roots = {node.root: None for node in nodes}
    differences: list[Difference] = []
    for pair in sorted(pairs_of(usage) if pairs is None else pairs):
        by_definition: dict[Node, Quantities] = {}  # parents first
        for root in roots:
            by_definition |= _of_tree(root, pair, usage)
        in_tree: dict[Node, Quantities] = {}
        for node, computed in by_definition.items():
            stored = in_tree[node] = _in_tree(node, pair, in_tree)
            if stored == computed or node not in nodes:
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
