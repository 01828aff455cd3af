"""Timeouts of waitForPodsReady: a complete run, backoffs, conditions, and laws of retries."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration.pods_ready import RequeuingStrategy
from quorate.api.kueue import RequeueState, Workload, WorkloadStatus
from quorate.api.meta import Condition, ObjectMeta, Uid, at_epoch, epoch
from quorate.queueing import conditions as c
from quorate.queueing.pods_ready import (
    Deactivate,
    Retry,
    Timeouts,
    backoff_s,
    on_timeout,
    pods_ready_condition,
    running_timeout,
)
from tests.queueing.world import World

DOUBLING = RequeuingStrategy(backoff_base_s=60, backoff_max_s=3600)
LEGACY = RequeuingStrategy(backoff_base_s=1, backoff_max_s=math.inf, backoff_factor=1.41284738)


def a_workload(*conditions: Condition, requeue_state: RequeueState | None = None) -> Workload:
    return Workload(
        metadata=ObjectMeta(name="w", namespace="default", uid=Uid("w"), creation_timestamp=at_epoch(0)),
        status=WorkloadStatus(conditions=conditions, requeue_state=requeue_state),
    )


def true(type_: str, at: float, reason: str = "") -> Condition:
    return c.new_condition(type_, "True", reason, "", at)


def false(type_: str, at: float, reason: str) -> Condition:
    return c.new_condition(type_, "False", reason, "", at)


def test_a_workload_that_never_becomes_ready_is_retried_and_then_deactivated() -> None:
    """The example of KEP-1282; the job stops at once."""
    world = World(
        {
            "now": 0,
            "config": {
                "waitForPodsReady": {
                    "timeout": "60s",
                    "requeuingStrategy": {
                        "backoffLimitCount": 2,
                        "backoffBaseSeconds": 10,
                        "backoffMaxSeconds": 100,
                    },
                }
            },
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 1}}]}},
            "workloads": [{"name": "w", "queue": "cq", "requests": {"cpu": 1}}],
        }
    )

    def retries() -> tuple[int | None, float | None]:
        state = world.workloads["w"].status.requeue_state or RequeueState()
        return state.count, epoch(state.requeue_at) if state.requeue_at is not None else None

    def is_running() -> bool:
        return c.is_admitted(world.workloads["w"])

    def times_out_at(time: float) -> None:
        assert is_running()
        world.run({"advance": time - 1 - world.now})
        assert not c.is_evicted(world.workloads["w"])
        world.run({"advance": 1})
        assert c.is_evicted(world.workloads["w"])
        world.run({"evictionDone": ["w"]})
        assert not is_running()

    def is_admitted_again_at(time: float) -> None:
        world.run({"advance": time - 1 - world.now})
        world.run("cycle")
        assert not is_running()
        world.run({"advance": 1})
        world.run("cycle")
        assert is_running()

    world.run("cycle")
    times_out_at(60)
    assert retries() == (1, 70)
    is_admitted_again_at(70)
    times_out_at(130)
    assert retries() == (2, 150)
    is_admitted_again_at(150)
    times_out_at(210)
    assert not world.workloads["w"].spec.active
    assert retries() == (None, None)
    evicted = world.condition("w", c.EVICTED)
    assert evicted is not None
    assert evicted.reason == "DeactivatedDueToRequeuingLimitExceeded"

    world.run({"advance": 90})
    world.run({"active": {"w": True}})
    world.run("cycle")
    times_out_at(360)
    assert retries() == (1, 370)


def test_backoff_doubles_up_to_the_maximum() -> None:
    delays = [backoff_s(retry, DOUBLING) for retry in (1, 2, 3, 4, 5, 6, 7, 8, 20)]
    assert delays == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_the_first_delay_is_the_base_even_above_the_maximum() -> None:
    strategy = RequeuingStrategy(backoff_base_s=10, backoff_max_s=3)
    assert [backoff_s(retry, strategy) for retry in (1, 2, 3)] == [10, 3, 3]


@pytest.mark.parametrize(
    ("retries", "seconds"), [(1, 601), (2, 902), (5, 1811), (10, 3374), (20, 8730), (30, 86400)]
)
def test_the_legacy_backoff_has_the_documented_sums(retries: int, seconds: int) -> None:
    """KEP-1282: time until ``retries`` retries have failed, each after a timeout of five minutes."""
    total = 300 * (retries + 1) + sum(backoff_s(retry, LEGACY) for retry in range(1, retries + 1))
    assert round(total) == seconds


def test_a_thousand_retries_do_not_overflow() -> None:
    assert backoff_s(5000, DOUBLING) == 3600


TIMEOUTS = Timeouts(timeout_s=300, recovery_timeout_s=120, scheduling_timeout_s=30)


@pytest.mark.parametrize(
    ("conditions", "unplaced_since", "want"),
    [
        pytest.param([], None, None, id="not admitted: no timeout"),
        pytest.param(
            [true(c.QUOTA_RESERVED, 100)], None, None, id="reservation without admission: no timeout"
        ),
        pytest.param(
            [true(c.ADMITTED, 900)],
            None,
            ("WaitForStart", 1200),
            id="without a PodsReady condition",
        ),
        pytest.param(
            [true(c.ADMITTED, 900), false(c.PODS_READY, 10, "WaitForStart")],
            None,
            ("WaitForStart", 1200),
            id="from admission",
        ),
        pytest.param([true(c.ADMITTED, 900), true(c.PODS_READY, 950)], None, None, id="ready: no timeout"),
        pytest.param(
            [true(c.ADMITTED, 100), false(c.PODS_READY, 950, "WaitForRecovery")],
            None,
            ("WaitForRecovery", 1070),
            id="from the loss of readiness",
        ),
        pytest.param([true(c.ADMITTED, 900), true(c.EVICTED, 950)], None, None, id="evicted: no timeout"),
        pytest.param([true(c.ADMITTED, 900), true(c.FINISHED, 950)], None, None, id="finished: no timeout"),
        pytest.param(
            [true(c.ADMITTED, 900)],
            910,
            ("WaitForScheduling", 940),
            id="from the creation of a pod",
        ),
        pytest.param(
            [true(c.ADMITTED, 900)],
            10,
            ("WaitForScheduling", 930),
            id="a pod created before the admission",
        ),
        pytest.param(
            [true(c.ADMITTED, 900)],
            1190,
            ("WaitForStart", 1200),
            id="a late pod does not extend the start timeout",
        ),
        pytest.param(
            [true(c.ADMITTED, 100), false(c.PODS_READY, 950, "WaitForRecovery")],
            960,
            ("WaitForScheduling", 990),
            id="the replacement of a lost pod has no node",
        ),
    ],
)
def test_the_running_timeout(
    conditions: list[Condition], unplaced_since: float | None, want: tuple[str, float] | None
) -> None:
    timeout = running_timeout(a_workload(*conditions), TIMEOUTS, unplaced_since)
    assert (None if timeout is None else (timeout.phase, timeout.expires_at)) == want


def test_without_recovery_timeout_lost_readiness_never_expires() -> None:
    lost = a_workload(true(c.ADMITTED, 100), false(c.PODS_READY, 950, "WaitForRecovery"))
    timeout = running_timeout(lost, Timeouts(timeout_s=300))
    assert timeout is not None
    assert timeout.expires_at == math.inf


@pytest.mark.parametrize(
    ("stored", "all_ready", "want"),
    [
        pytest.param([], False, ("False", "WaitForStart"), id="not admitted"),
        pytest.param([], True, ("False", "WaitForStart"), id="not admitted, all pods ready"),
        pytest.param([true(c.ADMITTED, 1)], True, ("True", "Started"), id="ready for the first time"),
        pytest.param(
            [true(c.ADMITTED, 1), true(c.PODS_READY, 2, "Started")],
            False,
            ("False", "WaitForRecovery"),
            id="readiness lost",
        ),
        pytest.param(
            [true(c.ADMITTED, 1), false(c.PODS_READY, 2, "WaitForRecovery")],
            True,
            ("True", "Recovered"),
            id="readiness regained",
        ),
        pytest.param(
            [true(c.ADMITTED, 1), false(c.PODS_READY, 2, "PodsReady")],
            True,
            ("True", "Started"),
            id="a reason of an older version counts as never ready",
        ),
    ],
)
def test_the_pods_ready_condition(stored: list[Condition], all_ready: bool, want: tuple[str, str]) -> None:
    condition = pods_ready_condition(a_workload(*stored), all_ready, now=1000)
    assert condition is not None
    assert (condition.status, condition.reason) == want
    again = a_workload(*c.with_conditions(stored, condition))
    assert pods_ready_condition(again, all_ready, now=2000) is None


moments = st.integers(0, 10**6)
strategies = st.builds(
    RequeuingStrategy,
    backoff_limit_count=st.one_of(st.none(), st.integers(0, 5)),
    backoff_base_s=st.integers(1, 1000).map(float),
    backoff_max_s=st.integers(1, 5000).map(float),
    backoff_factor=st.sampled_from((2.0, 1.41284738)),
)


@given(
    strategy=strategies,
    count=st.one_of(st.none(), st.integers(0, 40)),
    requeue_at=st.one_of(st.none(), moments),
    now=moments,
    jitter=st.floats(0, 1, exclude_max=True),
)
def test_a_timeout_increments_the_count_and_never_moves_the_backoff_back(
    strategy: RequeuingStrategy, count: int | None, requeue_at: int | None, now: int, jitter: float
) -> None:
    state = RequeueState(count=count, requeue_at=None if requeue_at is None else at_epoch(requeue_at))
    workload = a_workload(true(c.ADMITTED, 0), requeue_state=state)
    limit = strategy.backoff_limit_count
    match on_timeout(workload, "WaitForStart", strategy, now, jitter):
        case Deactivate(retries):
            assert limit is not None
            assert retries == (count or 0) >= limit
        case Retry(phase, new):
            assert limit is None or (count or 0) < limit
            assert phase == "WaitForStart"
            assert new.count == (count or 0) + 1
            assert new.requeue_at is not None
            assert epoch(new.requeue_at) >= max(requeue_at or 0, now)


@given(strategies, st.integers(1, 60))
def test_delays_never_decrease_after_the_first_retry(strategy: RequeuingStrategy, retry: int) -> None:
    if retry > 1:
        assert backoff_s(retry, strategy) <= backoff_s(retry + 1, strategy)
    assert backoff_s(retry + 1, strategy) <= strategy.backoff_max_s
