"""A workload that becomes inadmissible is reported with its current reason, evaluated itself or not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.decisions import Hold
from quorate.queueing.explain import why_pending
from tests.queueing.notation import Json
from tests.queueing.world import World
from tests.search import examples

QUEUES = ("one", "other")


def world_with(workloads: list[Json], **cluster_queue: Any) -> World:
    return World(
        {
            "flavors": ["default"],
            "localQueues": {name: {"clusterQueue": "cq"} for name in QUEUES},
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 3}}], **cluster_queue}},
            "workloads": workloads,
        }
    )


def key(name: str) -> Key:
    return Key("default", name)


def message(world: World, name: str) -> str:
    reserved = world.condition(name, c.QUOTA_RESERVED)
    assert reserved is not None, f"{name} has no condition {c.QUOTA_RESERVED}"
    return reserved.message


def test_after_its_local_queue_was_stopped_a_workload_gets_the_outcome_of_its_shape() -> None:
    world = world_with(
        [
            {"name": "running", "queue": "other", "admitted": "default", "requests": {"cpu": 3}},
            {"name": "first", "queue": "other", "requests": {"cpu": 1}},
            {"name": "parked", "queue": "one", "created": 9, "requests": {"cpu": 1}},
        ]
    )
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    world.run({"update": {"localQueues": {"one": {"stopPolicy": "Hold"}}}})
    assert message(world, "parked") == "LocalQueue one is inactive"
    assert world.admission_cycle.run(world.now).parked == ()
    world.run({"update": {"localQueues": {"one": {"stopPolicy": "None"}}}})
    assert message(world, "parked") == "Workload is pending evaluation in the scheduling queue"
    assert world.admission_cycle.run(world.now).parked == (key("parked"),)
    hold = why_pending(world.state, key("parked"))
    assert hold is not None
    assert hold.message == (
        "couldn't assign flavors to pod set main: "
        "insufficient unused quota for cpu in flavor default, 1 more needed"
    )
    assert world.admission_cycle.run(world.now).parked == ()


Step = tuple[str, str]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("stop"), st.sampled_from((*QUEUES, "cq"))),
        st.tuples(st.just("start"), st.sampled_from((*QUEUES, "cq"))),
        st.tuples(st.just("finish"), st.sampled_from("abc")),
        st.tuples(st.just("create"), st.sampled_from("ghi")),
        st.tuples(st.just("change"), st.sampled_from("abcdef")),
    ),
    max_size=8,
)


@pytest.mark.no_cover
@examples(100)
@given(
    st.lists(st.tuples(st.sampled_from(QUEUES), st.integers(1, 2)), min_size=9, max_size=9),
    st.sampled_from(("BestEffortFIFO", "StrictFIFO")),
    steps,
)
def test_no_workload_is_inadmissible_without_a_current_reason(
    given_workloads: list[tuple[str, int]], strategy: str, events: list[Step]
) -> None:
    """At rest each one was reported since a queue that it waits for was stopped, or is reported by a rule."""
    workloads: list[Json] = [
        {"name": name, "queue": queue, "created": index, "requests": {"cpu": cpus}}
        for index, (name, (queue, cpus)) in enumerate(zip("abcdefghi", given_workloads, strict=True))
    ]
    for workload in workloads[6:]:
        workload["create"] = "later"
    world = world_with(workloads, strategy=strategy)
    reported: set[Key] = set()

    def rest() -> None:
        result = world.admission_cycle.run(world.now)
        reported.update(decision.key for decision in result.decisions if isinstance(decision, Hold))
        reported.update(result.parked)
        world.carry_out(result.decisions)
        world.settle()

    rest()
    for kind, name in events:
        match kind:
            case "stop" | "start":
                policy = "Hold" if kind == "stop" else "None"
                kinds = "clusterQueues" if name == "cq" else "localQueues"
                world.run({"update": {kinds: {name: {"stopPolicy": policy}}}})
                if kind == "stop":
                    reported = {
                        each
                        for each in reported
                        if name not in ("cq", world.given_workload(each.name)["queue"])
                    }
            case "finish" if name in world.admitted():
                world.run({"finish": [name]})
            case "create" if name not in world.workloads:
                world.run({"create": [name]})
            case "change" if key(name) in world.state.ledger.entries:
                world.run({"update": {"workloads": {name: {"requests": {"cpu": 2}}}}})
        rest()
        queue = world.state.ledger.cluster_queues["cq"]
        if queue.inactive_reasons:
            continue
        parked = {entry.key for entry in queue.pending.inadmissible()}
        assert parked <= reported
        assert not [one for one in parked if why_pending(world.state, one) is None]
        for entry in world.state.ledger.entries.values():
            if entry.cluster_queue:
                assert not message_of(world, entry.key.name).endswith("is inactive")


def message_of(world: World, name: str) -> str:
    reserved = world.condition(name, c.QUOTA_RESERVED)
    return "" if reserved is None else reserved.message


def test_local_queues_that_come_and_go_retry_no_workloads() -> None:
    """A cluster with many tenants would else try all inadmissible workloads for each of them."""
    world = world_with([{"name": "waits", "queue": "one", "requests": {"cpu": 4}}])
    world.run("cycle")
    world.run({"update": {"localQueues": {"other": {"stopPolicy": "Hold"}}}})
    world.put_local_queue("default", "new")
    world.state.remove_local_queue(Key("default", "new"))
    world.settle()
    ledger = world.state.ledger
    assert not ledger.cluster_queues["cq"].pending.is_active(ledger.entries[key("waits")])
