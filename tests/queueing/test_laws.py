"""Laws of the queueing core, checked on generated worlds."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration.feature_gates import QUEUEING_GATES
from quorate.queueing import conditions as c
from quorate.queueing.decisions import Decision, Preempt, Reserve
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import total
from quorate.quota.audit import audit
from tests.queueing.notation import Json
from tests.queueing.world import World
from tests.search import examples

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

FLAVORS = ("one", "two")
QUEUES = ("a", "b", "c")
small = st.integers(0, 6)


@st.composite
def quotas(draw: st.DrawFn, *, in_cohort: bool) -> list[Json]:
    def limits() -> Any:
        given_ = {"nominal": draw(small)}
        if in_cohort and draw(st.booleans()):
            given_["borrowingLimit"] = draw(small)
        if in_cohort and draw(st.booleans()):
            given_["lendingLimit"] = draw(st.integers(0, given_["nominal"]))
        return given_

    return [{flavor: {"cpu": limits()}} for flavor in FLAVORS[: draw(st.integers(1, 2))]]


@st.composite
def policies(draw: st.DrawFn) -> Json:
    reclaim = draw(st.sampled_from(("Never", "LowerPriority", "Any")))
    policy: Json = {
        "withinClusterQueue": draw(st.sampled_from(("Never", "LowerPriority", "LowerOrNewerEqualPriority"))),
        "reclaimWithinCohort": reclaim,
    }
    if reclaim != "Never" and draw(st.booleans()):
        threshold = draw(st.one_of(st.none(), st.integers(0, 2)))
        policy["borrowWithinCohort"] = {"policy": "LowerPriority", "maxPriorityThreshold": threshold}
    return policy


@st.composite
def workloads(draw: st.DrawFn, name: str) -> Json:
    count = draw(st.integers(1, 3))
    pod_set = {"count": count, "requests": {"cpu": draw(st.integers(1, 2))}}
    if draw(st.booleans()):
        pod_set["minCount"] = draw(st.integers(1, count))
    return {
        "name": name,
        "queue": draw(st.sampled_from(QUEUES)),
        "created": draw(st.integers(0, 3)),
        "priority": draw(st.integers(0, 2)),
        "podSets": [pod_set],
    }


@st.composite
def worlds(draw: st.DrawFn, *, preempting: bool = True) -> Json:
    """Return three queues, alone or in cohorts up to three levels deep, with up to eight workloads.

    Any of the core's feature gates may be set; no law depends on one.
    """
    gates = draw(st.dictionaries(st.sampled_from(QUEUEING_GATES), st.booleans()))
    sharing: Json = {"fairSharing": {}} if draw(st.booleans()) else {}
    queues: Json = {}
    for name in QUEUES:
        cohort = draw(st.sampled_from(("", "left", "right", "top")))
        can_borrow = draw(st.sampled_from(("MayStopSearch", "TryNextFlavor")))
        can_preempt = draw(st.sampled_from(("MayStopSearch", "TryNextFlavor")))
        queues[name] = {
            "cohort": cohort,
            "strategy": draw(st.sampled_from(("BestEffortFIFO", "StrictFIFO"))),
            "flavorFungibility": {"whenCanBorrow": can_borrow, "whenCanPreempt": can_preempt},
            "preemption": draw(policies()) if preempting else {},
            "quota": draw(quotas(in_cohort=bool(cohort))),
        }
    return {
        "config": {**sharing, "featureGates": gates},
        "flavors": list(FLAVORS),
        "cohorts": {
            "left": {"parent": "top", "quota": draw(quotas(in_cohort=True))},
            "right": {"parent": "top"},
            "top": {"quota": draw(quotas(in_cohort=False))},
        },
        "clusterQueues": queues,
        "workloads": [draw(workloads(f"w{index}")) for index in range(draw(st.integers(1, 8)))],
    }


@st.composite
def borrowing_cohorts(draw: st.DrawFn) -> Json:
    """Return a cohort in which one queue borrows most of the quota, which its owner and others request."""
    nominal = {"owner": draw(st.integers(3, 6)), "borrower": 1, "x": draw(st.integers(0, 1)), "y": 0}
    unused = draw(st.integers(0, 2))
    first = draw(st.integers(1, sum(nominal.values()) - unused))
    requests = {name: draw(st.integers(2, 5) if name == "owner" else st.integers(1, 2)) for name in nominal}
    queues = {
        name: {
            "cohort": "top",
            "preemption": {"reclaimWithinCohort": "Any" if name == "owner" else "Never"},
            "quota": [{"one": {"cpu": cpu}}],
        }
        for name, cpu in nominal.items()
    }
    running = [
        {"name": f"running-{index}", "queue": "borrower", "requests": {"cpu": cpu}, "admitted": "one"}
        for index, cpu in enumerate((first, sum(nominal.values()) - unused - first))
        if cpu
    ]
    heads = [
        {"name": f"head-{name}", "queue": name, "created": 1, "requests": {"cpu": cpu}}
        for name, cpu in requests.items()
    ]
    return {"flavors": ["one"], "clusterQueues": queues, "workloads": [*running, *heads]}


def a_world_at_work(given_: Json) -> World:
    """Return a world in which the first half of the workloads was tried and the second half is new."""
    late = {workload["name"] for workload in given_["workloads"][len(given_["workloads"]) // 2 :]}
    for workload in given_["workloads"]:
        workload["create"] = "later" if workload["name"] in late else ""
    world = World(given_)
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    world.settle()
    for name in sorted(late):
        world.create(name)
    return world


def writes(decisions: Iterable[Decision]) -> set[tuple[str, str]]:
    """Return reservations and preemptions in comparable form."""
    return {
        (decision.key.name, str(decision.admission) if isinstance(decision, Reserve) else decision.reason)
        for decision in decisions
        if isinstance(decision, Reserve | Preempt)
    }


def usage_of(state: State) -> dict[Any, Any]:
    return {
        queue.node: total(reservation.usage for reservation in queue.reservations.values())
        for queue in state.ledger.cluster_queues.values()
    }


def assert_within_limits(world: World) -> None:
    for queue in world.state.ledger.cluster_queues.values():
        assert all(tree.available(queue.node, pair) >= 0 for pair in queue.node.usage)


@given(worlds())
def test_one_run_decides_the_same_as_many_single_rounds(given_: Json) -> None:
    in_one_run = writes(a_world_at_work(given_).admission_cycle.run(1000).decisions)
    world = a_world_at_work(given_)
    queues = world.state.ledger.cluster_queues.values()
    in_single_rounds: set[tuple[str, str]] = set()
    for _ in range(40):  # more rounds than workloads times flavors
        in_single_rounds |= writes(world.admission_cycle.start_round(queues).run(1000))
    assert in_one_run == in_single_rounds


@given(worlds())
def test_after_a_cycle_usage_is_the_sum_of_reservations_and_within_limits(given_: Json) -> None:
    world = a_world_at_work(given_)
    world.admission_cycle.run(1000)
    assert audit(usage_of(world.state)) == ()
    assert_within_limits(world)


@given(st.one_of(worlds(), borrowing_cohorts()), st.lists(st.integers(0, 2), min_size=6, max_size=6))
@examples(300)
def test_usage_is_within_limits_while_preempted_workloads_stop(given_: Json, stopped: list[int]) -> None:
    """After each cycle the first ``stopped`` of the preempted workloads release their quota."""
    world = a_world_at_work(given_)
    for count in stopped:
        decisions = world.admission_cycle.run(world.now).decisions
        assert_within_limits(world)
        world.carry_out(decisions)
        world.settle()
        evicted = [name for name, each in world.workloads.items() if c.is_evicted(each)]
        world.run({"evictionDone": evicted[:count]})
        world.now += 1


@given(worlds())
def test_a_second_run_on_the_same_state_writes_nothing(given_: Json) -> None:
    world = a_world_at_work(given_)
    world.admission_cycle.run(1000)
    assert writes(world.admission_cycle.run(1000).decisions) == set()


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_in_which_objects_arrive_does_not_matter(given_: Json, random: Any) -> None:
    queues = list(given_["clusterQueues"].items())
    shuffled = {**given_, "clusterQueues": dict(random.sample(queues, len(queues)))}
    decisions = [a_world_at_work(world).admission_cycle.run(1000).decisions for world in (given_, shuffled)]
    assert writes(decisions[0]) == writes(decisions[1])


@given(worlds())
def test_preemption_obeys_the_policy_of_the_preemptors_queue(given_: Json) -> None:
    world = a_world_at_work(given_)
    policies_ = {name: queue["preemption"] for name, queue in given_["clusterQueues"].items()}
    priority = {workload["name"]: workload["priority"] for workload in given_["workloads"]}
    queue = {workload["name"]: workload["queue"] for workload in given_["workloads"]}
    for decision in world.admission_cycle.run(1000).decisions:
        if not isinstance(decision, Preempt):
            continue
        victim, preemptor = decision.key.name, decision.preemptor.name
        policy = policies_[queue[preemptor]]
        if queue[victim] == queue[preemptor]:
            allowed = policy["withinClusterQueue"]
            assert decision.reason == "InClusterQueue"
        else:
            allowed = policy["reclaimWithinCohort"]
            assert decision.reason != "InClusterQueue"
        assert allowed != "Never"
        if allowed == "LowerPriority":
            assert priority[victim] < priority[preemptor]
        if allowed == "LowerOrNewerEqualPriority":
            assert priority[victim] <= priority[preemptor]


@given(worlds())
def test_admitted_counts_are_between_minimum_and_full_counts(given_: Json) -> None:
    world = World(given_)
    for decision in world.admission_cycle.run(1000).decisions:
        if isinstance(decision, Reserve):
            (pods,) = decision.admission.pod_set_assignments
            (pod_set,) = world.given_workload(decision.key.name)["podSets"]
            assert pods.count is not None
            assert pod_set.get("minCount", pod_set["count"]) <= pods.count <= pod_set["count"]


@given(worlds())
@examples(200)
def test_without_external_events_preemption_ends(given_: Json) -> None:
    """Preempted workloads stop at once and queue again; after a while no preemption is decided."""
    world = a_world_at_work(given_)
    for _ in range(60):
        decisions = world.admission_cycle.run(world.now).decisions
        if not writes(decisions):
            return
        world.carry_out(decisions)
        world.settle()
        world.run({"evictionDone": [name for name, w in world.workloads.items() if c.is_evicted(w)]})
        world.now += 1
    raise AssertionError("preemption does not end")
