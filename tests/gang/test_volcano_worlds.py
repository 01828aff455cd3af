"""Agreement with Volcano's scheduler: small worlds that were generated from seeds and played through it.

``volcano-worlds.jsonl`` has what the sessions of Volcano 1.15.1 decided, in worlds with gangs, queues,
limits, constraints, evictions, pods of others and pods that end, while groups arrive, and nodes and queues
change, with HyperNodes and sub groups.  Each line is one world
in the notation of ``gang-cases.yaml``.  Each step has all outcomes of repeated sessions, in which Volcano
breaks ties at random: pods bound and evicted of each task, and changed phases; ``places``: all bound them to
the same nodes.  ``then`` is the outcome with which the history goes on, so that each session is compared by
itself.  The worlds in which we decide otherwise are in ``volcano-differences.yaml``, with the reason.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from tests.gang import objects
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of

Json = dict[str, Any]

HERE: Final = Path(__file__).parent
WORLDS: Final[list[Json]] = [
    json.loads(line) for line in (HERE / "volcano-worlds.jsonl").read_text().splitlines()
]
DIFFERENCES: Final[list[Json]] = yaml.safe_load((HERE / "volcano-differences.yaml").read_text())
DIFFERING: Final = {world for difference in DIFFERENCES for world in difference["worlds"]}
KINDS: Final = sorted({world["world"].rpartition("-")[0] for world in WORLDS})


def first_difference(recorded: Json) -> str:
    """Return how the first session differs from all of Volcano's; empty: none does."""
    world = World(recorded["given"], settings_of(recorded["conf"], "compat"), restarting=True)
    for number, step in enumerate(recorded["steps"]):
        for operation in step.get("do", ()):
            for name, argument in ({operation: None} if isinstance(operation, str) else operation).items():
                world.do(name, argument)
        found, places = _session(world)
        if found not in step["volcano"]:
            return f"session {number}: want one of {step['volcano']}, got {found}"
        then = step.get("then", {})
        if step.get("places") and places != (wanted := _places(world, then["binds"])):
            return f"session {number}: want {wanted}, got {places}"
        _go_on(world, step["volcano"][0].get("phases", {}), then)
    return ""


def _session(world: World) -> tuple[Json, dict[str, list[str]]]:
    """Return what a session decides, and on which nodes; ``world`` stays as it is."""
    trial = world.copied()
    trial.bound_for, trial.evicted_from = Counter(), Counter()
    trial.start_step()
    trial.session()
    phases = {key.name: group.status.phase for key, group in trial.groups.items()}
    outcome = {
        "bound": _by_task(world, trial.binds),
        "evicted": _by_task(world, trial.evictions),
        "phases": {name: phase for name, phase in phases.items() if phase != world.phase(name)},
    }
    return {name: part for name, part in outcome.items() if part}, _places(world, trial.binds)


def _by_task(world: World, names: Iterable[str]) -> dict[str, int]:
    return dict(Counter(_task(world, name) for name in names))


def _task(world: World, name: str) -> str:
    annotations = world.pods[key_of(name)].metadata.annotations
    return f"{annotations['scheduling.k8s.io/group-name']}/{annotations['volcano.sh/task-spec']}"


def _places(world: World, binds: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the nodes of the bound pods of each task."""
    places: dict[str, list[str]] = {}
    for name, node in binds.items():
        places.setdefault(_task(world, name), []).append(node)
    return {task: sorted(nodes) for task, nodes in places.items()}


def _go_on(world: World, phases: Mapping[str, str], then: Json) -> None:
    """Give the objects what Volcano decided."""
    pods = world.pods
    for name, node in then.get("binds", {}).items():
        world.put_pods([objects.with_node(pods[key_of(name)], node)])
    for name, node in then.get("nominated", {}).items():
        world.put_pods([objects.with_nomination(pods[key_of(name)], node)])
    world.put_pods([objects.leaving(pods[key_of(name)], world.now) for name in then.get("evicts", ())])
    for name, phase in phases.items():
        group = world.groups[key_of(name)]
        status = msgspec.structs.replace(group.status, phase=phase)
        world.put_group(msgspec.structs.replace(group, status=status))


@pytest.mark.parametrize("kind", KINDS)
def test_sessions_decide_as_those_of_volcano(kind: str) -> None:
    worlds = {world["world"]: world for world in WORLDS if world["world"].rpartition("-")[0] == kind}
    differing = {name: found for name, world in worlds.items() if (found := first_difference(world))}
    assert differing.keys() == {name for name in worlds if name in DIFFERING}, differing


def test_the_worlds_hold_what_they_are_to_show() -> None:
    """Binds, evictions, nodes that are not a matter of chance, and all kinds of pods occur in them."""
    outcomes = [step["volcano"][0] for world in WORLDS for step in world["steps"]]
    assert sum("bound" in outcome for outcome in outcomes) > 300
    assert sum("evicted" in outcome for outcome in outcomes) > 40
    assert sum("places" in step for world in WORLDS for step in world["steps"]) > 200
    text = json.dumps(WORLDS)
    words = (
        "initContainers overhead hostPort podAntiAffinity topologySpread minTaskMember guarantee parent gated"
    )
    assert all(word in text for word in words.split())
    assert len(DIFFERING) < 0.12 * len(WORLDS)
