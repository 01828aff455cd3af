"""Gangs for which no evictions suffice are recognized by amounts, and what their searches share is kept."""

from typing import Any

import pytest

from quorate.gang.actions.repeated_search import computed_once
from quorate.gang.actions.room_without_victims import amounts_of, may_be_pipelined
from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]


def world(members: list[Json]) -> World:
    """Return a world with a running pod of 4 cpus on each of two nodes, which are in two pools."""
    given: Json = {
        "nodes": [{"name": f"n-{pool}", "cpu": 4, "labels": {"pool": pool}} for pool in "ab"],
        "queues": [{"name": "q"}],
        "podGroups": [
            {"name": "runs", "queue": "q", "minMember": 1, "phase": "Running"},
            {"name": "waits", "queue": "q", "minMember": len(members), "phase": "Inqueue"},
        ],
        "pods": [
            {"name": f"r-{pool}", "group": "runs", "cpu": 4, "node": f"n-{pool}", "phase": "Running"}
            for pool in "ab"
        ]
        + [{"name": f"w-{number}", "group": "waits"} | each for number, each in enumerate(members)],
    }
    conf = {"actions": "allocate, preempt", "tiers": [["gang", "predicates"]]}
    return World(given, settings_of(conf, "design"), restarting=False)


IN_A: Json = {"nodeSelector": {"pool": "a"}}


@pytest.mark.parametrize(
    ("members", "victims", "may_be"),
    [
        pytest.param([{"cpu": 4}], ["r-a"], True, id="one node suffices"),
        pytest.param([{"cpu": 4}], [], False, id="nothing is evicted"),
        pytest.param([{"cpu": 2}] * 3, ["r-a"], False, id="two of three fit"),
        pytest.param([{"cpu": 2}] * 3, ["r-a", "r-b"], True, id="all fit"),
        pytest.param([{"cpu": 4} | IN_A], ["r-a"], True, id="the victim is on a node with the label"),
        pytest.param([{"cpu": 4} | IN_A], ["r-b"], False, id="the victim is on a node without the label"),
        pytest.param([{"cpu": 4} | IN_A] * 2, ["r-a", "r-b"], False, id="one node has the label"),
    ],
)
def test_a_gang_may_have_room_without_victims(members: list[Json], victims: list[str], may_be: bool) -> None:
    session = world(members).open_session()
    gangs = {gang.key.name: gang for gang in session.gangs}
    tasks = [task for task in gangs["runs"].tasks.values() if task.key.name in victims]
    freed = amounts_of(session.cluster, tasks)
    waiting = list(gangs["waits"].tasks.values())
    assert may_be_pipelined(session, gangs["waits"], waiting, freed) is may_be


def test_a_result_is_kept_until_something_changes() -> None:
    session = world([{"cpu": 4}]).open_session()
    calls: list[int] = []

    def compute() -> int:
        calls.append(1)
        session.wake(session.now + 5)
        return len(calls)

    assert [computed_once(session, "a", compute) for _ in range(2)] == [1, 1]
    session.wake_at = None
    assert computed_once(session, "a", compute) == 1
    assert session.wake_at == session.now + 5, "a kept result depends on time as well"
    session.model.note_change()
    assert computed_once(session, "a", compute) == 2
