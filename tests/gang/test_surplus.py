"""Groups are admitted for the surplus that preempt can evict."""

from typing import Any

import pytest

from tests.gang.enqueue_worlds import (
    RESOURCES,
    RUNNING,
    Json,
    group,
    group_states,
    running,
)
from tests.gang.vectors import settings_of
from tests.gang.world import World


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
        pytest.param(lent(fat(), group("a", "2", created=1), pods=FOUR), {"a": "Inqueue"},
            id="a waiting group gets the surplus"),
        pytest.param(lent(fat(), group("a", "3", created=1), pods=FOUR), {"a": RESOURCES},
            id="and nothing beyond it"),
        pytest.param(
            lent(fat(), group("a", "1", created=1), group("b", "1", created=2), group("c", "1", created=3),
                 pods=FOUR),
            {"a": "Inqueue", "b": "Inqueue", "c": RESOURCES}, id="only one waiting group gets it",
        ),
        pytest.param(
            lent(fat(least=3), group("a", "2", created=1), pods=FOUR), {"a": RESOURCES},
            id="the surplus gang keeps minMember"
        ),
        pytest.param(
            lent(fat("3"), group("a", "2", created=1), pods=FOUR), {"a": RESOURCES},
            id="the surplus gang keeps minResources"
        ),
        pytest.param(
            lent({"name": "fat", "minMember": 2, **RUNNING}, group("a", "2", created=1), pods=FOUR),
            {"a": RESOURCES}, id="without minResources there is no surplus",
        ),
        pytest.param(
            lent(fat(queue="other"), group("a", "2", created=1), pods=FOUR), {"a": RESOURCES},
            id="only surplus of the same queue counts"
        ),
        pytest.param(
            lent(fat(priorityClassName="high"), group("a", "2", created=1), pods=FOUR),
            {"a": RESOURCES}, id="surplus of a higher priority does not count",
        ),
        pytest.param(
            lent(fat(priorityClassName="low"), group("a", "2", created=1, **HIGH), pods=FOUR),
            {"a": "Inqueue"}, id="surplus of a lower priority counts",
        ),
        pytest.param(
            lent(fat(), group("a", "2", created=1), pods=[{**each, "preemptable": False} for each in FOUR]),
            {"a": RESOURCES}, id="pods that may not be evicted do not count",
        ),
        pytest.param(
            lent(fat(), group("a", "2", created=1), pods=FOUR, evict_overused=False),
            {"a": RESOURCES}, id="without evict-overused nothing counts",
        ),
        pytest.param(
            lent(fat(), group("a", "2", created=1), pods=FOUR, actions="enqueue"),
            {"a": RESOURCES}, id="without the action preempt nothing counts",
        ),
        pytest.param(
            lent(fat(), {"name": "a", "created": 1, "minResources": {"memory": "99Ti"}}, pods=FOUR),
            {"a": RESOURCES}, id="surplus of another resource does not help",
        ),
    ],
)  # fmt: skip
def test_admission_for_preemptable_surplus(here: World, want: dict[str, str]) -> None:
    here.session()
    assert {name: stand for name, stand in group_states(here).items() if name != "fat"} == want


def test_surplus_of_several_groups_adds_up() -> None:
    thin = group("thin", "1", minMember=1, created=0, **RUNNING)
    pods = [*FOUR[:3], running("thin", name="thin-0"), {**running("thin", name="thin-1"), "node": "n2"}]
    here = lent(fat("1", 1), thin, group("a", "3", created=1), group("b", "1", created=2), pods=pods)
    here.do("addNodes", [{"name": "n2", "cpu": 1}])
    here.session()
    found = group_states(here)
    assert (found["a"], found["b"]) == ("Inqueue", RESOURCES)
