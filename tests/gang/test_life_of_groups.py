"""The life of a pod group: its phase and what it reserves while its pods end, are deleted and replaced."""

from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.gang import objects
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of

Json = dict[str, Any]
PLUGINS: Final = [
    ["priority", "gang", "conformance"],
    [{"name": "overcommit", "arguments": {"overcommit-factor": 1.0}}, "drf", "predicates", "proportion"],
]
CONF: Final = {"actions": "enqueue, allocate, preempt, reclaim, backfill", "tiers": PLUGINS}
PROFILES: Final = ("compat", "design")


def a_world(
    profile: str,
    groups: Sequence[Json],
    pods: Sequence[Json] = (),
    nodes: int = 1,
    *,
    restarting: bool = False,
) -> World:
    """Return nodes n1, n2 … of 2 cpus, and groups with ``minResources`` of 1 cpu for each member."""
    given = {
        "nodes": [{"name": f"n{number}", "cpu": 2} for number in range(1, nodes + 1)],
        "podGroups": [{"minResources": {"cpu": group["minMember"]}, **group} for group in groups],
        "pods": [{"cpu": 1, **pod} for pod in pods],
    }
    return World(given, settings_of(CONF, profile), restarting=restarting)


def phases(world: World) -> dict[str, str]:
    return {key.name: group.status.phase for key, group in world.groups.items()}


def next_gang(world: World) -> None:
    world.do("addPodGroups", [{"name": "next", "minMember": 2, "minResources": {"cpu": 2}, "created": 1001}])
    world.do("addPods", [{"name": "next", "count": 2, "group": "next", "cpu": 1, "created": 1001}])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("sessions_between", [2, 0])
def test_a_group_stays_completed_without_its_pods_and_reserves_nothing(
    profile: str, sessions_between: int
) -> None:
    world = a_world(profile, [{"name": "p", "minMember": 2}], [{"name": "p", "count": 2, "group": "p"}])
    world.session()
    world.do("start", "all")
    world.session()
    world.do("finish", {"pods": ["p-0", "p-1"]})
    for _ in range(sessions_between):
        world.session()
    world.do("deletePods", ["p-0", "p-1"])
    for _ in range(3):
        world.session()
    assert phases(world) == {"p": "Completed"}
    next_gang(world)
    world.session()
    assert sorted(world.binds) == ["next-0", "next-1", "p-0", "p-1"]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(("leaving", "want"), [((), "Completed"), (("p-1",), "Inqueue")])
def test_a_group_that_loses_its_last_pods_completes_if_enough_had_ended_in_the_last_session(
    restarts: bool, leaving: Sequence[str], want: str
) -> None:
    """Pods that were deleted before they ended do not count, in the status neither."""
    pods = [{"name": "p", "count": 3, "group": "p"}]
    world = a_world("design", [{"name": "p", "minMember": 2}], pods, nodes=2, restarting=restarts)
    world.session()
    world.do("start", "all")
    world.put_pods([objects.leaving(world.pods[key_of(name)], world.now) for name in leaving])
    world.do("finish", {"pods": ["p-0", "p-1"]})
    world.session()
    assert (phases(world), world.counts("p")) == (
        {"p": "Running"},
        {"running": 1, "succeeded": 2 - len(leaving), "failed": 0},
    )
    world.do("deletePods", ["p-0", "p-1", "p-2"])
    world.session()
    assert phases(world) == {"p": want}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_group_completes_although_each_pod_is_deleted_when_it_has_ended(
    profile: str, restarts: bool
) -> None:
    pods = [{"name": "p", "count": 2, "group": "p"}]
    world = a_world(profile, [{"name": "p", "minMember": 2}], pods, restarting=restarts)
    world.session()
    world.do("start", "all")
    world.session()
    for pod in ("p-0", "p-1"):
        world.do("finish", {"pods": [pod]})
        world.session()
        world.do("deletePods", [pod])
        world.session()
    assert phases(world) == {"p": "Completed"}
    next_gang(world)
    world.session()
    assert world.placed("next") == 2


def test_a_group_that_loses_its_last_pod_waits_although_others_have_ended() -> None:
    """Such as executors of Spark, of which the driver is lost with its node."""
    world = a_world("design", [{"name": "p", "minMember": 1}], [{"name": "p", "count": 2, "group": "p"}])
    world.session()
    world.do("start", "all")
    world.do("finish", {"pods": ["p-1"]})
    world.session()
    world.do("deletePods", ["p-1"])
    world.session()
    world.do("deletePods", ["p-0"])
    world.session()
    assert phases(world) == {"p": "Inqueue"}


def test_pods_that_were_replaced_do_not_complete_a_group() -> None:
    world = a_world("design", [{"name": "p", "minMember": 2}], [{"name": "p", "count": 2, "group": "p"}])
    world.session()
    for number in range(2):
        world.do("start", "all")
        world.session()
        pod = world.pods[key_of(f"p-{number}")].metadata.name
        world.do("finish", {"pods": [pod], "result": "Failed"})
        world.session()
        world.do("deletePods", [pod])
        world.session()
        world.do("addPods", [{"name": f"again-{number}", "group": "p", "cpu": 1}])
        world.session()
    world.do("start", "all")
    world.session()
    assert phases(world) == {"p": "Running"}
    world.do("deletePods", ["again-0", "again-1"])
    world.session()
    assert phases(world) == {"p": "Inqueue"}


@pytest.mark.parametrize("profile", PROFILES)
def test_a_completed_group_is_admitted_anew_for_new_pods(profile: str) -> None:
    """The next generation of pods waits like a new gang; another one that is admitted comes first."""
    group = {"name": "s", "minMember": 2, "phase": "Completed"}
    filler = {"name": "f", "group": "f", "node": "n1", "phase": "Running"}
    world = a_world(profile, [group, {"name": "f", "minMember": 1, "phase": "Running"}], [filler])
    world.do("addPods", [{"name": "s", "count": 2, "group": "s", "cpu": 1, "created": 9}])
    world.session()
    assert phases(world)["s"] == "Pending"
    assert world.binds == {}
    world.do("finish", {"pods": ["f"]})
    world.session()
    world.session()
    assert sorted(world.binds) == ["s-0", "s-1"]
    assert phases(world)["s"] in ("Inqueue", "Running")


def test_a_group_is_not_completed_while_a_member_waits() -> None:
    world = a_world(
        "design",
        [
            {"name": "s", "minMember": 1, "phase": "Running"},
            {"name": "f", "minMember": 1, "phase": "Running"},
        ],
        [
            {"name": "s-0", "group": "s", "node": "n1", "phase": "Succeeded"},
            {"name": "s-1", "group": "s", "cpu": 2, "created": 9},
            {"name": "f-0", "group": "f", "node": "n1", "phase": "Running"},
        ],
    )
    world.session()
    assert phases(world) == {"s": "Running", "f": "Running"}
    world.do("finish", {"pods": ["f-0"]})
    world.session()
    world.do("start", "all")
    world.do("finish", {"pods": ["s-1"]})
    world.session()
    assert phases(world) == {"s": "Completed", "f": "Completed"}


@pytest.mark.parametrize("replaced", [False, True])
def test_a_group_keeps_its_phase_while_all_its_pods_terminate(replaced: bool) -> None:
    terminating = {"name": "a", "count": 2, "group": "a", "node": "n1", "phase": "Running", "deleting": True}
    world = a_world("design", [{"name": "a", "minMember": 2, "phase": "Running"}], [terminating])
    if replaced:
        world.do("addPods", [{"name": "b", "count": 2, "group": "a", "cpu": 1, "created": 9}])
    for _ in range(3):
        world.session()
        assert phases(world) == {"a": "Running"}
        assert world.condition("a", "Unschedulable") is None
    world.do("reap", "all")
    world.session()
    assert phases(world) == {"a": "Inqueue"}, "it is admitted anew"
    assert sorted(world.binds) == (["b-0", "b-1"] if replaced else [])


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_group_does_not_wait_for_pods_that_terminate_on_a_lost_node(is_deleted: bool) -> None:
    lost: Json = {"name": "a", "count": 2, "group": "a", "node": "n1", "deleting": True, "created": 1030}
    world = a_world("design", [{"name": "a", "minMember": 2, "phase": "Running"}], [lost], nodes=2)
    world.do("addPods", [{"name": "b", "count": 2, "group": "a", "cpu": 1, "created": 1005}])
    if is_deleted:
        pods = dict(world.pods)
        world.do("removeNodes", ["n1"])
        world.put_pods(pods.values())  # until the garbage collector of Kubernetes has removed them
    else:
        world.do("addNodes", [{"name": "n1", "cpu": 2, "ready": False}])
    outcome = world.session()
    assert (phases(world), outcome.wake_at) == ({"a": "Running"}, 1030), "the grace period is not over"
    world.do("advance", 30)
    world.session()
    assert phases(world) == {"a": "Inqueue"}, "it is admitted anew"
    assert world.binds == {"b-0": "n2", "b-1": "n2"}


def test_the_reason_of_a_group_tells_members_that_terminate_from_those_that_do_not_exist() -> None:
    world = a_world(
        "design",
        [{"name": "a", "minMember": 3, "phase": "Running"}],
        [
            {"name": "a-0", "group": "a", "node": "n1", "phase": "Running", "deleting": True},
            {"name": "a-1", "group": "a", "node": "n1", "phase": "Running"},
        ],
    )
    world.session()
    (condition,) = (each for each in next(iter(world.groups.values())).status.conditions)
    assert condition.message == "1 of 3 members exist, 1 more failed or being deleted"
    assert phases(world) == {"a": "Unknown"}


@pytest.mark.parametrize(
    ("queue", "cause"),
    [
        pytest.param({}, "0/1 nodes are available: 1 Insufficient cpu (need 1, 2 at most)", id="no room"),
        pytest.param(
            {"capability": {"cpu": 1}},
            "their queue may not allocate more now (queue default: cpu: need 1, have 0 of 1 now)",
            id="no share",
        ),
    ],
)
def test_a_group_that_waits_for_further_pods_says_so_in_its_condition(queue: Json, cause: str) -> None:
    pods: list[Json] = [
        {"name": "a", "count": 1 if queue else 2, "group": "a", "node": "n1", "phase": "Running"},
        {"name": "more", "count": 3, "group": "a", "created": 9},
    ]
    world = a_world("design", [{"name": "a", "minMember": 1, "phase": "Running"}], pods)
    world.do("setQueue", {"name": "default", **queue})
    for _ in range(2):
        outcome = world.session()
    assert [event for event in outcome.events if event.reason == "Scheduled"] == []
    (condition,) = next(iter(world.groups.values())).status.conditions
    assert (condition.type, condition.status) == ("Scheduled", "True")
    assert condition.message == f"3 pods beyond minMember found no node: {cause}"
    world.do("deletePods", ["more-0", "more-1", "more-2"])
    world.session()
    (condition,) = next(iter(world.groups.values())).status.conditions
    assert condition.message == ""


def test_a_completed_group_is_not_said_to_be_unschedulable() -> None:
    """It was short of a member when the condition was written; then its members ended."""
    short = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}
    ended = [{"name": phase.lower(), "group": "p", "phase": phase} for phase in ("Succeeded", "Failed")]
    world = a_world(
        "design", [{"name": "p", "minMember": 2, "phase": "Unknown", "conditions": [short]}], ended
    )
    world.session()
    assert (phases(world), world.condition("p", "Unschedulable")) == ({"p": "Completed"}, None)
