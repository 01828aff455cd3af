"""Properties of the quota tree, over generated trees and sequences of changes."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from quorate.quota import tree
from quorate.quota.amount import UNLIMITED, FlavorResource, Usage, total
from quorate.quota.audit import audit
from quorate.quota.hierarchy import QuotaTree
from quorate.quota.tree import Limits, Node

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

PAIRS = (FlavorResource("spot", "cpu"), FlavorResource("dear", "cpu"))
QUEUES = ("a", "b", "c", "d")
COHORTS = ("R", "S", "T", "U")

amounts = st.integers(0, 20)
signed = st.integers(-8, 20)  # a server stores negative quotas unless a webhook refuses them
signed_limits = st.builds(
    Limits, signed, st.one_of(st.just(UNLIMITED), signed), st.one_of(st.just(UNLIMITED), signed)
)
signed_limit_maps = st.dictionaries(st.sampled_from(PAIRS), signed_limits)
limits = st.builds(
    Limits,
    amounts,
    st.one_of(st.just(UNLIMITED), amounts),
    st.one_of(st.just(UNLIMITED), amounts),
)
limit_maps = st.dictionaries(st.sampled_from(PAIRS), limits)
usages = st.dictionaries(st.sampled_from(PAIRS), st.integers(1, 15), min_size=1)


class AnyHistory(RuleBasedStateMachine):
    """Declare, move, admit and finish in any order: the tree always equals one computed from scratch."""

    def __init__(self) -> None:
        super().__init__()
        self.quota = QuotaTree()
        self.running: dict[str, list[Usage]] = {}
        self.cohorts: dict[str, str] = {}

    @rule(name=st.sampled_from(QUEUES), cohort=st.sampled_from(("", *COHORTS)), limits=signed_limit_maps)
    def put_queue(self, name: str, cohort: str, limits: Mapping[FlavorResource, Limits]) -> None:
        self.quota.put_queue(name, cohort, limits)
        self.running.setdefault(name, [])

    @rule(name=st.sampled_from(COHORTS), parent=st.sampled_from(("", *COHORTS)), limits=signed_limit_maps)
    def put_cohort(self, name: str, parent: str, limits: Mapping[FlavorResource, Limits]) -> None:
        self.quota.put_cohort(name, parent, limits)
        self.cohorts[name] = parent

    @rule(name=st.sampled_from(COHORTS))
    def remove_cohort(self, name: str) -> None:
        if self.cohorts.pop(name, None) is not None:
            self.quota.remove_cohort(name)

    @rule(name=st.sampled_from(QUEUES), usage=usages)
    def start(self, name: str, usage: Usage) -> None:
        if name in self.running:
            self.running[name].append(usage)
            tree.add_usage(self.quota.queues[name], usage)

    @rule(name=st.sampled_from(QUEUES), index=st.integers(0, 5))
    def stop(self, name: str, index: int) -> None:
        running = self.running.get(name, [])
        if index < len(running):
            tree.remove_usage(self.quota.queues[name], running.pop(index))

    @rule(name=st.sampled_from(QUEUES), index=st.integers(0, 5))
    def would_stop(self, name: str, index: int) -> None:
        running = self.running.get(name, [])[index:]
        if running:
            node = self.quota.queues[name]
            supposed = tree.usage_without({node: total(running)})
            for usage in running:
                tree.remove_usage(node, usage)
            for one in (node, *node.path()):
                used = supposed.get(one, one.usage)
                assert {pair: amount for pair, amount in used.items() if amount} == one.usage
            for usage in running:
                tree.add_usage(node, usage)

    @invariant()
    def stored_quantities_equal_computed_ones(self) -> None:
        assert audit({self.quota.queues[name]: total(usages) for name, usages in self.running.items()}) == ()

    @invariant()
    def nodes_have_a_cycle_if_their_declared_parents_do(self) -> None:
        for name, node in self.quota.cohorts.items():
            assert self.quota.has_cycle(node) == self.leads_into_cycle(name), name

    @invariant()
    def heights_match_the_tree(self) -> None:
        for node in (*self.quota.queues.values(), *self.quota.cohorts.values()):
            assert node.height == 1 + max((child.height for child in node.children), default=-1)

    @invariant()
    def roots_are_the_last_ancestors(self) -> None:
        for node in (*self.quota.queues.values(), *self.quota.cohorts.values()):
            assert node.root is [node, *node.path()][-1], node

    @invariant()
    def what_is_available_follows_from_the_parent(self) -> None:
        for node in (*self.quota.queues.values(), *self.quota.cohorts.values()):
            for pair in PAIRS:
                of_parent = 0 if node.parent is None else tree.available(node.parent, pair)
                assert tree.available(node, pair) == tree.available_below(node, pair, of_parent), node

    @invariant()
    def borrowers_are_the_children_above_their_subtree_quota(self) -> None:
        for parent in self.quota.cohorts.values():
            for pair in PAIRS:
                over = {
                    node for node in parent.children if tree.used(node, pair) > tree.subtree_quota(node, pair)
                }
                assert set(tree.borrowers(parent, [pair])) == over

    def leads_into_cycle(self, cohort: str) -> bool:
        seen = set()
        while cohort and cohort not in seen:
            seen.add(cohort)
            cohort = self.cohorts.get(cohort, "")
        return bool(cohort)


TestAnyHistory = AnyHistory.TestCase


@st.composite
def trees(draw: st.DrawFn) -> QuotaTree:
    """Draw up to four levels: each cohort is a root or has a parent that is declared before it."""
    quota = QuotaTree()
    for index, name in enumerate(COHORTS):
        parent = draw(st.sampled_from(("", *COHORTS[:index])))
        quota.put_cohort(name, parent, draw(limit_maps))
    for name in QUEUES:
        quota.put_queue(name, draw(st.sampled_from(("", *COHORTS))), draw(limit_maps))
    for node in quota.queues.values():
        tree.add_usage(node, draw(st.dictionaries(st.sampled_from(PAIRS), amounts)))
    return quota


def snapshot(quota: QuotaTree) -> list[tuple[str, dict[FlavorResource, int]]]:
    nodes: list[Node] = [*quota.queues.values(), *quota.cohorts.values()]
    return [(node.name, dict(node.usage)) for node in nodes]


@given(trees(), st.sampled_from(QUEUES), usages)
def test_removing_usage_undoes_adding_it(quota: QuotaTree, name: str, usage: Usage) -> None:
    before = snapshot(quota)
    tree.add_usage(quota.queues[name], usage)
    tree.remove_usage(quota.queues[name], usage)
    assert snapshot(quota) == before


@given(trees(), st.sampled_from(QUEUES), st.sampled_from(PAIRS), st.integers(0, 60))
def test_usage_that_fits_makes_no_available_quota_negative(
    quota: QuotaTree, name: str, pair: FlavorResource, amount: int
) -> None:
    node = quota.queues[name]
    if not tree.fits(node, {pair: amount}):
        return
    before = {other: tree.available(other, pair) for other in quota.queues.values()}
    tree.add_usage(node, {pair: amount})
    for other, free in before.items():
        assert tree.available(other, pair) >= min(0, free)


@given(trees(), st.sampled_from(QUEUES), st.sampled_from(PAIRS))
def test_available_never_exceeds_potential_available(
    quota: QuotaTree, name: str, pair: FlavorResource
) -> None:
    node = quota.queues[name]
    assert tree.available(node, pair) <= tree.potential_available(node, pair)


@given(trees(), st.sampled_from(QUEUES), st.sampled_from(PAIRS), st.integers(0, 60), st.integers(0, 60))
def test_a_larger_request_never_has_a_lower_borrowing_level(
    quota: QuotaTree, name: str, pair: FlavorResource, one: int, other: int
) -> None:
    node, (less, more) = quota.queues[name], sorted((one, other))
    assert tree.borrowing_level(node, pair, less).height <= tree.borrowing_level(node, pair, more).height
