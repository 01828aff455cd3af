"""Reports on queues agree with the decisions of sessions."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from quorate.gang.reports import QueueReport, allocated_by_queue, queue_reports
from quorate.gang.session_run import run_session
from quorate.quota.amount import UNLIMITED
from tests.gang.plugin_session import Json
from tests.gang.vectors import settings_of
from tests.gang.world import World

GPU = "nvidia.com/gpu"


def a_world(plugins: list[str | Json], profile: str = "design", **given: Any) -> World:
    conf = {"actions": "enqueue, allocate", "tiers": [["gang", *plugins]]}
    return World({"now": 100, **given}, settings_of(conf, profile), restarting=False)


def reports(world: World) -> Mapping[str, QueueReport]:
    return queue_reports(world.model, world.settings, world.now)


def of(world: World, queue: str) -> QueueReport:
    return reports(world)[queue]


NODE = {"name": "n1", "cpu": 9, "memory": "4Gi", "scalars": {GPU: 2}}
QUEUES = [{"name": "a", "weight": 2, "capability": {"cpu": 8, GPU: 2}}, {"name": "b"}, {"name": "idle"}]
GROUPS = [
    {"name": "a", "queue": "a", "phase": "Running"},
    {"name": "a2", "queue": "a", "phase": "Inqueue", "minResources": {"cpu": 1}},
    {"name": "b", "queue": "b"},
]
PODS = [
    {"name": "a", "group": "a", "count": 2, "cpu": 1, "scalars": {GPU: 1}, "node": "n1", "phase": "Running"},
    {"name": "more", "group": "a", "cpu": 4},
    {"name": "b", "group": "b", "cpu": 9},
]


def test_the_report_of_a_queue_with_proportion() -> None:
    queue = of(a_world(["proportion"], nodes=[NODE], queues=QUEUES, podGroups=GROUPS, pods=PODS), "a")
    assert queue.weight == 2
    assert queue.allocated == {"cpu": 2000, GPU: 2, "pods": 2}
    assert queue.request == {"cpu": 6000, GPU: 2, "pods": 3}
    assert queue.reserved == {"cpu": 1000}
    assert queue.capability == {"cpu": 8000, GPU: 2}
    assert queue.share is not None
    assert queue.share.deserved == {"cpu": 6000, GPU: 2, "pods": 3}
    assert queue.share.at_most == {"cpu": 8000, GPU: 2, "memory": 4 << 30, "pods": 110}
    assert (queue.share.share, queue.share.overused) == (Fraction(1), False)


def test_a_queue_without_groups_has_a_report() -> None:
    queue = of(a_world(["proportion"], nodes=[NODE], queues=QUEUES, podGroups=GROUPS, pods=PODS), "idle")
    assert (queue.allocated, queue.request) == ({}, {})
    assert queue.share is not None
    assert (queue.share.deserved, queue.share.share, queue.share.overused) == ({}, Fraction(0), True)
    assert queue.share.at_most["cpu"] == 9000


def test_without_a_sharing_plugin_there_is_no_share() -> None:
    queue = of(a_world([], nodes=[NODE], queues=QUEUES, podGroups=GROUPS, pods=PODS), "a")
    assert (queue.share, queue.allocated) == (None, {"cpu": 2000, GPU: 2, "pods": 2})


def test_the_amounts_of_a_queue_include_those_below_it() -> None:
    queues: list[Json] = [
        {"name": "dept", "deserved": {"cpu": 1}, "capability": {"cpu": 6}},
        {"name": "a", "parent": "dept", "deserved": {"cpu": 1}},
        {"name": "b"},
    ]
    hierarchical: list[str | Json] = [{"name": "capacity", "enableHierarchy": True}]
    world = a_world(hierarchical, nodes=[NODE], queues=queues, podGroups=GROUPS, pods=PODS)
    dept = of(world, "dept")
    assert dept.allocated == {"cpu": 2000, GPU: 2, "pods": 2}
    assert dept.share is not None
    assert (dept.share.deserved, dept.share.at_most) == ({"cpu": 1000}, {"cpu": 6000})
    assert (dept.share.share, dept.share.overused) == (Fraction(2), True)
    queues[0].pop("capability")
    b = of(a_world(hierarchical, nodes=[NODE], queues=queues, podGroups=GROUPS, pods=PODS), "b")
    assert b.share is not None
    assert b.share.at_most.get("cpu", UNLIMITED) == UNLIMITED


def test_a_report_changes_nothing() -> None:
    world = a_world(["proportion"], nodes=[NODE], queues=QUEUES, podGroups=GROUPS, pods=PODS)
    first = reports(world)
    assert reports(world) == first
    world.session()
    other = a_world(["proportion"], nodes=[NODE], queues=QUEUES, podGroups=GROUPS, pods=PODS)
    other.session()
    assert reports(world) == reports(other)


def allocated(world: World) -> dict[str, dict[str, int]]:
    return {queue: dict(amounts) for queue, amounts in allocated_by_queue(world.model).items() if amounts}


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param({"node": "n1", "phase": "Running"}, {"cpu": 1000, "pods": 1}, id="running"),
        pytest.param({"node": "n1"}, {"cpu": 1000, "pods": 1}, id="bound"),
        pytest.param({"node": "n1", "cpu": 0}, {"pods": 1}, id="a best-effort pod counts as a pod"),
        pytest.param({}, {}, id="pending"),
        pytest.param({"gated": True}, {}, id="gated"),
        pytest.param({"node": "n1", "phase": "Running", "deleting": True}, {}, id="releasing"),
        pytest.param({"node": "n1", "phase": "Succeeded"}, {}, id="succeeded"),
        pytest.param({"node": "n1", "phase": "Failed"}, {}, id="failed"),
        pytest.param({"node": "n1", "phase": "Running", "group": "unknown"}, {}, id="without a pod group"),
        pytest.param({"node": "n1", "phase": "Running", "schedulerName": "x"}, {}, id="of another scheduler"),
    ],
)
def test_what_a_pod_adds_to_the_allocation_of_its_queue(pod: Json, want: Json) -> None:
    groups = [{"name": "a", "queue": "a", "phase": "Running"}]
    pods = [{"name": "p", "group": "a", "cpu": 1, **pod}]
    world = a_world([], nodes=[NODE], queues=[{"name": "a"}], podGroups=groups, pods=pods)
    assert allocated(world).get("a", {}) == want


@pytest.mark.parametrize(
    ("parents", "want"),
    [
        pytest.param({}, {"root": 6, "a": 2, "b": 4}, id="flat"),
        pytest.param(
            {"a": "dept", "b": "dept"}, {"root": 6, "dept": 6, "a": 2, "b": 4}, id="two queues below one"
        ),
        pytest.param(
            {"a": "b", "b": "dept"},
            {"root": 6, "dept": 6, "b": 6, "a": 2},
            id="its own pods and those of queues below",
        ),
        pytest.param(
            {"a": "gone"}, {"root": 6, "a": 2, "b": 4}, id="the root includes queues without a parent"
        ),
        pytest.param(
            {"a": "b", "b": "a"}, {"root": 6, "a": 6, "b": 6}, id="a cycle counts once in each of its queues"
        ),
    ],
)
@pytest.mark.parametrize("plugins", [[], ["proportion"]], ids=["no plugin that sums", "proportion"])
def test_allocation_in_a_hierarchy_of_queues(
    parents: Mapping[str, str], want: Mapping[str, int], plugins: list[str | Json]
) -> None:
    names = ("a", "b", "dept", "root")
    queues: list[Json] = [{"name": name, "parent": parents.get(name, "")} for name in names]
    groups = [{"name": name, "queue": name, "phase": "Running"} for name in ("a", "b")]
    running = {"node": "n1", "phase": "Running"}
    pods = [
        {"name": "a", "group": "a", "cpu": 2, **running},
        {"name": "b", "group": "b", "cpu": 4, **running},
    ]
    world = a_world(plugins, nodes=[NODE], queues=queues, podGroups=groups, pods=pods)
    assert {queue: amounts["cpu"] // 1000 for queue, amounts in allocated(world).items()} == want


def test_the_allocation_of_queues_follows_binds_and_terminations() -> None:
    groups = [{"name": "a", "queue": "a", "phase": "Inqueue"}]
    pods = [{"name": "p", "group": "a", "cpu": 1, "count": 2}]
    world = a_world([], nodes=[NODE], queues=[{"name": "a"}], podGroups=groups, pods=pods)
    assert allocated(world) == {}
    run_session(world.model, world.settings, world.now)
    assert allocated(world) == {"a": {"cpu": 2000, "pods": 2}}, "binds that are being written"
    world.do("deletePods", ["p-0"])
    assert allocated(world) == {"a": {"cpu": 1000, "pods": 1}}
