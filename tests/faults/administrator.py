"""An administrator that lowers quota or stops a queue while jobs run, and reverts it later."""

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quorate.kube.resources import CLUSTER_QUEUES
from tests.faults.scene import Scene

Json = dict[str, Any]
CHANGES = 4


@dataclass(frozen=True, slots=True)
class Change:
    """A merge patch of the spec of cluster queue ``queue``, ``after_s`` after the previous change."""

    after_s: float
    queue: str
    spec: Json


def changes(seed: int, scene: Scene) -> Iterator[Change]:
    """Yield changes; every second change reverts the previous one, so the final specs are the original.

    The original limits are therefore the highest at any time: admitted usage never exceeds them, though it
    may exceed limits that were lowered after the admission.
    """
    rng = random.Random(f"administrator {seed}")
    specs = [
        (body["metadata"]["name"], body["spec"])
        for resource, body in scene.objects
        if resource is CLUSTER_QUEUES
    ]
    for _ in range(CHANGES):
        name, spec = rng.choice(specs)
        if rng.random() < 0.3:
            yield Change(rng.uniform(0.05, 0.5), name, {"stopPolicy": rng.choice(("Hold", "HoldAndDrain"))})
            yield Change(rng.uniform(0.05, 0.5), name, {"stopPolicy": "None"})
        else:
            lowered = _lowered(rng, spec["resourceGroups"])
            yield Change(rng.uniform(0.05, 0.5), name, {"resourceGroups": lowered})
            yield Change(rng.uniform(0.05, 0.5), name, {"resourceGroups": spec["resourceGroups"]})


def _lowered(rng: random.Random, groups: list[Json]) -> list[Json]:
    groups = copy.deepcopy(groups)
    for group in groups:
        for flavor in group["flavors"]:
            for quota in flavor["resources"]:
                least = rng.randint(0, int(quota["nominalQuota"]))
                quota["nominalQuota"] = str(least)
                if "lendingLimit" in quota:
                    quota["lendingLimit"] = str(min(int(quota["lendingLimit"]), least))
    return groups
