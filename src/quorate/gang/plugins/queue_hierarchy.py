"""What queues are entitled to with the plugin ``capacity``.

Source: Volcano's plugin capacity.  The queues are independent, or form a hierarchy, where the amounts of a
queue hold for all queues below it together.  The root limits nothing unless its object does, not even to the
resources of the cluster: groups may be admitted for nodes that are still to be added.

A queue with an unknown parent, or in a cycle of parents, is detached: it and the queues below it are not
served, and have no part in what their siblings may have.  What their pods use counts in the root.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from quorate.gang.cache.queue import ROOT, Queue
from quorate.gang.cache.queue_accounts import ResourceLimits
from quorate.gang.deserved import real_capability
from quorate.gang.pending_reasons import InvalidQueueHierarchy
from quorate.placement.resources import EMPTY_AMOUNTS, Amounts, DimensionDefault, maximum, minimum, plus
from quorate.quota.amount import UNLIMITED, Amount


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The amounts of one queue, with those of the queues below it."""

    path: tuple[str, ...]  # the queues above it, the root first, and itself
    limits: ResourceLimits  # what it can have at most (Volcano: realCapability)
    deserved: Amounts  # what it may reclaim from other queues
    guarantee: Amounts  # what other queues never reclaim from it
    invalid: InvalidQueueHierarchy | None = None  # why no group of the queue is served


def total_guarantee(queues: Iterable[Queue]) -> Amounts:
    """Return the sum of the guarantees of ``queues``, whether or not they have gangs."""
    return reduce(plus, (queue.guarantee for queue in queues), EMPTY_AMOUNTS)


def flat_entitlements(
    total: Amounts, queues: Mapping[str, Queue], devices: Collection[str] = ()
) -> dict[str, Entitlement]:
    """Return what each queue is entitled to of the cluster's ``total``, without a hierarchy.

    ``devices``: the names of amounts that only a ``capability`` limits.
    """
    guaranteed = total_guarantee(queues.values())
    result = {}
    for name, queue in queues.items():
        limits = real_capability(total, guaranteed, queue.guarantee, queue.capability)
        deserved = maximum(minimum(queue.deserved, limits, DimensionDefault.INFINITY), queue.guarantee)
        of_devices = {device: queue.capability.get(device, UNLIMITED) for device in devices}
        result[name] = Entitlement(
            (name,), ResourceLimits({**limits, **of_devices}), deserved, queue.guarantee
        )
    return result


def hierarchical_entitlements(queues: Mapping[str, Queue]) -> dict[str, Entitlement]:
    """Return what each queue is entitled to in the hierarchy; the root needs no object.

    Only leaf queues serve groups.
    """
    root = queues.get(ROOT) or Queue(ROOT, parent="")
    children: defaultdict[str, list[Queue]] = defaultdict(list)
    detached: list[tuple[Queue, InvalidQueueHierarchy]] = []
    in_cycles = _in_cycles(queues)
    for name, queue in sorted(queues.items()):
        if name == ROOT:
            continue
        if name in in_cycles:
            detached.append((queue, InvalidQueueHierarchy(name, "is not below the root, but in a cycle")))
        elif queue.parent != ROOT and queue.parent not in queues:
            problem = f"is below queue {queue.parent}, which does not exist"
            detached.append((queue, InvalidQueueHierarchy(name, problem)))
        else:
            children[queue.parent].append(queue)
    root_node = _root_node(root, children[ROOT])
    stack = [(ROOT, root_node)]
    stack += [(queue.name, _child_node(root_node, EMPTY_AMOUNTS, queue, why)) for queue, why in detached]
    result: dict[str, Entitlement] = {}
    while stack:
        name, node = stack.pop()
        below, above = children[name], node.entitlement.invalid
        inner = InvalidQueueHierarchy(name, _INNER) if below else None
        result[name] = replace(node.entitlement, invalid=above or inner)
        guaranteed = total_guarantee(below)
        stack += [(child.name, _child_node(node, guaranteed, child, above)) for child in below]
    return result


_INNER: Final = "has queues below it, and only queues without any serve pod groups"


def _in_cycles(queues: Mapping[str, Queue]) -> set[str]:
    """Return the queues that are among their own ancestors."""
    in_cycles: set[str] = set()
    seen: set[str] = set()
    for lowest in queues:
        path: list[str] = []
        name = lowest
        while name in queues and name not in seen:
            seen.add(name)
            path.append(name)
            name = queues[name].parent
        if name in path:
            in_cycles.update(path[path.index(name) :])
    return in_cycles


@dataclass(frozen=True, slots=True)
class _Node:
    entitlement: Entitlement
    capability: ResourceLimits  # its own, with those inherited for resources that it does not name


def _root_node(root: Queue, children: Sequence[Queue]) -> _Node:
    """Return the root; its guarantee and deserved amounts are the sums of its children's."""
    capability = ResourceLimits(root.capability, UNLIMITED)
    deserved = reduce(plus, (maximum(child.deserved, child.guarantee) for child in children), EMPTY_AMOUNTS)
    guarantee = total_guarantee(children)
    return _Node(Entitlement((ROOT,), capability, deserved, guarantee), capability)


def _child_node(
    parent: _Node, guaranteed: Amounts, queue: Queue, invalid: InvalidQueueHierarchy | None
) -> _Node:
    """Return the node of ``queue``.

    ``guaranteed``: to all children of the parent together.  ``invalid``: why the subtree is detached.
    """
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
    return _Node(Entitlement(path, limits, deserved, queue.guarantee, invalid), capability)


def _within(amounts: Amounts, limits: ResourceLimits) -> dict[str, int]:
    return {
        name: limit if isinstance(limit := limits.of(name), int) and limit < amount else amount
        for name, amount in amounts.items()
    }
