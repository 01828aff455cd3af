"""In profile ``design`` no session evicts what the session before has bound, unless something else changed.

The worlds are those that were played through Volcano's scheduler, as they begin, random ones, and those of
``late-evictions.jsonl``: there ``enqueue`` admitted a group for pods of another group once these were bound.
In ``gates-27`` a member that a search had supposed stayed in its group, and stopped the sessions after it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.gang.claiming_worlds import claiming_world
from tests.gang.test_volcano_worlds import WORLDS
from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]

BLOCK: Final = 50  # worlds of one test
IN_EVERY_RUN: Final = (50, 100, 2_100)  # blocks with worlds that each broke the law at some time
LATE: Final[list[Json]] = [
    json.loads(line) for line in Path(__file__).with_name("late-evictions.jsonl").read_text().splitlines()
]


def late_evictions(recorded: Mapping[str, Any], steps: list[Any]) -> list[str]:
    """Return the pods that a session of ``steps`` binds and another one, right after it, evicts."""
    world = World(recorded["given"], settings_of(recorded["conf"], "design"), restarting=False)
    found: list[str] = []
    for step in steps:
        if step == "session":
            bound = {bind.task.name for bind in world.session().binds}
            again = world.copied()
            again.model = again.fresh_model()
            evictions = again.session().evictions if bound else ()
            found += [each.task.name for each in evictions if each.task.name in bound]
        else:
            for name, argument in step.items():
                world.do(name, argument)
    return found


@pytest.mark.parametrize("recorded", LATE, ids=[world["world"] for world in LATE])
def test_a_group_is_admitted_before_the_pods_that_it_would_evict_are_bound(recorded: Json) -> None:
    assert late_evictions(recorded, recorded["steps"]) == []


@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.long)])
def test_what_a_session_binds_the_next_one_does_not_evict(first: int) -> None:
    """In every other world, because each of them takes 25 ms."""
    late = {world["world"]: late_evictions(world, ["session"] * 3) for world in WORLDS[first::2]}
    assert {name: pods for name, pods in late.items() if pods} == {}


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@pytest.mark.large
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=() if first in IN_EVERY_RUN else pytest.mark.long)
        for first in range(0, 6_000, BLOCK)
    ],
)
def test_in_random_worlds_what_a_session_binds_the_next_one_does_not_evict(first: int) -> None:
    worlds = {seed: claiming_world(seed) for seed in range(first, first + BLOCK)}
    late = {seed: late_evictions(world, world["steps"]) for seed, world in worlds.items()}
    assert {seed: pods for seed, pods in late.items() if pods} == {}
