"""Random worlds of the gang core with random histories, and what a new scheduler does with them at rest.

At rest sessions bind and evict nothing, while groups that wait in vain may change their phase, and all pods
that have a node run.  A new scheduler must then bind and evict nothing more: otherwise the one before it
remembers a refusal that is no longer true.

Worlds that do not come to rest are no counterexamples of this law: some orders of actions evict and bind
without end (profile ``compat`` follows Volcano there).
"""

from random import Random
from typing import Any, Final

import msgspec

from quorate.api.scheduler_configuration import SchedulerConfiguration
from tests.gang.generated_worlds import ACTIONS, CLASSES, TIERS
from tests.gang.vectors import settings_of
from tests.gang.world import World
from tests.shrinking import smallest_failure

Json = dict[str, Any]

QUEUES: Final = ("q1", "q2")
NODES: Final = ("n1", "n2", "n3", "n4")
MAX_STEPS: Final = 14
# Groups that wait in vain give way after 30 s, and come back after half a second.
CONFIGURATIONS: Final = {
    "enqueue": {"inqueue-timeout": 30, "requeue-backoff-base": 0.5, "requeue-backoff-max": 0.5}
}
SESSION_S: Final = 1
LONG_S: Final = 40  # longer than every delay of a configuration
UNCHANGED_SESSIONS: Final = 6  # at rest: longer than a group waits and then gives way
MAX_SESSIONS: Final = 80  # of worlds that come to rest


class History:
    """One random world and its steps; the same seed gives the same."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._made = 0
        self.given: Json = self._given()
        self.steps: list[Json] = [self._step() for _ in range(self._random.randint(2, MAX_STEPS))]

    def _one(self, *answers: Any) -> Any:
        return self._random.choice(answers)

    def _is(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def _given(self) -> Json:
        given: Json = {
            "profile": self._one("compat", "design"),
            "conf": {
                "actions": self._one(*ACTIONS),
                "tiers": self._one(*TIERS),
                "configurations": CONFIGURATIONS,
            },
            "priorityClasses": CLASSES,
            "nodes": [self._node(name) for name in NODES if self._is(75)],
            "queues": [self._queue(name) for name in QUEUES],
            "podGroups": [],
            "pods": [],
        }
        if self._is(25):
            given["hyperNodes"] = [
                {"name": "left", "tier": 1, "nodes": "n1 n2"},
                {"name": "right", "tier": 1, "nodes": "n3 n4"},
                {"name": "all", "tier": 2, "hyperNodes": "left right"},
            ]
        for _ in range(self._random.randint(1, 4)):
            gang = self._gang()
            given["podGroups"] += gang["addPodGroups"]
            given["pods"] += gang["addPods"]
        return given

    def _node(self, name: str) -> Json:
        node: Json = {
            "name": name,
            "cpu": self._random.randint(1, 4),
            "labels": {"zone": self._one("x", "y")},
        }
        if self._is(20):
            node["pods"] = self._random.randint(1, 4)
        if self._is(15):
            node["taints"] = [{"key": "kept", "value": "", "effect": "NoSchedule"}]
        if self._is(10):
            node["unschedulable"] = True
        return node

    def _queue(self, name: str) -> Json:
        queue: Json = {"name": name, "weight": self._one(1, 2), "reclaimable": self._is(85)}
        if self._is(20):
            queue["capability"] = {"cpu": self._random.randint(1, 6)}
        return queue

    def _gang(self) -> Json:
        """Return the operations that add a pod group and its pods."""
        self._made += 1
        name = f"g{self._made}"
        members = self._random.randint(1, 4)
        group: Json = {
            "name": name,
            "queue": self._one(*QUEUES),
            "minMember": self._random.randint(1, members),
            "created": self._random.randint(0, 20),
            "priorityClassName": self._one("", "low", "high"),
        }
        if self._is(20):
            group["minTaskMember"] = {"a": self._one(0, 1, 2), "b": self._one(0, 1)}
        if self._is(50):
            group["minResources"] = {"cpu": self._random.randint(0, 4)}
        if self._is(15):
            group["networkTopology"] = {
                "mode": self._one("hard", "soft"),
                "highestTierAllowed": self._one(1, 2),
            }
        if self._is(15):
            group["annotations"] = {"volcano.sh/preemptable": "false"}
        pod = self._pod(name)
        pods = [
            {**(pod if self._is(70) else self._pod(name)), "name": f"{name}-{index}"}
            for index in range(members)
        ]
        return {"addPodGroups": [group], "addPods": pods}

    def _pod(self, group: str) -> Json:
        pod: Json = {"group": group, "role": self._one("", "", "a", "b")}
        if cpu := self._random.randint(0, 3):
            pod["cpu"] = cpu
        if self._is(15):
            pod["priority"] = self._random.randint(0, 3)
        if self._is(10):
            pod["preemptionPolicy"] = "Never"
        if self._is(10):
            pod["gated"] = True
        if self._is(15):
            pod["nodeSelector"] = {"zone": self._one("x", "y")}
        if self._is(35):
            pod["tolerations"] = [{"key": "kept", "operator": "Exists"}]
        return pod

    # Steps.

    def _step(self) -> Json:
        if self._is(40):
            return {"sessions": self._random.randint(1, 4)}
        node, queue = self._one(*NODES), self._one(*QUEUES)
        group = f"g{self._random.randint(1, max(1, self._made))}"
        pod = f"{group}-{self._random.randrange(4)}"
        kept = self._one(
            {"start": "all"},
            {"reap": "all"},
            {"finish": {"pods": [pod], "result": self._one("Succeeded", "Failed")}},
            {"deletePods": [pod]},
            {"deletePodGroups": [group]},
            {"addNodes": [self._node(node)]},
            {"removeNodes": [node]},
            {"advance": self._one(1, 15, 301)},
            {"setQueue": {"name": queue, **self._change_of_queue()}},
            None,
            None,
        )
        return self._gang() if kept is None else dict(kept)

    def _change_of_queue(self) -> Json:
        return dict(
            self._one(
                {"weight": 3},
                {"state": "Closed"},
                {"state": "Open"},
                {"capability": {"cpu": self._random.randint(1, 6)}},
                {"capability": {}},
                {"priority": 1},
                {"reclaimable": True},
            )
        )


class RestingWorld(World):
    """A world in which operations on objects that do not exist (any more) do nothing."""

    def __init__(self, given: Json, settings: SchedulerConfiguration) -> None:
        super().__init__(given, settings, restarting=False)

    def step(self, step: Json) -> None:
        if "sessions" in step:
            for _ in range(step["sessions"]):
                self.session()
                self.now += SESSION_S
            return
        for operation, argument in step.items():
            self.do(operation, self._of_known(operation, argument))

    def _of_known(self, operation: str, argument: Any) -> Any:
        pods = {key.name: pod for key, pod in self.pods.items()}
        match operation:
            case "deletePods":
                return [name for name in argument if name in pods]
            case "deletePodGroups":
                known = {key.name for key in self.groups}
                return [name for name in argument if name in known]
            case "removeNodes":
                return [name for name in argument if name in self.nodes]
            case "finish":
                bound = [name for name in argument["pods"] if name in pods and pods[name].node_name]
                return {**argument, "pods": bound}
        return argument

    def rest(self) -> bool:
        """Run sessions until nothing happens; return False if something always does."""
        unchanged = 0
        for index in range(MAX_SESSIONS):
            before = self._standing()
            outcome = self.session()
            self.do("start", "all")
            self.do("reap", "all")
            self.now += LONG_S if index % 2 else SESSION_S
            is_unchanged = self._standing() == before and not (outcome.binds or outcome.evictions)
            unchanged = unchanged + 1 if is_unchanged else 0
            if unchanged == UNCHANGED_SESSIONS:
                return True
        return False

    def _standing(self) -> Any:
        return {key.name: (pod.node_name, pod.status.phase) for key, pod in self.pods.items()}

    def decided_anew(self) -> list[str]:
        """Return what a new scheduler does, with the same objects; it should be nothing."""
        self.model = self.fresh_model()
        for _ in range(UNCHANGED_SESSIONS):
            outcome = self.session()
            self.now += LONG_S
            found = [f"Bind {bind.task.name}" for bind in outcome.binds]
            found += [f"Evict {eviction.task.name}" for eviction in outcome.evictions]
            if found:
                return found
        return []


def failure(given: Json, steps: list[Json]) -> str:
    """Return what a new scheduler decides after the history; empty if nothing, or if there is no rest."""
    given, steps = msgspec.to_builtins(given), msgspec.to_builtins(steps)
    try:
        world = RestingWorld(given, settings_of(given["conf"], given["profile"]))
        for step in steps:
            world.step(step)
        return ", ".join(world.decided_anew()) if world.rest() else ""
    except Exception as error:  # of a bug: it is a counterexample too
        return f"{type(error).__name__}: {error}"


def counterexample(seed: int) -> str:
    """Return the smallest version of the history of ``seed`` that fails as it does; empty if none does."""
    history = History(seed)
    return smallest_failure(history.given, history.steps, failure)
