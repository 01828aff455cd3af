"""Preemption ends in small worlds, here in a sample.  ``make loops`` searches all and many more of them."""

from random import Random

import pytest

from quorate.api.configuration import Configuration
from quorate.api.kueue import BorrowWithinCohort
from tests.queueing.choices import Choices
from tests.queueing.loop_search import (
    CLASSICAL,
    FAIR,
    FAMILIES,
    NONE_RUNNING,
    ONE_TWO,
    Outcome,
    equal_quotas,
    explore,
    flat_queues,
    worlds,
)
from tests.queueing.small_worlds import Job, Queue, Quota, Simulation, SmallWorld, Window

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

ONE_EACH = ((Quota(1),),)
SAMPLE = slice(14)  # of 56 worlds
# Half of a sample finds loops, too: one of its worlds if the history of preemptions excludes no victim, and
# two if workloads start beside windows that need their quota.
HALF = slice(7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("configuration", "part"),
    [
        pytest.param(CLASSICAL, SAMPLE, id="classical", marks=pytest.mark.long),
        pytest.param(FAIR[-1], HALF, id="fair sharing"),
        pytest.param(FAIR[-1], SAMPLE, id="fair sharing, more worlds", marks=pytest.mark.long),
    ],
)
def test_preemption_ends_in_small_worlds(configuration: Configuration, part: slice) -> None:
    """Two queues of nominal 1; of three workloads the second is in the other queue; none runs at first."""
    given = worlds(
        flat_queues("ab", equal_quotas(1)[1:]), ONE_TWO, configurations=(configuration,), starts=NONE_RUNNING
    )
    chosen = [world for world in given if [job.queue for job in world.jobs] == ["a", "b", "a"]]
    assert len(chosen) == 7 * 8
    total = Outcome()
    for world in Random(5).sample(chosen, SAMPLE.stop)[part]:
        total = total.and_(explore(world))
    assert total.loops == ()
    assert total.lost_claims == ()
    assert total.repeated > 0  # the rule is needed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "part"),
    [
        pytest.param(family, part, marks=pytest.mark.long if part is SAMPLE else ())
        for family in ("aging", "fair aging", "windows", "aging windows")
        for part in (HALF, SAMPLE)
    ],
)
def test_preemption_ends_while_priorities_rise_and_beside_windows(family: str, part: slice) -> None:
    total = Outcome()
    for world in Random(3).sample(list(FAMILIES[family].worlds()), SAMPLE.stop)[part]:
        total = total.and_(explore(world))
    assert total.loops == ()
    assert total.lost_claims == ()
    assert total.preempting > 0


class _Given(Choices):
    """Choices with given answers; every other question gets its first answer."""

    def __init__(self, **policies: object) -> None:
        super().__init__(())
        for name, answer in policies.items():
            self._answers[tuple(name.split("_"))] = answer


def test_a_loop_of_policies_is_broken_where_no_own_quota_is_claimed() -> None:
    """``w0`` reclaims from ``w1``, ``w2`` preempts ``w0``, ``w1`` takes the quota; then ``w0`` keeps it."""
    world = SmallWorld(
        {"a": Queue("all", ONE_EACH), "b": Queue("all", ONE_EACH)},
        (Job("a", 0, (1,)), Job("b", 2, (2,)), Job("a", 1, (2,))),
        (),
        {},
    )
    while_borrowing = BorrowWithinCohort(policy="LowerPriority")
    choices = _Given(a_reclaim="Any", a_within="LowerPriority", a_borrow=while_borrowing, b_reclaim="Never")
    simulation = Simulation(world, choices)
    assert simulation.find_loop() is None
    assert simulation.events == [
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


def test_a_workload_that_preempted_for_fewer_pods_starts_with_them() -> None:
    """With both its pods ``w1`` would borrow, and come after ``w0``, which it preempted for one pod."""
    world = SmallWorld(
        {"a": Queue("all", ((Quota(2),),)), "b": Queue("all", ONE_EACH)},
        (Job("a", 2, (1,), 3), Job("b", 0, (1,), 2)),
        (0,),
        {},
    )
    choices = _Given(b_reclaim="Any", a_reclaim="Never", a_within="Never", b_within="Never")
    choices._answers[(0, "count")] = 3
    simulation = Simulation(world, choices)
    assert simulation.find_loop() is None
    assert simulation.events == [
        "w0 is preempted for w1: InCohortReclamation",
        "w0 stops",
        "w1 starts, 1 on ['f0']",
        "w0 starts, 2 on ['f0']",
    ]


def test_nothing_starts_and_is_evicted_in_turn_while_a_window_is_open() -> None:
    """A job outlives its bound beside the window: another one would be admitted, evicted, and admitted."""
    queues = {name: Queue("all", ONE_EACH) for name in "ab"}
    jobs = (Job("b", 0, (1,)),) * 3
    world = SmallWorld(queues, jobs, (0,), {}, windows=(Window("a", "Evict"),), maximum_s=3600)
    outcome = explore(world)
    assert outcome.runs > 10
    assert outcome.loops == ()
