"""What those who ask are told about a workload that waits."""

import pytest

from quorate.api.meta import Key
from quorate.queueing.explain import QuotaHolder, explain
from quorate.quota.amount import FlavorResource
from tests.queueing.notation import Json
from tests.queueing.world import World

CPU = FlavorResource("default", "cpu")


def a_world(**changes: object) -> World:
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {
                "a": {"cohort": "c", "quota": [{"default": {"cpu": 4}}], **changes},
                "b": {"cohort": "c", "quota": [{"default": {"cpu": 4}}]},
            },
            "workloads": [
                {"name": "mine", "queue": "a", "requests": {"cpu": 2}, "admitted": "default"},
                {"name": "theirs", "queue": "b", "requests": {"cpu": 5}, "admitted": "default"},
                {"name": "first", "queue": "a", "created": 1, "requests": {"cpu": 3}},
                {"name": "second", "queue": "a", "created": 2, "requests": {"cpu": 4}},
                {"name": "huge", "queue": "a", "created": 3, "requests": {"cpu": 9}},
            ],
        }
    )
    world.run({"cycle": 3})
    return world


def test_who_is_ahead_and_who_holds_what_it_lacks() -> None:
    explanation = explain(a_world().state, Key("default", "second"))
    assert explanation is not None
    assert explanation.hold is not None
    assert explanation.hold.message.endswith(
        "insufficient unused quota for cpu in flavor default, 3 more needed"
    )
    assert not explanation.can_never_fit
    assert (explanation.ahead, explanation.first_ahead) == (1, (Key("default", "first"),))
    assert explanation.holders == (
        QuotaHolder(Key("default", "theirs"), "b", CPU, 5000, evicted=False),
        QuotaHolder(Key("default", "mine"), "a", CPU, 2000, evicted=False),
    )


def test_what_can_never_fit_is_told_so_and_nobody_is_blamed() -> None:
    explanation = explain(a_world().state, Key("default", "huge"))
    assert explanation is not None
    assert explanation.can_never_fit
    assert explanation.holders == ()


@pytest.mark.parametrize(
    ("waits", "never"),
    [
        pytest.param({"requests": {"cpu": 8}}, False, id="others may finish"),
        pytest.param({"requests": {"cpu": 9}}, True, id="more than there is"),
        pytest.param({"count": 9, "minCount": 8}, False, id="fewer pods may do"),
        pytest.param({"count": 10, "minCount": 9}, True, id="even the fewest are too many"),
        pytest.param({"nodeSelector": {"type": "other"}}, True, id="no flavor has such nodes"),
        pytest.param({"requests": {"memory": 1}}, True, id="a resource that is not covered"),
    ],
)
def test_can_never_fit(waits: Json, never: bool) -> None:
    pod_set = {"requests": {"cpu": 1}, **waits}
    world = World(
        {
            "flavors": {"default": {"nodeLabels": {"type": "plain"}}},
            "clusterQueues": {"a": {"quota": [{"default": {"cpu": 8}}]}},
            "workloads": [
                {"name": "busy", "queue": "a", "requests": {"cpu": 8}, "admitted": "default"},
                {"name": "waits", "queue": "a", "podSets": [pod_set]},
            ],
        }
    )
    world.run("cycle")
    used = dict(world.node("a").usage)
    explanation = explain(world.state, Key("default", "waits"))
    assert explanation is not None
    assert explanation.can_never_fit is never
    assert world.node("a").usage == used


def test_a_flavor_passed_over_this_time_may_still_serve() -> None:
    """Who lost a race goes on with the next flavor, here one that is too small for it."""
    world = World(
        {
            "flavors": ["one", "two"],
            "clusterQueues": {
                "a": {"cohort": "c", "quota": [{"one": {"cpu": 0}}, {"two": {"cpu": 1}}]},
                "b": {"cohort": "c", "quota": [{"one": {"cpu": 0}}, {"two": {"cpu": 0}}]},
                "pool": {"cohort": "c", "quota": [{"one": {"cpu": 4}}, {"two": {"cpu": 0}}]},
            },
            "workloads": [
                {"name": "winner", "queue": "a", "priority": 1, "requests": {"cpu": 3}},
                {"name": "loser", "queue": "b", "requests": {"cpu": 3}},
            ],
        }
    )
    world.run({"cycle": 2})
    explanation = explain(world.state, Key("default", "loser"))
    assert explanation is not None
    assert explanation.hold is not None
    assert "maximum capacity (1)" in explanation.hold.message
    assert not explanation.can_never_fit


def test_a_queue_that_takes_nothing_is_the_reason_before_any_quota() -> None:
    explanation = explain(a_world(stopPolicy="Hold").state, Key("default", "second"))
    assert explanation is not None
    assert explanation.hold is not None
    assert (explanation.hold.condition_reason, explanation.hold.message) == (
        "Inadmissible",
        "ClusterQueue a is inactive",
    )


def test_who_does_not_wait_needs_no_explanation() -> None:
    assert explain(a_world().state, Key("default", "mine")) is None
