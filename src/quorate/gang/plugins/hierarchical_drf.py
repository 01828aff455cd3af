"""Hierarchical dominant resource fairness: the shares of queues in a weighted tree.

Each gang is below the path of its queue.  The usage of a node is the sum of its children's, each scaled down
to the smallest share among them, so that a child that is far ahead does not make the whole node look well
served. A gang is *saturated*, and cannot get more, if it has all that it requests of a resource or requests
one that is used up; a node is if all its children are.  Saturated nodes are not scaled, and are ordered last.

Source: Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter Workloads (SoCC 2013), as the
plugin drf of Volcano implements it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from quorate.gang.deserved import dominant_share
from quorate.placement.resources import Amounts, FractionalAmounts

Path = tuple[str, ...]  # of names below the root


@dataclass(frozen=True, slots=True)
class GangUsage:
    """What a gang has and wants: ``allocated`` sums the tasks with nodes, ``request`` sums all tasks."""

    path: Path  # of its queue
    allocated: Amounts
    request: Amounts


@dataclass(frozen=True, slots=True)
class TreeShare:
    """The share of one node of the tree; see ``sort_key``."""

    saturated: bool
    share: Fraction  # without its weight

    def sort_key(self, weight: Fraction) -> tuple[bool, Fraction]:
        """Return the key by which the node that is served worse comes first."""
        return self.saturated, self.share / weight


@dataclass(slots=True)
class _TreeNode:
    """The sums over the children that were added."""

    saturated: bool = True  # all children are
    saturated_usage: defaultdict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    scaled: list[tuple[Fraction, FractionalAmounts]] = field(
        default_factory=list
    )  # other children with a share above 0

    def add(self, saturated: bool, share: Fraction, usage: FractionalAmounts) -> None:
        self.saturated = self.saturated and saturated
        if share and saturated:
            for resource, amount in usage.items():
                self.saturated_usage[resource] += amount
        elif share:
            self.scaled.append((share, usage))

    def usage(self) -> Mapping[str, Fraction]:
        result = self.saturated_usage.copy()
        smallest = min((share for share, _ in self.scaled), default=Fraction(1))
        for share, usage in self.scaled:
            for resource, amount in usage.items():
                result[resource] += amount * smallest / share
        return result


def tree_shares(total: Amounts, usages: Collection[GangUsage]) -> dict[Path, TreeShare]:
    """Return the share of each node above a gang, by its path."""
    used_up = _used_up(total, usages)
    nodes: defaultdict[Path, _TreeNode] = defaultdict(_TreeNode)
    for of_gang in usages:
        share = dominant_share(of_gang.allocated, total)
        nodes[of_gang.path].add(_is_saturated(of_gang, used_up), share, of_gang.allocated)
    result: dict[Path, TreeShare] = {}
    for depth in range(max(map(len, nodes), default=0), 0, -1):
        for path in [path for path in nodes if len(path) == depth]:
            node = nodes[path]
            usage = node.usage()
            share = dominant_share(usage, total)
            result[path] = TreeShare(node.saturated, share)
            nodes[path[:-1]].add(node.saturated, share, usage)
    return result


def _used_up(total: Amounts, usages: Iterable[GangUsage]) -> set[str]:
    left = dict(total)
    for usage in usages:
        for resource, amount in usage.allocated.items():
            left[resource] = left.get(resource, 0) - amount
    return {resource for resource, amount in left.items() if amount <= 0}


def _is_saturated(gang: GangUsage, used_up: set[str]) -> bool:
    return any(
        gang.request.get(resource, 0) > 0 and (amount >= gang.request[resource] or resource in used_up)
        for resource, amount in gang.allocated.items()
        if amount > 0
    )
