"""Which groups are admitted, which go back to wait, and why, in profile ``design``.

The cluster of a case is one node of 4 cpus unless it says otherwise.
"""

import tracemalloc
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.volcano import UNSCHEDULABLE
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of

Json = dict[str, Any]


def world(given: Mapping[str, Any], *plugins: Any, restarting: bool = False, **arguments: Any) -> World:
    """``arguments`` are those of the action, with "_" for "-"."""
    told = {name.replace("_", "-"): value for name, value in arguments.items()}
    conf = {"actions": "enqueue", "tiers": [["gang", *plugins]], "configurations": {"enqueue": told}}
    return World(
        {"nodes": [{"name": "n1", "cpu": 4}], **given}, settings_of(conf, "design"), restarting=restarting
    )


def group(name: str, cpu: str | None = None, **given: Any) -> Json:
    """``cpu``: of its minResources."""
    least = {} if cpu is None else {"minResources": {"cpu": cpu}}
    return {"name": name, "minMember": 1, **least, **given}


def pod(of: str, name: str = "", cpu: str = "1", **given: Any) -> Json:
    return {"name": name or f"{of}-0", "group": of, "cpu": cpu, **given}


def running(of: str, cpu: str = "1", **given: Any) -> Json:
    return pod(of, cpu=cpu, node="n1", phase="Running", **given)


def stands(world: World) -> dict[str, str]:
    """Of each group its phase, or the reason for which it waits."""
    found = {}
    for key, each in world.groups.items():
        reason = world.condition(str(key), UNSCHEDULABLE)
        waits = each.status.phase == "Pending"
        found[key.name] = (reason or "Pending") if waits else each.status.phase
    return found


def message(world: World, name: str) -> str:
    (condition,) = (
        each for each in world.groups[key_of(name)].status.conditions if each.type == UNSCHEDULABLE
    )
    return condition.message


ROOM, QUOTA, LIMIT = "NotEnoughResources", "NamespaceQuotaExceeded", "QueuePodGroupLimit"
RUNNING = {"phase": "Running"}
INQUEUE = {"phase": "Inqueue"}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(
            {"podGroups": [group("a", "4", created=1), group("b", "1m", created=2)]},
            {"a": "Inqueue", "b": ROOM}, id="exactly full is full",
        ),
        pytest.param(
            {"podGroups": [group("a", "5"), group("b"), group("c", "0")]},
            {"a": ROOM, "b": "Inqueue", "c": "Inqueue"}, id="who needs nothing needs no room",
        ),
        pytest.param(
            {"podGroups": [{"name": "a", "minResources": {}}]}, {"a": "Inqueue"}, id="nothing at all is named"
        ),
        pytest.param(
            {"podGroups": [{"name": "a", "minResources": {"cpu": 1, "pods": 500}}]},
            {"a": "Inqueue"}, id="places for pods are not reserved",
        ),
        pytest.param(
            {"podGroups": [{"name": "a", "minResources": {"cpu": 1, "nvidia.com/gpu": 1}}]},
            {"a": ROOM}, id="what no node has",
        ),
        pytest.param(
            {"podGroups": [group("a", "2")], "pods": [{"name": "web", "cpu": 3, "node": "n1", **RUNNING}]},
            {"a": ROOM}, id="pods of others use room",
        ),
        pytest.param(
            {
                "podGroups": [group("a", "2")],
                "pods": [{"name": "web", "cpu": 3, "node": "n1", "deleting": True, **RUNNING}],
            },
            {"a": "Inqueue"}, id="what is being given back is free",
        ),
        pytest.param(
            {"podGroups": [group("r", "3", **RUNNING), group("a", "1"), group("b", "1")],
             "pods": [running("r")]},
            {"r": "Running", "a": "Inqueue", "b": ROOM}, id="a running group keeps reserving what it lacks",
        ),
        pytest.param(
            {
                "podGroups": [group("r", "3", **RUNNING), group("a", "3")],
                "pods": [running("r"), pod("r", "r-1", phase="Succeeded"), pod("r", "r-2", phase="Failed")],
            },
            {"r": "Running", "a": "Inqueue"}, id="members that are done consumed their part",
        ),
        pytest.param(
            {
                "podGroups": [group("r", "3", minMember=2, **RUNNING), group("a", "2")],
                "pods": [running("r"), running("r", name="r-1", cpu="2", deleting=True)],
            },
            {"r": "Unknown", "a": ROOM}, id="the place of a member that leaves is kept for the next",
        ),
        pytest.param(
            {
                "podGroups": [group("r", "1", **RUNNING), group("a", "1")],
                "pods": [running("r", name=f"r-{i}") for i in range(3)],
            },
            {"r": "Running", "a": "Inqueue"}, id="who has more than it claims claims no more",
        ),
        pytest.param(
            {"podGroups": [group("r", "9", **RUNNING), group("a", "1")]},
            {"r": "Pending", "a": ROOM}, id="who lost all its members had started",
        ),
        pytest.param(
            {"podGroups": [group("c", "4", phase="Completed"), group("a", "4")],
             "pods": [pod("c", phase="Succeeded")]},
            {"c": "Completed", "a": "Inqueue"}, id="what is complete claims nothing",
        ),
        pytest.param(
            {"podGroups": [group("a", "4")], "pods": [pod("a", "a-0", "4")]},
            {"a": "Inqueue"}, id="pods that were made too early change nothing",
        ),
        pytest.param(
            {"podGroups": [group("a", "3", minMember=2)], "pods": [pod("a", "a-0", "3", node="n1")]},
            {"a": "Inqueue"}, id="room that its pods have already is not asked for twice",
        ),
        pytest.param(
            {"queues": [{"name": "default", "state": "Closed"}], "podGroups": [group("a"), group("b", "1")]},
            {"a": "QueueNotOpen", "b": "QueueNotOpen"}, id="the queue is closed",
        ),
        pytest.param(
            {"queues": [{"name": "q"}], "podGroups": [group("a", queue="q"), group("b", queue="gone")]},
            {"a": "Inqueue", "b": ""}, id="without its queue a group is not looked at",
        ),
    ],
)  # fmt: skip
def test_room(given: Json, want: dict[str, str]) -> None:
    here = world(given)
    here.session()
    assert stands(here) == want


def rq(hard: Json, used: Json | None = None, name: str = "rq", **given: Any) -> Json:
    return {"name": name, "hard": hard, "used": used or {}, **given}


def scoped(scope: str, operator: str = "Exists", *values: str) -> Json:
    expression = {"scopeName": scope, "operator": operator, "values": list(values)}
    return {"scopeSelector": {"matchExpressions": [expression]}}


def asking(name: str, **least: Any) -> Json:
    """Of the quota only: the node has no part in it."""
    named = {resource.replace("__", "/").replace("_", "."): amount for resource, amount in least.items()}
    return {"name": name, "minMember": 1, "minResources": named}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(
            {"quotas": [rq({"cpu": 4}, {"cpu": 2})], "podGroups": [group("a", "3"), group("b", "2")]},
            {"a": QUOTA, "b": "Inqueue"}, id="used and hard",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 4})], "podGroups": [group("r", "3", **INQUEUE), group("a", "2")]},
            {"r": "Inqueue", "a": ROOM}, id="room is asked for first",
        ),
        pytest.param(
            {"quotas": [rq({"requests.cpu": 4}, {"requests.cpu": 2})],
             "podGroups": [group("a", "3"), group("b", "2")]},
            {"a": QUOTA, "b": "Inqueue"}, id="requests.cpu is cpu",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2})], "podGroups": [asking("a", cpu=1, requests_cpu=3)]},
            {"a": QUOTA}, id="of both forms the larger counts",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2, "requests.cpu": 1})], "podGroups": [group("a", "2"), group("b", "1")]},
            {"a": QUOTA, "b": "Inqueue"}, id="both limits hold",
        ),
        pytest.param(
            {"quotas": [rq({"limits.cpu": 2})],
             "podGroups": [group("a", "3"), asking("b", limits_cpu=3), asking("c", limits_cpu=2)]},
            {"a": "Inqueue", "b": QUOTA, "c": "Inqueue"}, id="limits are limits",
        ),
        pytest.param(
            {"quotas": [rq({"pods": 2, "count/pods": 4}, {"pods": 1})],
             "podGroups": [asking("a", pods=2), asking("b", pods=1), asking("c", pods=1)]},
            {"a": QUOTA, "b": "Inqueue", "c": QUOTA}, id="pods are counted by quotas",
        ),
        pytest.param(
            {"quotas": [rq({"count/pods": 2})],
             "podGroups": [asking("a", count__pods=3), asking("b", pods=3)]},
            {"a": QUOTA, "b": "Inqueue"}, id="count/pods is another limit",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 9}, name="b"), rq({"memory": "1Gi"}, name="a")],
             "podGroups": [asking("a", cpu=1, memory="2Gi"), asking("b", cpu=1, memory="1Gi")]},
            {"a": QUOTA, "b": "Inqueue"}, id="each quota must allow it",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 1}, namespace="other")], "podGroups": [group("a", "2")]},
            {"a": "Inqueue"}, id="of another namespace",
        ),
        pytest.param(
            {"podGroups": [group("a", "2")],
             "quotas": [rq({"cpu": 1}, name=name, scopes=[name]) for name in ("Terminating", "BestEffort")]},
            {"a": "Inqueue"}, id="quotas of other kinds of pods",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 1}, scopes=["NotTerminating", "NotBestEffort"])],
             "podGroups": [group("a", "2")]},
            {"a": QUOTA}, id="quotas of what groups are taken for",
        ),
        pytest.param(
            {"priorityClasses": {"high": 9},
             "quotas": [rq({"cpu": 1}, **scoped("PriorityClass", "In", "high"))],
             "podGroups": [group("a", "2"), group("b", "2", priorityClassName="high")]},
            {"a": "Inqueue", "b": QUOTA}, id="a quota of a class",
        ),
        pytest.param(
            {"priorityClasses": {"high": 9},
             "quotas": [rq({"cpu": 3}, **scoped("PriorityClass", "In", "high"))],
             "podGroups": [group("r", "2", created=1, **INQUEUE),
                           group("a", "2", created=2, priorityClassName="high")]},
            {"r": "Inqueue", "a": "Inqueue"}, id="others' claims are not reserved of a quota of a class",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 1}, scopes=["CrossNamespacePodAffinity"])],
             "podGroups": [group("a", "2")]},
            {"a": "Inqueue"}, id="a quota nobody can evaluate is ignored",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2}, {"cpu": 2})], "podGroups": [group("a", "2", minMember=2)],
             "pods": [pod("a", "a-0"), pod("a", "a-1")]},
            {"a": "Inqueue"}, id="its own pods are used already and count once",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2}, {"cpu": 1})],
             "podGroups": [group("a", "2", minMember=2, created=1, **INQUEUE), group("b", "1", created=2)],
             "pods": [pod("a", "a-0")]},
            {"a": "Inqueue", "b": QUOTA}, id="a group half made is kept, and keeps the rest reserved",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2}, {"cpu": 2})], "podGroups": [group("c", "4", phase="Completed"),
                                                                  group("a", "0")],
             "pods": [pod("c", phase="Succeeded")]},
            {"c": "Completed", "a": "Inqueue"}, id="exactly used up is not exceeded",
        ),
        pytest.param(
            {"quotas": [rq({"cpu": 2}, {"cpu": 3})],
             "podGroups": [group("a", "0"), asking("b", memory="1Gi")]},
            {"a": QUOTA, "b": "Inqueue"}, id="what is exceeded already allows not even nothing",
        ),
    ],
)  # fmt: skip
def test_quota(given: Json, want: dict[str, str]) -> None:
    here = world(given)
    here.session()
    assert stands(here) == want


def test_quota_can_be_left_to_others() -> None:
    here = world({"quotas": [rq({"cpu": 1})], "podGroups": [group("a", "2")]}, check_quota=False)
    here.session()
    assert stands(here) == {"a": "Inqueue"}


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
            {"done": "Pending", "a": "Inqueue"}, id="only active groups count",
        ),
        pytest.param(
            [{"name": "q", "maxPodGroups": 1}],
            [group(name, queue="q", phase="Inqueue") for name in "abc"],
            {"a": "Inqueue", "b": "Inqueue", "c": "Inqueue"}, id="lowering it sends nobody back",
        ),
        pytest.param(
            [{"name": "d", "maxPodGroups": 2}, {"name": "x", "parent": "d"}, {"name": "y", "parent": "d"}],
            [group("a", queue="x", created=1, **INQUEUE), group("b", queue="y", created=2),
             group("c", queue="y", created=3), group("e", queue="default", created=4)],
            {"a": "Inqueue", "b": "Inqueue", "c": LIMIT, "e": "Inqueue"}, id="of a queue above it, the sum",
        ),
        pytest.param(
            [{"name": "x", "parent": "y", "maxPodGroups": 1}, {"name": "y", "parent": "x"}],
            [group("a", queue="x", created=1), group("b", queue="y", created=2)],
            {"a": "Inqueue", "b": LIMIT}, id="queues in a circle end nowhere",
        ),
    ],
)  # fmt: skip
def test_limits_of_groups(queues: list[Json], groups: list[Json], want: dict[str, str]) -> None:
    here = world({"queues": [{"name": "default"}, *queues], "podGroups": groups})
    here.session()
    assert stands(here) == want


FIFO = {"name": "f", "dequeueStrategy": "fifo"}


@pytest.mark.parametrize(
    ("groups", "want"),
    [
        pytest.param(
            [group("a", "9", queue="f", created=1), group("b", "1", queue="f", created=2),
             group("c", "1", created=3)],
            {"a": ROOM, "b": "", "c": "Inqueue"}, id="the head blocks its own queue only",
        ),
        pytest.param(
            [group("a", "1", queue="f", created=1), group("b", "9", queue="f", created=2),
             group("c", "1", queue="f", created=3)],
            {"a": "Inqueue", "b": ROOM, "c": ""}, id="the second becomes the head",
        ),
    ],
)  # fmt: skip
def test_first_in_first_out(groups: list[Json], want: dict[str, str]) -> None:
    here = world({"queues": [{"name": "default"}, FIFO], "podGroups": groups})
    here.session()
    phases = {name: "" if phase == "Pending" else phase for name, phase in stands(here).items()}
    assert phases == want


def test_a_head_in_back_off_blocks_its_queue() -> None:
    here = world({"queues": [FIFO], "podGroups": [group("a", "4", queue="f", created=1, **INQUEUE)]})
    here.do("addPods", [{"name": "web", "cpu": 1, "node": "n1", "phase": "Running"}])
    here.do("addPodGroups", [group("b", "1", queue="f", created=2)])
    here.session()
    here.do("deletePods", ["web"])
    here.session()
    assert stands(here) == {"a": ROOM, "b": "Pending"}
    here.do("advance", 10)
    here.session()
    assert stands(here) == {"a": "Inqueue", "b": ROOM}


def test_fair_order_asks_queues_in_their_order_and_groups_in_theirs() -> None:
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
    assert stands(fair) == {"a": ROOM, "b": "Inqueue", "c": "Inqueue"}
    fcfs = world(given, "priority")
    fcfs.session()
    assert stands(fcfs) == {"a": "Inqueue", "b": "Inqueue", "c": ROOM}


@pytest.mark.parametrize(
    ("factor", "cpu", "want"),
    [("1.5", "6", "Inqueue"), ("1.5", "6001m", ROOM), ("0.5", "2", "Inqueue"), ("0.333", "1333m", ROOM)],
)
def test_the_idle_factor(factor: str, cpu: str, want: str) -> None:
    here = world({"podGroups": [group("a", cpu)]}, idle_factor=factor)
    here.session()
    assert stands(here) == {"a": want}


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
            "queue default holds 0 active pod groups, 0 at most", id="a queue that takes none",
        ),
    ],
)  # fmt: skip
def test_a_refusal_says_what_would_have_been_enough(given: Json, want: str) -> None:
    here = world(given)
    here.session()
    assert message(here, "a") == want


# Going back.


@pytest.mark.parametrize("restarting", [False, True])
def test_each_further_roll_back_doubles_the_back_off_up_to_a_limit(restarting: bool) -> None:
    here = world(
        {"podGroups": [group("a", "4")]}, restarting=restarting, requeue_backoff_max=25, inqueue_timeout="0"
    )
    waits = []
    for _ in range(4):
        here.session()
        assert stands(here) == {"a": "Inqueue"}
        here.do("removeNodes", ["n1"])
        began = here.now
        outcome = here.session()
        assert stands(here) == {"a": ROOM}
        here.do("addNodes", [{"name": "n1", "cpu": 4}])
        here.session()
        assert stands(here) == {"a": ROOM}
        assert outcome.wake_at is not None
        here.now = outcome.wake_at
        waits.append(here.now - began)
    assert waits == [10, 20, 25, 25]


def test_who_runs_starts_from_the_beginning() -> None:
    notes = {"scheduling.volcano.sh/requeue-attempts": "4"}
    here = world({"podGroups": [group("a", "1", annotations=notes, **INQUEUE)], "pods": [running("a")]})
    here.session()
    assert here.groups[key_of("a")].metadata.annotations == {}


@pytest.mark.parametrize("restarting", [False, True])
def test_who_gets_no_pods_in_time_goes_back(restarting: bool) -> None:
    here = world({"podGroups": [group("a", "4", minMember=2)]}, restarting=restarting, inqueue_timeout="60s")
    outcome = here.session()
    assert outcome.wake_at == here.now + 60
    here.do("advance", 59)
    here.session()
    assert stands(here) == {"a": "Inqueue"}
    here.do("advance", 1)
    here.session()
    assert stands(here) == {"a": "InqueueTimeout"}


def test_a_time_out_of_zero_is_none() -> None:
    here = world({"podGroups": [group("a", "4", minMember=2)]}, inqueue_timeout="0")
    assert here.session().wake_at is None
    here.do("advance", 10**6)
    here.session()
    assert stands(here) == {"a": "Inqueue"}


def test_who_is_inqueue_since_nobody_knows_when_has_its_time_from_now_on() -> None:
    here = world({"podGroups": [group("a", "1", minMember=2, **INQUEUE)]})
    assert here.session().wake_at == here.now + 300
    assert here.groups[key_of("a")].metadata.annotations["scheduling.volcano.sh/inqueue-since"]


SINCE = {"annotations": {"scheduling.volcano.sh/inqueue-since": "1970-01-01T00:00:00Z"}, **INQUEUE}


@pytest.mark.parametrize(
    ("pods", "conditions", "want"),
    [
        pytest.param([pod("a"), pod("a", "a-1")], [], "Inqueue", id="all are there and nothing is wrong"),
        pytest.param([pod("a")], [], "InqueueTimeout", id="one is missing"),
        pytest.param([pod("a"), pod("a", "a-1", deleting=True)], [], "InqueueTimeout", id="one is leaving"),
        pytest.param(
            [pod("a"), pod("a", "a-1")], [{"type": "Unschedulable", "status": "True"}], "InqueueTimeout",
            id="they fit nowhere",
        ),
        pytest.param(
            [pod("a"), pod("a", "a-1")], [{"type": "Unschedulable", "status": "False"}], "Inqueue",
            id="they did not, once",
        ),
        pytest.param([pod("a", nominated="n1")], [], "Inqueue", id="others are evicted for one"),
        pytest.param([pod("a", cpu="5", nominated="n1")], [], "InqueueTimeout", id="in vain"),
        pytest.param([pod("a", nominated="n9")], [], "InqueueTimeout", id="on a node that is gone"),
        pytest.param([pod("a"), running("a", name="a-1")], [], "Unknown", id="one runs"),
        pytest.param([pod("a"), pod("a", "a-1", phase="Failed")], [], "Inqueue", id="one is over"),
        pytest.param(
            [pod("a"), pod("a", "a-1", node="n1", deleting=True)], [], "Inqueue", id="one leaves its node"
        ),
    ],
)  # fmt: skip
def test_a_group_that_started_or_may_yet_is_not_sent_back(
    pods: list[Json], conditions: list[Json], want: str
) -> None:
    here = world({"podGroups": [group("a", "2", minMember=2, **SINCE)], "pods": pods})
    if conditions:
        key = key_of("a")
        status = msgspec.convert(
            {"phase": "Inqueue", "conditions": conditions}, type(here.groups[key].status)
        )
        here.put_group(msgspec.structs.replace(here.groups[key], status=status))
    here.session()
    phase = here.phase("a")
    assert (phase if phase != "Pending" else stands(here)["a"]) == want


def test_who_is_sent_back_makes_room_at_once() -> None:
    here = world(
        {"podGroups": [group("a", "4", minMember=2, created=1, **SINCE), group("b", "4", created=2)]}
    )
    here.session()
    assert stands(here) == {"a": "InqueueTimeout", "b": "Inqueue"}


def test_who_is_sent_back_is_not_let_in_again_in_the_same_session() -> None:
    here = world({"podGroups": [group("a", "4", minMember=2, **SINCE)]}, requeue_backoff_base="0")
    here.session()
    assert stands(here) == {"a": "InqueueTimeout"}
    here.session()
    assert stands(here) == {"a": "Inqueue"}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (("setQueue", {"name": "default", "state": "Closed"}), "QueueNotOpen"),
        (("setQuota", {"name": "rq", "used": {"cpu": "3"}}), QUOTA),
        (("setQuota", {"name": "rq", "hard": {"cpu": "1"}}), QUOTA),
        (("removeNodes", ["n1"]), ROOM),
        (("addPods", [{"name": "web", "cpu": 3, "node": "n1", "phase": "Running"}]), ROOM),
        (("setQueue", {"name": "default", "maxPodGroups": 0}), "Inqueue"),
    ],
)
def test_what_was_promised_can_be_lost(change: tuple[str, Any], want: str) -> None:
    here = world(
        {"quotas": [rq({"cpu": 4})], "podGroups": [group("a", "2")], "queues": [{"name": "default"}]}
    )
    here.session()
    assert stands(here) == {"a": "Inqueue"}
    here.do(*change)
    here.session()
    assert stands(here) == {"a": want}


def test_the_older_one_is_kept() -> None:
    groups = [
        group(name, "2", created=created, **INQUEUE) for name, created in (("b", 1), ("a", 2), ("c", 3))
    ]
    here = world({"podGroups": groups})
    here.session()
    assert stands(here) == {"b": "Inqueue", "a": "Inqueue", "c": ROOM}


def test_a_group_made_again_starts_afresh() -> None:
    here = world({"podGroups": [group("a", "4", minMember=2, **SINCE)]})
    here.session()
    here.do("deletePodGroups", ["a"])
    here.do("addPodGroups", [group("a", "4")])
    here.session()
    assert stands(here) == {"a": "Inqueue"}


def test_a_group_that_is_being_deleted_claims_nothing_and_is_not_admitted() -> None:
    here = world({"podGroups": [group("a", "4", **INQUEUE), group("w", "0"), group("b", "4")]})
    for name in ("a", "w"):
        leaving = here.groups[key_of(name)]
        metadata = msgspec.structs.replace(
            leaving.metadata, deletion_timestamp=leaving.metadata.creation_timestamp
        )
        here.put_group(msgspec.structs.replace(leaving, metadata=metadata))
    here.session()
    assert stands(here) == {"a": "Inqueue", "w": "Pending", "b": "Inqueue"}


# Telling.


def test_what_happens_is_told_once_in_a_while() -> None:
    here = world(
        {"podGroups": [group("a", "4", minMember=2)]}, inqueue_timeout="10s", requeue_backoff_max="10s"
    )

    def notices() -> list[tuple[str, str, str]]:
        told: list[tuple[str, str, str]] = [
            (each.type, each.reason, each.message) for each in here.session().notices
        ]
        here.do("advance", 10)
        return told

    assert notices() == [("Normal", "Inqueue", "admitted")]
    assert notices() == [
        ("Warning", "RolledBack", "InqueueTimeout; next attempt not before 1970-01-01T00:17:00.000000Z")
    ]
    assert [notices() for _ in range(28)] == [[]] * 28
    assert [reason for _, reason, _ in notices()] == ["Inqueue"]


def test_nothing_is_written_for_who_waits_as_before() -> None:
    here = world({"podGroups": [group(name, "4") for name in "abcd"]})
    assert len(here.session().statuses) == 4
    here.do("advance", 100)
    outcome = here.session()
    assert (outcome.statuses, outcome.notices) == ((), ())
    assert {key.name for key in outcome.verdicts} == {"b", "c", "d"}


# What preempt can take is lent.


def lent(
    *groups: Json, pods: list[Json], evict_overused: bool = True, actions: str = "enqueue, preempt"
) -> World:
    conf = {
        "actions": actions,
        "tiers": [["priority", "gang", "conformance", "predicates"]],
        "configurations": {"preempt": {"evict-overused": evict_overused}},
    }
    given = {
        "priorityClasses": {"high": 9, "low": 1},
        "queues": [{"name": "default"}, {"name": "other"}],
        "nodes": [{"name": "n1", "cpu": 4}],
        "podGroups": groups,
        "pods": pods,
    }
    return World(given, settings_of(conf, "design"), restarting=False)


def fat(cpu: str = "2", least: int = 2, **given: Any) -> Json:
    return group("fat", cpu, minMember=least, created=0, **RUNNING, **given)


HIGH = {"priorityClassName": "high"}
FOUR = [running("fat", name=f"fat-{index}") for index in range(4)]


@pytest.mark.parametrize(
    ("here", "want"),
    [
        pytest.param(lent(fat(), group("a", "2", created=1), pods=FOUR), {"a": "Inqueue"}, id="the surplus"),
        pytest.param(lent(fat(), group("a", "3", created=1), pods=FOUR), {"a": ROOM}, id="and no more"),
        pytest.param(
            lent(fat(), group("a", "1", created=1), group("b", "1", created=2), group("c", "1", created=3),
                 pods=FOUR),
            {"a": "Inqueue", "b": "Inqueue", "c": ROOM}, id="once, however many wait",
        ),
        pytest.param(
            lent(fat(least=3), group("a", "2", created=1), pods=FOUR), {"a": ROOM}, id="not below its minimum"
        ),
        pytest.param(
            lent(fat("3"), group("a", "2", created=1), pods=FOUR), {"a": ROOM}, id="nor its minResources"
        ),
        pytest.param(
            lent({"name": "fat", "minMember": 2, **RUNNING}, group("a", "2", created=1), pods=FOUR),
            {"a": ROOM}, id="without minResources there is no surplus",
        ),
        pytest.param(
            lent(fat(queue="other"), group("a", "2", created=1), pods=FOUR), {"a": ROOM}, id="of its queue"
        ),
        pytest.param(
            lent(fat(priorityClassName="high"), group("a", "2", created=1), pods=FOUR),
            {"a": ROOM}, id="not of the more important",
        ),
        pytest.param(
            lent(fat(priorityClassName="low"), group("a", "2", created=1, **HIGH), pods=FOUR),
            {"a": "Inqueue"}, id="of the less important",
        ),
        pytest.param(
            lent(fat(), group("a", "2", created=1), pods=[{**each, "preemptable": False} for each in FOUR]),
            {"a": ROOM}, id="not what may not be evicted",
        ),
        pytest.param(
            lent(fat(), group("a", "2", created=1), pods=FOUR, evict_overused=False),
            {"a": ROOM}, id="not if preempt does not take it",
        ),
        pytest.param(
            lent(fat(), group("a", "2", created=1), pods=FOUR, actions="enqueue"),
            {"a": ROOM}, id="nor if it is not there",
        ),
        pytest.param(
            lent(fat(), {"name": "a", "created": 1, "minResources": {"memory": "99Ti"}}, pods=FOUR),
            {"a": ROOM}, id="nothing of what it has not",
        ),
    ],
)  # fmt: skip
def test_surplus_is_lent(here: World, want: dict[str, str]) -> None:
    here.session()
    assert {name: stand for name, stand in stands(here).items() if name != "fat"} == want


def test_surplus_of_several_groups_adds_up() -> None:
    thin = group("thin", "1", minMember=1, created=0, **RUNNING)
    pods = [*FOUR[:3], running("thin", name="thin-0"), running("thin", name="thin-1")]
    here = lent(fat("1", 1), thin, group("a", "3", created=1), group("b", "1", created=2), pods=pods)
    here.do("addNodes", [{"name": "n2", "cpu": 1}])
    here.session()
    found = stands(here)
    assert (found["a"], found["b"]) == ("Inqueue", ROOM)


# How long a group may wait.

LATE = {"annotations": {"volcano.sh/sla-waiting-time": "1m"}}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param({"podGroups": [group("a", "9", created=940, **LATE)]}, "Inqueue", id="time is over"),
        pytest.param({"podGroups": [group("a", "9", created=941, **LATE)]}, ROOM, id="not yet"),
        pytest.param(
            {"podGroups": [group("a", "9", created=1, **LATE)], "quotas": [rq({"cpu": 8})]}, QUOTA,
            id="quota holds all the same",
        ),
        pytest.param(
            {"podGroups": [group("a", "9", created=1, **LATE)],
             "queues": [{"name": "default", "maxPodGroups": 0}]},
            LIMIT, id="and the limit of groups",
        ),
        pytest.param(
            {"podGroups": [group("a", "9", created=1, **LATE)],
             "queues": [{"name": "default", "state": "Closed"}]},
            "QueueNotOpen", id="and a closed queue",
        ),
    ],
)  # fmt: skip
def test_who_has_waited_long_enough_needs_no_room(given: Json, want: str) -> None:
    here = world(given, "sla")
    outcome = here.session()
    assert stands(here) == {"a": want}
    here.session()
    assert stands(here) == {"a": want}, "and it is not sent back for lack of room"
    if want == ROOM:
        assert outcome.wake_at == here.now + 1


# Laws.


def _asked(draw: st.DrawFn, name: str) -> Json:
    least = draw(st.none() | st.integers(0, 5))
    phase = draw(st.sampled_from(["", "Pending", "Inqueue", "Running"]))
    given: Json = {"created": draw(st.integers(0, 3)), "queue": draw(st.sampled_from(["default", "f"]))}
    return group(name, None if least is None else str(least), phase=phase, **given)


@st.composite
def crowds(draw: st.DrawFn) -> Json:
    groups = [_asked(draw, name) for name in "abcdefg"[: draw(st.integers(1, 7))]]
    pods = [
        running(each["name"], str(draw(st.integers(0, 2)))) for each in groups if each["phase"] == "Running"
    ]
    quotas = [rq({"cpu": draw(st.integers(0, 12))}), rq({"requests.cpu": draw(st.integers(0, 12))}, name="b")]
    queues = [{"name": "default", "maxPodGroups": draw(st.integers(0, 5))}, FIFO]
    nodes = [{"name": f"n{index}", "cpu": draw(st.integers(1, 4))} for index in range(1, 4)]
    return {"podGroups": groups, "pods": pods, "quotas": quotas, "queues": queues, "nodes": nodes}


@given(crowd=crowds(), order=st.randoms(use_true_random=False))
def test_the_order_in_which_objects_are_told_changes_nothing(crowd: Json, order: Any) -> None:
    shuffled = {kind: order.sample(objects, len(objects)) for kind, objects in crowd.items()}
    here, there = world(crowd, "proportion"), world(shuffled, "proportion")
    assert here.session() == there.session()
    assert stands(here) == stands(there)


@given(crowd=crowds())
def test_nobody_is_admitted_who_would_be_sent_back_at_once(crowd: Json) -> None:
    here = world(crowd)
    here.session()
    admitted = {key for key, each in here.groups.items() if each.status.phase == "Inqueue"}
    here.session()
    assert {key for key in admitted if here.groups[key].status.phase == "Pending"} == set()


@given(crowd=crowds())
def test_more_room_and_quota_never_send_anybody_back(crowd: Json) -> None:
    here = world(crowd)
    here.session()
    admitted = {key for key, each in here.groups.items() if each.status.phase == "Inqueue"}
    here.do("addNodes", [{"name": "n9", "cpu": 9}])
    here.do("setQuota", {"name": "rq", "hard": {"cpu": 99}})
    here.session()
    assert {key for key in admitted if here.groups[key].status.phase == "Pending"} == set()


def test_a_waiting_group_costs_little_memory() -> None:
    """At most 10 KiB, everything included that a session leaves behind."""
    groups = [group(f"g{index}", "9", created=index) for index in range(500)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        here = world({"podGroups": groups})
        here.session()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(here.groups) == 500
    assert taken < 500 * 10 * 1024


# As Volcano does it.


@pytest.mark.parametrize(
    ("given", "plugins", "want"),
    [
        pytest.param(
            {"quotas": [rq({"cpu": 4}, {"cpu": 1})]}, ["resourcequota"],
            "resource quota insufficient, requested: cpu=5, used: cpu=1, limited: cpu=4", id="quota",
        ),
        pytest.param({}, ["overcommit"], "resource in cluster is overused: overused cpu", id="cluster"),
        pytest.param(
            {}, ["proportion"], "queue resource quota insufficient: insufficient cpu", id="queue"
        ),
        pytest.param(
            {"queues": [{"name": "default", "state": "Closed"}]}, ["proportion"],
            "queue default is not open", id="closed",
        ),
    ],
)  # fmt: skip
def test_who_is_refused_is_told_in_the_words_that_tools_look_for(
    given: Json, plugins: list[str], want: str
) -> None:
    conf = {"actions": "enqueue", "tiers": [["gang", *plugins]]}
    objects = {"nodes": [{"name": "n1", "cpu": 4}], "podGroups": [group("a", "5")], **given}
    here = World(objects, settings_of(conf, "compat"), restarting=False)
    (notice,) = here.session().notices
    assert (notice.type, notice.reason, notice.message) == ("Normal", "Unschedulable", want)
    assert here.groups[key_of("a")].status.conditions == ()
    assert here.session().notices == ()
