"""Dominant resource shares: how much of what could be borrowed a node has borrowed (Kueue's KEP-1714).

    borrowed(r) = Σ over flavors of max(0, usage − subtree)
    lendable(r) = Σ over flavors of potential(parent)
    share       = max over r of 1000 × borrowed(r) / lendable(r), divided by the weight of the node

Borrowing on one flavor is not made good by slack on another.  Shares are exact fractions, in thousandths.
"""

from fractions import Fraction
from typing import Final, NamedTuple

from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from quorate.quota.tree import Node


class Share(NamedTuple):
    """Ordered: who has no weight and borrows all the same has more than anybody with weight."""

    infinite: bool
    thousandths: Fraction  # of an infinite share: as if the weight were 1

    @property
    def is_borrowing(self) -> bool:
        return self.thousandths > 0


NO_SHARE: Final = Share(False, Fraction(0))


def dominant_share(node: Node) -> Share:
    """The share of ``node`` among its siblings; a root has none."""
    if node.parent is None:
        return NO_SHARE
    borrowed: dict[str, int] = {}
    for pair, used in node.usage.items():
        over = used - tree.subtree_quota(node, pair)
        if over > 0:
            borrowed[pair.resource] = borrowed.get(pair.resource, 0) + over
    ratio = Fraction(0)
    for resource, amount in borrowed.items():
        lendable = _lendable(node.parent, resource)
        if lendable > 0:
            ratio = max(ratio, Fraction(1000 * amount, lendable))
    if not ratio:
        return NO_SHARE
    return Share(False, ratio / node.weight) if node.weight else Share(True, ratio)


def _lendable(parent: Node, resource: str) -> int:
    """The most of ``resource``, of all flavors together, that anybody below ``parent`` could ever use."""
    pairs: dict[FlavorResource, None] = {}
    for node in (parent, *parent.path()):
        pairs.update((pair, None) for pair in node.subtree_quota if pair.resource == resource)
    return sum(tree.potential_available(parent, pair) for pair in pairs)
