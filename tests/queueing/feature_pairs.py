"""Worlds in which each two features of the core meet, played in virtual time: all workloads end.

A row chooses one value of each feature in ``FEATURES``, and the rows of a seed contain every pair of values.
In each world every workload fits its queue alone and runs for a few seconds, and something is changed for a
while.  So all workloads must end, at most the quota is in use, and no workload is evicted again and again.
Usage is summed here from the admissions, without the quota tree.
"""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Final

from quorate.queueing import conditions as c
from tests.queueing.notation import Json
from tests.queueing.world import World

FEATURES: Final = {
    "strategy": ("BestEffortFIFO", "StrictFIFO"),
    "sharing": ("alone", "cohort", "lending", "fair", "by usage", "by usage in a cohort"),
    "preemption": ("never", "in the queue", "any"),
    "flavors": ("one", "TryNextFlavor", "MayStopSearch"),
    "backfill": ("None", "EASY", "Conservative", "EASY with slack"),
    "ageing": ("", '{"every": "5s", "step": 10, "atMost": 60}',
               '{"every": "5s", "step": 10, "atMost": 60, "alsoPreempts": true}'),
    "window": ("", "left", "Evict"),
    "maxima": ("none", "some", "all"),
    "partial": (False, True),
    "ready": ("", "AllQueues", "SameFlavors"),
    "check": ("", "Ready", "Retry"),
    "places": ("", "required", "preferred", "unconstrained", "nodes"),
    "change": ("", "Hold", "HoldAndDrain", "quota", "cohort", "priority", "deactivate", "local Hold",
               "local HoldAndDrain", "taint", "node", "strategy", "delete"),
}  # fmt: skip
NOMINAL: Final = {"a": 6, "b": 4}  # of the first flavor
SECOND_NOMINAL: Final = 2
ENDS_S: Final = 400.0  # much longer than all workloads one after the other
MAX_EVICTIONS: Final = 12  # of one workload: its preemptors, checks, a window and a change
LEVELS: Final = ("rack", "kubernetes.io/hostname")
Row = dict[str, str | bool]


def rows(seed: int) -> Iterator[Row]:
    """Yield rows until every pair of values was in one, by a greedy search."""
    rng, names = random.Random(seed), list(FEATURES)
    missing = {
        (one, value, other, another)
        for one, other in combinations(names, 2)
        for value in FEATURES[one]
        for another in FEATURES[other]
    }

    def gain(row: Row, name: str, value: str | bool) -> float:
        pairs = [(other, row[other], name, value) for other in row]
        found = sum(pair in missing or (*pair[2:], *pair[:2]) in missing for pair in pairs)
        return found + rng.random() / 2

    while missing:
        row: Row = {}
        for name in rng.sample(names, len(names)):
            row[name] = max(FEATURES[name], key=lambda value, name=name: gain(row, name, value))  # type: ignore[misc]
        missing -= {(one, row[one], other, row[other]) for one, other in combinations(names, 2)}
        yield row


class PairWorld:
    """One world of a row, and the controllers of jobs, checks and pods that its workloads need."""

    def __init__(self, row: Row, seed: int) -> None:
        self.row, self.rng = row, random.Random(f"{seed} {sorted(row.items())}")
        self.runs_s: dict[str, int] = {}
        self.given = self._given()
        self.world = World(self.given)
        self.admitted_at: dict[str, float] = {}
        self.evictions: Counter[str] = Counter()
        self.retried: set[str] = set()

    # What there is.

    def _given(self) -> Json:
        row = self.row
        config: Json = {"fairSharing": {}} if row["sharing"] == "fair" else {}
        if str(row["sharing"]).startswith("by usage"):
            config["admissionFairSharing"] = {"usageHalfLifeTime": "1h", "usageSamplingInterval": "2s"}
        if row["ready"]:
            config["waitForPodsReady"] = {
                "timeout": "1h", "blockAdmission": True, "blockAdmissionScope": row["ready"]
            }  # fmt: skip
        if row["places"] == "nodes":
            config["nodeFit"] = {"mode": "Require"}
        given: Json = {
            "config": config,
            "now": 0,
            "flavors": {name: self._flavor() for name in ("first", "second")},
            "clusterQueues": {name: self._queue(name) for name in NOMINAL},
            "localQueues": {name: {"clusterQueue": name[0]} for name in ("a", "a2", "b")},
            "workloads": list(self._workloads()),
        }
        if row["places"]:
            given["topologies"] = {"tree": {"levels": [*LEVELS]}}
            given["nodes"] = {f"n{number}": self._node(number) for number in range(4)}
        if row["window"]:
            window = {"start": 8, "end": 20, "amounts": {"first": {"cpu": 6}}}
            owners = {"localQueues": [{"namespace": "default", "name": "b"}]}
            at_start = {"atStart": "Evict"} if row["window"] == "Evict" else {}
            given["reservations"] = {"night": {**window, "owners": owners, **at_start}}
        return given

    def _flavor(self) -> Json:
        return {"topologyName": "tree"} if self.row["places"] not in ("", "nodes") else {}

    @staticmethod
    def _node(number: int) -> Json:
        return {"labels": {"rack": f"r{number // 2}"}, "allocatable": {"cpu": 4, "pods": 20}}

    def _quota(self, nominal: int) -> Json:
        limits = {"lendingLimit": 1, "borrowingLimit": 3} if self.row["sharing"] == "lending" else {}
        return {"cpu": {"nominal": nominal, **limits}}

    def _queue(self, name: str) -> Json:
        row, annotations, queue = self.row, dict[str, str](), Json(strategy=self.row["strategy"])
        queue["quota"] = [{"first": self._quota(NOMINAL[name])}]
        if row["flavors"] != "one":
            queue["quota"][0]["second"] = self._quota(SECOND_NOMINAL)
            queue["flavorFungibility"] = dict.fromkeys(("whenCanBorrow", "whenCanPreempt"), row["flavors"])
        if row["sharing"] not in ("alone", "by usage"):
            queue["cohort"] = "pool"
        if str(row["sharing"]).startswith("by usage"):
            queue["admissionMode"] = "UsageBasedAdmissionFairSharing"
        if row["preemption"] != "never":
            is_any = row["preemption"] == "any"
            queue["preemption"] = {
                "withinClusterQueue": "LowerOrNewerEqualPriority" if is_any else "LowerPriority"
            }
            if is_any and "cohort" in queue:
                queue["preemption"]["reclaimWithinCohort"] = "Any"
                queue["preemption"]["borrowWithinCohort"] = {"policy": "LowerPriority"}
        if row["backfill"] != "None":
            annotations["backfill"] = str(row["backfill"]).partition(" ")[0]
        if row["backfill"] == "EASY with slack":
            annotations["backfill-slack-percent"] = "50"
        if row["ageing"]:
            annotations["priority-aging"] = str(row["ageing"])
        if row["check"]:
            queue["admissionChecks"] = ["check"]
        return queue | {"annotations": annotations}

    def _workloads(self) -> Iterator[Json]:
        rng, at = self.rng, 0
        for number in range(rng.randint(7, 13)):
            at += rng.choice((0, 0, 0, 1, 1, 2))
            queue, pods = rng.choice(("a", "a", "a2", "b")), rng.choice((1, 1, 2, 3))
            cpu = rng.randint(1, max(1, min(4, NOMINAL[queue[0]] // pods)))
            pod_set: Json = {"name": "main", "count": pods, "requests": {"cpu": cpu}}
            if self.row["partial"] and pods > 1:
                pod_set["minCount"] = 1
            if self.row["places"] in ("required", "preferred"):
                pod_set["topology"] = {self.row["places"]: LEVELS[0]}
            elif self.row["places"] == "unconstrained":
                pod_set["topology"] = {"unconstrained": True}
            name, runs_s = f"w{number}", rng.choice((1, 3, 6, 10))
            self.runs_s[name] = runs_s
            workload: Json = {
                "name": name, "queue": queue, "priority": rng.choice((0, 10, 100)), "created": at,
                "create": "later", "podSets": [pod_set],
            }  # fmt: skip
            if self.row["maxima"] == "all" or (self.row["maxima"] == "some" and rng.random() < 0.5):
                workload["maximumExecutionTimeSeconds"] = 2 * runs_s
            yield workload

    # What happens.

    def findings(self) -> list[str]:
        """Play the world; return what did not end, used too much or was evicted again and again."""
        world, begins_s, lasts_s = self.world, self.rng.choice((3, 6, 9)), self.rng.choice((3, 8))
        arrivals: dict[float, list[str]] = {}
        for workload in self.given["workloads"]:
            arrivals.setdefault(float(workload["created"]), []).append(workload["name"])
        over: dict[str, None] = {}
        while world.now < ENDS_S:
            world.run({"create": arrivals.pop(world.now, [])})
            if world.now in (begins_s, begins_s + lasts_s):
                self._change(begins=world.now == begins_s)
            for _ in range(4):
                before = dict(world.workloads)
                world.run({"cycle": 1})
                self._follow()
                if world.workloads == before:
                    break
            if self.row["change"] not in ("quota", "cohort") or world.now < begins_s:
                over |= dict.fromkeys(self._over_quota())
            if not arrivals and world.now > begins_s + lasts_s and not self._waiting():
                break
            world.run({"advance": 1})
            self._follow()
        often = [f"{name} was evicted {n} times" for name, n in self.evictions.items() if n > MAX_EVICTIONS]
        return [*over, *often, *(f"{name} does not end" for name in self._waiting())]

    def _waiting(self) -> list[str]:
        workloads = self.world.workloads.items()
        return [name for name, workload in workloads if workload.spec.active and not c.is_finished(workload)]

    def _follow(self) -> None:
        """Do what the controllers of jobs and checks do: stop, answer, get ready and end."""
        world = self.world
        for name in self._waiting():
            workload = world.workloads[name]
            if not c.has_quota_reservation(workload):
                continue
            if c.is_evicted(workload):
                self.evictions[name] += 1
                self.admitted_at.pop(name, None)
                world.run({"evictionDone": [name]})
                continue
            if not c.is_admitted(workload) and self.row["check"]:
                retries = self.row["check"] == "Retry" and name not in self.retried
                self.retried.add(name)
                world.run({"checks": {name: {"check": "Retry" if retries else "Ready"}}})
            if c.is_admitted(world.workloads[name]):
                since = self.admitted_at.setdefault(name, world.now)
                if self.row["ready"] and world.now > since and name not in world.ready:
                    world.run({"podsReady": {name: True}})
                if world.now - since >= self.runs_s[name]:
                    world.run({"finish": [name]})

    def _change(self, *, begins: bool) -> None:
        """Change something, or change it back."""
        queue, change = self._queue("a"), str(self.row["change"])
        waiting = self._waiting()[:2]
        policy = change.rpartition(" ")[2] if begins else "None"
        match change:
            case "Hold" | "HoldAndDrain":
                self._update("clusterQueues", "a", stopPolicy=policy)
            case "local Hold" | "local HoldAndDrain":
                self._update("localQueues", "a", clusterQueue="a", stopPolicy=policy)
            case "quota":
                less = {name: self._quota(1) for name in queue["quota"][0]}
                self._update("clusterQueues", "a", quota=[less] if begins else queue["quota"])
            case "cohort" if "cohort" in queue and self.row["sharing"] != "lending":
                self._update("clusterQueues", "b", cohort="" if begins else queue["cohort"])
            case "strategy":
                other = next(value for value in FEATURES["strategy"] if value != queue["strategy"])
                self._update("clusterQueues", "a", strategy=other if begins else queue["strategy"])
            case "taint":
                taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}] if begins else []
                self._update("flavors", "first", **self._flavor(), nodeTaints=taints)
            case "node" if self.row["places"]:
                self._update("nodes", "n0", ready=not begins)
            case "priority" if begins:
                for name in waiting:
                    self._update("workloads", name, priority=50)
            case "deactivate":
                for name in list(self.world.workloads)[:2]:
                    if not c.is_finished(self.world.workloads[name]):
                        self.world.run({"active": {name: not begins}})
            case "delete" if begins:
                self.world.run({"delete": waiting[:1]})

    def _update(self, kind: str, name: str, **fields: object) -> None:
        self.world.run({"update": {kind: {name: fields}}})

    def _over_quota(self) -> Iterator[str]:
        used: Counter[tuple[str, str]] = Counter()
        for workload in self.world.workloads.values():
            admission = workload.status.admission
            holds = c.has_quota_reservation(workload) and not c.is_finished(workload)
            if admission is None or not holds or not workload.spec.active:
                continue  # as in Kueue, a deactivated workload holds no quota
            for assigned in admission.pod_set_assignments:
                for resource, flavor in assigned.flavors.items():
                    amount = assigned.resource_usage[resource].milli // 1000
                    used[admission.cluster_queue, flavor] += amount
        shared = self.row["sharing"] not in ("alone", "by usage")
        for flavor in ("first", "second"):
            nominal = NOMINAL if flavor == "first" else dict.fromkeys(NOMINAL, SECOND_NOMINAL)
            lent = 1 if self.row["sharing"] == "lending" else sum(nominal.values()) if shared else 0
            for queue in NOMINAL:
                if used[queue, flavor] > nominal[queue] + lent:
                    yield f"{queue} uses {used[queue, flavor]} of {flavor}"
            if sum(used[queue, flavor] for queue in NOMINAL) > sum(nominal.values()):
                yield f"the queues use more of {flavor} than there is"
