"""Evictions for a gang with a minimum of each role: as many as it needs, in any order of its members."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]

TIER = ["priority", "gang", "conformance", "predicates", "nodeorder"]
CONF = {
    "preempt": {"actions": "allocate, preempt", "tiers": [TIER]},
    "reclaim": {"actions": "allocate, reclaim", "tiers": [[*TIER, "capacity"]]},
}


@st.composite
def worlds(draw: st.DrawFn, action: str) -> Json:
    """Draw full nodes, and a gang of equal pods in two roles that waits for them."""
    minima = {role: draw(st.integers(0, 2)) for role in "ab"}
    members = {role: minimum + draw(st.integers(0, 2)) for role, minimum in minima.items()}
    least = draw(st.integers(max(1, sum(minima.values())), max(1, sum(members.values()))))
    cpus = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    order = draw(st.permutations([role for role, count in members.items() for _ in range(count)]))
    other = "q" if action == "preempt" else "other"
    running = [
        {"name": f"run-{at}-{index}", "group": "run", "cpu": 1, "node": f"n{at}", "phase": "Running"}
        for at, cpu in enumerate(cpus)
        for index in range(cpu)
    ]
    return {
        "priorityClasses": {"low": 1, "high": 2},
        "nodes": [{"name": f"n{index}", "cpu": cpu} for index, cpu in enumerate(cpus)],
        "queues": [{"name": "q", "deserved": {"cpu": 9}}, {"name": "other", "deserved": {"cpu": 0}}],
        "podGroups": [
            {"name": "run", "queue": other, "priorityClassName": "low", "minMember": 0, "phase": "Running"},
            {
                "name": "new",
                "queue": "q",
                "priorityClassName": "high",
                "minMember": least,
                "minTaskMember": minima,
                "phase": "Inqueue",
            },
        ],
        "pods": [
            *running,
            *({"name": f"new-{at}", "group": "new", "role": role, "cpu": 1} for at, role in enumerate(order)),
        ],
    }


@pytest.mark.parametrize("profile", ["compat", "design"])
@pytest.mark.parametrize("action", CONF)
@given(data=st.data())
def test_the_minimum_of_each_role_gets_the_nodes_of_victims(
    data: st.DataObject, action: str, profile: str
) -> None:
    given = data.draw(worlds(action))
    world = World(given, settings_of(CONF[action], profile), restarting=False)
    world.session()
    group = given["podGroups"][1]
    roles = {pod["name"]: pod["role"] for pod in given["pods"] if pod["group"] == "new"}
    least = group["minMember"]
    suffices = least <= min(len(roles), sum(node["cpu"] for node in given["nodes"]))
    assert len(world.evictions) == (least if suffices else 0)
    placed = [roles[name] for name in world.pipelined]
    assert not suffices or all(
        placed.count(role) >= minimum for role, minimum in group["minTaskMember"].items()
    )
