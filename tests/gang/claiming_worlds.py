"""Random worlds in which gangs with pods compete for nodes, shares and claims; one seed gives one world.

Some gangs run, some are admitted and have no nodes, and most wait, with their pods.  Gangs differ in their
priority, queue, ``minResources`` and roles; nodes are small, and some have GPUs or few pods.
"""

from random import Random
from typing import Any, Final

Json = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
CLASSES: Final = {"low": 1, "mid": 5, "high": 9}
ACTIONS: Final = (
    "enqueue, allocate, backfill, preempt",
    "enqueue, allocate, preempt, backfill",
    "enqueue, allocate, backfill, reclaim",
    "enqueue, allocate, backfill, reclaim, preempt",
)


def claiming_world(seed: int) -> Json:
    """Return the objects ``given``, the configuration ``conf`` and the ``steps`` of the world ``seed``."""
    return _Draw(seed).world()


class _Draw:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._one, self._int = self._random.choice, self._random.randint
        self._has_gpus, self._made, self._created = self._is(25), 0, 0

    def _is(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def world(self) -> Json:
        conf = {"actions": self._one(ACTIONS), "tiers": self._tiers()}
        nodes = [self._node(f"n{number}") for number in range(self._one((1, 1, 2, 2, 3)))]
        cpus = sum(node["cpu"] for node in nodes)
        names = ("qa", "qb", "qc")[: self._int(1, 3 if "reclaim" in conf["actions"] else 2)]
        queues = [self._queue(name, cpus) for name in names]
        free = [
            {"cpu": 2 * node["cpu"], GPU: node.get("scalars", {}).get(GPU, 0), "pods": node["pods"]}
            for node in nodes
        ]
        given: Json = {"priorityClasses": CLASSES, "nodes": nodes, "queues": queues}
        running = [self._gang(names, free) for _ in range(self._int(1, 4))]
        waiting = [self._gang(names) for _ in range(self._int(1, 3))]
        given["podGroups"] = [group for group, _ in running + waiting]
        given["pods"] = [pod for _, pods in running + waiting for pod in pods]
        return {"given": given, "conf": conf, "steps": self._steps(names, given["pods"])}

    def _tiers(self) -> list[list[Any]]:
        keeps_minimum = self._is(50)
        gang: Any = "gang" if keeps_minimum else {"name": "gang", "switches": {"enablePreemptable": False}}
        share = [self._one(("proportion", "capacity"))] if self._is(75) else []
        top: list[Any] = ["priority", gang, "conformance"]
        rest = [*share, "predicates", self._one(("nodeorder", "binpack"))]
        return [[*top, *rest]] if self._is(25) else [top, rest]

    def _node(self, name: str) -> Json:
        node: Json = {
            "name": name,
            "cpu": self._one((2, 3, 4, 6, 8)),
            "pods": self._one((3, 5, 110, 110, 110)),
        }
        if self._has_gpus:
            node["scalars"] = {GPU: self._one((1, 2, 4))}
        return node

    def _queue(self, name: str, cpus: int) -> Json:
        queue: Json = {"name": name, "weight": self._int(1, 3), "deserved": {"cpu": self._int(1, cpus)}}
        if self._is(35):
            queue["capability"] = {"cpu": self._int(1, cpus)}
            queue["deserved"]["cpu"] = min(queue["deserved"]["cpu"], queue["capability"]["cpu"])
        return queue | {"reclaimable": self._is(85)}

    def _gang(
        self, queues: tuple[str, ...], free: list[dict[str, int]] | None = None
    ) -> tuple[Json, list[Json]]:
        """Return a pod group and its pods, which run if they fit ``free``, the amounts of each node."""
        name, self._made = f"g{self._made}", self._made + 1
        self._created += self._int(0, 2)
        halves, gpus = self._one((1, 2, 2, 2, 4, 6)), self._one((0, 0, 1, 2)) if self._has_gpus else 0
        pods: list[Json] = []
        for number in range(self._int(1, 4)):
            pod: Json = {
                "name": f"{name}-{number}",
                "group": name,
                "role": "w" if number or self._is(70) else "m",
            }
            if halves:
                pod["cpu"] = f"{500 * halves}m"
            if gpus:
                pod["scalars"] = {GPU: gpus}
            if self._is(6):
                pod["priority"] = self._one((0, 3, 7))
            pods.append(pod)
        least = self._one((len(pods), len(pods), max(1, len(pods) - 1), 1))
        group: Json = {"name": name, "queue": self._one(queues), "created": self._created, "minMember": least}
        if self._is(80):
            group["priorityClassName"] = self._one(tuple(CLASSES))
        if self._is(70):
            group["minResources"] = {
                "cpu": f"{500 * halves * least}m",
                **({GPU: gpus * least} if gpus else {}),
            }
        placed = [
            pod for pod in pods if free is not None and self._is(85) and _place(pod, halves, gpus, free)
        ]
        group["phase"] = "Running" if placed else self._one(("Pending",) * 6 + ("Inqueue",))
        return group, pods

    def _steps(self, queues: tuple[str, ...], pods: list[Json]) -> list[Any]:
        steps: list[Any] = ["session"]
        for _ in range(self._int(2, 4)):
            steps.append({"start": "all"})
            what = self._random.randrange(100)
            if what < 60:
                steps.append(self._one(({"reap": "all"}, {"replace": None})))
            elif what < 85:
                group, added = self._gang(queues)
                steps.append({"addPodGroups": [group], "addPods": added})
            steps.append("session")
        return steps


def _place(pod: Json, halves: int, gpus: int, free: list[dict[str, int]]) -> bool:
    """Have ``pod`` run on the first node that it fits; return False if there is none."""
    needs = {"cpu": halves, GPU: gpus, "pods": 1}
    for number, amounts in enumerate(free):
        if all(amounts[name] >= amount for name, amount in needs.items()):
            for name, amount in needs.items():
                amounts[name] -= amount
            pod.update(node=f"n{number}", phase="Running")
            return True
    return False
