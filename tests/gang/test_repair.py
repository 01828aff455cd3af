"""A gang that stays partially bound is evicted as a whole after its time."""

from typing import Any

import pytest

from quorate.api.scheduler_configuration import SchedulerConfiguration, load_scheduler_configuration
from quorate.gang.outcome import Outcome
from tests.gang.world import World, name_of

FILE = """
profile: {profile}
actions: "{actions}"
configurations: [{{name: allocate, arguments: {{repair-within: {within}}}}}]
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {{name: nodeorder}}]
"""


WAITS = {"name": "a", "minMember": 3, "minResources": {"cpu": 3}, "phase": "Pending"}


def settings(
    profile: str = "design", within: str = "60s", actions: str = "allocate, backfill"
) -> SchedulerConfiguration:
    text = FILE.format(profile=profile, within=within, actions=actions)
    return load_scheduler_configuration(text).configuration


def enqueueing() -> SchedulerConfiguration:
    return settings(actions="enqueue, allocate, backfill")


def half_bound(phase: str = "Inqueue", **more: Any) -> dict[str, Any]:
    """Return a world where two of three members have a node and no node fits the third."""
    return {
        "nodes": [{"name": "n1", "cpu": 2}],
        "podGroups": [{"name": "a", "minMember": 3, "phase": phase}],
        "pods": [
            {"name": "a-0", "group": "a", "cpu": 1, "node": "n1", "phase": "Running"},
            {"name": "a-1", "group": "a", "cpu": 1, "node": "n1"},
            {"name": "a-2", "group": "a", "cpu": 1},
        ],
        **more,
    }


def evicted(outcome: Outcome) -> list[str]:
    assert all((each.action, each.whole) == ("repair", True) for each in outcome.evictions)
    assert all(each.beneficiary == each.gang for each in outcome.evictions)
    return [name_of(each.task) for each in outcome.evictions]


def test_the_bound_members_are_evicted_after_the_time_for_repair() -> None:
    world = World(half_bound(), settings(), restarting=False)
    outcome = world.session()
    assert (evicted(outcome), outcome.wake_at) == ([], world.now + 60)
    world.do("advance", 59.9)
    assert evicted(world.session()) == []
    world.do("advance", 0.1)
    assert evicted(world.session()) == ["a-0", "a-1"]
    assert evicted(world.session()) == []


def test_a_group_is_repaired_even_if_its_admission_was_not_written() -> None:
    """Its scheduler ended after some binds, and other pods have used the capacity since."""
    world = World(half_bound(podGroups=[WAITS]), enqueueing(), restarting=False)
    assert evicted(world.session()) == []
    world.do("advance", 60)
    assert evicted(world.session()) == ["a-0", "a-1"]


def test_a_gang_completed_in_time_keeps_its_pods_and_the_time_starts_anew() -> None:
    world = World(half_bound(), settings(), restarting=False)
    world.session()
    world.do("advance", 50)
    world.do("addNodes", [{"name": "n2", "cpu": 1}])
    assert [name_of(bind.task) for bind in world.session().binds] == ["a-2"]
    world.do("advance", 50)
    assert evicted(world.session()) == []


def test_a_restart_does_not_start_the_time_anew() -> None:
    """Each session has a model built from the objects."""
    world = World(half_bound(), settings(), restarting=True)
    for _ in range(3):
        assert evicted(world.session()) == []
        world.do("advance", 20)
    assert evicted(world.session()) == ["a-0", "a-1"]


def test_a_time_in_the_future_counts_as_now() -> None:
    since = {"scheduling.volcano.sh/partially-bound-since": "2099-01-01T00:00:00Z"}
    group = {"name": "a", "minMember": 3, "phase": "Inqueue", "annotations": since}
    world = World(half_bound(podGroups=[group]), settings(), restarting=True)
    assert world.session().wake_at == world.now + 60
    world.do("advance", 60)
    assert evicted(world.session()) == ["a-0", "a-1"]


@pytest.mark.parametrize(
    ("phase", "configuration"),
    [("Inqueue", settings()), ("Pending", enqueueing())],
    ids=["allocate", "enqueue"],
)
@pytest.mark.parametrize("restarting", [False, True], ids=["one process", "restarting"])
def test_a_partially_bound_gang_is_completed_before_others(
    phase: str, configuration: SchedulerConfiguration, restarting: bool
) -> None:
    """The other gang is older and has a higher priority, and there are nodes for one of the two."""
    given = half_bound(
        priorityClasses={"high": 9},
        podGroups=[
            {**WAITS, "phase": phase, "created": 5},
            {**WAITS, "name": "b", "minMember": 1, "minResources": {"cpu": 1}, "phase": phase,
             "priorityClassName": "high"},
        ],
    )  # fmt: skip
    given["pods"].append({"name": "b-0", "group": "b", "cpu": 1, "created": 1})
    for pod in given["pods"][:3]:
        pod["created"] = 6
    given["nodes"].append({"name": "n2", "cpu": 1})
    world = World(given, configuration, restarting=restarting)
    assert [name_of(bind.task) for bind in world.session().binds] == ["a-2"]


@pytest.mark.parametrize(
    ("given", "configuration"),
    [
        pytest.param(
            half_bound(phase="Running"), settings(), id="it has run before, so the policies of its job decide"
        ),
        pytest.param(half_bound(), settings(within="0"), id="repair is turned off"),
        pytest.param(half_bound(), settings(profile="compat"), id="profile compat, as in Volcano"),
        pytest.param(
            half_bound(podGroups=[{"name": "a", "minMember": 2, "phase": "Inqueue"}]),
            settings(),
            id="the missing member is beyond minMember",
        ),
        pytest.param(
            half_bound(podGroups=[{**WAITS, "created": 1}]),
            enqueueing(),
            id="the group was created anew, and its pods are older",
        ),
        pytest.param(
            half_bound(podGroups=[{**WAITS, "conditions": [{"type": "Scheduled", "status": "True"}]}]),
            enqueueing(),
            id="it is Pending again, as in profile compat after losing a member",
        ),
    ],
)
def test_no_repair(given: dict[str, Any], configuration: SchedulerConfiguration) -> None:
    world = World(given, configuration, restarting=False)
    world.session()
    world.do("advance", 1000)
    assert evicted(world.session()) == []
