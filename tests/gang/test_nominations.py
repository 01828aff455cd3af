"""Nominations of pods after evictions for them, and the conditions of their gang."""

from typing import Any

from tests.gang.enqueue_worlds import message
from tests.gang.vectors import settings_of
from tests.gang.world import World

CONF = {
    "actions": "allocate, preempt",
    "tiers": [["priority", "gang", "conformance", "predicates", "nodeorder"]],
}
GIVEN: dict[str, Any] = {
    "priorityClasses": {"high": 9, "low": 1},
    "nodes": [{"name": "n1", "cpu": 1}, {"name": "n2", "cpu": 2}],
    "podGroups": [
        {"name": "lo", "minMember": 1, "phase": "Running", "created": 1, "priorityClassName": "low"},
        {"name": "hi", "minMember": 2, "phase": "Inqueue", "created": 2, "priorityClassName": "high"},
    ],
    "pods": [
        {"name": "lo-0", "group": "lo", "cpu": 1, "node": "n2", "phase": "Running"},
        {"name": "lo-1", "group": "lo", "cpu": 1, "node": "n2", "phase": "Running"},
        {"name": "hi-0", "group": "hi", "cpu": 1},
        {"name": "hi-1", "group": "hi", "cpu": 1},
    ],
}


def test_a_node_is_nominated_only_where_pods_leave_it() -> None:
    """One member fits without evictions; for the other member a pod is evicted."""
    outcome = World(GIVEN, settings_of(CONF, "design"), restarting=False).session()
    assert [eviction.task.name for eviction in outcome.evictions] == ["lo-1"]
    assert {key.name: node for key, node in outcome.pipelined.items()} == {"hi-0": "n1", "hi-1": "n2"}
    assert [(each.task.name, each.node) for each in outcome.nominations] == [("hi-1", "n2")]


def test_the_first_task_is_nominated_if_only_the_share_of_the_queue_was_evicted() -> None:
    lo, hi = GIVEN["podGroups"]
    given = {
        **GIVEN,
        "nodes": [{"name": "n1", "cpu": 2}, {"name": "n2", "cpu": 2}],
        "queues": [{"name": "q", "capability": {"cpu": 2}}],
        "podGroups": [{**lo, "queue": "q", "minMember": 2}, {**hi, "queue": "q"}],
    }
    conf = {**CONF, "tiers": [[*CONF["tiers"][0], "proportion"]]}
    outcome = World(given, settings_of(conf, "design"), restarting=False).session()
    assert {key.name: node for key, node in outcome.pipelined.items()} == {"hi-0": "n1", "hi-1": "n1"}
    assert [(each.task.name, each.node) for each in outcome.nominations] == [("hi-0", "n1")]


def test_the_condition_of_a_pipelined_gang_names_the_leaving_pods() -> None:
    world = World(GIVEN, settings_of(CONF, "design"), restarting=False)
    world.session()
    assert message(world, "hi") == "pipelined to 2 nodes, waits for 1 pod to leave"
    world.do("addPods", [{"name": "web", "cpu": 0, "node": "n2", "phase": "Running", "deleting": True}])
    assert world.session().statuses == (), "how many leave just now is no news"
    world.do("reap", "all")
    world.session()
    assert world.binds == {"hi-0": "n1", "hi-1": "n2"}


def test_a_nomination_is_not_repeated() -> None:
    world = World(GIVEN, settings_of(CONF, "design"), restarting=False)
    world.session()
    assert world.session().nominations == ()


def test_the_room_of_nominated_members_is_not_given_to_another_group() -> None:
    """They get their nodes before groups are admitted, and count once: 3 cpus with that of ``claims``."""
    given: dict[str, Any] = {
        "nodes": [{"name": "n1", "cpu": 3}],
        "podGroups": [
            {"name": "next", "minMember": 2, "phase": "Inqueue", "minResources": {"cpu": 2}},
            {"name": "claims", "minMember": 1, "phase": "Inqueue", "created": 1, "minResources": {"cpu": 1}},
            {"name": "waits", "minMember": 1, "created": 2, "minResources": {"cpu": 1}},
        ],
        "pods": [{"name": f"next-{at}", "group": "next", "cpu": 1, "nominated": "n1"} for at in range(2)],
    }
    conf = {**CONF, "actions": "enqueue, allocate, preempt"}
    world = World(given, settings_of(conf, "design"), restarting=False)
    outcome = world.session()
    assert world.bound_for["next"] == 2
    assert world.phase("waits") == "Pending", outcome
