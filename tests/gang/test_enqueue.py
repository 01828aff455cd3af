"""Which groups are admitted in profile ``design``, and why the rest wait.

The cluster of a case is one node of 4 cpus unless it says otherwise.
"""

from typing import Any

import pytest

from tests.gang.enqueue_worlds import (
    INQUEUE,
    LIMIT,
    QUOTA,
    RESOURCES,
    RUNNING,
    Json,
    group,
    group_states,
    message,
    pod,
    rq,
    running,
    world,
)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(
            {"podGroups": [group("a", "4", created=1), group("b", "1m", created=2)]},
            {"a": "Inqueue", "b": RESOURCES}, id="an exact fit fills the cluster",
        ),
        pytest.param(
            {"podGroups": [group("a", "5"), group("b"), group("c", "0")]},
            {"a": RESOURCES, "b": "Inqueue", "c": "Inqueue"},
            id="a group without minResources needs no capacity",
        ),
        pytest.param(
            {"podGroups": [{"name": "a", "minResources": {}}]}, {"a": "Inqueue"}, id="empty minResources"
        ),
        pytest.param(
            {"podGroups": [{"name": "a", "minResources": {"cpu": 1, "pods": 500}}]},
            {"a": "Inqueue"}, id="places for pods are not reserved",
        ),
        pytest.param(
            {"podGroups": [{"name": "a", "minResources": {"cpu": 1, "nvidia.com/gpu": 1}}]},
            {"a": RESOURCES}, id="a resource that no node has",
        ),
        pytest.param(
            {"podGroups": [group("a", "2")], "pods": [{"name": "web", "cpu": 3, "node": "n1", **RUNNING}]},
            {"a": RESOURCES}, id="pods of other schedulers use capacity",
        ),
        pytest.param(
            {
                "podGroups": [group("a", "2")],
                "pods": [{"name": "web", "cpu": 3, "node": "n1", "deleting": True, **RUNNING}],
            },
            {"a": "Inqueue"}, id="releasing pods count as free",
        ),
        pytest.param(
            {"podGroups": [group("r", "3", **RUNNING), group("a", "1"), group("b", "1")],
             "pods": [running("r")]},
            {"r": "Running", "a": "Inqueue", "b": RESOURCES},
            id="a running group keeps the reservation for missing members",
        ),
        pytest.param(
            {
                "podGroups": [group("r", "3", **RUNNING), group("a", "3")],
                "pods": [running("r"), pod("r", "r-1", phase="Succeeded"), pod("r", "r-2", phase="Failed")],
            },
            {"r": "Running", "a": "Inqueue"}, id="finished members reduce the reservation",
        ),
        pytest.param(
            {
                "podGroups": [group("r", "3", minMember=2, **RUNNING), group("a", "2")],
                "pods": [running("r"), running("r", name="r-1", cpu="2", deleting=True)],
            },
            {"r": "Unknown", "a": RESOURCES},
            id="the reservation of a releasing member is kept for its replacement",
        ),
        pytest.param(
            {
                "podGroups": [group("r", "1", **RUNNING), group("a", "1")],
                "pods": [running("r", name=f"r-{i}") for i in range(3)],
            },
            {"r": "Running", "a": "Inqueue"}, id="a group with more than its minimum has no claim left",
        ),
        pytest.param(
            {"podGroups": [group("r", "9", **RUNNING), group("a", "1")]},
            {"r": RESOURCES, "a": "Inqueue"}, id="a group that lost all its members waits like a new one",
        ),
        pytest.param(
            {"podGroups": [group("c", "4", phase="Completed"), group("a", "4")],
             "pods": [pod("c", phase="Succeeded")]},
            {"c": "Completed", "a": "Inqueue"}, id="a completed group has no claim",
        ),
        pytest.param(
            {"podGroups": [group("a", "4")], "pods": [pod("a", "a-0", "4")]},
            {"a": "Inqueue"}, id="pods that exist before the admission change nothing",
        ),
        pytest.param(
            {"podGroups": [group("a", "3", minMember=2)], "pods": [pod("a", "a-0", "3", node="n1")]},
            {"a": "Inqueue"}, id="the group's own bound pods count once",
        ),
        pytest.param(
            {"queues": [{"name": "default", "state": "Closed"}], "podGroups": [group("a"), group("b", "1")]},
            {"a": "QueueNotOpen", "b": "QueueNotOpen"}, id="the queue is closed",
        ),
        pytest.param(
            {"queues": [{"name": "q"}], "podGroups": [group("a", queue="q"), group("b", queue="gone")]},
            {"a": "Inqueue", "b": "QueueNotFound"}, id="a group without its queue says so",
        ),
    ],
)  # fmt: skip
def test_node_resources(given: Json, want: dict[str, str]) -> None:
    here = world(given)
    here.session()
    assert group_states(here) == want


def scoped(scope: str, operator: str = "Exists", *values: str) -> Json:
    expression = {"scopeName": scope, "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [expression]}}


def asking(name: str, **least: Any) -> Json:
    named = {resource.replace("__", "/").replace("_", "."): amount for resource, amount in least.items()}
    return {"name": name, "minMember": 1, "minResources": named}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(
            {"quotas": [rq({"cpu": 4}, {"cpu": 2})], "podGroups": [group("a", "3"), group("b", "2")]},
            {"a": QUOTA, "b": "Inqueue"}, id="hard minus used is available",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 4})], "podGroups": [group("r", "3", **INQUEUE), group("a", "2")]},
            {"r": "Inqueue", "a": RESOURCES}, id="node resources are checked before quota",
        ),
        pytest.param(
            {"quotas": [rq({"requests.cpu": 4}, {"requests.cpu": 2})],
             "podGroups": [group("a", "3"), group("b", "2")]},
            {"a": QUOTA, "b": "Inqueue"}, id="requests.cpu is cpu",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2})], "podGroups": [asking("a", cpu=1, requests_cpu=3)]},
            {"a": QUOTA}, id="the larger of two forms counts",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2, "requests.cpu": 1})], "podGroups": [group("a", "2"), group("b", "1")]},
            {"a": QUOTA, "b": "Inqueue"}, id="two limits of one resource both hold",
        ),
        pytest.param(
            {"quotas": [rq({"limits.cpu": 2})],
             "podGroups": [group("a", "3"), asking("b", limits_cpu=3), asking("c", limits_cpu=2)]},
            {"a": "Inqueue", "b": QUOTA, "c": "Inqueue"}, id="limits.cpu is distinct from cpu",
        ),
        pytest.param(
            {"quotas": [rq({"pods": 2, "count/pods": 4}, {"pods": 1})],
             "podGroups": [asking("a", pods=2), asking("b", pods=1), asking("c", pods=1)]},
            {"a": QUOTA, "b": "Inqueue", "c": QUOTA}, id="quotas count pods",
        ),
        pytest.param(
            {"quotas": [rq({"count/pods": 2})],
             "podGroups": [asking("a", count__pods=3), asking("b", pods=3)]},
            {"a": QUOTA, "b": "Inqueue"}, id="count/pods is a limit of its own",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 9}, name="b"), rq({"memory": "1Gi"}, name="a")],
             "podGroups": [asking("a", cpu=1, memory="2Gi"), asking("b", cpu=1, memory="1Gi")]},
            {"a": QUOTA, "b": "Inqueue"}, id="all quotas must allow the group",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 1}, namespace="other")], "podGroups": [group("a", "2")]},
            {"a": "Inqueue"}, id="a quota of another namespace",
        ),
        pytest.param(
            {"podGroups": [group("a", "2")],
             "quotas": [rq({"cpu": 1}, name=name, scopes=[name]) for name in ("Terminating", "BestEffort")]},
            {"a": "Inqueue"}, id="a quota with scopes that do not match",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 1}, scopes=["NotTerminating", "NotBestEffort"])],
             "podGroups": [group("a", "2")]},
            {"a": QUOTA}, id="a quota with scopes that match the assumed attributes",
        ),
        pytest.param(
            {"priorityClasses": {"high": 9},
             "quotas": [rq({"cpu": 1}, **scoped("PriorityClass", "In", "high"))],
             "podGroups": [group("a", "2"), group("b", "2", priorityClassName="high")]},
            {"a": "Inqueue", "b": QUOTA}, id="a quota of a priority class",
        ),
        pytest.param(
            {"priorityClasses": {"high": 9},
             "quotas": [rq({"cpu": 3}, **scoped("PriorityClass", "In", "high"))],
             "podGroups": [group("r", "2", created=1, **INQUEUE),
                           group("a", "2", created=2, priorityClassName="high")]},
            {"r": "Inqueue", "a": "Inqueue"},
            id="a quota of a priority class ignores claims of other classes",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 1}, scopes=["CrossNamespacePodAffinity"])],
             "podGroups": [group("a", "2")]},
            {"a": "Inqueue"}, id="a quota with an unsupported scope is ignored",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2}, {"cpu": 2})], "podGroups": [group("a", "2", minMember=2)],
             "pods": [pod("a", "a-0"), pod("a", "a-1")]},
            {"a": "Inqueue"}, id="its own pods are in the used amounts and count once",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2}, {"cpu": 1})],
             "podGroups": [group("a", "2", minMember=2, created=1, **INQUEUE), group("b", "1", created=2)],
             "pods": [pod("a", "a-0")]},
            {"a": "Inqueue", "b": QUOTA},
            id="a group with some of its pods stays admitted and keeps the rest reserved",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2}, {"cpu": 1})],
             "podGroups": [group("a", "2", minMember=2, created=1, **INQUEUE), group("b", "1", created=2)],
             "pods": [pod("a", "a-0"), pod("a", "a-1", deleting=True, grace=1000)]},
            {"a": "Inqueue", "b": QUOTA}, id="what a pod that is stuck terminating had is reserved",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 3}, {"cpu": 2})],
             "podGroups": [group("a", "2", minMember=2, created=1, **INQUEUE), group("b", "1", created=2)],
             "pods": [pod("a", "a-0"), pod("a", "a-1", deleting=True, grace=1001)]},
            {"a": "Inqueue", "b": "Inqueue"}, id="a terminating pod is charged until its grace period ends",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2}, {"cpu": 2})], "podGroups": [group("c", "4", phase="Completed"),
                                                                  group("a", "0")],
             "pods": [pod("c", phase="Succeeded")]},
            {"c": "Completed", "a": "Inqueue"}, id="a quota that is exactly used up is not exceeded",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2}, {"cpu": 3})],
             "podGroups": [group("a", "0"), asking("b", memory="1Gi")]},
            {"a": QUOTA, "b": "Inqueue"}, id="an exceeded quota refuses even a request of zero",
        ),
    ],
)  # fmt: skip
def test_quota(given: Json, want: dict[str, str]) -> None:
    here = world(given)
    here.session()
    assert group_states(here) == want


def test_the_quota_check_can_be_turned_off() -> None:
    here = world({"quotas": [rq({"cpu": 1})], "podGroups": [group("a", "2")]}, check_quota=False)
    here.session()
    assert group_states(here) == {"a": "Inqueue"}


@pytest.mark.parametrize(
    ("queues", "groups", "want"),
    [
        pytest.param(
            [{"name": "q", "maxPodGroups": 2}],
            [group(name, queue="q", created=created) for name, created in (("a", 1), ("b", 2), ("c", 3))],
            {"a": "Inqueue", "b": "Inqueue", "c": LIMIT}, id="the limit is reached",
        ),
        pytest.param(
            [{"name": "q", "maxPodGroups": 1}],
            [group("done", queue="q", phase="Completed", minMember=0), group("a", queue="q")],
            {"done": "Completed", "a": "Inqueue"}, id="only active groups count",
        ),
        pytest.param(
            [{"name": "q", "maxPodGroups": 1}],
            [group(name, queue="q", phase="Inqueue") for name in "abc"],
            {"a": "Inqueue", "b": "Inqueue", "c": "Inqueue"}, id="a lowered limit causes no rollback",
        ),
        pytest.param(
            [{"name": "d", "maxPodGroups": 2}, {"name": "x", "parent": "d"}, {"name": "y", "parent": "d"}],
            [group("a", queue="x", created=1, **INQUEUE), group("b", queue="y", created=2),
             group("c", queue="y", created=3), group("e", queue="default", created=4)],
            {"a": "Inqueue", "b": "Inqueue", "c": LIMIT, "e": "Inqueue"},
            id="the limit of a queue above holds for the sum",
        ),
        pytest.param(
            [{"name": "x", "parent": "y", "maxPodGroups": 1}, {"name": "y", "parent": "x"}],
            [group("a", queue="x", created=1), group("b", queue="y", created=2)],
            {"a": "Inqueue", "b": LIMIT}, id="queues in a cycle",
        ),
    ],
)  # fmt: skip
def test_pod_group_limits(queues: list[Json], groups: list[Json], want: dict[str, str]) -> None:
    here = world({"queues": [{"name": "default"}, *queues], "podGroups": groups})
    here.session()
    assert group_states(here) == want


FIFO = {"name": "f", "dequeueStrategy": "fifo"}


@pytest.mark.parametrize(
    ("groups", "want"),
    [
        pytest.param(
            [group("a", "9", queue="f", created=1), group("b", "1", queue="f", created=2),
             group("c", "1", created=3)],
            {"a": RESOURCES, "b": "", "c": "Inqueue"}, id="the first group blocks only its own queue",
        ),
        pytest.param(
            [group("a", "1", queue="f", created=1), group("b", "9", queue="f", created=2),
             group("c", "1", queue="f", created=3)],
            {"a": "Inqueue", "b": RESOURCES, "c": ""}, id="the second group becomes the first",
        ),
    ],
)  # fmt: skip
def test_dequeue_strategy_fifo(groups: list[Json], want: dict[str, str]) -> None:
    here = world({"queues": [{"name": "default"}, FIFO], "podGroups": groups})
    here.session()
    phases = {name: "" if phase == "Pending" else phase for name, phase in group_states(here).items()}
    assert phases == want


def test_a_first_group_in_back_off_blocks_its_queue() -> None:
    here = world({"queues": [FIFO], "podGroups": [group("a", "4", queue="f", created=1, **INQUEUE)]})
    here.do("addPods", [{"name": "web", "cpu": 1, "node": "n1", "phase": "Running"}])
    here.do("addPodGroups", [group("b", "1", queue="f", created=2)])
    here.session()
    here.do("deletePods", ["web"])
    here.session()
    assert group_states(here) == {"a": RESOURCES, "b": "Pending"}
    here.do("advance", 10)
    here.session()
    assert group_states(here) == {"a": "Inqueue", "b": RESOURCES}


def test_fair_order_evaluates_groups_in_queue_order_and_job_order() -> None:
    given = {
        "priorityClasses": {"high": 9},
        "queues": [{"name": "q1", "created": 1}, {"name": "q2", "created": 2}],
        "podGroups": [
            group("a", "2", queue="q2", created=1),
            group("b", "2", queue="q1", created=2),
            group("c", "2", queue="q1", created=3, priorityClassName="high"),
        ],
    }
    fair = world(given, "priority", order="fair")
    fair.session()
    assert group_states(fair) == {"a": RESOURCES, "b": "Inqueue", "c": "Inqueue"}
    fcfs = world(given, "priority")
    fcfs.session()
    assert group_states(fcfs) == {"a": "Inqueue", "b": "Inqueue", "c": RESOURCES}


@pytest.mark.parametrize(
    ("factor", "cpu", "want"),
    [
        ("1.5", "6", "Inqueue"),
        ("1.5", "6001m", RESOURCES),
        ("0.5", "2", "Inqueue"),
        ("0.333", "1333m", RESOURCES),
    ],
)
def test_the_idle_factor(factor: str, cpu: str, want: str) -> None:
    here = world({"podGroups": [group("a", cpu)]}, idle_factor=factor)
    here.session()
    assert group_states(here) == {"a": want}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(
            {"podGroups": [group("a", "9")]},
            "cluster: cpu: need 9, have 4 now and 4 at most, so it can never fit", id="more than the cluster",
        ),
        pytest.param(
            {"podGroups": [group("a", "4"), group("r", "3", **INQUEUE)]},
            "cluster: cpu: need 4, have 1 now", id="more than is left",
        ),
        pytest.param(
            {"podGroups": [group("a", "2")], "quotas": [rq({"requests.cpu": 1})]},
            "quota rq: requests.cpu: need 2, have 1 now and 1 at most, so it can never fit",
            id="more than the quota",
        ),
        pytest.param(
            {"podGroups": [group("a")], "queues": [{"name": "default", "maxPodGroups": 0}]},
            "queue default holds 0 active pod groups, 0 at most, so it can never fit",
            id="a queue that allows no groups",
        ),
    ],
)  # fmt: skip
def test_the_message_of_a_refusal_has_all_amounts(given: Json, want: str) -> None:
    here = world(given)
    here.session()
    assert message(here, "a") == want


@pytest.mark.parametrize(
    ("cpu", "want"),
    [
        ("7", "cluster: cpu: need 7, have 3 now and 6 at most (4 without overcommit), so it can never fit"),
        ("4", "cluster: cpu: need 4, have 3 now (1 without overcommit)"),
    ],
)
def test_a_message_has_the_capacity_without_the_idle_factor_beside_that_with_it(cpu: str, want: str) -> None:
    groups = [group("a", cpu), group("r", "3", **INQUEUE)]
    here = world({"podGroups": groups}, idle_factor="1.5")
    here.session()
    assert message(here, "a") == want


# How long a group may wait.

LATE = {"annotations": {"volcano.sh/sla-waiting-time": "1m"}}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({"podGroups": [group("a", "9", created=940, **LATE)]}, "Inqueue",
            id="after the waiting time"),
        pytest.param({"podGroups": [group("a", "9", created=941, **LATE)]}, RESOURCES,
            id="before the waiting time"),
        pytest.param(
            {"podGroups": [group("a", "9", created=1, **LATE)], "quotas": [rq({"cpu": 8})]}, QUOTA,
            id="the quota still holds",
        ),
        pytest.param(
            {"podGroups": [group("a", "9", created=1, **LATE)],
             "queues": [{"name": "default", "maxPodGroups": 0}]},
            LIMIT, id="the pod group limit still holds",
        ),
        pytest.param(
            {"podGroups": [group("a", "9", created=1, **LATE)],
             "queues": [{"name": "default", "state": "Closed"}]},
            "QueueNotOpen", id="a closed queue still refuses",
        ),
    ],
)  # fmt: skip
def test_an_overdue_group_needs_no_node_resources(given: Json, want: str) -> None:
    here = world(given, "sla")
    outcome = here.session()
    assert group_states(here) == {"a": want}
    here.session()
    assert group_states(here) == {"a": want}, "and it is not sent back for lack of room"
    if want == RESOURCES:
        assert outcome.wake_at == here.now + 1
