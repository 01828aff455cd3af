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

from quorate.placement.constraints.headcounts import Headcount, Headcounts
from quorate.placement.constraints.nodes import NodeFacts
from quorate.placement.constraints.terms import Kin, Labels, Pick, PodTerm
from quorate.placement.stance import Moment

Picks = tuple[Pick, ...]  # pods that all of them pick
Label = tuple[str, str]
T = TypeVar("T")


class Bond(NamedTuple):
    """A term of a pod, and what it means to the pods it picks while the pod is placed."""

    term: PodTerm
    forbids: int  # 1 if they may not come into the domain
    attracts: int  # how much they are wanted there


@dataclass(eq=False, slots=True)
class Survey:
    picks: Picks
    counts: Headcounts


@dataclass(eq=False, slots=True)
class HeldTerm:
    """A term that placed pods have, summed over these pods."""

    serial: int  # no two have the same, not even one after the other
    term: PodTerm
    forbidding: Headcounts
    attracting: Headcounts


@dataclass(eq=False, slots=True)
class _Family:
    """The placed pods of one kin, and who is interested in them."""

    namespace: str
    labels: Labels
    staying: dict[int, int] = field(default_factory=dict)  # by node
    releasing: dict[int, int] = field(default_factory=dict)  # by node
    surveys: list[Survey] = field(default_factory=list)
    held: list[HeldTerm] = field(default_factory=list)

    def count_into(self, survey: Survey, sign: int) -> None:
        for places, releasing in ((self.staying, False), (self.releasing, True)):
            for node, count in places.items():
                survey.counts.add(node, sign * count, releasing)


class _ByAnchor(Generic[T]):
    """Those who pick pods, found by the labels of pods: most name a label that their pods must have."""

    def __init__(self) -> None:
        self._anchored: dict[Label | None, list[T]] = {}

    def add(self, picks: Picks, one: T) -> None:
        self._anchored.setdefault(_anchor(picks), []).append(one)

    def perhaps(self, labels: Labels) -> Iterator[T]:
        """Those that may pick a pod with ``labels``; no others do."""
        yield from self._anchored.get(None, ())
        for label in labels.items():
            yield from self._anchored.get(label, ())


class Neighbours:
    """Where the pods are.  Additions and their opposites undo each other exactly."""

    def __init__(self, nodes: NodeFacts) -> None:
        self._nodes = nodes
        self._families: dict[Kin, _Family] = {}
        self._families_with: dict[Label, list[_Family]] = {}
        self._surveys: dict[Picks, Survey] = {}
        self._surveying: _ByAnchor[Survey] = _ByAnchor()
        self._held: dict[PodTerm, HeldTerm] = {}
        self._holding_over: _ByAnchor[HeldTerm] = _ByAnchor()
        self._namespaces: dict[str, Labels] = {}
        self._serials = itertools.count(1)

    def add(self, node: int, kin: Kin, bonds: Collection[Bond], releasing: bool, count: int) -> None:
        """Note ``count`` more pods on the node, or fewer if it is negative."""
        family = self._family(kin)
        places = family.releasing if releasing else family.staying
        left = places.get(node, 0) + count
        assert left >= 0, f"{-left} pods of {kin} too many leave node {node}"
        if left:
            places[node] = left
        else:
            places.pop(node, None)
        for survey in family.surveys:
            survey.counts.add(node, count, releasing)
        for bond in bonds:
            held = self._holding(bond.term)
            if bond.forbids:
                held.forbidding.add(node, bond.forbids * count, releasing)
            if bond.attracts:
                held.attracting.add(node, bond.attracts * count, releasing)

    def survey(self, picks: Picks, moment: Moment) -> Headcount:
        """Where the pods are that all of ``picks`` pick, kept up to date from now on."""
        survey = self._surveys.get(picks)
        if survey is None:
            survey = self._surveys[picks] = Survey(picks, Headcounts(self._nodes))
            self._surveying.add(picks, survey)
            for family in self._perhaps_picked(picks):
                if self._picked(family, picks):
                    family.surveys.append(survey)
                    family.count_into(survey, +1)
        return survey.counts.at(moment)

    def picks(self, picks: Picks, kin: Kin) -> bool:
        return self._picked(self._family(kin), picks)

    def held_over(self, kin: Kin) -> Collection[HeldTerm]:
        """The terms of placed pods that pick pods of ``kin``."""
        return self._family(kin).held

    def set_namespace(self, name: str, labels: Labels) -> bool:
        """Note the labels of a namespace, by which terms may look into it; whether that is news."""
        if self._namespaces.get(name, {}) == labels:
            return False
        self._namespaces[name] = labels
        for family in self._families.values():
            if family.namespace == name:
                self._reconsider(family)
        return True

    def sweep(self, wanted: Collection[Picks]) -> None:
        """Let go of all surveys but those ``wanted``, and of terms and kins of which no pod is left."""
        self._surveys = {picks: self._surveys[picks] for picks in wanted if picks in self._surveys}
        self._held = {
            term: held
            for term, held in self._held.items()
            if held.forbidding.now.by_node or held.attracting.now.by_node
        }
        self._families = {
            kin: family for kin, family in self._families.items() if family.staying or family.releasing
        }
        self._surveying, self._holding_over, self._families_with = _ByAnchor(), _ByAnchor(), {}
        for survey in self._surveys.values():
            self._surveying.add(survey.picks, survey)
        for held in self._held.values():
            self._holding_over.add((held.term.pick,), held)
        surveys, held_terms = set(self._surveys.values()), set(self._held.values())
        for family in self._families.values():
            family.surveys = [survey for survey in family.surveys if survey in surveys]
            family.held = [held for held in family.held if held in held_terms]
            self._note_labels(family)

    def _family(self, kin: Kin) -> _Family:
        family = self._families.get(kin)
        if family is None:
            namespace, labels = kin
            family = self._families[kin] = _Family(namespace, dict(labels))
            self._note_labels(family)
            self._reconsider(family)
        return family

    def _reconsider(self, family: _Family) -> None:
        """Find out who is interested in the family, and let only these count it."""
        for survey in family.surveys:
            family.count_into(survey, -1)
        surveys, held_terms = (
            self._surveying.perhaps(family.labels),
            self._holding_over.perhaps(family.labels),
        )
        family.surveys = [one for one in surveys if self._picked(family, one.picks)]
        for survey in family.surveys:
            family.count_into(survey, +1)
        family.held = [one for one in held_terms if self._picked(family, (one.term.pick,))]

    def _note_labels(self, family: _Family) -> None:
        for label in family.labels.items():
            self._families_with.setdefault(label, []).append(family)

    def _perhaps_picked(self, picks: Picks) -> Iterable[_Family]:
        anchor = _anchor(picks)
        return self._families.values() if anchor is None else self._families_with.get(anchor, ())

    def _holding(self, term: PodTerm) -> HeldTerm:
        held = self._held.get(term)
        if held is None:
            held = HeldTerm(next(self._serials), term, Headcounts(self._nodes), Headcounts(self._nodes))
            self._held[term] = held
            self._holding_over.add((term.pick,), held)
            for family in self._perhaps_picked((term.pick,)):
                if self._picked(family, (term.pick,)):
                    family.held.append(held)
        return held

    def _picked(self, family: _Family, picks: Picks) -> bool:
        space = self._namespaces.get(family.namespace, {})
        return all(pick.matches(family.namespace, family.labels, space) for pick in picks)


def _anchor(picks: Picks) -> Label | None:
    return next((pick.anchor for pick in picks if pick.anchor is not None), None)
