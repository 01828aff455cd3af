"""Which nodes the members of HyperNodes select: by name, by regular expression, or by labels.

Source: Volcano (1.15).  A selector that cannot be read selects nothing, and so does an empty one.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from quorate.api.go_regexp import InvalidPattern, Pattern
from quorate.api.meta import LabelSelector, matches_selector
from quorate.api.volcano.topology import HyperNode

_CACHED_PATTERNS: Final = 4_096


class NodeMatcher:
    """The selectors of any number of HyperNodes, evaluated for one node at a time.

    The cost for a node does not grow with the HyperNodes that select by name or by a label's value.
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
