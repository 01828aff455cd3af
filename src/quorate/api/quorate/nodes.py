"""Nodes that windows keep: which ones, and which of them a workload may not use."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from quorate.api.meta import matches_selector
from quorate.api.quorate import ReservedNodes

Labels = Mapping[str, str]


def reserved_nodes(reserved: ReservedNodes, nodes: Iterable[tuple[str, Labels]]) -> frozenset[str]:
    """Return the names of the nodes that are meant, of ``nodes`` with their names and labels.

    Of a number of nodes they are the first in the order of their names.
    """
    if reserved.names or (reserved.selector is None and reserved.count is None):
        return frozenset(reserved.names)
    selector = reserved.selector
    selected: Iterator[str] = (
        name for name, labels in sorted(nodes) if selector is None or matches_selector(selector, labels)
    )
    return frozenset(selected if reserved.count is None else islice(selected, max(0, reserved.count)))
