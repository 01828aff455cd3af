"""What queues are entitled to where each says itself what it deserves: side by side, or in a tree.

Source: Volcano's plugin capacity.  In a tree what is said of a queue holds for all queues below it together.
The root limits nothing unless told to, not even to what the cluster has: groups may be admitted for nodes
that are still to come.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from quorate.gang.deserved import real_capability
from quorate.gang.queue import ROOT, Queue
from quorate.gang.queue_account import Ceiling
from quorate.placement.resources import EMPTY_AMOUNTS, Amounts, DimensionDefault, maximum, minimum, plus
from quorate.quota.amount import UNLIMITED, Amount


@dataclass(frozen=True, slots=True)
class Entitlement:
    """Of one queue, those below it included."""

    path: tuple[str, ...]  # the queues above it, the root first, and itself
    ceiling: Ceiling  # what it can have at most
    deserved: Amounts  # what it may take back from others
    guarantee: Amounts  # what others never take from it
    is_leaf: bool = True


@dataclass(frozen=True, slots=True)
class BrokenTree:
    """Why queues are no tree."""

    queue: str
    why: str


def guaranteed_to(queues: Iterable[Queue]) -> Amounts:
    """What is guaranteed to all ``queues`` together, whether or not they have gangs."""
    return reduce(plus, (queue.guarantee for queue in queues), EMPTY_AMOUNTS)


def side_by_side(total: Amounts, queues: Mapping[str, Queue]) -> dict[str, Entitlement]:
    """What each queue is entitled to of ``total``, which is what the cluster has."""
    guaranteed = guaranteed_to(queues.values())
    result = {}
    for name, queue in queues.items():
        most = real_capability(total, guaranteed, queue.guarantee, queue.capability)
        deserved = maximum(minimum(queue.deserved, most, DimensionDefault.INFINITY), queue.guarantee)
        result[name] = Entitlement((name,), Ceiling(most), deserved, queue.guarantee)
    return result


def tree(queues: Mapping[str, Queue]) -> dict[str, Entitlement] | BrokenTree:
    """What each queue is entitled to in the tree of all.  Without an object for it the root says nothing."""
    everyone = {ROOT: Queue(ROOT, parent=""), **queues}
    below: dict[str, list[Queue]] = {name: [] for name in everyone}
    for name in sorted(queues):
        parent = queues[name].parent
        if name == ROOT:
            continue
        if parent not in everyone:
            return BrokenTree(name, f"is below queue {parent}, which does not exist")
        below[parent].append(queues[name])
    result: dict[str, Entitlement] = {}
    waiting = [(ROOT, _root(everyone[ROOT], below[ROOT]))]
    while waiting:
        name, node = waiting.pop()
        result[name] = node.entitlement
        guaranteed = guaranteed_to(below[name])
        for child in below[name]:
            is_leaf = not below[child.name]
            waiting.append((child.name, _child(node, guaranteed, child, is_leaf=is_leaf)))
    lost = sorted(set(everyone) - set(result))
    return BrokenTree(lost[0], "is not below the root, but in a circle") if lost else result


@dataclass(frozen=True, slots=True)
class _Node:
    """A queue on the way down: ``capability`` is its own, with what it inherits."""

    entitlement: Entitlement
    capability: Ceiling


def _root(root: Queue, children: Sequence[Queue]) -> _Node:
    """Guaranteed to and deserved by the root is what all its children are together."""
    capability = Ceiling(root.capability, UNLIMITED)
    deserved = reduce(plus, (maximum(child.deserved, child.guarantee) for child in children), EMPTY_AMOUNTS)
    entitlement = Entitlement((ROOT,), capability, deserved, guaranteed_to(children), is_leaf=not children)
    return _Node(entitlement, capability)


def _child(parent: _Node, guaranteed: Amounts, queue: Queue, *, is_leaf: bool) -> _Node:
    """``guaranteed``: to all children of the parent together."""
    capability = Ceiling({**parent.capability.named, **queue.capability}, UNLIMITED)
    above = parent.entitlement.ceiling

    def most(name: str) -> Amount:
        free = max(0, above.of(name) - guaranteed.get(name, 0)) + queue.guarantee.get(name, 0)
        return min(free, capability.of(name))

    ceiling = Ceiling({name: most(name) for name in {*above.named, *capability.named}}, UNLIMITED)
    deserved = maximum(_within(queue.deserved, ceiling), queue.guarantee)
    path = (*parent.entitlement.path, queue.name)
    return _Node(Entitlement(path, ceiling, deserved, queue.guarantee, is_leaf), capability)


def _within(amounts: Amounts, ceiling: Ceiling) -> dict[str, int]:
    return {
        name: most if isinstance(most := ceiling.of(name), int) and most < amount else amount
        for name, amount in amounts.items()
    }
