"""Small worlds with waiting groups, and the states of their groups."""

from collections.abc import Mapping
from typing import Any

from quorate.api.volcano import UNSCHEDULABLE
from tests.gang.vectors import settings_of
from tests.gang.world import World, key_of

Json = dict[str, Any]


def world(given: Mapping[str, Any], *plugins: Any, restarting: bool = False, **arguments: Any) -> World:
    """Return a world.  ``arguments``: those of the action, with "_" for "-"."""
    action_arguments = {name.replace("_", "-"): value for name, value in arguments.items()}
    conf = {
        "actions": "enqueue",
        "tiers": [["gang", *plugins]],
        "configurations": {"enqueue": action_arguments},
    }
    return World(
        {"nodes": [{"name": "n1", "cpu": 4}], **given}, settings_of(conf, "design"), restarting=restarting
    )


def group(name: str, cpu: str | None = None, **given: Any) -> Json:
    """Return a pod group.  ``cpu``: of its minResources."""
    least = {} if cpu is None else {"minResources": {"cpu": cpu}}
    return {"name": name, "minMember": 1, **least, **given}


def pod(of: str, name: str = "", cpu: str = "1", **given: Any) -> Json:
    return {"name": name or f"{of}-0", "group": of, "cpu": cpu, **given}


def running(of: str, cpu: str = "1", **given: Any) -> Json:
    return pod(of, cpu=cpu, **{"node": "n1", "phase": "Running", **given})


def group_states(world: World) -> dict[str, str]:
    """Return the phase of each group, or the reason why it waits."""
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


RESOURCES, QUOTA, LIMIT = "NotEnoughResources", "NamespaceQuotaExceeded", "QueuePodGroupLimit"
RUNNING = {"phase": "Running"}
INQUEUE = {"phase": "Inqueue"}


def rq(hard: Json, used: Json | None = None, name: str = "rq", **given: Any) -> Json:
    return {"name": name, "hard": hard, "used": used or {}, **given}
