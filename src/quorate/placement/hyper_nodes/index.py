"""The nodes of each HyperNode, updated incrementally.

A HyperNode contains the nodes that its members of type Node select, and the nodes of its member HyperNodes of
lower tiers.  A member HyperNode that does not exist (yet), or has no lower tier, adds nothing: so cycles are
harmless, and a HyperNode of a tier contains no worse connections than its tier stands for.

HyperNodes may overlap and have several parents.  Source, except for that and for members of equal tiers:
Volcano (1.15), which evaluates no HyperNode while any has two parents or is in a cycle.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from quorate.api.volcano.topology import HyperNode
from quorate.placement.cluster import Cluster
from quorate.placement.vectors import Vector, np

if TYPE_CHECKING:
    from typing import TypeVar

    from numpy.typing import NDArray

    Number = TypeVar("Number", np.int64, np.float64)
from collections.abc import Iterable, Iterator
from functools import lru_cache

from quorate.api.go_regexp import InvalidPattern, Pattern
from quorate.api.meta import LabelSelector, matches_selector
from quorate.placement.vectors import np

_NONE: Final[frozenset[str]] = frozenset()
_UNREAD: Final = -1


_CACHED_PATTERNS: Final = 4_096


LABEL_TIER: Final = 1


@dataclass(frozen=True, slots=True)
class Tier:
    """The HyperNodes of one tier that contain nodes, in the order of their names."""

    number: int
    names: Sequence[str]
    nodes: Vector  # the indexes of the nodes of all of them, one HyperNode after the other
    starts: Vector  # where the nodes of each begin

    def sums(self, of_nodes: "NDArray[Number]") -> "NDArray[Number]":
        """Return the sum over the nodes of each HyperNode."""
        sums: NDArray[Number] = np.add.reduceat(of_nodes[self.nodes], self.starts)
        return sums


class HyperNodeIndex:
    """The nodes of each HyperNode.  Call ``refresh`` after a change of nodes or HyperNodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._hyper_nodes: dict[str, HyperNode] = {}
        self._read_to = _UNREAD  # position in the log of node changes
        self._selected_by: list[frozenset[str]] = []  # by index: the HyperNodes that select the node
        self._node_names: list[str] = []  # by index, as they were matched; "" at vacant ones
        self._matcher: NodeMatcher | None = None  # of all HyperNodes
        self._selected: dict[str, set[int]] = {}  # by HyperNode: the indexes that its members select
        self._parents: dict[str, set[str]] = {}
        self._nodes: dict[str, Vector] = {}  # by HyperNode, sorted
        self._tiers: list[Tier] | None = None
        self._unmatched: set[str] = set()  # HyperNodes that were set and have not been matched with nodes
        self._stale: set[str] = set()  # HyperNodes with nodes to compute again

    def __bool__(self) -> bool:
        return bool(self._hyper_nodes)

    def set(self, hyper_node: HyperNode) -> None:
        name = hyper_node.metadata.name
        before = self._hyper_nodes.get(name)
        if before is not None and before.spec == hyper_node.spec:
            return
        self.remove(name)
        self._hyper_nodes[name] = hyper_node
        self._unmatched.add(name)
        self._stale.add(name)
        for member in member_names(hyper_node):
            self._parents.setdefault(member, set()).add(name)

    def remove(self, name: str) -> None:
        before = self._hyper_nodes.pop(name, None)
        if before is None:
            return
        self._matcher, self._tiers = None, None
        self._unmatched.discard(name)
        self._stale.add(name)
        for index in self._selected.pop(name, ()):
            self._selected_by[index] -= {name}
        for member in member_names(before):
            parents = self._parents.get(member)
            if parents is not None:
                parents.discard(name)
                if not parents:
                    del self._parents[member]

    def refresh(self) -> None:
        """Follow the changes of nodes and HyperNodes since the last call."""
        if not self._hyper_nodes and not self._stale:
            return
        self._match_set_hyper_nodes()
        self._match_changed_nodes()
        if self._stale:
            self._resolve()

    def _match_set_hyper_nodes(self) -> None:
        if not self._unmatched:
            return
        matcher = NodeMatcher(self._hyper_nodes[name] for name in sorted(self._unmatched))
        self._unmatched.clear()
        self._matcher = None
        # Nodes that were not read before are matched with all HyperNodes afterwards.
        for index, name in enumerate(self._node_names):
            node = self._cluster.nodes[index]
            if node is not None and name == node.metadata.name:
                more = matcher.matching(name, node.metadata.labels)
                self._select(index, self._selected_by[index] | more)

    def _match_changed_nodes(self) -> None:
        cluster, log = self._cluster, self._cluster.node_changes
        if self._read_to == log.end:
            return
        changed = None if self._read_to == _UNREAD else log.since(self._read_to)
        self._read_to = log.end
        more = cluster.size - len(self._selected_by)
        self._selected_by += [_NONE] * more
        self._node_names += [""] * more
        if self._matcher is None:
            self._matcher = NodeMatcher(self._hyper_nodes.values())
        for index in range(cluster.size) if changed is None else changed:
            node = cluster.nodes[index]
            self._node_names[index] = "" if node is None else node.metadata.name
            now = _NONE if node is None else self._matcher.matching(node.metadata.name, node.metadata.labels)
            self._select(index, now)

    def _select(self, index: int, now: frozenset[str]) -> None:
        before = self._selected_by[index]
        if before == now:
            return
        self._selected_by[index] = now
        for name in before - now:
            self._selected[name].discard(index)
        for name in now - before:
            self._selected.setdefault(name, set()).add(index)
        self._stale |= before ^ now

    def _resolve(self) -> None:
        """Compute the nodes of the stale HyperNodes and of all above them, lower tiers first."""
        affected: set[str] = set()
        pending = list(self._stale)
        while pending:
            name = pending.pop()
            if name not in affected:
                affected.add(name)
                pending += self._parents.get(name, ())
        self._stale.clear()
        self._tiers = None
        for name in affected - self._hyper_nodes.keys():
            self._nodes.pop(name, None)
        existing = affected & self._hyper_nodes.keys()
        for name in sorted(
            existing, key=lambda hyper_node: (self._hyper_nodes[hyper_node].spec.tier, hyper_node)
        ):
            own = np.array(sorted(self._selected.get(name, ())), np.int64)
            parts = [own, *(self._nodes[child] for child in self.children(name))]
            self._nodes[name] = np.unique(np.concatenate(parts)) if len(parts) > 1 else own

    # Results.

    @property
    def tiers(self) -> Sequence[Tier]:
        """All tiers with nodes, the lowest first."""
        if self._tiers is None:
            by_tier: dict[int, list[str]] = {}
            for name in sorted(self._hyper_nodes):
                if len(self._nodes[name]):
                    by_tier.setdefault(self._hyper_nodes[name].spec.tier, []).append(name)
            self._tiers = [self._tier(number, by_tier[number]) for number in sorted(by_tier)]
        return self._tiers

    def _tier(self, number: int, names: Sequence[str]) -> Tier:
        lengths = [len(self._nodes[name]) for name in names]
        starts = np.cumsum([0, *lengths[:-1]])
        return Tier(number, tuple(names), np.concatenate([self._nodes[name] for name in names]), starts)

    def nodes(self, name: str) -> Vector:
        """Return the indexes of the nodes of a HyperNode, sorted; none if it does not exist."""
        return self._nodes.get(name, np.zeros(0, np.int64))

    def children(self, name: str) -> Sequence[str]:
        """Return the member HyperNodes of lower tiers, by name."""
        hyper_node = self._hyper_nodes[name]
        hyper_nodes: Mapping[str, HyperNode] = self._hyper_nodes
        return sorted(
            {
                child
                for child in member_names(hyper_node)
                if child in hyper_nodes and hyper_nodes[child].spec.tier < hyper_node.spec.tier
            }
        )

    @property
    def roots(self) -> Sequence[str]:
        """The HyperNodes that are members of no HyperNode that exists, by name."""
        return sorted(self._hyper_nodes.keys() - self._parents.keys())

    def tier_named(self, tier_name: str) -> int | None:
        """Return the lowest tier with this name; None if no HyperNode has it."""
        return min(
            (
                hyper_node.spec.tier
                for hyper_node in self._hyper_nodes.values()
                if hyper_node.spec.tier_name == tier_name
            ),
            default=None,
        )


class NodeMatcher:
    """The selectors of any number of HyperNodes, evaluated for one node at a time.

    The cost for a node does not grow with the HyperNodes that select by name or by a label's value.

    Source: Volcano (1.15).  A selector that cannot be read selects nothing, and so does an empty one.
    """

    def __init__(self, hyper_nodes: Iterable[HyperNode]) -> None:
        self._by_name: dict[str, set[str]] = {}  # HyperNodes by the name of the node
        self._by_pattern: dict[str, set[str]] = {}
        self._by_label: dict[str, dict[str, list[tuple[LabelSelector, str]]]] = {}  # by key and value
        self._by_expression: list[tuple[LabelSelector, str]] = []  # without a label that must have one value
        for hyper_node in hyper_nodes:
            self._add(hyper_node)
        self._patterns = [
            (pattern, names)
            for text, names in self._by_pattern.items()
            if (pattern := _compiled(text)) is not None
        ]

    def _add(self, hyper_node: HyperNode) -> None:
        own = hyper_node.metadata.name
        for member in hyper_node.spec.members:
            if member.type != "Node":
                continue
            selector = member.selector
            if selector.exact_match is not None:
                self._by_name.setdefault(selector.exact_match.name, set()).add(own)
            if selector.regex_match is not None:
                self._by_pattern.setdefault(selector.regex_match.pattern, set()).add(own)
            if selector.label_match is not None:
                self._add_labels(selector.label_match, own)

    def _add_labels(self, selector: LabelSelector, own: str) -> None:
        for key, value in selector.match_labels.items():
            self._by_label.setdefault(key, {}).setdefault(value, []).append((selector, own))
            return
        if selector.match_expressions:
            self._by_expression.append((selector, own))

    def matching(self, name: str, labels: Mapping[str, str]) -> frozenset[str]:
        """Return the HyperNodes that select a node with this name and these labels."""
        return frozenset(self._matching(name, labels))

    def _matching(self, name: str, labels: Mapping[str, str]) -> Iterator[str]:
        yield from self._by_name.get(name, ())
        for pattern, names in self._patterns:
            if pattern.matches(name):
                yield from names
        for key, by_value in self._by_label.items():
            for selector, own in by_value.get(labels.get(key, ""), ()):
                if matches_selector(selector, labels):
                    yield own
        for selector, own in self._by_expression:
            if matches_selector(selector, labels):
                yield own


@lru_cache(maxsize=_CACHED_PATTERNS)
def _compiled(text: str) -> Pattern | None:
    try:
        return Pattern(text)
    except InvalidPattern:
        return None


def member_names(hyper_node: HyperNode) -> Iterator[str]:
    """Yield the names of the HyperNodes that are members; only ``exactMatch`` selects them."""
    for member in hyper_node.spec.members:
        if member.type == "HyperNode" and member.selector.exact_match is not None:
            yield member.selector.exact_match.name


class LabelDomains:
    """The indexes of nodes, grouped by the values that the nodes had for a label when this was created.

    Each value is a domain.  A node without the label is in no domain.
    """

    def __init__(self, cluster: Cluster, label: str) -> None:
        by_value: dict[str, list[int]] = {}
        for index, node in enumerate(cluster.nodes):
            if node is not None and (value := node.metadata.labels.get(label)):
                by_value.setdefault(value, []).append(index)
        self._nodes = {value: np.array(nodes, np.int64) for value, nodes in sorted(by_value.items())}
        lengths = [len(nodes) for nodes in self._nodes.values()]
        self.tiers: Sequence[Tier] = ()
        if lengths:
            nodes, starts = np.concatenate([*self._nodes.values()]), np.cumsum([0, *lengths[:-1]])
            self.tiers = (Tier(LABEL_TIER, tuple(self._nodes), nodes, starts),)
        self.roots: Sequence[str] = ()  # all nodes are filled as one part

    def nodes(self, value: str) -> Vector:
        """Return the indexes of the nodes with a value, sorted; none if no node has it."""
        return self._nodes.get(value, np.zeros(0, np.int64))

    def children(self, value: str) -> Sequence[str]:
        return ()

    def tier_named(self, tier_name: str) -> int | None:
        return None
