"""Past use of a local queue: what is remembered, what is forgotten, and whose turn it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration import AdmissionFairSharing
from quorate.api.meta import Key, epoch
from quorate.queueing.consumed_usage import ConsumedUsage
from quorate.quota.amount import FlavorResource
from tests.queueing.world import World

CPU, GPU = FlavorResource("spot", "cpu"), FlavorResource("dear", "gpu")
RULES = AdmissionFairSharing(usage_half_life_s=600, usage_sampling_interval_s=300)
W = Key("ns", "w")


def test_after_a_half_life_without_use_half_is_forgotten() -> None:
    past = ConsumedUsage()
    past.sampled_at, past.consumed = 0.0, {"cpu": 8.0}
    past.sample({}, RULES, now=600)
    assert past.consumed == {"cpu": 4.0}


def test_steady_use_is_approached_from_below() -> None:
    past = ConsumedUsage()
    past.sample({}, RULES, now=0)
    past.sample({CPU: 8000}, RULES, now=600)
    assert past.consumed == {"cpu": 4.0}
    past.sample({CPU: 8000}, RULES, now=1200)
    assert past.consumed == {"cpu": 6.0}


def test_an_admission_counts_at_once_for_what_it_will_have_used() -> None:
    """The worked example of the specification: half-life ten minutes, interval five, ten cpus."""
    past = ConsumedUsage()
    past.add_penalty(W, {CPU: 10_000}, RULES)
    assert past.value(1.0, RULES) == pytest.approx(2.929, abs=0.001)
    assert past.is_due(RULES, now=0)
    past.settle_penalty(W)
    assert past.penalties == {}
    assert past.value(1.0, RULES) == pytest.approx(2.929, abs=0.001)


@pytest.mark.parametrize(
    ("weight", "weights", "value"),
    [
        pytest.param(1.0, {}, 6.0, id="each resource counts the same"),
        pytest.param(2.0, {}, 3.0, id="a heavier queue may use more"),
        pytest.param(1.0, {"gpu": 10.0}, 24.0, id="resources may count differently"),
        pytest.param(1.0, {"gpu": 0.0}, 4.0, id="or not at all"),
        pytest.param(0.0, {}, float("inf"), id="without weight it is always last"),
    ],
)
def test_value(weight: float, weights: dict[str, float], value: float) -> None:
    past = ConsumedUsage()
    past.consumed = {"cpu": 4.0, "gpu": 2.0}
    assert past.value(weight, AdmissionFairSharing(resource_weights=weights)) == value


def test_without_half_life_nothing_is_remembered() -> None:
    rules = AdmissionFairSharing(usage_half_life_s=0)
    past = ConsumedUsage()
    past.consumed = {"cpu": 4.0}
    past.add_penalty(W, {CPU: 1000}, rules)
    past.sample({CPU: 9000}, rules, now=1)
    assert (past.consumed, past.penalties) == ({}, {})


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 20)), max_size=8),
    st.integers(1, 10**5),
)
def test_past_use_stays_within_what_was_ever_used(history: list[tuple[int, int]], half_life: int) -> None:
    rules = AdmissionFairSharing(usage_half_life_s=half_life)
    past, now = ConsumedUsage(), 0
    past.sample({}, rules, now)
    for elapsed, cpus in history:
        now += elapsed
        past.sample({CPU: cpus * 1000}, rules, now)
    most = max((cpus for _, cpus in history), default=0)
    assert 0 <= past.consumed.get("cpu", 0.0) <= most + 1e-9


def turn_taking_world(strategy: str = "StrictFIFO") -> World:
    return World(
        {
            "config": {"admissionFairSharing": {"usageHalfLifeTime": "10m", "usageSamplingInterval": "5m"}},
            "flavors": ["default"],
            "localQueues": {"one": {"clusterQueue": "cq"}, "other": {"clusterQueue": "cq"}},
            "clusterQueues": {
                "cq": {
                    "strategy": strategy,
                    "admissionMode": "UsageBasedAdmissionFairSharing",
                    "quota": [{"default": {"cpu": 4}}],
                }
            },
            "workloads": [
                {"name": f"{queue}{index}", "queue": queue, "created": index, "requests": {"cpu": 1}}
                for queue, first in (("one", 0), ("other", 10))
                for index in range(first, first + 4)
            ],
        }
    )


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_burst_does_not_win_again_and_again(strategy: str) -> None:
    world = turn_taking_world(strategy)
    world.run({"cycle": 4})
    assert sorted(world.admitted()) == ["one0", "one1", "other10", "other11"]


def test_past_use_survives_a_restart_through_the_status() -> None:
    world = turn_taking_world()
    world.run({"cycle": 4})
    world.run({"advance": "10m"})
    key = Key("default", "one")
    status = world.state.local_queue_status(key, world.now)
    assert status.fair_sharing is not None
    stored = status.fair_sharing.admission_fair_sharing_status
    assert stored is not None
    assert stored.last_update is not None
    assert epoch(stored.last_update) == world.now
    used = world.state.ledger.consumed_usage(key)
    assert used > 0
    again = turn_taking_world()
    local_queue = world.state.ledger.local_queues[key].object
    assert local_queue is not None
    again.state.ledger.local_queues[key].consumed_usage = ConsumedUsage()
    again.state.put_local_queue(
        type(local_queue)(metadata=local_queue.metadata, spec=local_queue.spec, status=status)
    )
    assert again.state.ledger.consumed_usage(key) == pytest.approx(used)
