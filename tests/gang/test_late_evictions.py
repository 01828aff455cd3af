"""In profile ``design`` no session evicts what the session before has bound, unless something else changed.

The worlds are those that were played through Volcano's scheduler, as they begin, and those of
``late-evictions.jsonl``: there ``enqueue`` admitted a group for pods of another group once these were bound.
In ``gates-27`` a member that a search had supposed stayed in its group, and stopped the sessions after it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.gang.test_volcano_worlds import WORLDS
from tests.gang.vectors import settings_of
from tests.gang.world import World

Json = dict[str, Any]

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
            found += [each.task.name for each in again.session().evictions if each.task.name in bound]
        else:
            for name, argument in step.items():
                world.do(name, argument)
    return found


@pytest.mark.parametrize("recorded", LATE, ids=[world["world"] for world in LATE])
def test_a_group_is_admitted_before_the_pods_that_it_would_evict_are_bound(recorded: Json) -> None:
    assert late_evictions(recorded, recorded["steps"]) == []


def test_what_a_session_binds_the_next_one_does_not_evict() -> None:
    late = {world["world"]: late_evictions(world, ["session"] * 3) for world in WORLDS}
    assert {name: pods for name, pods in late.items() if pods} == {}
