"""Plugin proportion, beyond the shared vectors: admission, limits, order and reclaim."""

from typing import Any

import pytest

from quorate.api.names.volcano import POD_GROUP_GATE
from tests.gang.plugin_session import Json, PluginSession

GPU = "nvidia.com/gpu"
NODE = {"name": "n1", "cpu": 10, "memory": "8Gi"}


def a_group(name: str, **more: Any) -> Json:
    return {"name": name, "minMember": 1, **more}


def running(group: str, count: int, **more: Any) -> Json:
    return {"name": group, "group": group, "count": count, "cpu": 1, "node": "n1", "phase": "Running", **more}


def refusal(
    asks: Json | None, queue: Json | None = None, others: list[Json] | None = None, **given: Any
) -> str:
    """Return why a group that requests ``asks`` is not admitted to ``queue``."""
    newcomer = a_group("new", queue="q", **({} if asks is None else {"minResources": asks}))
    groups = [newcomer, *given.pop("podGroups", [])]
    queues = [{"name": "q", **(queue or {})}, *(others or [])]
    return PluginSession(
        {"nodes": [NODE], "queues": queues, **given, "podGroups": groups}, ["proportion"]
    ).admission("new")


@pytest.mark.parametrize(
    ("asks", "queue", "others", "want"),
    [
        pytest.param({"cpu": 10}, {}, [], "", id="the whole cluster"),
        pytest.param(
            {"cpu": "10001m"},
            {},
            [],
            "queue q: cpu: need 10001m, have 10 now and 10 at most, so it can never fit",
            id="slightly more",
        ),
        pytest.param(None, {}, [], "", id="without minResources"),
        pytest.param({}, {}, [], "", id="nothing"),
        pytest.param(None, {"state": "Closed"}, [], "queue q is not open", id="a closed queue"),
        pytest.param({"cpu": 1}, {"state": "Closing"}, [], "queue q is not open", id="a closing queue"),
        pytest.param({"pods": 999}, {}, [], "", id="places for pods are not checked"),
        pytest.param(
            {GPU: 1, "cpu": 1},
            {},
            [],
            f"queue q: {GPU}: need 1, have 0 now and 0 at most, so it can never fit",
            id="a resource that no node has",
        ),
        pytest.param(
            {"cpu": 5, "memory": "9Gi"},
            {"capability": {"cpu": 4}},
            [],
            "queue q: cpu: need 5, have 4 now and 4 at most, so it can never fit; "
            "memory: need 9Gi, have 8Gi now and 8Gi at most, so it can never fit",
            id="all shortages are listed",
        ),
        pytest.param(
            {"cpu": 10}, {"capability": {"cpu": 0, "memory": "1Gi"}}, [], "", id="a capability of 0 cpu"
        ),
        pytest.param(
            {"cpu": 9},
            {},
            [{"name": "idle", "guarantee": {"cpu": 2}}],
            "queue q: cpu: need 9, have 8 now and 8 at most, so it can never fit",
            id="guarantees of queues without groups",
        ),
        pytest.param({"cpu": 10}, {"guarantee": {"cpu": 2}}, [], "", id="its own guarantee is available"),
        pytest.param(
            {"cpu": 6},
            {"guarantee": {"cpu": 5}},
            [{"name": "idle", "guarantee": {"cpu": 7}}],
            "queue q: cpu: need 6, have 5 now and 5 at most, so it can never fit",
            id="excessive guarantees leave each queue its own",
        ),
    ],
)
def test_the_real_capability_of_a_queue(
    asks: Json | None, queue: Json, others: list[Json], want: str
) -> None:
    assert refusal(asks, queue, others) == want


@pytest.mark.parametrize(
    ("group", "pods", "free"),
    [
        pytest.param({"phase": "Inqueue", "minResources": {"cpu": 4}}, [], 6, id="Inqueue, without pods"),
        pytest.param({"phase": "Pending", "minResources": {"cpu": 4}}, [], 10, id="Pending"),
        pytest.param({"phase": "Completed", "minResources": {"cpu": 4}}, [], 10, id="Completed"),
        pytest.param({"phase": "Unknown", "minResources": {"cpu": 4}}, [], 10, id="Unknown"),
        pytest.param({"phase": "Inqueue"}, [], 10, id="Inqueue, without minResources"),
        pytest.param(
            {"phase": "Inqueue", "minResources": {"cpu": 4}}, [running("a", 1)], 6, id="Inqueue, with a pod"
        ),
        pytest.param(
            {"phase": "Running", "minResources": {"cpu": 4}},
            [running("a", 1)],
            6,
            id="Running, with missing members",
        ),
        pytest.param(
            {"phase": "Running", "minMember": 2, "minResources": {"cpu": 4}},
            [running("a", 1), {**running("b", 1, phase="Succeeded"), "group": "a"}],
            9,
            id="Running below its minimum: the rest has finished",
        ),
        pytest.param(
            {"phase": "Running", "minResources": {"cpu": 4}},
            [running("a", 7)],
            6,
            id="elastic amounts are available",
        ),
        pytest.param(
            {"phase": "Running"}, [running("a", 7)], 10, id="everything is elastic without minResources"
        ),
        pytest.param(
            {"phase": "Running", "minResources": {"cpu": 4}},
            [running("a", 5, deleting=True)],
            10,
            id="releasing pods",
        ),
        pytest.param(
            {"phase": "Inqueue", "minResources": {"cpu": 4}},
            [{"name": "a", "group": "a", "count": 3, "cpu": 1, "gated": True}],
            9,
            id="pods with scheduling gates",
        ),
        pytest.param(
            {"phase": "Inqueue", "minResources": {"cpu": 4}},
            [{"name": "a", "group": "a", "count": 9, "cpu": 1, "gated": True}],
            10,
            id="more gated pods than it was admitted for",
        ),
        pytest.param(
            {"phase": "Inqueue", "minResources": {"cpu": 4}},
            [{"name": "a", "group": "a", "count": 3, "cpu": 1, "gated": True, "gate": POD_GROUP_GATE}],
            6,
            id="gates that admission removes do not count",
        ),
    ],
)
def test_what_a_group_leaves_of_its_queue(group: Json, pods: list[Json], free: int) -> None:
    def refused(cpu: int) -> str:
        return refusal({"cpu": cpu}, podGroups=[a_group("a", queue="q", **group)], pods=pods)

    never = " and 10 at most, so it can never fit" if free == 10 else ""
    assert refused(free) == ""
    assert refused(free + 1) == f"queue q: cpu: need {free + 1}, have {free} now{never}"


def test_only_admission_reserves() -> None:
    groups = [a_group(name, queue="q", minResources={"cpu": 6}) for name in ("a", "b")]
    opened = PluginSession({"nodes": [NODE], "queues": [{"name": "q"}], "podGroups": groups}, ["proportion"])
    assert [opened.admission(name) for name in ("a", "a", "b")] == ["", "", ""]
    opened.admit("a")
    assert opened.admission("b") == "queue q: cpu: need 6, have 4 now"


def test_an_ended_reservation_is_free_at_once() -> None:
    groups = [a_group("a", queue="q", phase="Inqueue", minResources={"cpu": 6, "memory": "1Gi"})]
    groups += [a_group("b", queue="q", minResources={"cpu": 6, "memory": "8Gi"})]
    opened = PluginSession({"nodes": [NODE], "queues": [{"name": "q"}], "podGroups": groups}, ["proportion"])
    assert opened.admission("b") == ("queue q: cpu: need 6, have 4 now; memory: need 8Gi, have 7Gi now")
    opened.withdraw("a")
    assert opened.admission("b") == ""
    opened.admit("a")
    assert opened.admission("b") != ""


def shared_world(**more: Any) -> Json:
    """Open a session where ``a`` has 6 of 10 cpus, ``b`` has 1, and both request more."""
    return {
        "nodes": [NODE],
        "queues": [{"name": "qa", "created": 1}, {"name": "qb", "created": 2}],
        "podGroups": [a_group("a", queue="qa"), a_group("b", queue="qb")],
        "pods": [
            running("a", 6),
            running("b", 1),
            {"name": "more-a", "group": "a", "cpu": 1},
            {"name": "more-b", "group": "b", "count": 8, "cpu": "500m", "memory": "2Gi"},
            {"name": "large-b", "group": "b", "cpu": "4001m"},
            {"name": "gpu-b", "group": "b", "cpu": 1, "scalars": {GPU: 1}},
        ],
    } | more


def test_no_queue_allocates_more_than_it_deserves() -> None:
    opened = PluginSession(shared_world(), ["proportion"])
    assert not opened.allocatable("more-a")
    assert opened.allocatable("more-b-0")
    assert opened.preemptive("more-b-0")
    assert not opened.allocatable("large-b"), "1 of 5 is there, and so 4 fit"
    assert not opened.allocatable("gpu-b"), "no queue deserves a resource that no node has"


def test_a_closed_queue_allocates_nothing() -> None:
    queues = [{"name": "qa"}, {"name": "qb", "state": "Closed"}]
    opened = PluginSession(shared_world(queues=queues), ["proportion"])
    assert not opened.allocatable("more-b-0")
    assert not opened.preemptive("more-b-0")


def test_queue_order_by_priority_and_then_by_share() -> None:
    assert PluginSession(shared_world(), ["proportion"]).queue_order() == ["qb", "qa"]
    queues = [{"name": "qa", "priority": 1}, {"name": "qb"}]
    assert PluginSession(shared_world(queues=queues), ["proportion"]).queue_order() == ["qa", "qb"]


def test_shares_follow_allocated_and_evicted_tasks() -> None:
    opened = PluginSession(shared_world(), ["proportion"])
    for index in range(6):
        opened.evict(f"a-{index}")
    assert opened.allocatable("more-a")
    assert opened.queue_order() == ["qa", "qb"]


def test_a_queue_is_overused_if_it_has_all_it_deserves_of_every_resource() -> None:
    pods = [running("a", 5, memory="1Gi"), {"name": "more-a", "group": "a", "cpu": 9, "memory": "8Gi"}]
    pods += [running("b", 1), {"name": "more-b", "group": "b", "cpu": 9, "memory": "8Gi"}]
    opened = PluginSession(shared_world(pods=pods), ["proportion"])
    assert not opened.session.is_overused(opened.queue("qa")), "it still deserves memory"
    assert not opened.session.is_overused(opened.queue("qb"))

    opened = PluginSession(shared_world(pods=[running("a", 5), *pods[2:]]), ["proportion"])
    assert opened.session.is_overused(opened.queue("qa")), "it asks for no memory"


def test_a_queue_without_groups_or_requests_is_overused() -> None:
    queues = [{"name": "qa"}, {"name": "qb"}, {"name": "idle"}]
    opened = PluginSession(shared_world(queues=queues, pods=[running("a", 1)]), ["proportion"])
    assert opened.session.is_overused(opened.queue("qb"))
    assert opened.session.is_overused(opened.queue("idle"))


@pytest.mark.parametrize(
    ("pods", "candidates", "victims"),
    [
        pytest.param([running("a", 6)], ["a-5", "a-4", "a-3"], ["a-5"], id="down to the deserved amounts"),
        pytest.param(
            [running("a", 6, cpu="1500m")],
            ["a-5", "a-4", "a-3"],
            ["a-5", "a-4", "a-3"],
            id="the last victim may take it below",
        ),
        pytest.param(
            [running("a", 5), {"name": "tiny", "group": "a", "node": "n1", "cpu": "1m", "phase": "Running"}],
            ["a-4", "tiny"],
            ["a-4"],
            id="a slight excess suffices",
        ),
        pytest.param([running("a", 5)], ["a-4"], [], id="no task of a queue within its share"),
    ],
)
def test_tasks_beyond_the_share_of_their_queue_are_reclaimable(
    pods: list[Json], candidates: list[str], victims: list[str]
) -> None:
    wanted = {"name": "b", "group": "b", "count": 9, "cpu": 1}
    more = {"name": "more-a", "group": "a", "cpu": 9}
    opened = PluginSession(shared_world(pods=[*pods, wanted, more]), ["proportion"])
    assert opened.reclaimable("b-0", candidates) == victims


def test_each_queue_is_reduced_separately() -> None:
    queues = [{"name": name} for name in ("qa", "qb", "qc")]
    groups = [a_group(name, queue=f"q{name}") for name in "abc"]
    pods = [running("a", 5), running("b", 5), {"name": "c", "group": "c", "count": 9, "cpu": 1}]
    world = shared_world(queues=queues, podGroups=groups, pods=pods)
    opened = PluginSession(world, ["proportion"])
    assert opened.reclaimable("c-0", ["a-4", "b-4", "a-3", "b-3", "a-2"]) == ["a-4", "b-4", "a-3", "b-3"]


@pytest.mark.parametrize(
    ("queue", "has", "want"),
    [
        pytest.param({}, 5, False, id="the queue does not exceed what it deserves"),
        pytest.param({}, 6, True, id="the queue exceeds what it deserves"),
        pytest.param({"guarantee": {"cpu": 1}}, 6, False, id="its guarantee would be lost"),
    ],
)
def test_gang_reclaimable(queue: Json, has: int, want: bool) -> None:
    queues = [{"name": "qa", **queue}, {"name": "qb"}]
    pods = [
        running("a", has),
        {"name": "more", "group": "a", "cpu": 9},
        {"name": "b", "group": "b", "cpu": 9},
    ]
    assert (
        PluginSession(shared_world(queues=queues, pods=pods), ["proportion"]).gang_reclaimable("a", "qb")
        is want
    )


def test_a_switch_disables_an_extension_point() -> None:
    silenced: list[str | Json] = [
        {"name": "proportion", "enabledAllocatable": False, "enableQueueOrder": False}
    ]
    opened = PluginSession(shared_world(), silenced)
    assert opened.allocatable("more-a")
    assert opened.queue_order() == ["qa", "qb"]
    assert not opened.preemptive("more-a")


@pytest.mark.parametrize(
    ("profile", "pods", "want"),
    [
        pytest.param("design", 0, False, id="an admitted group without pods counts with its minResources"),
        pytest.param("compat", 0, True, id="only pods count, as in Volcano"),
        pytest.param("compat", 5, False, id="pods that wait count"),
    ],
)
def test_what_an_admitted_group_requests_of_its_queue(profile: str, pods: int, want: bool) -> None:
    """Each queue deserves 5 of 10 cpus if the other one requests as much, and the first uses 5."""
    session = PluginSession(
        {
            "nodes": [NODE],
            "queues": [{"name": "q1"}, {"name": "q2"}],
            "podGroups": [
                a_group("a", queue="q1"),
                a_group("b", queue="q2", phase="Inqueue", minResources={"cpu": 5}),
            ],
            "pods": [
                running("a", 5),
                {"name": "more", "group": "a", "count": 1, "cpu": 1},
                *([{"name": "b", "group": "b", "count": pods, "cpu": 1}] if pods else []),
            ],
        },
        ["proportion"],
        profile,
    )
    assert session.allocatable("more-0") is want


def test_an_admission_changes_what_queues_deserve() -> None:
    session = PluginSession(
        {
            "nodes": [NODE],
            "queues": [{"name": "q1"}, {"name": "q2"}],
            "podGroups": [a_group("a", queue="q1"), a_group("b", queue="q2", minResources={"cpu": 5})],
            "pods": [running("a", 5), {"name": "more", "group": "a", "count": 1, "cpu": 1}],
        },
        ["proportion"],
        "design",
    )
    assert session.allocatable("more-0")
    session.admit("b")
    assert not session.allocatable("more-0")
