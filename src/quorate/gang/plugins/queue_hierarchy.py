"""What queues are entitled to with the plugin ``capacity``.

Source: Volcano's plugin capacity.  The queues are independent, or form a hierarchy, where the amounts of a
queue hold for all queues below it together.  The root limits nothing unless its object does, not even to the
resources of the cluster: groups may be admitted for nodes that are still to be added.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from quorate.gang.cache.queue import ROOT, Queue
from quorate.gang.deserved import real_capability
from quorate.gang.queue_accounts import ResourceLimits
from quorate.placement.resources import EMPTY_AMOUNTS, Amounts, DimensionDefault, maximum, minimum, plus
from quorate.quota.amount import UNLIMITED, Amount


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The amounts of one queue, with those of the queues below it."""

    path: tuple[str, ...]  # the queues above it, the root first, and itself
    limits: ResourceLimits  # what it can have at most (Volcano: realCapability)
    deserved: Amounts  # what it may reclaim from other queues
    guarantee: Amounts  # what other queues never reclaim from it
    is_leaf: bool = True


@dataclass(frozen=True, slots=True)
class InvalidHierarchy:
    """Why queues do not form a tree."""

    queue: str
    problem: str


def total_guarantee(queues: Iterable[Queue]) -> Amounts:
    """Return the sum of the guarantees of ``queues``, whether or not they have gangs."""
    return reduce(plus, (queue.guarantee for queue in queues), EMPTY_AMOUNTS)


def flat_entitlements(total: Amounts, queues: Mapping[str, Queue]) -> dict[str, Entitlement]:
    """Return what each queue is entitled to of the cluster's ``total``, without a hierarchy."""
    guaranteed = total_guarantee(queues.values())
    result = {}
    for name, queue in queues.items():
        limits = real_capability(total, guaranteed, queue.guarantee, queue.capability)
        deserved = maximum(minimum(queue.deserved, limits, DimensionDefault.INFINITY), queue.guarantee)
        result[name] = Entitlement((name,), ResourceLimits(limits), deserved, queue.guarantee)
    return result


def hierarchical_entitlements(queues: Mapping[str, Queue]) -> dict[str, Entitlement] | InvalidHierarchy:
    """Return what each queue is entitled to in the hierarchy; the root needs no object."""
    with_root = {ROOT: Queue(ROOT, parent=""), **queues}
    children: dict[str, list[Queue]] = {name: [] for name in with_root}
    for name in sorted(queues):
        parent = queues[name].parent
        if name == ROOT:
            continue
        if parent not in with_root:
            return InvalidHierarchy(name, f"is below queue {parent}, which does not exist")
        children[parent].append(queues[name])
    result: dict[str, Entitlement] = {}
    stack = [(ROOT, _root_node(with_root[ROOT], children[ROOT]))]
    while stack:
        name, node = stack.pop()
        result[name] = node.entitlement
        guaranteed = total_guarantee(children[name])
        for child in children[name]:
            is_leaf = not children[child.name]
            stack.append((child.name, _child_node(node, guaranteed, child, is_leaf=is_leaf)))
    unreachable = sorted(set(with_root) - set(result))
    if unreachable:
        return InvalidHierarchy(unreachable[0], "is not below the root, but in a cycle")
    return result


@dataclass(frozen=True, slots=True)
class _Node:
    entitlement: Entitlement
    capability: ResourceLimits  # its own, with those inherited for resources that it does not name


def _root_node(root: Queue, children: Sequence[Queue]) -> _Node:
    """Return the root; its guarantee and deserved amounts are the sums of its children's."""
    capability = ResourceLimits(root.capability, UNLIMITED)
    deserved = reduce(plus, (maximum(child.deserved, child.guarantee) for child in children), EMPTY_AMOUNTS)
    guarantee = total_guarantee(children)
    return _Node(Entitlement((ROOT,), capability, deserved, guarantee, is_leaf=not children), capability)


def _child_node(parent: _Node, guaranteed: Amounts, queue: Queue, *, is_leaf: bool) -> _Node:
    """Return the node of ``queue``.  ``guaranteed``: to all children of the parent together."""
    capability = ResourceLimits({**parent.capability.named, **queue.capability}, UNLIMITED)
    parent_limits = parent.entitlement.limits

    def limit(name: str) -> Amount:
        free = max(0, parent_limits.of(name) - guaranteed.get(name, 0)) + queue.guarantee.get(name, 0)
        return min(free, capability.of(name))

    limits = ResourceLimits(
        {name: limit(name) for name in {*parent_limits.named, *capability.named}}, UNLIMITED
    )
    deserved = maximum(_within(queue.deserved, limits), queue.guarantee)
    path = (*parent.entitlement.path, queue.name)
    return _Node(Entitlement(path, limits, deserved, queue.guarantee, is_leaf), capability)


def _within(amounts: Amounts, limits: ResourceLimits) -> dict[str, int]:
    return {
        name: limit if isinstance(limit := limits.of(name), int) and limit < amount else amount
        for name, amount in amounts.items()
    }
