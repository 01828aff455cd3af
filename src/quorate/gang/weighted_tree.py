"""Shares in a tree of weights: hierarchical dominant resource fairness.

Each gang hangs below the path of its queue.  What a node has is the sum of what its children have, each
scaled down to the smallest of their shares, so that one that got far ahead does not make the whole look
served.  Whoever is *saturated*, as it has all it wants of something or wants something that is used up,
cannot get more: it is not scaled, and goes behind those that can.

Source: Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter Workloads (SoCC 2013), as the
plugin drf of Volcano has it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from quorate.gang.deserved import dominant_share
from quorate.placement.resources import Amounts, FractionalAmounts

Path = tuple[str, ...]  # of names below the root


@dataclass(frozen=True, slots=True)
class Holding:
    """What one gang holds, and what it asks for in all."""

    path: Path  # of its queue
    taken: Amounts
    request: Amounts


@dataclass(frozen=True, slots=True)
class Served:
    """How well one node is served: who goes first compares smaller."""

    saturated: bool
    share: Fraction  # not weighted

    def rank(self, weight: Fraction) -> tuple[bool, Fraction]:
        return self.saturated, self.share / weight


@dataclass(slots=True)
class _Node:
    """What its children come to, as far as they were added."""

    saturated: bool = True  # as all of them are
    fixed: defaultdict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))  # saturated ones
    scaled: list[tuple[Fraction, FractionalAmounts]] = field(
        default_factory=list
    )  # the others that have something

    def add(self, saturated: bool, share: Fraction, has: FractionalAmounts) -> None:
        self.saturated = self.saturated and saturated
        if share and saturated:
            for resource, amount in has.items():
                self.fixed[resource] += amount
        elif share:
            self.scaled.append((share, has))

    def has(self) -> Mapping[str, Fraction]:
        result = self.fixed.copy()
        least = min((share for share, _ in self.scaled), default=Fraction(1))
        for share, has in self.scaled:
            for resource, amount in has.items():
                result[resource] += amount * least / share
        return result


def served(total: Amounts, holdings: Collection[Holding]) -> dict[Path, Served]:
    """Of each node above some gang, by its path."""
    used_up = _used_up(total, holdings)
    nodes: defaultdict[Path, _Node] = defaultdict(_Node)
    for each in holdings:
        nodes[each.path].add(_is_saturated(each, used_up), dominant_share(each.taken, total), each.taken)
    result: dict[Path, Served] = {}
    for depth in range(max(map(len, nodes), default=0), 0, -1):
        for path in [path for path in nodes if len(path) == depth]:
            node = nodes[path]
            has = node.has()
            share = dominant_share(has, total)
            result[path] = Served(node.saturated, share)
            nodes[path[:-1]].add(node.saturated, share, has)
    return result


def _used_up(total: Amounts, holdings: Iterable[Holding]) -> set[str]:
    left = dict(total)
    for each in holdings:
        for resource, amount in each.taken.items():
            left[resource] = left.get(resource, 0) - amount
    return {resource for resource, amount in left.items() if amount <= 0}


def _is_saturated(gang: Holding, used_up: set[str]) -> bool:
    return any(
        gang.request.get(resource, 0) > 0 and (amount >= gang.request[resource] or resource in used_up)
        for resource, amount in gang.taken.items()
        if amount > 0
    )
