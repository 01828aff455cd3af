"""The quota tree: the quantities of each node, the level of a request, and both kept by differences."""

import pytest

from quorate.quota import tree
from quorate.quota.amount import UNLIMITED, Amount, FlavorResource
from quorate.quota.hierarchy import QuotaTree
from quorate.quota.tree import Level, Limits

CPU = FlavorResource("default", "cpu")


def cpu(
    nominal: int, borrowing: Amount = UNLIMITED, lending: Amount = UNLIMITED
) -> dict[FlavorResource, Limits]:
    return {CPU: Limits(nominal, borrowing, lending)}


def worked_example() -> QuotaTree:
    """Root R 2; in it cohort M with queues a (6, lends 2) and b (4); in R also queue c (8, borrows 3)."""
    quota = QuotaTree()
    quota.put_cohort("R", "", cpu(2))
    quota.put_cohort("M", "R", {})
    quota.put_queue("a", "M", cpu(6, lending=2))
    quota.put_queue("b", "M", cpu(4))
    quota.put_queue("c", "R", cpu(8, borrowing=3))
    return quota


def test_the_worked_example() -> None:
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
        pytest.param(3, Level(0, may_reclaim=True), id="within nominal"),
        pytest.param(6, Level(1, may_reclaim=True), id="covered by the own cohort"),
        pytest.param(14, Level(2, may_reclaim=False), id="covered by the root, above which there is nobody"),
        pytest.param(99, Level(2, may_reclaim=False), id="covered by nobody"),
    ],
)
def test_the_level_of_a_request(amount: int, want: Level) -> None:
    a = worked_example().queues["a"]
    tree.add_usage(a, {CPU: 2})
    assert tree.level(a, CPU, amount) == want


def test_a_queue_without_cohort_never_reclaims() -> None:
    quota = QuotaTree()
    assert tree.level(quota.put_queue("alone", "", cpu(1)), CPU, 5) == Level(0, may_reclaim=False)


def test_after_a_quota_cut_less_than_nothing_is_available() -> None:
    quota = QuotaTree()
    queue = quota.put_queue("q", "", cpu(10))
    tree.add_usage(queue, {CPU: 8})
    quota.put_queue("q", "", cpu(5))
    assert tree.available(queue, CPU) == -3


def test_a_cohort_lives_as_long_as_it_is_declared_or_named() -> None:
    quota = QuotaTree()
    quota.put_queue("q", "ghost", cpu(1))
    assert "ghost" in quota.cohorts
    quota.put_cohort("ghost", "", cpu(4))
    assert tree.available(quota.queues["q"], CPU) == 5
    quota.remove_cohort("ghost")
    assert tree.available(quota.queues["q"], CPU) == 1
    quota.put_queue("q", "", cpu(1))
    assert "ghost" not in quota.cohorts


def test_a_loop_of_cohorts_takes_everything_below_it_out_until_it_is_gone() -> None:
    quota = QuotaTree()
    quota.put_queue("q", "leaf", cpu(1))
    quota.put_cohort("leaf", "x", {})
    quota.put_cohort("x", "y", {})
    quota.put_cohort("y", "z", cpu(2))
    other = quota.put_queue("other", "elsewhere", cpu(1))
    assert not quota.is_looped(quota.queues["q"])

    quota.put_cohort("z", "x", cpu(3))
    assert quota.is_looped(quota.queues["q"])
    assert not quota.is_looped(other)

    quota.put_cohort("y", "", cpu(2))
    assert not quota.is_looped(quota.queues["q"])
    assert tree.available(quota.queues["q"], CPU) == 6
    assert [child.name for child in quota.cohorts["x"].children] == ["leaf", "z"]


def test_a_cohort_that_names_itself_is_a_loop() -> None:
    quota = QuotaTree()
    quota.put_cohort("me", "me", cpu(3))
    queue = quota.put_queue("q", "me", cpu(1))
    assert quota.is_looped(queue)
    quota.remove_cohort("me")
    assert not quota.is_looped(queue)
