"""All quantities of a quota tree computed from scratch, by the definitions and nothing else.

Slow and obvious on purpose: this is what ``quota.tree`` must agree with after any history.  It is used by
the auditor of a running system and by the property tests.
"""

from collections.abc import Mapping

import msgspec

from quorate.quota import tree
from quorate.quota.amount import FlavorResource, Unlimited, Usage
from quorate.quota.tree import Limits, Node

_NOTHING = Limits(0)


class Quantities(msgspec.Struct, frozen=True):
    """Of one node and one flavor and resource."""

    subtree_quota: int
    guaranteed: int
    usage: int
    available: int
    potential_available: int


class Difference(msgspec.Struct, frozen=True):
    """What the tree keeps, against what it should."""

    node: str
    pair: FlavorResource
    quantity: str
    kept: int
    computed: int


def quantities(node: Node, pair: FlavorResource, usage: Mapping[Node, Usage]) -> Quantities:
    """The quantities of ``node``, given what the workloads of each cluster queue use."""
    owned, kept, used = _owned(node, pair), _guaranteed(node, pair), _used(node, pair, usage)
    borrowing = node.limits.get(pair, _NOTHING).borrowing
    if node.parent is None:
        return Quantities(owned, kept, used, owned - used, owned)
    above = quantities(node.parent, pair, usage)
    available, potential_available = above.available, kept + above.potential_available
    if not isinstance(borrowing, Unlimited):
        available = min(available, (owned - kept) - max(0, used - kept) + borrowing)
        potential_available = min(potential_available, owned + borrowing)
    return Quantities(owned, kept, used, max(0, kept - used) + available, potential_available)


def _owned(node: Node, pair: FlavorResource) -> int:
    nominal = node.limits.get(pair, _NOTHING).nominal
    return nominal + sum(_owned(child, pair) - _guaranteed(child, pair) for child in node.children)


def _guaranteed(node: Node, pair: FlavorResource) -> int:
    lending = node.limits.get(pair, _NOTHING).lending
    return 0 if isinstance(lending, Unlimited) else max(0, _owned(node, pair) - lending)


def _used(node: Node, pair: FlavorResource, usage: Mapping[Node, Usage]) -> int:
    own = usage.get(node, {}).get(pair, 0)
    return own + sum(max(0, _used(child, pair, usage) - _guaranteed(child, pair)) for child in node.children)


def audit(nodes: Mapping[Node, Usage]) -> tuple[Difference, ...]:
    """Every quantity that the trees of the cluster queues ``nodes`` keep wrongly, given what each uses."""
    everyone = {member: None for node in nodes for member in (node, *node.path())}
    differences: list[Difference] = []
    for node in everyone:
        pairs = {*node.limits, *node.subtree_quota, *node.usage, *nodes.get(node, {})}
        for pair in sorted(pairs):
            right = quantities(node, pair, nodes)
            kept = {
                "subtree_quota": tree.subtree_quota(node, pair),
                "guaranteed": tree.guaranteed(node, pair),
                "usage": tree.used(node, pair),
                "available": tree.available(node, pair),
                "potential_available": tree.potential_available(node, pair),
            }
            differences.extend(
                Difference(node.name, pair, quantity, amount, getattr(right, quantity))
                for quantity, amount in kept.items()
                if amount != getattr(right, quantity)
            )
    return tuple(differences)
