"""Explanations of pending workloads."""

from itertools import islice

import pytest

from quorate.api.meta import Key
from quorate.queueing.explain import (
    PendingFacts,
    QuotaHolder,
    can_never_fit,
    first_pending,
    pending_facts,
    run,
)
from quorate.queueing.explanation.workload import explain_workload
from quorate.queueing.inadmissible_reasons import QuotaExceeded, QuotaShort
from quorate.queueing.limits import STEP
from quorate.queueing.state import State
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


def facts(state: State, key: Key) -> PendingFacts | None:
    return run(pending_facts(state, key))


def test_an_explanation_names_workloads_ahead_and_the_holders_of_the_quota() -> None:
    explanation = facts(a_world().state, Key("default", "second"))
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


def test_a_workload_that_can_never_fit_has_no_holders() -> None:
    explanation = facts(a_world().state, Key("default", "huge"))
    assert explanation is not None
    assert explanation.can_never_fit
    assert explanation.holders == ()


@pytest.mark.parametrize(
    ("requested", "admitted_later", "message", "free", "short_by"),
    [
        pytest.param(9, 0, "maximum capacity (8)", 8000, 1000, id="never fits, nothing admitted since"),
        pytest.param(9, 3, "maximum capacity (8)", 5000, 4000, id="never fits, quota taken since"),
        pytest.param(7, 3, ", 4 more needed", 3000, 4000, id="short, more quota taken since"),
    ],
)
def test_an_explanation_has_the_quota_that_is_available_now(
    requested: int, admitted_later: int, message: str, free: int, short_by: int
) -> None:
    """The workload is evaluated before others take quota, and not again afterwards."""
    held = {"name": "held", "queue": "a", "requests": {"cpu": 2}, "admitted": "default"}
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"a": {"quota": [{"default": {"cpu": 8}}]}},
            "workloads": [
                *([held] if requested < 9 else []),
                {"name": "pending", "queue": "a", "requests": {"cpu": requested}},
                {"name": "later", "queue": "a", "create": "later", "requests": {"cpu": admitted_later}},
            ],
        }
    )
    world.run({"cycle": 2})
    if admitted_later:
        world.run({"create": ["later"]})
        world.run("cycle")
    explanation = facts(world.state, Key("default", "pending"))
    assert explanation is not None
    assert explanation.hold is not None
    (reason,) = explanation.hold.reasons
    assert isinstance(reason, QuotaShort | QuotaExceeded)
    assert (reason.available, reason.short_by) == (free, short_by)
    assert explanation.hold.message.endswith(message)


@pytest.mark.parametrize(
    ("pending", "never"),
    [
        pytest.param({"requests": {"cpu": 8}}, False, id="fits once the other workload finishes"),
        pytest.param({"requests": {"cpu": 9}}, True, id="more than the quota"),
        pytest.param({"count": 9, "minCount": 8}, False, id="the minimum count fits"),
        pytest.param({"count": 10, "minCount": 9}, True, id="the minimum count does not fit"),
        pytest.param({"nodeSelector": {"type": "other"}}, True, id="no flavor has the node label"),
        pytest.param({"requests": {"memory": 1}}, True, id="a resource that is not covered"),
    ],
)
def test_can_never_fit(pending: Json, never: bool) -> None:
    pod_set = {"requests": {"cpu": 1}, **pending}
    world = World(
        {
            "flavors": {"default": {"nodeLabels": {"type": "plain"}}},
            "clusterQueues": {"a": {"quota": [{"default": {"cpu": 8}}]}},
            "workloads": [
                {"name": "busy", "queue": "a", "requests": {"cpu": 8}, "admitted": "default"},
                {"name": "pending", "queue": "a", "podSets": [pod_set]},
            ],
        }
    )
    world.run("cycle")
    used = dict(world.node("a").usage)
    explanation = facts(world.state, Key("default", "pending"))
    assert explanation is not None
    assert explanation.can_never_fit is never
    assert can_never_fit(world.state, Key("default", "pending")) is never
    assert world.node("a").usage == used


def test_a_workload_can_fit_although_its_last_search_skipped_the_flavor_that_fits() -> None:
    """``loser`` resumes after the flavor it lost to ``winner``, at one that is too small."""
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
    explanation = facts(world.state, Key("default", "loser"))
    assert explanation is not None
    assert explanation.hold is not None
    assert "maximum capacity (1)" in explanation.hold.message
    assert not explanation.can_never_fit


def test_an_inactive_queue_is_the_reason_whatever_the_quota() -> None:
    explanation = facts(a_world(stopPolicy="Hold").state, Key("default", "second"))
    assert explanation is not None
    assert explanation.hold is not None
    assert (explanation.hold.condition_reason, explanation.hold.message) == (
        "Inadmissible",
        "ClusterQueue a is inactive",
    )


@pytest.mark.parametrize(
    ("strategy", "first", "is_blocked"),
    [
        pytest.param("StrictFIFO", {"requests": {"cpu": 9}}, True, id="more than the queue can have"),
        pytest.param("StrictFIFO", {"requests": {"gpu": 1}}, True, id="a resource without quota"),
        pytest.param("StrictFIFO", {"requests": {"cpu": 4}}, False, id="fits once another has ended"),
        pytest.param("BestEffortFIFO", {"requests": {"cpu": 9}}, False, id="is passed"),
    ],
)
def test_a_workload_behind_one_that_never_fits_is_told_what_blocks_it(
    strategy: str, first: Json, is_blocked: bool
) -> None:
    workloads = [
        {"name": "runs", "queue": "a", "requests": {"cpu": 2}, "admitted": "default"},
        {"name": "first", "queue": "a", "created": 1, **first},
        {"name": "second", "queue": "a", "created": 2, "requests": {"cpu": 3}},
    ]
    queues = {"a": {"strategy": strategy, "quota": [{"default": {"cpu": 4}}]}}
    world = World({"flavors": ["default"], "clusterQueues": queues, "workloads": workloads})
    world.run({"cycle": 3})
    second = world.workloads["second"]
    found = explain_workload(world.state, second, facts(world.state, second.metadata.key))
    told = (*(found.enough), found.message)
    assert any("can never start as it is" in text for text in told) is is_blocked
    assert not is_blocked or not any("wait for the workloads ahead" in text for text in told)


def test_a_workload_that_is_not_pending_has_no_explanation() -> None:
    assert facts(a_world().state, Key("default", "mine")) is None


@pytest.mark.large
def test_a_long_queue_is_counted_in_bounded_steps() -> None:
    pending = [
        {"name": f"w{n:04}", "queue": "a", "created": n, "requests": {"cpu": 9}} for n in range(STEP + 2)
    ]
    quota = {"a": {"quota": [{"default": {"cpu": 4}}]}}
    state = World({"flavors": ["default"], "clusterQueues": quota, "workloads": pending}).state
    last = Key("default", f"w{STEP + 1:04}")
    steps = pending_facts(state, last)
    assert sum(1 for _ in steps) == 6  # after the quota, for each slice of the queue, and for remedies
    found = facts(state, last)
    assert found is not None
    assert (found.ahead, [key.name for key in found.first_ahead[:2]]) == (STEP + 1, ["w0000", "w0001"])
    assert run(first_pending(state, "a"))[0] == Key("default", "w0000")


def test_an_explanation_ends_although_its_namespace_is_deleted_between_two_of_its_steps() -> None:
    for before in range(100):
        state = a_world().state
        steps = pending_facts(state, Key("default", "second"))
        if len(list(islice(steps, before))) < before:
            break
        for workload in (*state.ledger.entries, *state.ledger.reservations):
            state.remove_workload(workload)
        for local_queue in list(state.ledger.local_queues):
            state.remove_local_queue(local_queue)
        assert not state.ledger.local_queues
        run(steps)
    assert before > 3, "each step was followed by a deletion"
