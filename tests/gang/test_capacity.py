"""Plugin capacity, beyond the shared vectors: limits, borrowing and reclaim, flat and hierarchical."""

from typing import Any

import pytest

from quorate.gang.session.victims import in_victim_order
from tests.gang.plugin_session import Json, PluginSession

GPU = "nvidia.com/gpu"
FLAT: list[str | Json] = ["capacity"]
TREE: list[str | Json] = [{"name": "capacity", "enableHierarchy": True}]


def tree(level: int) -> list[str | Json]:
    return [{"name": "capacity", "enableHierarchy": True, "arguments": {"ancestorReclaimLevel": level}}]


def a_world(queues: list[Json], pods: list[Json], **more: Any) -> Json:
    """Open a session where each queue has one group of its name; pod ``a-0`` is of queue ``a``."""
    inner = {queue["parent"] for queue in queues if "parent" in queue} | {"root"}
    groups = [
        {"name": queue["name"], "queue": queue["name"], "minMember": 0, **queue.get("group", {})}
        for queue in queues
        if queue["name"] not in inner
    ]
    return {
        "nodes": [{"name": "n1", "cpu": 10, "memory": "10Gi", "scalars": {GPU: 8}}],
        "queues": queues,
        "podGroups": groups,
        "pods": pods,
        **more,
    }


def running(queue: str, count: int, **more: Any) -> Json:
    return {"name": queue, "group": queue, "count": count, "cpu": 1, "node": "n1", "phase": "Running", **more}


def waiting(name: str, **more: Any) -> Json:
    return {"name": name, "group": name.partition("-")[0], "cpu": 1, **more}


# Limits.


@pytest.mark.parametrize(
    ("queue", "has", "asks", "want"),
    [
        pytest.param({"deserved": {"cpu": 2}}, 2, {}, True, id="it borrows beyond what it deserves"),
        pytest.param({"capability": {"cpu": 3}}, 2, {}, True, id="it borrows up to its capability"),
        pytest.param({"capability": {"cpu": 2}}, 2, {}, False, id="not above its capability"),
        pytest.param(
            {"capability": {"cpu": 2}},
            2,
            {"cpu": 0, "memory": "1Gi"},
            True,
            id="only requested resources are checked",
        ),
        pytest.param(
            {"capability": {GPU: 0}}, 2, {"scalars": {GPU: 1}}, False, id="a capability of 0 devices"
        ),
        pytest.param({"capability": {"pods": 2}}, 2, {}, True, id="places for pods are not checked"),
        pytest.param({"state": "Closed"}, 0, {}, False, id="a closed queue"),
        pytest.param({}, 6, {}, False, id="not the guarantees of other queues"),
    ],
)
def test_what_a_queue_may_allocate(queue: Json, has: int, asks: Json, want: bool) -> None:
    queues = [{"name": "a", **queue}, {"name": "b", "guarantee": {"cpu": 4}}]
    opened = PluginSession(a_world(queues, [running("a", has), waiting("a-x", **asks)]), FLAT)
    assert opened.allocatable("a-x") is want


def test_a_group_is_admitted_within_the_limits_of_its_queue() -> None:
    group = {"minResources": {"cpu": 5, "memory": "1Gi"}}
    queues: list[Json] = [{"name": "a", "capability": {"cpu": 6}, "deserved": {"cpu": 1}, "group": group}]
    queues.append({"name": "b", "group": {"queue": "a", "phase": "Running"}})
    assert PluginSession(a_world(queues, [running("b", 4)]), FLAT).admission("a") == "", (
        "all that b has is to spare"
    )
    queues = [
        {"name": "a", "capability": {"cpu": 6}, "group": group},
        {"name": "b", "group": {"queue": "a", "phase": "Inqueue", "minResources": {"cpu": 2}}},
    ]
    opened = PluginSession(a_world(queues, []), FLAT)
    assert opened.admission("a") == "queue a: cpu: need 5, have 4 now"
    opened.withdraw("b")
    assert opened.admission("a") == ""
    opened.admit("b")
    assert opened.admission("a") != ""


def departments(**more: Json) -> list[Json]:
    """Return ``root`` > ``dept`` (6 cpus at most) > ``a``, ``b``; and ``c`` below the root."""
    queues: list[Json] = [
        {"name": "dept", "capability": {"cpu": 6}},
        {"name": "a", "parent": "dept"},
        {"name": "b", "parent": "dept"},
        {"name": "c"},
    ]
    return [{**queue, **more.get(queue["name"], {})} for queue in queues]


def test_in_a_hierarchy_reservations_count_in_all_ancestors() -> None:
    queues = departments(a={"group": {"minResources": {"cpu": 4}}}, b={"group": {"minResources": {"cpu": 4}}})
    opened = PluginSession(a_world(queues, []), TREE)
    assert opened.admission("b") == ""
    opened.admit("a")
    assert opened.admission("b") == "queue dept: cpu: need 4, have 2 now"
    opened.withdraw("a")
    assert opened.admission("b") != "", "a still waits, so nothing is reserved for it to be withdrawn"


def test_in_a_hierarchy_allocations_are_limited_by_all_ancestors() -> None:
    pods = [running("a", 4), running("b", 2), waiting("b-x"), waiting("c-x")]
    opened = PluginSession(a_world(departments(), pods), TREE)
    assert not opened.allocatable("b-x")
    assert opened.allocatable("c-x")
    opened.evict("a-0")
    assert opened.allocatable("b-x")


def test_the_root_admits_more_than_the_cluster_has() -> None:
    queues = departments(c={"group": {"minResources": {"cpu": 99, GPU: 99}}})
    assert PluginSession(a_world(queues, []), TREE).admission("c") == ""
    queues.append({"name": "root", "capability": {GPU: 8}})
    assert PluginSession(a_world(queues, []), TREE).admission("c") == (
        f"queue c: {GPU}: need 99, have 8 now and 8 at most, so it can never fit"
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        pytest.param(
            {"c": {"parent": "gone"}}, "queue c is below queue gone, which does not exist", id="parent"
        ),
        pytest.param({"c": {"parent": "c"}}, "queue c is not below the root, but in a cycle", id="cycle"),
        pytest.param({"dept": {"parent": "c"}}, "queue c has queues below it", id="inner"),
    ],
)
def test_a_queue_without_a_place_in_the_tree_allows_nothing(more: dict[str, Json], why: str) -> None:
    groups = [{"name": "c", "queue": "c", "minResources": {"cpu": 1}}]
    pods = [{"name": "a", "count": 1, "group": "c", "cpu": 1}, {"name": "x", "group": "c", "cpu": 1}]
    opened = PluginSession({"queues": departments(**more), "podGroups": groups, "pods": pods}, TREE)
    assert opened.invalid_queue("c").startswith(why)
    assert not opened.allocatable("x")
    assert not opened.preemptive("x")
    assert opened.reclaimable("x", ["a-0"]) == []


def test_a_group_in_an_inner_queue_does_not_change_the_order_of_others() -> None:
    queues = departments(a={"created": 2}, b={"created": 3}, c={"created": 1}, dept={"created": 0})
    groups = [{"name": name, "queue": name} for name in "abc"] + [{"name": "d", "queue": "dept"}]
    opened = PluginSession({"queues": queues, "podGroups": groups}, TREE)
    assert opened.queue_order() == ["c", "a", "b", "dept"]
    assert opened.invalid_queue("a") == ""


# Order.


@pytest.mark.parametrize(
    ("queues", "pods", "want"),
    [
        pytest.param(
            [{"name": "a", "deserved": {"cpu": 4}}, {"name": "b", "deserved": {"cpu": 2}}],
            [running("a", 2), running("b", 2)],
            ["a", "b"],
            id="the smaller share of the deserved amounts comes first",
        ),
        pytest.param(
            [{"name": "a"}, {"name": "b", "deserved": {"cpu": 2}}],
            [running("b", 1)],
            ["b", "a"],
            id="a queue that deserves nothing has share 1",
        ),
        pytest.param(
            [{"name": "a"}, {"name": "b", "deserved": {"cpu": 2}}],
            [running("b", 2)],
            ["b", "a"],
            id="and comes after queues with share 1 that deserve something",
        ),
        pytest.param(
            [{"name": "a"}, {"name": "b", "deserved": {"cpu": 2}}],
            [running("b", 3)],
            ["a", "b"],
            id="but before queues with a larger share",
        ),
        pytest.param(
            [{"name": "a", "deserved": {"cpu": 2}}, {"name": "b", "priority": 1}],
            [running("b", 5)],
            ["b", "a"],
            id="priority comes before the share",
        ),
    ],
)
def test_queue_order(queues: list[Json], pods: list[Json], want: list[str]) -> None:
    assert PluginSession(a_world(queues, pods), FLAT).queue_order() == want


def test_in_a_hierarchy_leaves_compare_where_their_paths_part() -> None:
    queues = departments(
        dept={"deserved": {"cpu": 8}, "capability": {}},
        a={"deserved": {"cpu": 4}, "created": 1},
        b={"deserved": {"cpu": 4}, "created": 2},
        c={"deserved": {"cpu": 2}},
    )
    pods = [running("a", 3), running("c", 1)]
    assert PluginSession(a_world(queues, pods), TREE).queue_order() == ["b", "a", "c", "dept"]
    pods = [running("a", 4), running("c", 1)]
    opened = PluginSession(a_world(queues, pods), TREE)
    assert opened.queue_order() == ["c", "b", "a", "dept"], "equal departments go by their oldest leaf"


def test_near_queues_lose_tasks_first() -> None:
    opened = PluginSession(a_world(departments(), [running("a", 1), running("c", 1), waiting("b-x")]), TREE)
    candidates = [opened.task("c-0"), opened.task("a-0")]
    order = in_victim_order(opened.session, candidates, opened.queue("b"))
    assert [task.key.name for task in order] == ["a-0", "c-0"]


# Reclaim.


@pytest.mark.parametrize(
    ("queue", "has", "asks", "want"),
    [
        pytest.param({"deserved": {"cpu": 3}}, 2, {}, True, id="within the deserved amounts"),
        pytest.param({"deserved": {"cpu": 2}}, 2, {}, False, id="not beyond the deserved amounts"),
        pytest.param({}, 0, {}, False, id="a queue that deserves nothing may not reclaim"),
        pytest.param(
            {"deserved": {"cpu": 2, "memory": "1Gi"}}, 2, {"memory": "1Gi"}, True, id="one resource is enough"
        ),
        pytest.param(
            {"deserved": {"cpu": 2, "pods": 9}}, 2, {}, False, id="places for pods do not count as a resource"
        ),
        pytest.param(
            {"deserved": {"cpu": 5}, "capability": {"memory": "1Gi"}},
            0,
            {"memory": "2Gi"},
            False,
            id="all limits hold",
        ),
        pytest.param({"deserved": {"cpu": 3}, "state": "Closed"}, 0, {}, False, id="a closed queue"),
    ],
)
def test_preemptive(queue: Json, has: int, asks: Json, want: bool) -> None:
    opened = PluginSession(
        a_world([{"name": "a", **queue}], [running("a", has), waiting("a-x", **asks)]), FLAT
    )
    assert opened.preemptive("a-x") is want


@pytest.mark.parametrize(
    ("queue", "pods", "asks", "victims"),
    [
        pytest.param(
            {"deserved": {"cpu": 2}}, [running("a", 4)], {}, ["a-3", "a-2"], id="down to the deserved amounts"
        ),
        pytest.param(
            {"deserved": {"cpu": "2500m"}},
            [running("a", 4)],
            {},
            ["a-3", "a-2"],
            id="the last victim may take it below",
        ),
        pytest.param(
            {}, [running("a", 3)], {}, ["a-2", "a-1", "a-0"], id="all tasks of a queue that deserves nothing"
        ),
        pytest.param(
            {"deserved": {"memory": "1Gi"}},
            [running("a", 2)],
            {},
            ["a-1", "a-0"],
            id="or nothing of that resource",
        ),
        pytest.param(
            {"guarantee": {"cpu": 1, "memory": "1Gi"}, "deserved": {"cpu": 1, "memory": "1Gi"}},
            [running("a", 3, memory="1Gi")],
            {},
            ["a-2", "a-1"],
            id="never below the guarantee",
        ),
        pytest.param(
            {"guarantee": {GPU: 1}},
            [running("a", 3)],
            {},
            [],
            id="a queue below its guarantee loses nothing",
        ),
        pytest.param(
            {"deserved": {"cpu": 9, "memory": "1Gi"}},
            [running("a", 3, memory="1Gi")],
            {},
            ["a-2", "a-1"],
            id="an excess of one resource is enough",
        ),
        pytest.param(
            {"deserved": {"cpu": 9, "memory": "1Gi"}},
            [running("a", 2), {**running("m", 1, memory="3Gi"), "group": "a"}],
            {},
            ["m-0"],
            id="only if the victim requests that resource",
        ),
        pytest.param(
            {"deserved": {"pods": 9}},
            [running("a", 2)],
            {},
            [],
            id="deserved places for pods count",
        ),
        pytest.param(
            {},
            [running("a", 2)],
            {"cpu": 0, "scalars": {GPU: 1}},
            [],
            id="no resource that the preemptor requests",
        ),
        pytest.param(
            {},
            [running("a", 1), {**running("g", 1, scalars={GPU: 2}), "group": "a"}],
            {"cpu": 0, "scalars": {GPU: 1}},
            ["g-0"],
            id="only victims with a resource that the preemptor requests",
        ),
    ],
)
def test_reclaimable(queue: Json, pods: list[Json], asks: Json, victims: list[str]) -> None:
    queues = [{"name": "a", **queue}, {"name": "b", "deserved": {"cpu": 9, GPU: 8}}]
    opened = PluginSession(a_world(queues, [*pods, waiting("b-x", **asks)]), FLAT)
    candidates = [f"{pod['name']}-{index}" for pod in pods for index in reversed(range(pod["count"]))]
    assert opened.reclaimable("b-x", candidates) == victims


@pytest.mark.parametrize(
    ("level", "deserved", "may"),
    [
        pytest.param(0, 9, False, id="the queue alone deserves no more"),
        pytest.param(1, 9, True, id="its parent does"),
        pytest.param(1, 4, False, id="only if the parent has some left"),
    ],
)
def test_a_parent_may_reclaim_for_its_queue(level: int, deserved: int, may: bool) -> None:
    queues = departments(dept={"capability": {}, "deserved": {"cpu": deserved}}, a={"deserved": {"cpu": 1}})
    pods = [running("a", 3), running("b", 1), waiting("a-x")]
    assert PluginSession(a_world(queues, pods), tree(level)).preemptive("a-x") is may


@pytest.mark.parametrize(
    ("level", "victims"),
    [
        pytest.param(0, ["a-2", "a-1"], id="the queue exceeds what it deserves"),
        pytest.param(1, ["a-2"], id="but its parent does not"),
    ],
)
def test_a_parent_protects_what_it_deserves(level: int, victims: list[str]) -> None:
    queues = departments(
        dept={"capability": {}, "deserved": {"cpu": 4}},
        a={"deserved": {"cpu": 1}},
        c={"deserved": {"cpu": 9}},
    )
    pods = [running("a", 3), running("b", 2), waiting("c-x"), waiting("b-x")]
    opened = PluginSession(a_world(queues, pods), tree(level))
    assert opened.reclaimable("c-x", ["a-2", "a-1", "a-0"]) == victims
    assert opened.reclaimable("b-x", ["a-2", "a-1", "a-0"]) == ["a-2", "a-1"], "but not from its own"


@pytest.mark.parametrize(
    ("level", "deserved", "victims"),
    [
        pytest.param(0, {}, ["a-0"], id="queues that deserve nothing reclaim from each other"),
        pytest.param(1, {}, [], id="but not below a common reclaim ancestor"),
        pytest.param(1, {"cpu": 1}, ["a-0"], id="unless the preemptor's queue deserves some"),
    ],
)
def test_queues_below_one_parent_do_not_alternate(level: int, deserved: Json, victims: list[str]) -> None:
    pods = [running("a", 1), waiting("b-x")]
    opened = PluginSession(a_world(departments(b={"deserved": deserved}), pods), tree(level))
    assert opened.reclaimable("b-x", ["a-0"]) == victims


@pytest.mark.parametrize(
    ("queue", "want"),
    [
        pytest.param({"deserved": {"cpu": 3}}, False, id="the queue does not exceed what it deserves"),
        pytest.param({"deserved": {"cpu": 2}}, True, id="the queue exceeds what it deserves"),
        pytest.param(
            {"deserved": {"cpu": 3, "memory": "1Gi"}}, False, id="it deserves none of another resource"
        ),
        pytest.param({}, True, id="the queue deserves nothing"),
        pytest.param(
            {"deserved": {"cpu": 1}, "guarantee": {"cpu": 1}}, False, id="its guarantee would be lost"
        ),
    ],
)
def test_gang_reclaimable(queue: Json, want: bool) -> None:
    opened = PluginSession(a_world([{"name": "a", **queue}, {"name": "b"}], [running("a", 3)]), FLAT)
    assert opened.gang_reclaimable("a", "b") is want


def test_a_reclaim_ancestor_protects_its_gangs() -> None:
    dept: Json = {"capability": {}, "deserved": {"cpu": 3}}
    for deserved in ({}, {"cpu": 1}):  # of b, below the same ancestor
        queues = departments(dept=dept, a={"deserved": {"cpu": 1}}, b={"deserved": deserved})
        opened = PluginSession(a_world(queues, [running("a", 3)]), tree(1))
        reclaimable = opened.gang_reclaimable("a", "b"), opened.gang_reclaimable("a", "c")
        assert reclaimable == (bool(deserved), False)
    assert PluginSession(a_world(queues, [running("a", 3)]), tree(0)).gang_reclaimable("a", "c")
