"""Many jobs that compete for quota: queues that lend, priorities that preempt, pods that never get ready."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from quorate.api.batch import Job
from quorate.api.kueue import Workload
from quorate.api.meta import Uid, find_condition, is_true
from quorate.kube.client import Client
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
)
from quorate.local.nodes import NodePool
from quorate.queueing.pods_ready import TIMEOUT_ANNOTATION
from tests.e2e.world import NAMESPACE
from tests.faults.history import History

Json = dict[str, Any]
QUEUES: Final = {"team-a": 6, "team-b": 6, "team-c": 4}  # nominal cpu
COHORT: Final = "teams"
PRIORITIES: Final = {"low": 10, "high": 100}
# Fewer cpus than quota: some pods of a job wait for a node, so the pods of a job end one after the other.
FLEET: Final = NodePool(3, cpu="4")
CONFIGURATION: Final[Json] = {
    "waitForPodsReady": {
        "timeout": "1h",  # only jobs with a timeout of their own exceed it
        "requeuingStrategy": {"timestamp": "Eviction", "backoffLimitCount": 1, "backoffBaseSeconds": 1},
    }
}
STUCK_IN_PERCENT: Final = 4
MOST_UNFINISHED: Final = 60


def objects(preempting: bool) -> list[tuple[Resource[Any], Json]]:
    found: list[tuple[Resource[Any], Json]] = [
        (RESOURCE_FLAVORS, {"metadata": {"name": "default"}}),
        (COHORTS, {"metadata": {"name": COHORT}, "spec": {}}),
    ]
    found += [
        (WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        for name, value in PRIORITIES.items()
    ]
    for name, cpu in QUEUES.items():
        quota = {"name": "cpu", "nominalQuota": str(cpu), "borrowingLimit": "4"}
        flavors = [{"name": "default", "resources": [quota]}]
        spec: Json = {
            "cohortName": COHORT,
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        }
        if preempting:
            spec["preemption"] = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
        found.append((CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": spec}))
        found.append((LOCAL_QUEUES, {"metadata": {"name": name}, "spec": {"clusterQueue": name}}))
    return found


def generate_job(seed: int, number: int) -> Json:
    """Return a job; one in 25 has pods that never get ready and is deactivated after two attempts."""
    rng = random.Random(f"job {seed} {number}")
    stuck = is_stuck(seed, number)
    pods = 1 if stuck else rng.randint(1, 4)
    annotations = {TIMEOUT_ANNOTATION: "2s"} if stuck else {}
    if pods > 2 and rng.random() < 0.3:
        annotations["kueue.x-k8s.io/job-min-parallelism"] = "2"
    simulated = {
        "simulate.quorate.dev/duration": f"{rng.choice((100, 400, 1500))}ms",
        "simulate.quorate.dev/start-delay": "1h" if stuck else "20ms",
    }
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    labels = {
        "kueue.x-k8s.io/queue-name": rng.choice(tuple(QUEUES)),
        "kueue.x-k8s.io/priority-class": rng.choice(("low", "low", "high")),
    }
    template = {
        "metadata": {"annotations": simulated},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "metadata": {"name": name_of(number), "labels": labels, "annotations": annotations},
        "spec": {"parallelism": pods, "completions": pods, "suspend": True, "template": template},
    }


def is_stuck(seed: int, number: int) -> bool:
    return random.Random(f"stuck {seed} {number}").randrange(100) < STUCK_IN_PERCENT


def name_of(number: int) -> str:
    return f"job-{number}"


@dataclass
class Progress:
    """What the history says so far about jobs and workloads."""

    history: History
    ended: set[str] = field(default_factory=set)  # jobs that are complete or deactivated
    evictions: Counter[str] = field(default_factory=Counter)  # by reason
    reservations: Counter[Uid] = field(default_factory=Counter)  # by workload
    reclaimable: int = 0  # states with pods that need no quota any more, before the workload finished
    _workloads: dict[Uid, Workload] = field(default_factory=dict)
    _read: int = 0

    def update(self) -> None:
        steps = self.history.steps
        while self._read < len(steps):
            step = steps[self._read]
            self._read += 1
            if isinstance(step.object, Job) and is_true(step.object.status.conditions, "Complete"):
                self.ended.add(step.object.metadata.name)
            elif isinstance(step.object, Workload):
                self._workload_changed(step.object)

    def _workload_changed(self, new: Workload) -> None:
        old = self._workloads.get(new.metadata.uid)
        self._workloads[new.metadata.uid] = new
        owner = new.metadata.controller
        if not new.spec.active and owner is not None:
            self.ended.add(owner.name)
        if _turned(old, new, "QuotaReserved"):
            self.reservations[new.metadata.uid] += 1
        if _turned(old, new, "Evicted"):
            evicted = find_condition(new.status.conditions, "Evicted")
            assert evicted is not None
            self.evictions[evicted.reason] += 1
        if new.status.reclaimable_pods and not is_true(new.status.conditions, "Finished"):
            self.reclaimable += 1


def _turned(old: Workload | None, new: Workload, type_: str) -> bool:
    """Return True if the condition has become true."""
    return is_true(new.status.conditions, type_) and (
        old is None or not is_true(old.status.conditions, type_)
    )


async def create_objects(client: Client, *, preempting: bool = True) -> None:
    for resource, body in objects(preempting):
        await client.create(resource, body, NAMESPACE if resource.namespaced else "")


async def submit(client: Client, seed: int, jobs: int, progress: Progress) -> None:
    """Create the jobs, so many at a time that at most ``MOST_UNFINISHED`` have not ended."""
    for number in range(jobs):
        while number - len(progress.ended) >= MOST_UNFINISHED:
            await asyncio.sleep(0.05)
            progress.update()
        await client.create(JOBS, generate_job(seed, number), NAMESPACE)
