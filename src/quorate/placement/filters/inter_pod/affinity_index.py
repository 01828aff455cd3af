"""The pods on the nodes as selectors see them, indexed by the selectors that exist.

The model: pods of equal namespace and labels are one *kin*.  Whoever wants to know where certain pods are
asks for a *survey*, which then follows every move.  Each kin knows the surveys that count it, so a move costs
as many additions as there are answers it changes, however many pods, nodes and selectors there are; a pod
that no selector is about costs one.  In the same way pods that are placed hold the domain they are in to
their own affinity terms, and each kin knows the held terms that pick it.

What was asked for once is kept until ``sweep``.
"""

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from quorate.placement.filters.inter_pod.pod_selectors import AffinityTerm, Labels, PodLabelSet, PodSelector
from quorate.placement.filters.inter_pod.topology_counts import TopologyCount, TopologyCounts
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.framework import Capacity

PodSelectors = tuple[PodSelector, ...]  # pods that all of them pick
Label = tuple[str, str]
T = TypeVar("T")


class OwnTerm(NamedTuple):
    """A term of a pod, and what it means to the pods it picks while the pod is placed."""

    term: AffinityTerm
    anti_affinity: int  # 1 if they may not come into the domain
    weight: int  # how much they are wanted there


@dataclass(eq=False, slots=True)
class SelectorCount:
    selectors: PodSelectors
    counts: TopologyCounts


@dataclass(eq=False, slots=True)
class PlacedAffinityTerm:
    """A term that placed pods have, summed over these pods."""

    serial: int  # no two have the same, not even one after the other
    term: AffinityTerm
    anti_affinity: TopologyCounts
    preferred: TopologyCounts


@dataclass(eq=False, slots=True)
class _LabelSetEntry:
    """The placed pods of one kin, and who is interested in them."""

    namespace: str
    labels: Labels
    staying: dict[int, int] = field(default_factory=dict)  # by node
    releasing: dict[int, int] = field(default_factory=dict)  # by node
    surveys: list[SelectorCount] = field(default_factory=list)
    placed_term: list[PlacedAffinityTerm] = field(default_factory=list)

    def count_into(self, counted: SelectorCount, sign: int) -> None:
        for places, releasing in ((self.staying, False), (self.releasing, True)):
            for node, count in places.items():
                counted.counts.add(node, sign * count, releasing)


class _ByAnchor(Generic[T]):
    """Those who pick pods, found by the labels of pods: most name a label that their pods must have."""

    def __init__(self) -> None:
        self._anchored: dict[Label | None, list[T]] = {}

    def add(self, selectors: PodSelectors, one: T) -> None:
        self._anchored.setdefault(_anchor(selectors), []).append(one)

    def perhaps(self, labels: Labels) -> Iterator[T]:
        """Those that may pick a pod with ``labels``; no others do."""
        yield from self._anchored.get(None, ())
        for label in labels.items():
            yield from self._anchored.get(label, ())


class AffinityIndex:
    """Where the pods are.  Additions and their opposites undo each other exactly."""

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._entries: dict[PodLabelSet, _LabelSetEntry] = {}
        self._entries_by_label: dict[Label, list[_LabelSetEntry]] = {}
        self._surveys: dict[PodSelectors, SelectorCount] = {}
        self._surveying: _ByAnchor[SelectorCount] = _ByAnchor()
        self._held: dict[AffinityTerm, PlacedAffinityTerm] = {}
        self._holding_over: _ByAnchor[PlacedAffinityTerm] = _ByAnchor()
        self._namespaces: dict[str, Labels] = {}
        self._serials = itertools.count(1)

    def add(
        self, node: int, label_set: PodLabelSet, own_terms: Collection[OwnTerm], releasing: bool, count: int
    ) -> None:
        """Note ``count`` more pods on the node, or fewer if it is negative."""
        entry = self._family(label_set)
        places = entry.releasing if releasing else entry.staying
        left = places.get(node, 0) + count
        assert left >= 0, f"{-left} pods of {label_set} too many leave node {node}"
        if left:
            places[node] = left
        else:
            places.pop(node, None)
        for counted in entry.surveys:
            counted.counts.add(node, count, releasing)
        for own_term in own_terms:
            placed_term = self._holding(own_term.term)
            if own_term.anti_affinity:
                placed_term.anti_affinity.add(node, own_term.anti_affinity * count, releasing)
            if own_term.weight:
                placed_term.preferred.add(node, own_term.weight * count, releasing)

    def count_matching(self, selectors: PodSelectors, capacity: Capacity) -> TopologyCount:
        """Where the pods are that all of ``selectors`` pick, kept up to date from now on."""
        counted = self._surveys.get(selectors)
        if counted is None:
            counted = self._surveys[selectors] = SelectorCount(selectors, TopologyCounts(self._nodes))
            self._surveying.add(selectors, counted)
            for entry in self._perhaps_picked(selectors):
                if self._picked(entry, selectors):
                    entry.surveys.append(counted)
                    entry.count_into(counted, +1)
        return counted.counts.at(capacity)

    def matches(self, selectors: PodSelectors, label_set: PodLabelSet) -> bool:
        return self._picked(self._family(label_set), selectors)

    def placed_terms_matching(self, label_set: PodLabelSet) -> Collection[PlacedAffinityTerm]:
        """The terms of placed pods that pick pods of ``label_set``."""
        return self._family(label_set).placed_term

    def set_namespace(self, name: str, labels: Labels) -> bool:
        """Note the labels of a namespace, by which terms may look into it; whether that is news."""
        if self._namespaces.get(name, {}) == labels:
            return False
        self._namespaces[name] = labels
        for entry in self._entries.values():
            if entry.namespace == name:
                self._reconsider(entry)
        return True

    def sweep(self, wanted: Collection[PodSelectors]) -> None:
        """Let go of all surveys but those ``wanted``, and of terms and kins of which no pod is left."""
        self._surveys = {
            selectors: self._surveys[selectors] for selectors in wanted if selectors in self._surveys
        }
        self._held = {
            term: placed_term
            for term, placed_term in self._held.items()
            if placed_term.anti_affinity.now.by_node or placed_term.preferred.now.by_node
        }
        self._entries = {
            label_set: entry for label_set, entry in self._entries.items() if entry.staying or entry.releasing
        }
        self._surveying, self._holding_over, self._entries_by_label = _ByAnchor(), _ByAnchor(), {}
        for counted in self._surveys.values():
            self._surveying.add(counted.selectors, counted)
        for placed_term in self._held.values():
            self._holding_over.add((placed_term.term.selector,), placed_term)
        surveys, held_terms = set(self._surveys.values()), set(self._held.values())
        for entry in self._entries.values():
            entry.surveys = [counted for counted in entry.surveys if counted in surveys]
            entry.placed_term = [
                placed_term for placed_term in entry.placed_term if placed_term in held_terms
            ]
            self._note_labels(entry)

    def _family(self, label_set: PodLabelSet) -> _LabelSetEntry:
        entry = self._entries.get(label_set)
        if entry is None:
            namespace, labels = label_set
            entry = self._entries[label_set] = _LabelSetEntry(namespace, dict(labels))
            self._note_labels(entry)
            self._reconsider(entry)
        return entry

    def _reconsider(self, entry: _LabelSetEntry) -> None:
        """Find out who is interested in the family, and let only these count it."""
        for counted in entry.surveys:
            entry.count_into(counted, -1)
        surveys, held_terms = (
            self._surveying.perhaps(entry.labels),
            self._holding_over.perhaps(entry.labels),
        )
        entry.surveys = [one for one in surveys if self._picked(entry, one.selectors)]
        for counted in entry.surveys:
            entry.count_into(counted, +1)
        entry.placed_term = [one for one in held_terms if self._picked(entry, (one.term.selector,))]

    def _note_labels(self, entry: _LabelSetEntry) -> None:
        for label in entry.labels.items():
            self._entries_by_label.setdefault(label, []).append(entry)

    def _perhaps_picked(self, selectors: PodSelectors) -> Iterable[_LabelSetEntry]:
        anchor = _anchor(selectors)
        return self._entries.values() if anchor is None else self._entries_by_label.get(anchor, ())

    def _holding(self, term: AffinityTerm) -> PlacedAffinityTerm:
        placed_term = self._held.get(term)
        if placed_term is None:
            placed_term = PlacedAffinityTerm(
                next(self._serials), term, TopologyCounts(self._nodes), TopologyCounts(self._nodes)
            )
            self._held[term] = placed_term
            self._holding_over.add((term.selector,), placed_term)
            for entry in self._perhaps_picked((term.selector,)):
                if self._picked(entry, (term.selector,)):
                    entry.placed_term.append(placed_term)
        return placed_term

    def _picked(self, entry: _LabelSetEntry, selectors: PodSelectors) -> bool:
        space = self._namespaces.get(entry.namespace, {})
        return all(selector.matches(entry.namespace, entry.labels, space) for selector in selectors)


def _anchor(selectors: PodSelectors) -> Label | None:
    return next((selector.anchor for selector in selectors if selector.anchor is not None), None)
