"""Limits of trees of cohorts of any depth."""

import random

import pytest

from quorate.api.kueue import ClusterQueue, Cohort
from quorate.witness.limits import FlavorResource, Holder, QuotaTrees
from tests.witness.objects import a_cohort, a_queue

CPU = FlavorResource("default", "cpu")
CORE = 10**9
LEVELS = 3000


def chain(levels: int) -> QuotaTrees:
    """Return the tree of a queue with 4 cores below cohorts with one core each."""
    cohorts: list[Cohort] = [
        a_cohort(f"c{level}", 1, f"c{level + 1}" if level + 1 < levels else "") for level in range(levels)
    ]
    random.Random(1).shuffle(cohorts)
    queues: list[ClusterQueue] = [a_queue("q", 4, "c0")]
    return QuotaTrees(queues, cohorts)


@pytest.mark.parametrize("levels", [1, 2, LEVELS])
def test_a_chain_of_cohorts_has_the_quota_of_all_its_levels(levels: int) -> None:
    trees = chain(levels)
    (root,) = trees.roots()
    assert trees.queues_below(root) == {"q"}
    assert trees.flavor_resources(root) == {CPU}
    assert trees.limits_of(root, CPU)[root] == (4 + levels) * CORE
    use = trees.use_of(root, CPU, {"q": 2 * CORE})
    assert (use[Holder("ClusterQueue", "q")], use[root]) == (2 * CORE, 2 * CORE)
