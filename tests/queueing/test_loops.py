"""Left to itself, every small world comes to rest.  ``make loops`` searches many more of them."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.kueue import BorrowWithinCohort
from tests.queueing.choices import Choices
from tests.queueing.loop_search import (
    CLASSICAL,
    FAIR,
    NOBODY,
    ONE_TWO,
    Outcome,
    explore,
    flat,
    simple,
    worlds,
)
from tests.queueing.small_worlds import Course, Job, Queue, Quota, SmallWorld

ONE_EACH = ((Quota(1),),)


@pytest.mark.slow
@pytest.mark.parametrize(
    "configuration",
    [pytest.param(CLASSICAL, id="classical"), pytest.param(FAIR[-1], id="fair sharing")],
)
def test_every_small_world_comes_to_rest(configuration: Configuration) -> None:
    """Two queues of nominal 1; the second of three workloads is in the other one, and nobody runs yet."""
    given = worlds(flat("ab", simple(1)[1:]), ONE_TWO, configurations=(configuration,), starts=NOBODY)
    total = Outcome()
    for world in given:
        if [job.queue for job in world.jobs] == ["a", "b", "a"]:
            total = total.and_(explore(world))
    assert total.loops == ()
    assert total.unclaimed == ()
    assert total.worlds == 7 * 8
    assert total.rings > 0  # the rule is needed


class _Given(Choices):
    """The answers are known; anything else takes the first."""

    def __init__(self, **policies: object) -> None:
        super().__init__(())
        for name, answer in policies.items():
            self._answers[tuple(name.split("_"))] = answer


def test_a_ring_of_policies_is_broken_where_nobody_claims_its_own_quota() -> None:
    """``w0`` reclaims from ``w1``, ``w2`` preempts ``w0``, and ``w1`` takes the room: not for ever."""
    world = SmallWorld(
        {"a": Queue("all", ONE_EACH), "b": Queue("all", ONE_EACH)},
        (Job("a", 0, (1,)), Job("b", 2, (2,)), Job("a", 1, (2,))),
        (),
        {},
    )
    while_borrowing = BorrowWithinCohort(policy="LowerPriority")
    choices = _Given(a_reclaim="Any", a_within="LowerPriority", a_borrow=while_borrowing, b_reclaim="Never")
    course = Course(world, choices)
    assert course.loop() is None
    assert course.story == [
        "w1 starts, 1 on ['f0']",
        "w1 is preempted for w0: InCohortReclamation",
        "w1 stops",
        "w0 starts, 1 on ['f0']",
        "w0 is preempted for w2: InClusterQueue",
        "w0 stops",
        "w1 starts, 1 on ['f0']",
        "w1 is preempted for w0: InCohortReclamation",
        "w1 stops",
        "w0 starts, 1 on ['f0']",
    ]


def test_who_preempted_for_fewer_pods_is_content_with_them() -> None:
    """With both its pods ``w1`` would borrow, and stand behind ``w0``, whom it preempted for one."""
    world = SmallWorld(
        {"a": Queue("all", ((Quota(2),),)), "b": Queue("all", ONE_EACH)},
        (Job("a", 2, (1,), 3), Job("b", 0, (1,), 2)),
        (0,),
        {},
    )
    choices = _Given(b_reclaim="Any", a_reclaim="Never", a_within="Never", b_within="Never")
    choices._answers[(0, "count")] = 3
    course = Course(world, choices)
    assert course.loop() is None
    assert course.story == [
        "w0 is preempted for w1: InCohortReclamation",
        "w0 stops",
        "w1 starts, 1 on ['f0']",
        "w0 starts, 2 on ['f0']",
    ]
