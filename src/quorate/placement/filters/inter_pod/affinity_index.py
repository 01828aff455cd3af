"""The placed pods, indexed by the selectors and affinity terms that match them.

Pods of equal namespace and labels form one *label set*.  Each label set has references to the selectors that
match it and are counted, and to the affinity terms of placed pods that match it.  So placing a pod costs as
many additions as there are counts that it changes, whatever the number of pods, nodes and selectors; a pod
that no selector matches costs one.

Selectors that were queried are counted until ``retain`` drops them.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from quorate.placement.filters.inter_pod.pod_selectors import AffinityTerm, Labels, PodLabelSet, PodSelector
from quorate.placement.filters.inter_pod.topology_counts import TopologyCount, TopologyCounts
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.framework import Capacity

PodSelectors = tuple[PodSelector, ...]  # match the pods that all of them match
Label = tuple[str, str]
T = TypeVar("T")


class OwnTerm(NamedTuple):
    """A term of a pod, and its effect on pods that match it while the pod is placed."""

    term: AffinityTerm
    anti_affinity: int  # 1 if the term keeps them out of the domain
    weight: int  # score that it adds for them in the domain


@dataclass(eq=False, slots=True)
class _SelectorCount:
    selectors: PodSelectors
    counts: TopologyCounts


@dataclass(eq=False, slots=True)
class PlacedAffinityTerm:
    """A term of placed pods, with its effects summed over these pods."""

    serial: int  # unique, also among terms that were dropped
    term: AffinityTerm
    anti_affinity: TopologyCounts
    weight: TopologyCounts


@dataclass(eq=False, slots=True)
class _LabelSetEntry:
    """The placed pods of one label set, and the counts and terms that match it."""

    namespace: str
    labels: Labels
    staying: dict[int, int] = field(default_factory=dict)  # pods by node
    releasing: dict[int, int] = field(default_factory=dict)  # pods by node
    selector_counts: list[_SelectorCount] = field(default_factory=list)
    placed_terms: list[PlacedAffinityTerm] = field(default_factory=list)

    def add_all_to(self, counted: _SelectorCount, sign: int) -> None:
        for pods, releasing in ((self.staying, False), (self.releasing, True)):
            for node, count in pods.items():
                counted.counts.add(node, sign * count, releasing)


class _ByRequiredLabel(Generic[T]):
    """Items with selectors, indexed by a label that matching pods must have.

    Most selectors have such a label.
    """

    def __init__(self) -> None:
        self._items: dict[Label | None, list[T]] = {}

    def add(self, selectors: PodSelectors, item: T) -> None:
        self._items.setdefault(_required_label(selectors), []).append(item)

    def possible_matches(self, labels: Labels) -> Iterator[T]:
        """Yield a superset of the items with selectors that match a pod with ``labels``."""
        yield from self._items.get(None, ())
        for label in labels.items():
            yield from self._items.get(label, ())


class AffinityIndex:
    """The index of placed pods.  Adding and removing undo each other exactly."""

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._entries: dict[PodLabelSet, _LabelSetEntry] = {}
        self._entries_by_label: dict[Label, list[_LabelSetEntry]] = {}
        self._selector_counts: dict[PodSelectors, _SelectorCount] = {}
        self._selector_counts_by_label: _ByRequiredLabel[_SelectorCount] = _ByRequiredLabel()
        self._placed_terms: dict[AffinityTerm, PlacedAffinityTerm] = {}
        self._placed_terms_by_label: _ByRequiredLabel[PlacedAffinityTerm] = _ByRequiredLabel()
        self._namespaces: dict[str, Labels] = {}
        self._serials = itertools.count(1)

    def add(
        self, node: int, label_set: PodLabelSet, own_terms: Collection[OwnTerm], releasing: bool, count: int
    ) -> None:
        """Add ``count`` pods on the node; remove them if it is negative."""
        entry = self._entry(label_set)
        pods = entry.releasing if releasing else entry.staying
        left = pods.get(node, 0) + count
        assert left >= 0, f"{-left} more pods of {label_set} are removed from node {node} than added"
        if left:
            pods[node] = left
        else:
            pods.pop(node, None)
        for counted in entry.selector_counts:
            counted.counts.add(node, count, releasing)
        for own_term in own_terms:
            placed_term = self._placed_term(own_term.term)
            if own_term.anti_affinity:
                placed_term.anti_affinity.add(node, own_term.anti_affinity * count, releasing)
            if own_term.weight:
                placed_term.weight.add(node, own_term.weight * count, releasing)

    def count_matching(self, selectors: PodSelectors, capacity: Capacity) -> TopologyCount:
        """Return the count of placed pods that all ``selectors`` match.

        It is updated from now on.
        """
        counted = self._selector_counts.get(selectors)
        if counted is None:
            counted = self._selector_counts[selectors] = _SelectorCount(
                selectors, TopologyCounts(self._nodes)
            )
            self._selector_counts_by_label.add(selectors, counted)
            for entry in self._possible_entries(selectors):
                if self._matches(entry, selectors):
                    entry.selector_counts.append(counted)
                    entry.add_all_to(counted, +1)
        return counted.counts.at(capacity)

    def matches(self, selectors: PodSelectors, label_set: PodLabelSet) -> bool:
        return self._matches(self._entry(label_set), selectors)

    def placed_terms_matching(self, label_set: PodLabelSet) -> Collection[PlacedAffinityTerm]:
        """Return the terms of placed pods that match pods of ``label_set``."""
        return self._entry(label_set).placed_terms

    def set_namespace(self, name: str, labels: Labels) -> bool:
        """Set the labels of a namespace, which selectors may match, and return True if they changed."""
        if self._namespaces.get(name, {}) == labels:
            return False
        self._namespaces[name] = labels
        for entry in self._entries.values():
            if entry.namespace == name:
                self._match_again(entry)
        return True

    def retain(self, selectors: Collection[PodSelectors]) -> None:
        """Drop all counts except those of ``selectors``.

        Also drop terms and label sets without pods.
        """
        self._selector_counts = {
            key: self._selector_counts[key] for key in selectors if key in self._selector_counts
        }
        self._placed_terms = {
            term: placed_term
            for term, placed_term in self._placed_terms.items()
            if placed_term.anti_affinity.idle.by_node or placed_term.weight.idle.by_node
        }
        self._entries = {
            label_set: entry for label_set, entry in self._entries.items() if entry.staying or entry.releasing
        }
        self._selector_counts_by_label, self._placed_terms_by_label = _ByRequiredLabel(), _ByRequiredLabel()
        self._entries_by_label = {}
        for counted in self._selector_counts.values():
            self._selector_counts_by_label.add(counted.selectors, counted)
        for placed_term in self._placed_terms.values():
            self._placed_terms_by_label.add((placed_term.term.selector,), placed_term)
        selector_counts, placed_terms = set(self._selector_counts.values()), set(self._placed_terms.values())
        for entry in self._entries.values():
            entry.selector_counts = [one for one in entry.selector_counts if one in selector_counts]
            entry.placed_terms = [one for one in entry.placed_terms if one in placed_terms]
            self._add_labels(entry)

    def _entry(self, label_set: PodLabelSet) -> _LabelSetEntry:
        entry = self._entries.get(label_set)
        if entry is None:
            namespace, labels = label_set
            entry = self._entries[label_set] = _LabelSetEntry(namespace, dict(labels))
            self._add_labels(entry)
            self._match_again(entry)
        return entry

    def _match_again(self, entry: _LabelSetEntry) -> None:
        """Find the counts and terms that match the entry, and move its pods to these counts."""
        for counted in entry.selector_counts:
            entry.add_all_to(counted, -1)
        entry.selector_counts = [
            counted
            for counted in self._selector_counts_by_label.possible_matches(entry.labels)
            if self._matches(entry, counted.selectors)
        ]
        for counted in entry.selector_counts:
            entry.add_all_to(counted, +1)
        entry.placed_terms = [
            placed_term
            for placed_term in self._placed_terms_by_label.possible_matches(entry.labels)
            if self._matches(entry, (placed_term.term.selector,))
        ]

    def _add_labels(self, entry: _LabelSetEntry) -> None:
        for label in entry.labels.items():
            self._entries_by_label.setdefault(label, []).append(entry)

    def _possible_entries(self, selectors: PodSelectors) -> Iterable[_LabelSetEntry]:
        label = _required_label(selectors)
        return self._entries.values() if label is None else self._entries_by_label.get(label, ())

    def _placed_term(self, term: AffinityTerm) -> PlacedAffinityTerm:
        placed_term = self._placed_terms.get(term)
        if placed_term is None:
            placed_term = PlacedAffinityTerm(
                next(self._serials), term, TopologyCounts(self._nodes), TopologyCounts(self._nodes)
            )
            self._placed_terms[term] = placed_term
            self._placed_terms_by_label.add((term.selector,), placed_term)
            for entry in self._possible_entries((term.selector,)):
                if self._matches(entry, (term.selector,)):
                    entry.placed_terms.append(placed_term)
        return placed_term

    def _matches(self, entry: _LabelSetEntry, selectors: PodSelectors) -> bool:
        namespace_labels = self._namespaces.get(entry.namespace, {})
        return all(
            selector.matches(entry.namespace, entry.labels, namespace_labels) for selector in selectors
        )


def _required_label(selectors: PodSelectors) -> Label | None:
    labels = (selector.required_label for selector in selectors)
    return next((label for label in labels if label is not None), None)
