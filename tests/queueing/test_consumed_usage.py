"""Consumed usage of local queues: decay, penalties, and the order that follows from them."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.api.configuration.queueing import AdmissionFairSharing
from quorate.api.kueue import LocalQueueFairSharingStatus
from quorate.api.meta import Key, epoch
from quorate.queueing.conditions import has_quota_reservation, is_admitted
from quorate.queueing.consumed_usage import ConsumedUsage
from quorate.queueing.decisions import Preempt, Reserve
from quorate.quota.amount import FlavorResource
from tests.queueing.notation import Json
from tests.queueing.resting_world import RestingWorld
from tests.queueing.world import World

CPU, GPU = FlavorResource("spot", "cpu"), FlavorResource("dear", "gpu")
RULES = AdmissionFairSharing(usage_half_life_s=600, usage_sampling_interval_s=300)
W = Key("ns", "w")


def test_after_a_half_life_without_usage_half_is_left() -> None:
    usage = ConsumedUsage()
    usage.sampled_at, usage.consumed = 0.0, {"cpu": 8.0}
    usage.sample({}, RULES, now=600)
    assert usage.consumed == {"cpu": 4.0}


def test_the_average_approaches_constant_usage_from_below() -> None:
    usage = ConsumedUsage()
    usage.sample({}, RULES, now=0)
    usage.sample({CPU: 8000}, RULES, now=600)
    assert usage.consumed == {"cpu": 4.0}
    usage.sample({CPU: 8000}, RULES, now=1200)
    assert usage.consumed == {"cpu": 6.0}


def test_an_admission_counts_at_once_with_its_usage_until_the_next_sample() -> None:
    """The example of KEP-4136: half-life ten minutes, interval five minutes, ten cpus."""
    usage = ConsumedUsage()
    usage.add_penalty(W, {CPU: 10_000}, RULES)
    assert usage.value(1.0, RULES) == pytest.approx(2.929, abs=0.001)
    assert usage.is_due(RULES, now=0)
    usage.settle_penalty(W)
    assert usage.penalties == {}
    assert usage.value(1.0, RULES) == pytest.approx(2.929, abs=0.001)


@pytest.mark.parametrize(
    ("weight", "weights", "value"),
    [
        pytest.param(1.0, {}, 6.0, id="equal weights of resources"),
        pytest.param(2.0, {}, 3.0, id="a local queue with a higher weight"),
        pytest.param(1.0, {"gpu": 10.0}, 24.0, id="different weights of resources"),
        pytest.param(1.0, {"gpu": 0.0}, 4.0, id="a resource of weight 0"),
        pytest.param(0.0, {}, float("inf"), id="a local queue of weight 0 is always last"),
    ],
)
def test_value(weight: float, weights: dict[str, float], value: float) -> None:
    usage = ConsumedUsage()
    usage.consumed = {"cpu": 4.0, "gpu": 2.0}
    assert usage.value(weight, AdmissionFairSharing(resource_weights=weights)) == value


def test_without_half_life_there_is_no_consumed_usage() -> None:
    rules = AdmissionFairSharing(usage_half_life_s=0)
    usage = ConsumedUsage()
    usage.consumed = {"cpu": 4.0}
    usage.add_penalty(W, {CPU: 1000}, rules)
    usage.sample({CPU: 9000}, rules, now=1)
    assert (usage.consumed, usage.penalties) == ({}, {})


@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 20)), max_size=8),
    st.integers(1, 10**5),
)
def test_consumed_usage_never_exceeds_the_highest_usage(
    history: list[tuple[int, int]], half_life: int
) -> None:
    rules = AdmissionFairSharing(usage_half_life_s=half_life)
    usage, now = ConsumedUsage(), 0
    usage.sample({}, rules, now)
    for elapsed, cpus in history:
        now += elapsed
        usage.sample({CPU: cpus * 1000}, rules, now)
    highest = max((cpus for _, cpus in history), default=0)
    assert 0 <= usage.consumed.get("cpu", 0.0) <= highest + 1e-9


def admission_fair_sharing_world(strategy: str = "StrictFIFO") -> World:
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
def test_a_burst_of_one_local_queue_alternates_with_the_other(strategy: str) -> None:
    world = admission_fair_sharing_world(strategy)
    world.run({"cycle": 4})
    assert sorted(world.admitted()) == ["one0", "one1", "other10", "other11"]


def test_usage_accrues_while_no_workload_is_pending() -> None:
    """Eight cpus for 73 seconds, of which the half-life is a minute: 8 * (1 - 0.5 ** (73 / 60))."""
    sharing = {"usageHalfLifeTime": "1m", "usageSamplingInterval": "10s"}
    world = World(
        {
            "config": {"admissionFairSharing": sharing},
            "flavors": ["default"],
            "localQueues": {"one": {"clusterQueue": "cq"}, "other": {"clusterQueue": "cq"}},
            "clusterQueues": {
                "cq": {
                    "admissionMode": "UsageBasedAdmissionFairSharing",
                    "quota": [{"default": {"cpu": 9}}],
                }
            },
            "workloads": [{"name": "w", "queue": "one", "admitted": "default", "requests": {"cpu": 8}}],
        }
    )
    ends, wake_at = world.now + 73, world.admission_cycle.run(world.now).wake_at
    runs = 0
    while wake_at is not None and wake_at <= ends:
        runs += 1
        wake_at = world.admission_cycle.run(wake_at).wake_at
    assert runs == 7
    world.state.ledger.sample_consumed_usage(ends + 10)  # the first after the seven: ten seconds more
    world.state.remove_workload(world.workloads["w"].metadata.key)
    assert world.state.ledger.consumed_usage(Key("default", "one")) == pytest.approx(
        8 * (1 - 0.5 ** (83 / 60))
    )


def test_an_unused_local_queue_shows_that_it_has_consumed_nothing() -> None:
    world = admission_fair_sharing_world()
    started = world.now
    world.run({"advance": "10m"})
    status = world.state.local_queue_status(Key("default", "one"), world.now)
    assert status.fair_sharing is not None
    stored = status.fair_sharing.admission_fair_sharing_status
    assert stored is not None
    assert {resource: str(amount) for resource, amount in stored.consumed_resources.items()} == {"cpu": "0"}
    assert stored.last_update is not None
    assert epoch(stored.last_update) == started  # it need not be written again


def test_a_local_queue_shows_no_amounts_before_its_first_sample() -> None:
    world = admission_fair_sharing_world()
    world.given["localQueues"]["new"] = world.given["localQueues"]["one"]
    world.put_local_queue("default", "new")
    status = world.state.local_queue_status(Key("default", "new"), world.now)
    assert status.fair_sharing == LocalQueueFairSharingStatus()
    world.state.ledger.sample_consumed_usage(world.now)
    status = world.state.local_queue_status(Key("default", "new"), world.now)
    assert status.fair_sharing is not None
    assert status.fair_sharing.admission_fair_sharing_status is not None


def test_consumed_usage_is_restored_from_the_status() -> None:
    world = admission_fair_sharing_world()
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
    again = admission_fair_sharing_world()
    local_queue = world.state.ledger.local_queues[key].object
    assert local_queue is not None
    again.state.ledger.local_queues[key].consumed_usage = ConsumedUsage()
    again.state.put_local_queue(
        type(local_queue)(metadata=local_queue.metadata, spec=local_queue.spec, status=status)
    )
    assert again.state.ledger.consumed_usage(key) == pytest.approx(used)


@pytest.mark.parametrize("backfill", ["None", "EASY", "Conservative"])
@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_planned_start_keeps_nothing_from_a_local_queue_that_used_less(
    strategy: str, backfill: str
) -> None:
    """The head of the queue was held back for a workload that is evaluated after it: none of them started."""
    queue = {
        "strategy": strategy,
        "quota": [{"default": {"cpu": 6}}],
        "admissionMode": "UsageBasedAdmissionFairSharing",
        "annotations": {"backfill": backfill},
    }
    world = World(
        {
            "config": {"admissionFairSharing": {"usageHalfLifeTime": "100s", "usageSamplingInterval": "1s"}},
            "flavors": ["default"],
            "localQueues": {name: {"clusterQueue": "a"} for name in ("one", "two", "three")},
            "clusterQueues": {"a": queue},
            "workloads": [
                {"name": "earlier", "queue": "one", "requests": {"cpu": 3}, "created": 0},
                {"name": "runs", "queue": "three", "requests": {"cpu": 3}, "created": 0},
                {
                    "name": "urgent", "queue": "one", "requests": {"cpu": 4}, "created": 3, "priority": 100,
                    "create": "later",
                },
                {"name": "modest", "queue": "two", "requests": {"cpu": 3}, "created": 4, "create": "later"},
            ],
            "now": 0,
        }
    )  # fmt: skip
    world.run({"cycle": 2})
    for _ in range(4):
        world.run({"advance": 1})
    for name in ("urgent", "modest"):
        world.run({"create": [name]})
        world.run({"cycle": 2})
    world.run({"finish": ["earlier"]})
    world.run({"cycle": 2})
    assert has_quota_reservation(world.workloads["modest"])
    world.run({"finish": ["runs", "modest"]})
    world.run({"cycle": 2})
    assert has_quota_reservation(world.workloads["urgent"])


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_preempted_workload_does_not_take_its_quota_back_from_its_preemptor(strategy: str) -> None:
    """It is of the local queue that used less, and its preemptor of higher priority waits for its pods."""
    queue = {
        "strategy": strategy,
        "quota": [{"default": {"cpu": 6}}],
        "admissionMode": "UsageBasedAdmissionFairSharing",
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    world = World(
        {
            "config": {"admissionFairSharing": {"usageHalfLifeTime": "1h", "usageSamplingInterval": "1s"}},
            "flavors": ["default"],
            "localQueues": {name: {"clusterQueue": "a"} for name in ("one", "two")},
            "clusterQueues": {"a": queue},
            "workloads": [
                {"name": "earlier", "queue": "one", "requests": {"cpu": 6}, "created": 0},
                {"name": "low", "queue": "two", "requests": {"cpu": 4}, "created": 1, "create": "later"},
                {
                    "name": "urgent", "queue": "one", "requests": {"cpu": 4}, "created": 9, "priority": 100,
                    "create": "later",
                },
            ],
            "now": 0,
        }
    )  # fmt: skip
    world.run({"cycle": 1})
    world.run({"advance": 8})
    world.run({"finish": ["earlier"]})
    for name in ("low", "urgent"):
        world.run({"create": [name]})
        world.run({"cycle": 1})
    assert world.preempted() == {"low": "InClusterQueue"}
    world.run({"evictionDone": ["low"]})
    world.run({"cycle": 1})
    assert world.admitted().keys() == {"urgent"}


def a_shared_queue(random: Random, strategy: str) -> Json:
    """Return a world with one cluster queue, several local queues, and workloads that exceed the quota."""
    names = [f"l{number}" for number in range(random.randint(2, 3))]
    return {
        "config": {
            "admissionFairSharing": {
                "usageHalfLifeTime": random.choice(("10s", "1h")),
                "usageSamplingInterval": random.choice(("1s", "5s")),
            }
        },
        "flavors": {"default": {}},
        "namespaces": {"default": {}},
        "localQueues": {name: {"clusterQueue": "a"} for name in names},
        "clusterQueues": {
            "a": {
                "strategy": strategy,
                "quota": [{"default": {"cpu": random.randint(2, 6)}}],
                "preemption": {
                    "withinClusterQueue": random.choice(("LowerPriority", "LowerOrNewerEqualPriority"))
                },
                "admissionMode": "UsageBasedAdmissionFairSharing",
            }
        },
        "workloads": [
            {
                "name": f"w{number}",
                "queue": random.choice(names),
                "requests": {"cpu": random.randint(1, 5)},
                "created": number,
                "priority": random.choice((0, 1, 2, 3, 50, 100)),
                **({"create": "later"} if number > 2 else {}),
            }
            for number in range(14)
        ],
        "now": 0,
    }


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@settings(max_examples=15)
@given(seed=st.integers(0, 100_000))
def test_no_workload_is_preempted_twice_for_one_that_has_not_started_meanwhile(
    strategy: str, seed: int
) -> None:
    """Without a cohort: a workload of another cluster queue may take what a preemption has freed."""
    random = Random(seed)
    world = RestingWorld(a_shared_queue(random, strategy))
    later = [f"w{number}" for number in range(3, 14)]
    preempted: set[tuple[Key, Key]] = set()
    for _ in range(60):
        for decision in world._run_cycle(None).decisions:
            match decision:
                case Preempt(key=victim, preemptor=preemptor):
                    assert (preemptor, victim) not in preempted
                    preempted.add((preemptor, victim))
                case Reserve(key=key):
                    preempted = {pair for pair in preempted if pair[0] != key}
        world.now += random.choice((0, 1, 3, 8))
        world.run({"stop": [name for name in world.workloads if random.random() < 0.6]})
        if random.random() < 0.15:
            running = [name for name, each in world.workloads.items() if is_admitted(each)]
            world.run({"finish": random.sample(running, min(1, len(running)))})
        if later and random.random() < 0.4:
            world.run({"create": [later.pop(0)]})
