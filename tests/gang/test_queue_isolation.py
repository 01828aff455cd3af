"""A fault in the hierarchy of queues concerns only its own subtree."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gang.generated_worlds import sometimes, worlds
from tests.gang.session_invariants import comparable
from tests.gang.vectors import settings_of
from tests.gang.world import World
from tests.search import examples

Json = dict[str, Any]

ACTIONS = (
    "allocate, backfill",
    "enqueue, allocate, backfill",
    "enqueue, allocate, preempt, reclaim, backfill",
    "enqueue, reclaim, allocate",
)


@st.composite
def confs(draw: st.DrawFn) -> Json:
    level = draw(st.integers(0, 2))
    capacity = {"name": "capacity", "enableHierarchy": True, "arguments": {"ancestorReclaimLevel": level}}
    shares = {"name": "drf", "enableHierarchy": True}
    others: list[str | Json] = draw(st.sampled_from([["drf"], [shares], ["overcommit"], []]))
    tiers = [["priority", "gang", "conformance"], [*others, "predicates", capacity, "nodeorder"]]
    return {"actions": draw(st.sampled_from(ACTIONS)), "tiers": tiers}


@st.composite
def amounts(draw: st.DrawFn) -> Json:
    """Draw amounts of a queue, which may exceed those of the queues above it."""
    fields = ("capability", "deserved", "guarantee")
    return {field: {"cpu": draw(st.integers(0, 6))} for field in fields if sometimes(draw, 3)}


@st.composite
def trees(draw: st.DrawFn) -> Json:
    """Draw a world with the groups in leaves; ``d1`` is above a queue."""
    world = draw(worlds())
    above = [{"name": "d1"}, {"name": "d2", "parent": draw(st.sampled_from(["root", "d1"]))}]
    leaves = [{**queue, "parent": draw(st.sampled_from(["root", "d1", "d2"]))} for queue in world["queues"]]
    leaves.append({"name": "q3", "parent": "d1"})
    queues = [{**queue, **draw(amounts())} for queue in (*above, *leaves)]
    if sometimes(draw, 2):
        root: Json = {"name": "root"}
        if sometimes(draw, 2):
            root["capability"] = {"cpu": draw(st.integers(0, 9))}
        if sometimes(draw, 3):
            root["maxPodGroups"] = draw(st.integers(0, 3))
        queues.append(root)
    return {**world, "queues": draw(st.permutations(queues))}


@st.composite
def faults(draw: st.DrawFn) -> Json:
    """Draw faulty queues, and groups with pods in them or in an inner queue."""
    chain = [{"name": "bad", "parent": "gone"}, {"name": "bad-child", "parent": "bad"}]
    cycle = [{"name": "bad", "parent": "bad-child"}, {"name": "bad-child", "parent": "bad"}]
    alone = [{"name": "bad", "parent": "bad"}]
    queues = [
        {**queue, **draw(amounts()), "created": draw(st.integers(0, 2)), "priority": draw(st.integers(0, 2))}
        for queue in draw(st.sampled_from([chain, cycle, alone]))
    ]
    names = ["d1", "root", *(queue["name"] for queue in queues)]
    groups, pods = [], []
    for number in range(draw(st.integers(1, 3))):
        group = {
            "name": f"bad-{number}",
            "queue": draw(st.sampled_from(names)),
            "minMember": draw(st.integers(0, 2)),
            "created": draw(st.integers(0, 3)),
            "priorityClassName": draw(st.sampled_from(["", "high"])),
        }
        if sometimes(draw, 2):
            group["minResources"] = {"cpu": draw(st.integers(0, 4))}
        groups.append(group)
        pods += [
            {"name": f"bad-{number}-{pod}", "group": group["name"], "cpu": draw(st.integers(0, 2))}
            for pod in range(draw(st.integers(0, 2)))
        ]
    return {"queues": queues, "podGroups": groups, "pods": pods}


def with_faults(world: Json, faulty: Json) -> Json:
    return {**world, **{kind: [*world[kind], *added] for kind, added in faulty.items()}}


def of_others(outcome: Json) -> Json:
    """Return the outcome of a session without what concerns faulty queues and groups."""
    lists = {key: [each for each in outcome[key] if "bad" not in str(each)] for key in outcome}
    by_name = {
        key: {name: value for name, value in outcome[key].items() if "bad" not in name}
        for key in ("promised", "verdicts")
    }
    return {**lists, **by_name}


@examples(100)
@given(trees(), faults(), confs(), st.sampled_from(["compat", "design"]))
def test_a_fault_in_the_hierarchy_changes_nothing_for_other_queues(
    given_: Json, faulty: Json, conf: Json, profile: str
) -> None:
    settings = settings_of(conf, profile)
    healthy = World(given_, settings, restarting=False)
    world = World(with_faults(given_, faulty), settings, restarting=False)
    for _ in range(3):
        expected, got = comparable(healthy.session()), comparable(world.session())
        assert of_others(got) == expected
        assert not [bind for bind in got["binds"] if "bad" in bind[0]]
        for each in (healthy, world):
            each.do("start", "all")
            each.do("reap", "all")


@pytest.mark.parametrize("profile", ["compat", "design"])
@pytest.mark.parametrize(
    ("queue", "text"),
    [
        pytest.param("dept", "queue dept has queues below it", id="inner"),
        pytest.param("lost", "queue lost is below queue gone, which does not exist", id="unknown parent"),
        pytest.param("below", "queue lost is below queue gone, which does not exist", id="below it"),
        pytest.param("self", "queue self is not below the root, but in a cycle", id="cycle"),
    ],
)
@pytest.mark.parametrize("actions", ["allocate", "enqueue, allocate"])
def test_the_condition_of_a_waiting_group_names_the_queue_and_the_rule(
    profile: str, queue: str, text: str, actions: str
) -> None:
    parents = {"dept": "root", "t1": "dept", "lost": "gone", "below": "lost", "self": "self"}
    given_ = {
        "nodes": [{"name": "n1", "cpu": 4}],
        "queues": [{"name": name, "parent": parent} for name, parent in parents.items()],
        "podGroups": [{"name": "a", "queue": queue, "minMember": 1}],
        "pods": [{"name": "a-0", "group": "a", "cpu": 1}],
    }
    tiers = [["gang"], [{"name": "capacity", "enableHierarchy": True}, "predicates"]]
    world = World(given_, settings_of({"actions": actions, "tiers": tiers}, profile), restarting=False)
    for _ in range(2):
        world.session()
    (message,) = [
        each.message
        for group in world.groups.values()
        for each in group.status.conditions
        if each.status == "True"
    ]
    assert text in message
    assert not world.binds
