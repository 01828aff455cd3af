"""Dominant resource shares: the borrowed part of what could be borrowed (Kueue's KEP-1714).

    borrowed(r) = Σ over flavors of max(0, usage − subtree quota)
    lendable(r) = Σ over flavors of potential available(parent)
    share       = max over r of 1000 × borrowed(r) / lendable(r), divided by the weight of the node

Unused quota of one flavor does not offset borrowing of another.  Shares are exact fractions, in thousandths.
"""

from fractions import Fraction
from typing import Final, NamedTuple

from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from quorate.quota.tree import Node


class Share(NamedTuple):
    """Ordered: a borrowing node of weight 0 has an infinite share, which exceeds any finite one."""

    infinite: bool
    thousandths: Fraction  # if infinite: the share for weight 1

    @property
    def is_borrowing(self) -> bool:
        return self.thousandths > 0


NO_SHARE: Final = Share(False, Fraction(0))


def dominant_share(node: Node) -> Share:
    """Return the share of ``node`` among its siblings; the share of a root is 0."""
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
    """Return the most that nodes below ``parent`` could ever use of ``resource`` in all flavors."""
    pairs: dict[FlavorResource, None] = {}
    for node in (parent, *parent.path()):
        pairs.update((pair, None) for pair in node.subtree_quota if pair.resource == resource)
    return sum(tree.potential_available(parent, pair) for pair in pairs)
