"""The tree of cohorts and cluster queues, and how much of what each may use.

Every quantity is per flavor and resource (a ``FlavorResource``); with *n* a node and *c* its children:

    subtree(queue)   = nominal
    subtree(cohort)  = nominal + Σ (subtree(c) − guaranteed(c))
    guaranteed(n)    = max(0, subtree(n) − lending limit)        never lent to the parent
    usage(cohort)    = Σ max(0, usage(c) − guaranteed(c))        what the children take beyond their own
    local(n)         = max(0, guaranteed(n) − usage(n))          free, and only for n and those below
    available(root)  = subtree − usage
    available(n)     = local(n) + min(available(parent), what the borrowing limit leaves)
    potential(root)  = subtree
    potential(n)     = min(guaranteed(n) + potential(parent), subtree(n) + borrowing limit)

``subtree_quota``, ``guaranteed`` and ``usage`` are stored and updated by differences, so a change costs the
path to the root, not the tree; the rest is computed when asked for.  ``available`` of a queue may be
negative, after an administrator took quota away from running work.  ``quota.audit`` computes all of
it from scratch instead.

The functions here never meet a loop of parents: ``quota.cohorts`` keeps them out.
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final

import msgspec

from quorate.quota.amount import UNLIMITED, Amount, FlavorResource, Unlimited, Usage


class Limits(msgspec.Struct, frozen=True):
    """What one node owns of one flavor and resource, and how far it may borrow and must lend."""

    nominal: int
    borrowing: Amount = UNLIMITED
    lending: Amount = UNLIMITED


_NOTHING: Final = Limits(0)


class Node:
    """A cluster queue (a leaf) or a cohort."""

    __slots__ = (
        "borrowers",
        "children",
        "guaranteed",
        "height",
        "limits",
        "name",
        "parent",
        "subtree_quota",
        "usage",
        "weight",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: Node | None = None
        self.children: dict[Node, None] = {}  # exactly the nodes whose parent this is, in order of arrival
        # Exactly the children that use more of it than their subtree owns.
        self.borrowers: dict[FlavorResource, dict[Node, None]] = {}
        self.limits: dict[FlavorResource, Limits] = {}
        # As defined above; absent is 0.
        self.subtree_quota: dict[FlavorResource, int] = {}
        self.guaranteed: dict[FlavorResource, int] = {}
        self.usage: dict[FlavorResource, int] = {}
        self.height = 0  # 0 for a leaf, else one more than that of the highest child
        self.weight = Fraction(1)  # its claim to what is shared, against that of its siblings

    def __repr__(self) -> str:
        return f"Node({self.name!r})"

    @property
    def root(self) -> "Node":
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def path(self) -> Iterator["Node"]:
        """The ancestors, from the parent to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


# What a node has and may take.


def limits(node: Node, pair: FlavorResource) -> Limits:
    return node.limits.get(pair, _NOTHING)


def nominal(node: Node, pair: FlavorResource) -> int:
    return node.limits.get(pair, _NOTHING).nominal


def used(node: Node, pair: FlavorResource) -> int:
    return node.usage.get(pair, 0)


def subtree_quota(node: Node, pair: FlavorResource) -> int:
    return node.subtree_quota.get(pair, 0)


def guaranteed(node: Node, pair: FlavorResource) -> int:
    """The part of the subtree's quota that is never lent to the parent."""
    return node.guaranteed.get(pair, 0)


def local_available(node: Node, pair: FlavorResource) -> int:
    """What is free for this node and those below it alone."""
    return max(0, guaranteed(node, pair) - used(node, pair))


def available(node: Node, pair: FlavorResource) -> int:
    """What could be used more at once; negative where more is used than there is."""
    if node.parent is None:
        return subtree_quota(node, pair) - used(node, pair)
    kept, borrowing = guaranteed(node, pair), limits(node, pair).borrowing
    from_parent = available(node.parent, pair)
    if not isinstance(borrowing, Unlimited):
        taken = max(0, used(node, pair) - kept)
        from_parent = min(from_parent, subtree_quota(node, pair) - kept - taken + borrowing)
    return max(0, kept - used(node, pair)) + from_parent


def potential_available(node: Node, pair: FlavorResource) -> int:
    """The most the node could ever use, were nothing else running anywhere."""
    if node.parent is None:
        return subtree_quota(node, pair)
    most = guaranteed(node, pair) + potential_available(node.parent, pair)
    borrowing = limits(node, pair).borrowing
    return most if isinstance(borrowing, Unlimited) else min(most, subtree_quota(node, pair) + borrowing)


def borrows_with(node: Node, pair: FlavorResource, amount: int) -> bool:
    """Whether the node would use more than its subtree owns, with ``amount`` more."""
    return used(node, pair) + amount > subtree_quota(node, pair)


def borrowers(node: Node, pairs: Iterable[FlavorResource]) -> Iterable[Node]:
    """The children of ``node`` that use more of one of ``pairs`` than they own."""
    found: dict[Node, None] = {}
    for pair in pairs:
        found.update(node.borrowers.get(pair, {}))
    return found


def is_within_quota(node: Node, pairs: Iterable[FlavorResource]) -> bool:
    return all(used(node, pair) <= subtree_quota(node, pair) for pair in pairs)


def fits(node: Node, usage: Usage) -> bool:
    return all(amount <= max(0, available(node, pair)) for pair, amount in usage.items())


class Level(msgspec.Struct, frozen=True):
    """How far up the tree a request takes quota: 0 is the queue's own, then the height of the cohort."""

    height: int
    may_reclaim: bool  # there is quota above that could be taken back from others


def level(node: Node, pair: FlavorResource, amount: int) -> Level:
    """The level at which ``amount`` more at ``node`` is covered by quota."""
    if node.parent is None or not borrows_with(node, pair, amount):
        return Level(0, node.parent is not None)
    rest = amount - local_available(node, pair)
    top = node
    for ancestor in node.path():
        if used(ancestor, pair) + rest <= subtree_quota(ancestor, pair):
            return Level(ancestor.height, ancestor.parent is not None)
        rest -= local_available(ancestor, pair)
        top = ancestor
    return Level(top.height, may_reclaim=False)


# Usage and limits, kept by differences.


def add_usage(node: Node, usage: Usage) -> None:
    """Count ``usage`` at ``node`` and, beyond what each guarantees, at its ancestors."""
    for pair, amount in usage.items():
        _use(node, pair, amount)


def remove_usage(node: Node, usage: Usage) -> None:
    """The exact inverse of ``add_usage``."""
    for pair, amount in usage.items():
        _use(node, pair, -amount)


def _use(node: Node, pair: FlavorResource, more: int) -> None:
    at: Node | None = node
    while at is not None and more:
        old = at.usage.get(pair, 0)
        new = old + more
        _put(at.usage, pair, new)
        own = at.subtree_quota.get(pair, 0)
        if (old > own) is not (new > own):
            _note_borrowing(at, pair)
        kept = at.guaranteed.get(pair, 0)
        if kept:  # only what goes beyond it is taken from the parent
            more = max(0, new - kept) - max(0, old - kept)
        at = at.parent


def set_limits(node: Node, new_limits: Mapping[FlavorResource, Limits]) -> None:
    """Give ``node`` exactly ``new_limits``; ancestors follow."""
    for pair in {**node.limits, **new_limits}:
        old, new = node.limits.get(pair, _NOTHING), new_limits.get(pair, _NOTHING)
        lent, taken = _contribution(node, pair)
        if pair in new_limits:
            node.limits[pair] = new
        else:
            del node.limits[pair]
        _put(node.subtree_quota, pair, subtree_quota(node, pair) + new.nominal - old.nominal)
        _set_guaranteed(node, pair)
        _pass_on(node, pair, lent, taken)


def set_parent(node: Node, parent: Node | None) -> None:
    """Move ``node``, with all below it, under ``parent``; ``parent`` must not be below ``node``."""
    pairs = {*node.subtree_quota, *node.usage}
    old = node.parent
    if old is not None:
        del old.children[node]
        for pair in pairs:
            old.borrowers.get(pair, {}).pop(node, None)
            lent, taken = _contribution(node, pair)
            _lend(old, pair, -lent)
            _use(old, pair, -taken)
        _set_height(old)
    node.parent = parent
    if parent is not None:
        assert node not in (parent, *parent.path()), f"{parent} is below {node}"
        parent.children[node] = None
        for pair in pairs:
            _note_borrowing(node, pair)
            lent, taken = _contribution(node, pair)
            _lend(parent, pair, lent)
            _use(parent, pair, taken)
        _set_height(parent)


def _contribution(node: Node, pair: FlavorResource) -> tuple[int, int]:
    """What the node adds to its parent's subtree and usage."""
    kept = guaranteed(node, pair)
    return subtree_quota(node, pair) - kept, max(0, used(node, pair) - kept)


def _lend(node: Node, pair: FlavorResource, more: int) -> None:
    """``more`` quota comes to ``node`` from one of its children."""
    if more:
        lent, taken = _contribution(node, pair)
        _put(node.subtree_quota, pair, subtree_quota(node, pair) + more)
        _set_guaranteed(node, pair)
        _pass_on(node, pair, lent, taken)


def _pass_on(node: Node, pair: FlavorResource, lent: int, taken: int) -> None:
    """Let the parent know how the node's contribution differs from what it was."""
    _note_borrowing(node, pair)
    if node.parent is not None:
        now_lent, now_taken = _contribution(node, pair)
        _lend(node.parent, pair, now_lent - lent)
        _use(node.parent, pair, now_taken - taken)


def _note_borrowing(node: Node, pair: FlavorResource) -> None:
    if node.parent is None:
        return
    if used(node, pair) > subtree_quota(node, pair):
        node.parent.borrowers.setdefault(pair, {})[node] = None
    else:
        node.parent.borrowers.get(pair, {}).pop(node, None)


def _set_guaranteed(node: Node, pair: FlavorResource) -> None:
    lending = limits(node, pair).lending
    kept = 0 if isinstance(lending, Unlimited) else max(0, subtree_quota(node, pair) - lending)
    _put(node.guaranteed, pair, kept)


def _put(amounts: dict[FlavorResource, int], pair: FlavorResource, amount: int) -> None:
    if amount:
        amounts[pair] = amount
    else:
        amounts.pop(pair, None)


def _set_height(node: Node) -> None:
    height = 1 + max(child.height for child in node.children) if node.children else 0
    if height == node.height:
        return
    node.height = height
    if node.parent is not None:
        _set_height(node.parent)
