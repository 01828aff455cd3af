"""The quota tree: the quantities of each node, the borrowing level of a request, cohorts and cycles."""

import pytest

from quorate.quota import tree
from quorate.quota.amount import UNLIMITED, Amount, FlavorResource
from quorate.quota.audit import audit
from quorate.quota.hierarchy import QuotaTree
from quorate.quota.tree import BorrowingLevel, Limits

CPU = FlavorResource("default", "cpu")


def cpu(
    nominal: int, borrowing: Amount = UNLIMITED, lending: Amount = UNLIMITED
) -> dict[FlavorResource, Limits]:
    return {CPU: Limits(nominal, borrowing, lending)}


def worked_example() -> QuotaTree:
    """Build root R (2) with cohort M and queue c (8, borrows 3); M has queues a (6, lends 2) and b (4)."""
    quota = QuotaTree()
    quota.put_cohort("R", "", cpu(2))
    quota.put_cohort("M", "R", {})
    quota.put_queue("a", "M", cpu(6, lending=2))
    quota.put_queue("b", "M", cpu(4))
    quota.put_queue("c", "R", cpu(8, borrowing=3))
    return quota


def test_quantities_of_the_worked_example() -> None:
    quota = worked_example()
    a, b, c = (quota.queues[name] for name in "abc")
    middle, root = quota.cohorts["M"], quota.cohorts["R"]
    tree.add_usage(a, {CPU: 7})
    tree.add_usage(c, {CPU: 5})

    assert tree.guaranteed(a, CPU) == 4
    assert (tree.subtree_quota(middle, CPU), tree.subtree_quota(root, CPU)) == (6, 16)
    assert (tree.used(middle, CPU), tree.used(root, CPU)) == (3, 8)
    assert [tree.available(node, CPU) for node in (root, a, b, c)] == [8, 8, 8, 6]
    assert [tree.potential_available(node, CPU) for node in (a, b, c)] == [20, 16, 11]


@pytest.mark.parametrize(
    ("amount", "want"),
    [
        pytest.param(3, BorrowingLevel(0, may_reclaim=True), id="within nominal quota"),
        pytest.param(6, BorrowingLevel(1, may_reclaim=True), id="covered by the cohort"),
        pytest.param(
            14,
            BorrowingLevel(2, may_reclaim=False),
            id="covered by the root, which has no parent to reclaim from",
        ),
        pytest.param(99, BorrowingLevel(2, may_reclaim=False), id="covered by no ancestor"),
    ],
)
def test_the_borrowing_level_of_a_request(amount: int, want: BorrowingLevel) -> None:
    a = worked_example().queues["a"]
    tree.add_usage(a, {CPU: 2})
    assert tree.borrowing_level(a, CPU, amount) == want


def test_a_queue_without_cohort_never_reclaims() -> None:
    quota = QuotaTree()
    assert tree.borrowing_level(quota.put_queue("alone", "", cpu(1)), CPU, 5) == BorrowingLevel(
        0, may_reclaim=False
    )


def test_available_is_negative_after_quota_is_reduced_below_usage() -> None:
    quota = QuotaTree()
    queue = quota.put_queue("q", "", cpu(10))
    tree.add_usage(queue, {CPU: 8})
    quota.put_queue("q", "", cpu(5))
    assert tree.available(queue, CPU) == -3


def test_a_cohort_exists_as_long_as_it_is_declared_or_named_as_parent() -> None:
    quota = QuotaTree()
    quota.put_queue("q", "ghost", cpu(1))
    assert "ghost" in quota.cohorts
    quota.put_cohort("ghost", "", cpu(4))
    assert tree.available(quota.queues["q"], CPU) == 5
    quota.remove_cohort("ghost")
    assert tree.available(quota.queues["q"], CPU) == 1
    quota.put_queue("q", "", cpu(1))
    assert "ghost" not in quota.cohorts


def test_a_cycle_of_cohorts_affects_all_nodes_below_until_it_is_broken() -> None:
    quota = QuotaTree()
    quota.put_queue("q", "leaf", cpu(1))
    quota.put_cohort("leaf", "x", {})
    quota.put_cohort("x", "y", {})
    quota.put_cohort("y", "z", cpu(2))
    other = quota.put_queue("other", "elsewhere", cpu(1))
    assert not quota.has_cycle(quota.queues["q"])

    quota.put_cohort("z", "x", cpu(3))
    assert quota.has_cycle(quota.queues["q"])
    assert not quota.has_cycle(other)

    quota.put_cohort("y", "", cpu(2))
    assert not quota.has_cycle(quota.queues["q"])
    assert tree.available(quota.queues["q"], CPU) == 6
    assert [child.name for child in quota.cohorts["x"].children] == ["leaf", "z"]


def test_a_cohort_that_is_its_own_parent_is_a_cycle() -> None:
    quota = QuotaTree()
    quota.put_cohort("me", "me", cpu(3))
    queue = quota.put_queue("q", "me", cpu(1))
    assert quota.has_cycle(queue)
    quota.remove_cohort("me")
    assert not quota.has_cycle(queue)


@pytest.mark.large
def test_a_tree_may_be_deeper_than_recursion() -> None:
    levels = 1100
    quota = QuotaTree()
    pair = CPU
    quota.put_cohort("c0", "", cpu(5))
    for level in range(1, levels):
        quota.put_cohort(f"c{level}", f"c{level - 1}", {})
    queue = quota.put_queue("deep", f"c{levels - 1}", cpu(1))
    tree.add_usage(queue, {pair: 4})
    assert (tree.available(queue, pair), tree.potential_available(queue, pair)) == (2, 6)
    assert queue.root.height == levels
    quota.put_cohort("c0", "", {})
    assert tree.available(queue, pair) == -3


def test_the_audit_takes_one_pass_over_a_tree_with_lending_limits() -> None:
    quota = QuotaTree()
    pair = CPU
    quota.put_cohort("c0", "", cpu(1, lending=1))
    for level in range(1, 60):  # evaluated by recursion, each level took twice the time of the one above
        quota.put_cohort(f"c{level}", f"c{level - 1}", cpu(1, lending=1))
    queue = quota.put_queue("deep", "c59", cpu(1, lending=1))
    tree.add_usage(queue, {pair: 3})
    assert audit({queue: {pair: 3}}) == ()


def test_a_long_ring_of_cohorts_is_broken_at_once() -> None:
    quota = QuotaTree()
    names = [f"c{number}" for number in range(300)]
    for number, name in enumerate(names):
        quota.put_cohort(name, names[number - 1], {})
    assert quota.has_cycle(quota.cohorts["c7"])
    quota.put_cohort("c0", "", cpu(3))
    assert not quota.has_cycle(quota.cohorts["c7"])
    assert quota.cohorts["c299"].root is quota.cohorts["c0"]
