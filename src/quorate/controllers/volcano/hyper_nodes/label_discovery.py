"""The HyperNodes that the labels of nodes describe.

A node is in a HyperNode of tier 1 for its value of the lowest label, which is a member of one of tier 2 for
the next label, and so on until the node has no value of a label.  Names and labels of HyperNodes are like
those of Volcano's label discoverer (1.15), so that those it made are kept.  Two differences: equal values of
a label below different values of the next one are different HyperNodes, and names end in a digest.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Final

from quorate.api.configuration.network_topology import LABEL, TopologyType
from quorate.api.meta import ObjectMeta
from quorate.api.volcano.topology import (
    ExactMatch,
    HyperNode,
    HyperNodeSpec,
    Member,
    MemberSelector,
    MemberType,
)

SOURCE: Final = "volcano.sh/network-topology-source"  # label of discovered HyperNodes
_DIGITS: Final = 5  # of the digest in a name, unless it is taken

# A tier, and the label values of a HyperNode of it: its own, then those of the tiers above.
_Place = tuple[int, tuple[str, ...]]


def is_discovered(hyper_node: HyperNode) -> bool:
    """Return True if the label discovery made the HyperNode, and so keeps or deletes it."""
    return hyper_node.metadata.labels.get(SOURCE) == LABEL


@dataclass(frozen=True, slots=True)
class DiscoveredHyperNode:
    """A HyperNode that should exist."""

    name: str
    tier: int
    tier_name: str
    labels: Mapping[str, str]
    members: Sequence[str]  # nodes in tier 1, else HyperNodes; sorted

    @property
    def member_type(self) -> MemberType:
        return "Node" if self.tier == 1 else "HyperNode"

    def is_described_by(self, hyper_node: HyperNode) -> bool:
        """Return True if ``hyper_node`` needs no change; it may have other labels, too."""
        spec, kind = hyper_node.spec, self.member_type
        names = [
            member.selector.exact_match.name
            for member in spec.members
            if member.type == kind and member.selector.exact_match is not None
        ]
        return (
            (spec.tier, spec.tier_name, len(spec.members)) == (self.tier, self.tier_name, len(names))
            and names == self.members
            and self.labels.items() <= hyper_node.metadata.labels.items()
        )

    @property
    def hyper_node(self) -> HyperNode:
        return HyperNode(
            metadata=ObjectMeta(name=self.name, labels=dict(self.labels)),
            spec=HyperNodeSpec(
                tier=self.tier,
                tier_name=self.tier_name,
                members=tuple(
                    Member(
                        type=self.member_type, selector=MemberSelector(exact_match=ExactMatch(name=member))
                    )
                    for member in self.members
                ),
            ),
        )


def discovered(
    types: Iterable[TopologyType], nodes: Mapping[str, Mapping[str, str]], existing: Collection[HyperNode]
) -> dict[str, DiscoveredHyperNode]:
    """Return the HyperNodes that should exist by name; ``nodes``: labels by node.

    ``existing``: all HyperNodes.  A discovered one of the same labels keeps its name.
    """
    names = _Names(existing)
    wanted: dict[str, DiscoveredHyperNode] = {}
    for topology in types:
        paths = _paths(topology.levels, nodes)
        own = {
            place: names.of(topology, *place)
            for place in sorted({place for path, _ in paths for place in path})
        }
        members: dict[_Place, set[str]] = {place: set() for place in own}
        for path, of_path in paths:
            members[path[0]].update(of_path)
            for below, place in pairwise(path):
                members[place].add(own[below])
        for place, name in own.items():
            tier, values = place
            labels = {SOURCE: LABEL, **dict(zip(topology.levels[tier - 1 :], values, strict=False))}
            wanted[name] = DiscoveredHyperNode(
                name, tier, topology.levels[tier - 1], labels, sorted(members[place])
            )
    return wanted


def _paths(
    levels: Sequence[str], nodes: Mapping[str, Mapping[str, str]]
) -> list[tuple[list[_Place], list[str]]]:
    """Return the places from tier 1 on, each with its nodes, which have equal labels."""
    by_values: dict[tuple[str, ...], list[str]] = {}
    for name, labels in nodes.items():
        by_values.setdefault(_values(levels, labels), []).append(name)
    by_values.pop((), None)  # nodes without the lowest label
    parents = _only_parents(by_values)
    return [(_path(_completed(values, parents)), names) for values, names in by_values.items()]


def _values(levels: Sequence[str], labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of the labels from the lowest tier on, up to the first that is absent."""
    values: list[str] = []
    for key in levels:
        value = labels.get(key)
        if not value:
            break
        values.append(value)
    return tuple(values)


def _only_parents(values: Iterable[tuple[str, ...]]) -> Mapping[tuple[int, str], str | None]:
    """Return the value of the next tier for a tier and value; None if there are several."""
    parents: dict[tuple[int, str], str | None] = {}
    for value in values:
        for tier, (own, parent) in enumerate(pairwise(value), 1):
            parents[tier, own] = parent if parents.get((tier, own), parent) == parent else None
    return parents


def _completed(values: tuple[str, ...], parents: Mapping[tuple[int, str], str | None]) -> tuple[str, ...]:
    """Add the values of higher tiers that all other nodes with the highest value have."""
    while values and (parent := parents.get((len(values), values[-1]))) is not None:
        values = (*values, parent)
    return values


def _path(values: tuple[str, ...]) -> list[_Place]:
    return [(tier, values[tier - 1 :]) for tier in range(1, len(values) + 1)]


class _Names:
    """Names of HyperNodes: existing HyperNodes keep their names."""

    def __init__(self, existing: Collection[HyperNode]) -> None:
        self._taken = {stored.metadata.name for stored in existing}
        self._labels = {
            stored.metadata.name: stored.metadata.labels for stored in existing if is_discovered(stored)
        }
        self._by_value: dict[tuple[str, str], list[str]] = {}
        for name in sorted(self._labels):
            for pair in self._labels[name].items():
                self._by_value.setdefault(pair, []).append(name)

    def of(self, topology: TopologyType, tier: int, values: tuple[str, ...]) -> str:
        prefix = f"hypernode-{_cleaned(topology.name)}-tier{tier}-"
        keys = topology.levels[tier - 1 :]
        own = dict(zip(keys, values, strict=False))
        for name in self._by_value.get((keys[0], values[0]), ()):
            labels = self._labels.get(name)
            if labels is None or not name.startswith(prefix):
                continue
            if all(labels.get(key, own.get(key)) == own.get(key) for key in keys):
                del self._labels[name]  # no second place gets it
                return name
        digest = sha256("\0".join((topology.name, str(tier), *values)).encode()).hexdigest()
        digits = _DIGITS
        while (name := prefix + digest[:digits]) in self._taken:
            digits += 1
        self._taken.add(name)
        return name


def _cleaned(name: str) -> str:
    """Return the name of a topology type as a part of an object's name."""
    return re.sub(r"[^a-z0-9-]", "-", name.lower())
