"""Random worlds of the queueing core with random histories."""

import json
from random import Random
from typing import Any, Final, Literal

import msgspec

from quorate.api.configuration.feature_gates import QUEUEING_GATES, SUPPORTED_GATES
from tests.queueing.notation import Json
from tests.queueing.resting_world import RestingWorld
from tests.shrinking import smallest_failure

QUEUES: Final = ("a", "b", "c")
FLAVORS: Final = ("one", "two")
GPU_FLAVORS: Final = ("gold", "plain")  # of a resource group of their own
NODES: Final = ("n1", "n2", "n3", "n4")
NAMESPACES: Final = ("default", "other")
CHECKS: Final = ("provisioning", "budget")
HOST: Final = "kubernetes.io/hostname"
TAINT: Final = {"key": "spot", "value": "true", "effect": "NoSchedule"}
MAX_WORKLOADS: Final = 10
MAX_STEPS: Final = 14
FOREVER: Final = "100000h"
RESERVATIONS: Final = ("r1", "r2")
BEGIN: Final = 1_767_225_600  # of worlds with windows: in 2026


Kind = Literal[
    "any", "blocked", "searching", "backfilling", "planning", "aging", "reserving", "slicing"
]  # what every world has: see ``History``
HistoryKind = Literal[Kind, "placing"]


class History:
    """One random world and its steps; the same seed and kind give the same.

    In *blocked* worlds, admission waits for the pods of others.  In *searching* worlds, workloads compete for
    several flavors of one cohort, and few preempt, so that they search for many rounds.  In *backfilling*
    worlds most queues plan starts, in *planning* worlds also for several workloads, after a while, or with
    default bounds.  In *aging* worlds waiting raises priorities, for a minute at most.  In *reserving* worlds
    windows keep quota or nodes; at rest they last, have ended, or begin much later.  In *placing* worlds all
    pods need nodes, and these are short rather than quota.  In *slicing* worlds most pod sets have places in
    a topology, many in slices, and hosts are reported as failed.
    """

    def __init__(self, seed: int, kind: HistoryKind = "any") -> None:
        self._random, self._kind = Random(seed), kind
        places = ("topology", "node fit") if kind == "placing" else ("none", "none", "topology", "node fit")
        self.places = self._one(*places) if kind != "searching" else "none"
        if kind == "slicing":
            self.places = "topology"
        self._cpu_flavors = (*FLAVORS, "three") if kind == "searching" else FLAVORS
        self.has_checks, self.shares_admission = self._is(30), self._is(20)
        self.has_gpus = self.places == "none" and self._is(50)
        self.flavors = (*self._cpu_flavors, *GPU_FLAVORS) if self.has_gpus else self._cpu_flavors
        self.given: Json = self._given()
        self.steps: list[Any] = [self._step() for _ in range(self._random.randint(2, MAX_STEPS))]

    def _one(self, *answers: Any) -> Any:
        return self._random.choice(answers)

    def _is(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def _given(self) -> Json:
        workloads = [self._workload(f"w{index}") for index in range(self._random.randint(3, MAX_WORKLOADS))]
        for index in range(len(workloads)):
            if self._is(50):
                workloads[index]["create"] = "later"
        reserving: Json = {}
        if self._kind == "reserving":
            reserving = {
                "now": BEGIN,
                "reservations": {name: self._reservation() for name in RESERVATIONS if self._is(70)},
            }
        return {
            **reserving,
            "config": self._config(),
            "namespaces": {name: {"team": self._one("x", "x", "y")} for name in NAMESPACES},
            "flavors": {name: self._flavor(name) for name in self.flavors},
            "topologies": {"dc": {"levels": ["rack", "kubernetes.io/hostname"]}},
            "nodes": {name: self._node() for name in NODES if self._is(75)},
            "pods": {},
            "admissionChecks": {name: self._check(name) for name in CHECKS},
            "cohorts": {
                "left": {"parent": "top", **self._quota(in_cohort=True)},
                "top": self._quota(in_cohort=False) if self._is(50) else {},
            },
            "clusterQueues": {name: self._queue() for name in QUEUES},
            "localQueues": {f"l{name}": self._local_queue(name) for name in QUEUES},
            "workloads": workloads,
        }

    def _config(self) -> Json:
        config: Json = {}
        if self._is(25):
            config["fairSharing"] = {}
        if self.places == "node fit":
            config["nodeFit"] = {"mode": self._one("Require", "Require", "Report")}
        if self._is(100 if self._kind == "blocked" else 10):
            scope = self._one("AllQueues", "SameFlavors")
            config["waitForPodsReady"] = {
                "timeout": FOREVER,
                "blockAdmission": True,
                "blockAdmissionScope": scope,
            }
        if self.shares_admission:
            config["admissionFairSharing"] = {"usageHalfLifeTime": "10s", "usageSamplingInterval": "5s"}
        gates = {"ElasticJobsViaWorkloadSlices": True}
        if self._is(25):
            supported = [gate for gate in QUEUEING_GATES if gate in SUPPORTED_GATES]
            gates[self._one(*supported)] = self._is(50)
        config["featureGates"] = gates
        return config

    def _flavor(self, name: str) -> Json:
        flavor: Json = {"nodeLabels": {"pool": name}} if name in FLAVORS and self._is(60) else {}
        if self.places == "topology" and self._is(80):
            flavor["topologyName"] = "dc"
        if self._is(25):
            flavor["nodeTaints"] = [TAINT]
        return flavor

    def _node(self) -> Json:
        labels = {"pool": self._one(*FLAVORS), "rack": self._one("r1", "r2")}
        node: Json = {"labels": labels, "allocatable": {"cpu": self._random.randint(1, 4), "pods": 10}}
        if self._is(10):
            node["ready"] = False
        if self._is(10):
            node["taints"] = [TAINT]
        return node

    def _quota(self, *, in_cohort: bool) -> Json:
        """Return the fields of a queue or cohort with its quota."""

        def limits() -> Json:
            few = self._kind == "searching"
            most = 16 if self._kind == "placing" else 5
            nominal = self._one(0, 0, 1, 1, 2, 4) if few else self._random.randint(0, most)
            found: Json = {"nominal": nominal}
            if in_cohort and self._is(25):
                found["borrowingLimit"] = self._random.randint(0, 3)
            if in_cohort and self._is(25):
                found["lendingLimit"] = self._random.randint(0, found["nominal"])
            return found

        def group(resource: str, flavors: tuple[str, ...]) -> Json:
            some = flavors[: self._one(1, 2, 2, *((3,) if self._kind == "searching" else ()))]
            of_flavors = [{"name": name, "quotas": {resource: limits()}} for name in some]
            return {"covered": [resource], "flavors": of_flavors}

        groups = [group("cpu", self._cpu_flavors), *([group("gpu", GPU_FLAVORS)] if self.has_gpus else ())]
        return {"resourceGroups": groups}

    def _reservation(self) -> Json:
        opens, closes = self._one((0, 10**9), (30, 10**9), (10, 30), (10**8, 10**9))
        owners = self._one(
            {"clusterQueues": [self._one(*QUEUES)]},
            {"localQueues": [{"namespace": "default", "name": f"l{self._one(*QUEUES)}"}]},
            {"namespaces": [self._one(*NAMESPACES)]},
            {},
        )
        reservation: Json = {
            "start": BEGIN + opens,
            "end": BEGIN + closes,
            "owners": owners,
            "purpose": "Workloads" if owners else "Maintenance",
            "amounts": {self._one(*FLAVORS): {"cpu": self._random.randint(1, 5)}},
        }
        if self._is(40):
            reservation["nodes"] = self._one({"names": [self._one(*NODES)]}, {"count": self._one(1, 2)})
        return reservation

    def _check(self, name: str) -> Json:
        check: Json = {"active": self._is(90)}
        return check if name == "provisioning" else check | {"controller": "example.com/budget"}

    def _checks_of_queue(self) -> list[Json]:
        return [
            {"name": name, "onFlavors": [self._one(*FLAVORS)]} if self._is(30) else {"name": name}
            for name in CHECKS
            if self._is(50)
        ]

    def _local_queue(self, name: str) -> Json:
        if not self.shares_admission:
            return {"clusterQueue": name}
        return {"clusterQueue": self._one(name, QUEUES[0]), "weight": self._one(0, 1, 1, 2)}

    def _queue(self) -> Json:
        cohort = self._one("", "left", "left", "top")
        queue: Json = {"cohort": cohort, **self._quota(in_cohort=bool(cohort))}
        if self._is(20):
            queue["strategy"] = "StrictFIFO"
        annotations: Json = {}
        if self._kind == "aging" and self._is(80):
            rule = {"every": self._one("3s", "10s"), "step": self._one(1, 2), "atMost": self._one(1, 2, 3, 6)}
            annotations["priority-aging"] = json.dumps(rule | {"alsoPreempts": self._is(50)})
        if (self._kind == "backfilling" and self._is(80)) or (
            self._kind in ("aging", "reserving") and self._is(30)
        ):
            annotations["backfill"] = "EASY"
        if annotations:
            queue["annotations"] = annotations
        if self._kind == "planning" and self._is(80):
            queue["annotations"] = self._backfill()
        if self._is(20):
            queue["namespaceSelector"] = {"team": "x"}
        if self._is(20 if self._kind == "searching" else 60):
            queue["preemption"] = self._preemption()
        if self.has_checks:
            queue["admissionChecks"] = self._checks_of_queue()
        if self.shares_admission and self._is(80):
            queue["admissionMode"] = "UsageBasedAdmissionFairSharing"
        queue["flavorFungibility"] = {
            "whenCanBorrow": self._one("MayStopSearch", "TryNextFlavor"),
            "whenCanPreempt": self._one("MayStopSearch", "TryNextFlavor"),
        }
        return queue

    def _backfill(self) -> Json:
        annotations: Json = {"backfill": self._one("EASY", "Conservative")}
        if self._is(50):
            annotations["backfill-depth"] = str(self._one(1, 2, 3))
        if self._is(30):
            annotations["reserve-after"] = self._one("5s", "30s")
        if self._is(30):
            annotations["default-maximum-execution-time"] = self._one("10s", "40s")
        return annotations

    def _preemption(self) -> Json:
        reclaim = self._one("Never", "LowerPriority", "Any")
        policy = {
            "withinClusterQueue": self._one("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
            "reclaimWithinCohort": reclaim,
        }
        if reclaim != "Never" and self._is(40):
            policy["borrowWithinCohort"] = {"policy": "LowerPriority"}
        return policy

    def _workload(self, name: str) -> Json:
        workload: Json = {
            "name": name,
            "queue": f"l{self._one(*QUEUES)}",
            "namespace": self._one("default", "default", "other"),
            "created": self._random.randint(0, 20),
            "priority": self._one(0, 0, 1, 2),
            "podSets": [self._pod_set()],
        }
        if self._is(50 if self._kind == "searching" else 20):
            workload["podSets"] = [
                {"name": "driver", **self._pod_set()},
                {"name": "workers", **self._pod_set()},
            ]
        if self._is(15):
            workload |= {"elastic": True, "replaces": f"w{self._random.randrange(MAX_WORKLOADS)}"}
        if self._is(10):
            workload["active"] = False
        if self._kind in ("backfilling", "planning", "aging", "reserving") and self._is(70):
            workload["maximumExecutionTimeSeconds"] = self._random.randint(1, 40)
        return workload

    def _pod_set(self) -> Json:
        pod_set: Json = {"count": self._one(1, 1, 2, 3), "requests": {"cpu": self._one(1, 1, 2)}}
        if self._is(5):
            pod_set["requests"] = {}
        if self.has_gpus and self._is(60):
            pod_set["requests"]["gpu"] = 1
        if pod_set["count"] > 1 and self._is(30):
            pod_set["minCount"] = 1
        if self._is(60):
            pod_set["tolerations"] = [{"key": "spot", "operator": "Exists"}]
        if self._is(20):
            pod_set["nodeSelector"] = {"pool": self._one(*FLAVORS)}
        if self.places == "topology" and self._is(70):
            kind = self._one("required", "preferred", "unconstrained")
            level = self._one("rack", "kubernetes.io/hostname")
            pod_set["topology"] = {kind: True if kind == "unconstrained" else level}
            if self._kind == "slicing" and self._is(50):
                size = self._random.randint(1, pod_set["count"])
                pod_set["topology"] |= {"sliceLevel": self._one("rack", HOST), "sliceSize": size}
        if self.places != "none" and self._is(10):
            pod_set["hostPort"] = 80
        return pod_set

    # Steps.

    def _step(self) -> Any:
        run = {"run": self._one(None, None, None, 1, 2, 3)}
        changes = (
            *(self._change_of_workloads for _ in range(10)),
            *(self._change_of_queues for _ in range(5)),
            self._change_of_cohort,
            self._change_of_flavor,
            self._change_of_limits,
            *([self._change_of_nodes] * 5 if self.places != "none" else ()),
            *([self._change_of_checks] * 6 if self.has_checks else ()),
            *([self._change_of_reservations] * 4 if self._kind == "reserving" else ()),
        )
        return run if self._is(35) else self._one(*changes)()

    def _some_workload(self) -> str:
        return str(self._one(*self.given["workloads"])["name"])

    def _change_of_workloads(self) -> Any:
        name = self._some_workload()
        return self._one(
            {"create": [name]},
            {"create": [name]},
            {"delete": [name]},
            {"delete": [name]},
            {"finish": [name]},
            {"finish": [name]},
            {"stop": [name]},
            {"active": {name: False}},
            {"active": {name: True}},
            {"reclaim": {name: {"main": 1}}},
            {"podsReady": {name: self._is(80)}},
            {"update": {"workloads": {name: {"priority": self._one(0, 1, 2)}}}},
            {"update": {"workloads": {name: {"queue": f"l{self._one(*QUEUES)}"}}}},
            {"advance": self._one("5s", "60s")},
        )

    def _change_of_queues(self) -> Any:
        name = self._one(*QUEUES)
        cohort = self._one("", "left", "top")
        changed = self._one(
            {**self._quota(in_cohort=True), "cohort": "left"},
            {**self._quota(in_cohort=False), "cohort": ""},
            {"cohort": cohort, **self._quota(in_cohort=bool(cohort))},
            {"stopPolicy": self._one("None", "None", "Hold", "HoldAndDrain")},
            {"stopPolicy": "None"},
            {"preemption": self._preemption()},
            {"namespaceSelector": self._one({}, {"team": "x"}, {"team": "y"})},
            {"strategy": self._one("StrictFIFO", "BestEffortFIFO")},
        )
        of_local = self._one({"stopPolicy": self._one("None", "Hold")}, {"clusterQueue": self._one(*QUEUES)})
        return self._one(
            *({"update": {"clusterQueues": {name: changed}}} for _ in range(5)),
            {"update": {"localQueues": {f"l{name}": of_local}}},
            {"remove": {"clusterQueues": [name]}},
            {"remove": {"localQueues": [f"l{name}"]}},
            {"update": {"namespaces": {self._one(*NAMESPACES): {"team": self._one("x", "y")}}}},
        )

    def _change_of_cohort(self) -> Any:
        name = self._one("left", "top")
        parent = self._one("", "top") if name == "left" else ""
        changed = {"parent": parent, **self._quota(in_cohort=bool(parent))}
        return self._one(
            {"update": {"cohorts": {name: changed}}},
            {"update": {"cohorts": {name: changed}}},
            {"remove": {"cohorts": [name]}},
        )

    def _change_of_flavor(self) -> Any:
        name = self._one(*self.flavors)
        update = {"update": {"flavors": {name: self._flavor(name)}}}
        return self._one(update, update, {"remove": {"flavors": [name]}})

    def _change_of_limits(self) -> Any:
        least = {"type": self._one("Container", "Pod"), "max": {"cpu": self._one(1, 2)}}
        default = {"type": "Container", "defaultRequest": {"cpu": self._one(1, 2)}}
        return {"limitRange": self._one(None, None, least, default)}

    def _change_of_checks(self) -> Any:
        name, check = self._some_workload(), self._one(*CHECKS)
        state = self._one("Ready", "Ready", "Ready", "Pending", "Retry", "Rejected")
        selecting = {"name": "main", "nodeSelector": {"pool": self._one(*FLAVORS)}}
        queue = {"admissionChecks": self._checks_of_queue()}
        return self._one(
            {"checks": {name: {check: state}}},
            {"checks": {name: {check: state}}},
            {"checks": {name: dict.fromkeys(CHECKS, "Ready")}},
            {"checks": {name: {check: {"state": "Ready", "updates": [selecting]}}}},
            {"update": {"admissionChecks": {check: self._check(check)}}},
            {"remove": {"admissionChecks": [check]}},
            {"update": {"clusterQueues": {self._one(*QUEUES): queue}}},
        )

    def _change_of_reservations(self) -> Any:
        name = self._one(*RESERVATIONS)
        return self._one(
            {"update": {"reservations": {name: self._reservation()}}}, {"remove": {"reservations": [name]}}
        )

    def _change_of_nodes(self) -> Any:
        name, pod = self._one(*NODES), f"p{self._random.randrange(3)}"
        failed = [{"unhealthy": {self._some_workload(): [name]}}] if self._kind == "slicing" else []
        return self._one(
            *failed,
            {"update": {"nodes": {name: self._node()}}},
            {"update": {"nodes": {name: self._node()}}},
            {"remove": {"nodes": [name]}},
            {"update": {"pods": {pod: {"node": name, "cpu": self._one(1, 2)}}}},
            {"remove": {"pods": [pod]}},
        )


def failure(given: Json, steps: list[Any]) -> str:
    """Return what a new process decides after the history, or why the world did not come to rest."""
    try:
        world = RestingWorld(msgspec.to_builtins(given))
        for step in msgspec.to_builtins(steps):
            world.run(step)
        world.rest()
        return ", ".join(world.decided_anew() or world.decided_about_later() or world.unexplained())
    except Exception as error:  # of a bug: it is a counterexample too
        return f"{type(error).__name__}: {error}"


def counterexample(seed: int, kind: Kind = "any") -> str:
    """Return the smallest version of the history of ``seed`` that fails as it does; empty if none does."""
    history = History(seed, kind)
    return smallest_failure(history.given, history.steps, failure)
