"""Workload slices of a growing job: the usage of the first is carried over to its replacement."""

from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.queueing.decisions import Reserve
from quorate.queueing.state import State
from quorate.quota.amount import FlavorResource
from tests.queueing.given import replace
from tests.queueing.world import World, differences

CPU = FlavorResource("default", "cpu")
LENDING_NOTHING = {
    "covered": ["cpu"],
    "flavors": [{"name": "default", "quotas": {"cpu": {"nominal": 1, "lendingLimit": 0}}}],
}


def a_world(
    *workloads: dict[str, Any], quota: int = 3, gates: dict[str, bool] | None = None, **queue: Any
) -> World:
    """Return a world in which ``old`` uses 2 cpus."""
    old = {"name": "old", "queue": "cq", "requests": {"cpu": 2}, "admitted": "default"}
    return World(
        {
            "config": {"featureGates": gates or {}},
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": quota}}], **queue}},
            "workloads": [old, *workloads],
        }
    )


def new(cpu: int = 3, **fields: Any) -> dict[str, Any]:
    return {"name": "new", "queue": "cq", "requests": {"cpu": cpu}, "replaces": "old", "created": 1, **fields}


def used_cpus(state: State) -> int:
    return state.ledger.cluster_queues["cq"].node.usage.get(CPU, 0) // 1000


def cycle(world: World) -> None:
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    assert differences(world.state, world.workloads.values()) == []


def reserving(world: World) -> list[str]:
    return sorted(key.name for key in world.state.ledger.reservations)


def test_growing_takes_quota_for_the_new_pods_only() -> None:
    world = a_world(new())
    cycle(world)
    assert (reserving(world), used_cpus(world.state)) == (["new", "old"], 3)
    world.run({"finish": ["old"]})
    assert (reserving(world), used_cpus(world.state)) == (["new"], 3)


@pytest.mark.parametrize(
    ("cpu", "queue", "starts"),
    [
        (2, {}, True),
        (3, {}, False),
        (2, {"cohort": "all"}, True),
        (3, {"cohort": "all"}, False),
        (2, {"resourceGroups": [LENDING_NOTHING], "cohort": "all"}, True),
    ],
)
def test_a_slice_needs_quota_for_what_it_adds_only_if_the_quota_is_lowered(
    cpu: int, queue: dict[str, Any], starts: bool
) -> None:
    world = a_world(new(cpu), quota=1, **queue)
    cycle(world)
    assert reserving(world) == (["new", "old"] if starts else ["old"])
    assert used_cpus(world.state) == 2


def test_a_job_above_a_lowered_quota_grows_in_another_flavor() -> None:
    flavors = [{"name": "default", "quotas": {"cpu": 1}}, {"name": "other", "quotas": {"cpu": 2}}]
    head, workers = {"name": "head", "requests": {"cpu": 2}}, {"name": "workers", "requests": {"cpu": 1}}
    by_pod_set = {"head": {"flavors": {"cpu": "default"}}, "workers": {"flavors": {"cpu": "other"}}}
    old = {"name": "old", "queue": "cq", "podSets": [head, workers], "admitted": {"podSets": by_pod_set}}
    grown = {"name": "new", "queue": "cq", "podSets": [head, workers | {"count": 2}], "replaces": "old"}
    world = World(
        {
            "flavors": ["default", "other"],
            "clusterQueues": {"cq": {"resourceGroups": [{"covered": ["cpu"], "flavors": flavors}]}},
            "workloads": [old, grown],
        }
    )
    cycle(world)
    assert reserving(world) == ["new", "old"]


def test_the_time_of_a_job_goes_on_when_it_grows() -> None:
    world = a_world(new())
    world.advance(world.now + 60)
    executed_s = world.now - 0  # admitted at 0
    cycle(world)
    assert world.workloads["new"].status.accumulated_past_execution_time_seconds == executed_s


def test_the_replaced_slice_is_finished_when_its_replacement_is_admitted() -> None:
    world = a_world(new())
    cycle(world)
    world.settle()
    finished = world.condition("old", "Finished")
    assert finished is not None
    assert (finished.reason, finished.message) == (
        "WorkloadSliceReplaced",
        "Replaced to accommodate a workload (UID: new, JobUID: ) due to workload slice aggregation",
    )
    assert reserving(world) == ["new"]


def test_a_replacement_that_waits_for_its_checks_finishes_no_slice() -> None:
    world = a_world(new())
    world.checked.add("new")
    cycle(world)
    world.settle()
    assert reserving(world) == ["new", "old"]


def test_without_the_feature_gate_both_slices_count() -> None:
    world = a_world(new(), gates={"ElasticJobsViaWorkloadSlices": False})
    cycle(world)
    assert (reserving(world), used_cpus(world.state)) == (["old"], 2)


def test_an_assumed_slice_counts() -> None:
    world = a_world(new())
    assert world.admission_cycle.run(world.now).decisions
    assert used_cpus(world.state) == 3
    assert differences(world.state, world.workloads.values()) == []
    world.state.forget(Key("default", "new"))
    assert used_cpus(world.state) == 2, "the replaced slice counts again after the write failed"


@pytest.mark.parametrize(
    "slice_",
    [
        pytest.param(new(cpu=4), id="more than the quota"),
        pytest.param({**new(), "replaces": "unknown"}, id="no usage to carry over"),
    ],
)
def test_a_slice_without_quota_stays_pending(slice_: dict[str, Any]) -> None:
    world = a_world(slice_)
    cycle(world)
    assert (reserving(world), used_cpus(world.state)) == (["old"], 2)


def test_a_slice_does_not_preempt_the_slice_it_replaces() -> None:
    world = a_world(new(cpu=4, priority=9), quota=3, preemption={"withinClusterQueue": "LowerPriority"})
    assert [type(each).__name__ for each in world.admission_cycle.run(world.now).decisions] == ["Hold"]


@pytest.mark.parametrize(
    ("cpu", "queue"),
    [pytest.param(1, "cq", id="a smaller one"), pytest.param(3, "other", id="one of another queue")],
)
def test_a_replaced_slice_counts_until_its_replacement_is_written(cpu: int, queue: str) -> None:
    """The replacement may be refused, and what another workload gets may be stored before it."""
    waits = {"name": "waits", "queue": "cq", "created": 2, "requests": {"cpu": 3 - cpu if cpu < 3 else 3}}
    world = a_world(new(cpu, queue=queue), waits)
    world.run({"update": {"clusterQueues": {"other": {"quota": [{"default": {"cpu": 3}}]}}}})
    decided = world.admission_cycle.run(world.now).decisions
    assert [each.key.name for each in decided if isinstance(each, Reserve)] == ["new"]
    assert used_cpus(world.state) == 2
    world.state.forget(Key("default", "new"))
    assert used_cpus(world.state) == 2
    cycle(world)
    cycle(world)
    assert "waits" in reserving(world)


def test_the_replaced_slice_counts_again_when_the_replacement_is_removed() -> None:
    world = a_world(new())
    cycle(world)
    world.state.remove_workload(Key("default", "new"))
    del world.workloads["new"]
    assert (reserving(world), used_cpus(world.state)) == (["old"], 2)
    assert differences(world.state, world.workloads.values()) == []


@pytest.mark.parametrize("order", [["old", "new"], ["new", "old"]])
def test_usage_does_not_depend_on_the_order_in_which_slices_are_listed(order: list[str]) -> None:
    world = a_world(new())
    cycle(world)
    restarted = a_world()
    restarted.state.remove_workload(Key("default", "old"))
    for name in order:
        restarted.state.put_workload(world.workloads[name], world.now)
    assert used_cpus(restarted.state) == 3
    assert differences(restarted.state, world.workloads.values()) == []


def test_a_new_slice_goes_to_the_worker_cluster_of_the_job() -> None:
    world = a_world(new())
    world.put_status("old", replace(world.workloads["old"].status, cluster_name="worker"))
    cycle(world)
    assert world.workloads["new"].status.cluster_name == "worker"
