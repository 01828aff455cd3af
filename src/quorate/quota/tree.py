"""The tree of cohorts and cluster queues: quota, usage and what may be borrowed.

Every quantity is per flavor and resource (a ``FlavorResource``); with *n* a node and *c* its children:

    subtree quota(queue)      = nominal
    subtree quota(cohort)     = nominal + Σ (subtree quota(c) − guaranteed(c))
    guaranteed(n)             = max(0, subtree quota(n) − lending limit), never lent to the parent
    usage(cohort)             = Σ max(0, usage(c) − guaranteed(c)), what children take from the cohort
    local available(n)        = max(0, guaranteed(n) − usage(n)), free for n and those below only
    available(root)           = subtree quota − usage
    available(n)              = local available(n) + min(available(parent), rest of the borrowing limit)
    potential available(root) = subtree quota
    potential available(n)    = the lesser of guaranteed(n) + potential available(parent)
                                and subtree quota(n) + borrowing limit

The names are those of Kueue's cache.  ``subtree_quota``, ``guaranteed`` and ``usage`` are stored and updated
by differences, so a change costs the path to the root, not the tree; the others are computed when queried.
``available`` of a queue may be negative, after an administrator has reduced the quota of running workloads.
``quota.audit`` computes all values from scratch instead.

``quota.hierarchy`` ensures that the functions here never meet a cycle of parents.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

import msgspec

from quorate.quota.amount import UNLIMITED, Amount, FlavorResource, Unlimited, Usage


class Limits(msgspec.Struct, frozen=True):
    """Nominal quota, borrowing limit and lending limit of one node, flavor and resource."""

    nominal: int
    borrowing: Amount = UNLIMITED
    lending: Amount = UNLIMITED


_NO_QUOTA: Final = Limits(0)


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
        "root",
        "subtree_quota",
        "usage",
        "weight",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: Node | None = None
        self.root = self  # the last of its ancestors
        self.children: dict[Node, None] = {}  # exactly the nodes with this parent, in insertion order
        # Exactly the children with a usage above their subtree quota.
        self.borrowers: dict[FlavorResource, dict[Node, None]] = {}
        self.limits: dict[FlavorResource, Limits] = {}
        # As defined above; 0 if absent.
        self.subtree_quota: dict[FlavorResource, int] = {}
        self.guaranteed: dict[FlavorResource, int] = {}
        self.usage: dict[FlavorResource, int] = {}
        self.height = 0  # 0 for a leaf, else one more than the maximum of the children
        self.weight = Fraction(1)  # for fair sharing among its siblings

    def __repr__(self) -> str:
        return f"Node({self.name!r})"

    def path(self) -> Iterator["Node"]:
        """Yield the ancestors, from the parent to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent


# Quantities of a node.  Functions that every decision calls read its fields, which costs half of a call.


def limits(node: Node, pair: FlavorResource) -> Limits:
    return node.limits.get(pair, _NO_QUOTA)


def nominal(node: Node, pair: FlavorResource) -> int:
    return node.limits.get(pair, _NO_QUOTA).nominal


def used(node: Node, pair: FlavorResource) -> int:
    return node.usage.get(pair, 0)


def subtree_quota(node: Node, pair: FlavorResource) -> int:
    return node.subtree_quota.get(pair, 0)


def guaranteed(node: Node, pair: FlavorResource) -> int:
    """Return the part of the subtree quota that is never lent to the parent."""
    return node.guaranteed.get(pair, 0)


def local_available(node: Node, pair: FlavorResource) -> int:
    """Return the unused guaranteed quota, which only this node and those below it can use."""
    return max(0, node.guaranteed.get(pair, 0) - node.usage.get(pair, 0))


def available(node: Node, pair: FlavorResource) -> int:
    """Return the quota that can be used now in addition; negative if usage exceeds the quota."""
    if node.parent is None:
        return node.subtree_quota.get(pair, 0) - node.usage.get(pair, 0)
    if node.parent.parent is None:  # most cohorts have no parent
        root = node.parent
        return available_below(node, pair, root.subtree_quota.get(pair, 0) - root.usage.get(pair, 0))
    free = 0
    for below in _from_root(node):
        free = available_below(below, pair, free)
    return free


def available_below(node: Node, pair: FlavorResource, free: int) -> int:
    """Return the quota available at ``node``, given the quota available at its parent, if it has one."""
    used_here = node.usage.get(pair, 0)
    if node.parent is None:
        return node.subtree_quota.get(pair, 0) - used_here
    local_quota = node.guaranteed.get(pair, 0)
    borrowing = node.limits.get(pair, _NO_QUOTA).borrowing
    if not isinstance(borrowing, Unlimited):
        taken = max(0, used_here - local_quota)
        free = min(free, node.subtree_quota.get(pair, 0) - local_quota - taken + borrowing)
    return max(0, local_quota - used_here) + free


def _from_root(node: Node) -> list[Node]:
    """Return the path from the root to ``node``; loops over it have no limit of depth as recursion has."""
    path = [node]
    while (parent := path[-1].parent) is not None:
        path.append(parent)
    path.reverse()
    return path


def potential_available(node: Node, pair: FlavorResource) -> int:
    """Return the most the node could use if no other workload were admitted."""
    if node.parent is None:
        return node.subtree_quota.get(pair, 0)
    if node.parent.parent is None:  # most cohorts have no parent
        return potential_available_below(node, pair, node.parent.subtree_quota.get(pair, 0))
    most = 0
    for below in _from_root(node):
        most = potential_available_below(below, pair, most)
    return most


def potential_available_below(node: Node, pair: FlavorResource, most: int) -> int:
    """Return the most that ``node`` could use, given the most that its parent could, if it has one."""
    if node.parent is None:
        return node.subtree_quota.get(pair, 0)
    most = node.guaranteed.get(pair, 0) + most
    borrowing = node.limits.get(pair, _NO_QUOTA).borrowing
    if isinstance(borrowing, Unlimited):
        return most
    return min(most, node.subtree_quota.get(pair, 0) + borrowing)


def borrows_with(node: Node, pair: FlavorResource, amount: int) -> bool:
    """Return True if ``amount`` more makes the usage exceed the subtree quota."""
    return node.usage.get(pair, 0) + amount > node.subtree_quota.get(pair, 0)


def borrows_any(node: Node, usage: Usage) -> bool:
    """Return True if ``usage`` makes the usage of some flavor and resource exceed the subtree quota."""
    for pair, amount in usage.items():  # called for each decision, as ``borrows_with``
        if node.usage.get(pair, 0) + amount > node.subtree_quota.get(pair, 0):
            return True
    return False


def borrowers(node: Node, pairs: Iterable[FlavorResource]) -> Iterable[Node]:
    """Return the children that use more of one of ``pairs`` than their subtree quota."""
    borrowing: dict[Node, None] = {}
    for pair in pairs:
        borrowing.update(node.borrowers.get(pair, {}))
    return borrowing


def has_borrowers(nodes: Iterable[Node], pairs: Iterable[FlavorResource]) -> bool:
    """Return True if some node has ``borrowers``."""
    for node in nodes:
        for pair in pairs:
            if node.borrowers.get(pair):
                return True
    return False


def borrowing_nodes(node: Node, pairs: Iterable[FlavorResource]) -> frozenset[tuple[Node, FlavorResource]]:
    """Return ``node`` and its ancestors that use more than their subtree quota, with of what."""
    nodes = (node, *node.path())
    return frozenset((member, pair) for member in nodes for pair in pairs if borrows_with(member, pair, 0))


def is_within_quota(node: Node, pairs: Iterable[FlavorResource]) -> bool:
    return all(used(node, pair) <= subtree_quota(node, pair) for pair in pairs)


def fits(node: Node, usage: Usage) -> bool:
    for pair, amount in usage.items():  # noqa: SIM110  called for each decision, where all() costs more
        if amount > max(0, available(node, pair)):
            return False
    return True


def fits_while(node: Node, usage: Usage, used: Mapping[Node, dict[FlavorResource, int]]) -> bool:
    """Return True if ``usage`` fits at ``node`` while nodes use what ``used`` says, as far as it does."""
    saved = [(member, member.usage) for member in (node, *node.path())]
    for member, current in saved:
        member.usage = used.get(member, current)
    try:
        return fits(node, usage)
    finally:
        for member, current in saved:
            member.usage = current


class BorrowingLevel(msgspec.Struct, frozen=True):
    """The height of the lowest ancestor with enough quota for a request; 0 without borrowing."""

    height: int
    may_reclaim: bool  # ancestors above have quota that could be reclaimed


def borrowing_level(node: Node, pair: FlavorResource, amount: int) -> BorrowingLevel:
    """Return the level at which ``amount`` more at ``node`` is covered by quota."""
    if node.parent is None or not borrows_with(node, pair, amount):
        return BorrowingLevel(0, node.parent is not None)
    rest = amount - local_available(node, pair)
    root = node
    for ancestor in node.path():
        if not borrows_with(ancestor, pair, rest):
            return BorrowingLevel(ancestor.height, ancestor.parent is not None)
        rest -= local_available(ancestor, pair)
        root = ancestor
    return BorrowingLevel(root.height, may_reclaim=False)


# Usage and limits, updated by differences


@contextmanager
def without_usage(root: Node) -> Iterator[None]:
    """Let nothing be used at ``root`` and below while the block lasts."""
    nodes = [root]
    for node in nodes:
        nodes.extend(node.children)
    saved = [(node, node.usage, node.borrowers) for node in nodes]
    try:
        for node in nodes:
            node.usage, node.borrowers = {}, {}
        yield
    finally:
        for node, usage, borrowed in saved:
            node.usage, node.borrowers = usage, borrowed


def missing_quota(node: Node, usage: Usage) -> Usage:
    """Return by how much each amount of ``usage`` exceeds what is available at ``node``; empty if it fits."""
    free = {pair: available(node, pair) for pair in usage}
    return {pair: amount - free[pair] for pair, amount in usage.items() if amount > free[pair]}


@contextmanager
def with_more_quota(node: Node, more: Usage) -> Iterator[None]:
    """Let the nominal quota of ``node`` be larger by ``more`` while the block lasts."""
    saved = dict(node.limits)
    raised = {
        pair: msgspec.structs.replace(limits(node, pair), nominal=nominal(node, pair) + amount)
        for pair, amount in more.items()
    }
    set_limits(node, saved | raised)
    try:
        yield
    finally:
        set_limits(node, saved)


def add_usage(node: Node, usage: Usage) -> None:
    """Add ``usage`` at ``node``, and at its ancestors what exceeds the guaranteed quota below."""
    for pair, amount in usage.items():
        _add(node, pair, amount)


def remove_usage(node: Node, usage: Usage) -> None:
    """Undo ``add_usage`` exactly."""
    for pair, amount in usage.items():
        _add(node, pair, -amount)


def _add(node: Node, pair: FlavorResource, more: int) -> None:
    current: Node | None = node
    while current is not None and more:
        old = current.usage.get(pair, 0)
        new = old + more
        if new:
            current.usage[pair] = new
        else:
            del current.usage[pair]  # ``old`` is not 0, because ``more`` is not
        own = current.subtree_quota.get(pair, 0)
        if (old > own) is not (new > own):
            _update_borrowers(current, pair)
        local_quota = current.guaranteed.get(pair, 0)
        if local_quota:  # only what exceeds it is taken from the parent
            more = max(0, new - local_quota) - max(0, old - local_quota)
        current = current.parent


def usage_without(removed: Mapping[Node, Usage]) -> dict[Node, dict[FlavorResource, int]]:
    """Return what nodes and their ancestors would use without ``removed``; no others are in the result."""
    result: dict[Node, dict[FlavorResource, int]] = {}
    for node, usage in removed.items():
        for pair, amount in usage.items():
            current: Node | None = node
            less = amount
            while current is not None:
                used_here = result.get(current)
                if used_here is None:
                    used_here = result[current] = current.usage.copy()
                old, local_quota = used_here.get(pair, 0), current.guaranteed.get(pair, 0)
                used_here[pair] = old - less
                if local_quota:  # as when it is removed
                    less = max(0, old - local_quota) - max(0, old - less - local_quota)
                current = current.parent
    return result


def set_limits(node: Node, new_limits: Mapping[FlavorResource, Limits]) -> None:
    """Replace the limits of ``node`` and update its ancestors."""
    for pair in {**node.limits, **new_limits}:
        old, new = node.limits.get(pair, _NO_QUOTA), new_limits.get(pair, _NO_QUOTA)
        lent, taken = _contribution(node, pair)
        if pair in new_limits:
            node.limits[pair] = new
        else:
            del node.limits[pair]
        _set(node.subtree_quota, pair, subtree_quota(node, pair) + new.nominal - old.nominal)
        _set_guaranteed(node, pair)
        _propagate(node, pair, lent, taken)


def set_parent(node: Node, parent: Node | None) -> None:
    """Move the subtree of ``node`` under ``parent``, which must not be below ``node``."""
    pairs = {*node.subtree_quota, *node.guaranteed, *node.usage}
    old = node.parent
    if old is not None:
        del old.children[node]
        for pair in pairs:
            old.borrowers.get(pair, {}).pop(node, None)
            lent, taken = _contribution(node, pair)
            _add_quota(old, pair, -lent)
            _add(old, pair, -taken)
        _set_height(old)
    node.parent = parent
    _set_root(node, node if parent is None else parent.root)
    if parent is not None:
        assert node not in (parent, *parent.path()), f"{parent} is below {node}"
        parent.children[node] = None
        for pair in pairs:
            _update_borrowers(node, pair)
            lent, taken = _contribution(node, pair)
            _add_quota(parent, pair, lent)
            _add(parent, pair, taken)
        _set_height(parent)


def _set_root(node: Node, root: Node) -> None:
    nodes = [node]
    for member in nodes:
        member.root = root
        nodes.extend(member.children)


def _contribution(node: Node, pair: FlavorResource) -> tuple[int, int]:
    """Return what the node adds to the subtree quota and the usage of its parent."""
    local_quota = guaranteed(node, pair)
    return subtree_quota(node, pair) - local_quota, max(0, used(node, pair) - local_quota)


def _add_quota(node: Node, pair: FlavorResource, more: int) -> None:
    """Add ``more`` quota that a child of ``node`` lends to it, and update its ancestors."""
    current: Node | None = node
    taken_from: list[tuple[Node, int]] = []  # usage to add to ancestors once all their quotas are updated
    while current is not None and more:
        lent, taken = _contribution(current, pair)
        _set(current.subtree_quota, pair, subtree_quota(current, pair) + more)
        _set_guaranteed(current, pair)
        _update_borrowers(current, pair)
        now_lent, now_taken = _contribution(current, pair)
        more, current = now_lent - lent, current.parent
        if current is not None:
            taken_from.append((current, now_taken - taken))
    for ancestor, taken in reversed(taken_from):
        _add(ancestor, pair, taken)


def _propagate(node: Node, pair: FlavorResource, lent: int, taken: int) -> None:
    """Update the parent after the node's contribution changed from ``lent`` and ``taken``."""
    _update_borrowers(node, pair)
    if node.parent is not None:
        now_lent, now_taken = _contribution(node, pair)
        _add_quota(node.parent, pair, now_lent - lent)
        _add(node.parent, pair, now_taken - taken)


def _update_borrowers(node: Node, pair: FlavorResource) -> None:
    if node.parent is None:
        return
    if used(node, pair) > subtree_quota(node, pair):
        node.parent.borrowers.setdefault(pair, {})[node] = None
    else:
        node.parent.borrowers.get(pair, {}).pop(node, None)


def _set_guaranteed(node: Node, pair: FlavorResource) -> None:
    lending = limits(node, pair).lending
    local_quota = 0 if isinstance(lending, Unlimited) else max(0, subtree_quota(node, pair) - lending)
    _set(node.guaranteed, pair, local_quota)


def _set(amounts: dict[FlavorResource, int], pair: FlavorResource, amount: int) -> None:
    if amount:
        amounts[pair] = amount
    else:
        amounts.pop(pair, None)


def _set_height(node: Node) -> None:
    current: Node | None = node
    while current is not None:
        height = 1 + max(child.height for child in current.children) if current.children else 0
        if height == current.height:
            return
        current.height = height
        current = current.parent
