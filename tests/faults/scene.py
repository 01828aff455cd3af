"""A small cluster generated from a seed: queues that share quota, and jobs that compete for it.

Each job fits into its queue besides the endless job, so all jobs that are not *stuck* must run.
"""

import random
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.pods_ready import RequeuingStrategy, WaitForPodsReady
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
)

Json = dict[str, Any]

NAMESPACE: Final = "default"
CHECK: Final = "gatekeeper"
CHECK_CONTROLLER: Final = "example.com/gatekeeper"  # the controller of the check
PRIORITIES: Final = {"low": 10, "high": 100}
ENDLESS_DURATION: Final = "1h"


@dataclass(frozen=True, slots=True)
class Submission:
    """A Job to create ``at_s`` after the start and, if set, to delete at ``delete_at_s``."""

    name: str
    at_s: float
    queue: str  # empty: unmanaged
    body: Json
    stuck: bool = False  # its pods never get ready
    endless: bool = False  # it never completes
    delete_at_s: float | None = None


@dataclass(frozen=True)
class Scene:
    configuration: Configuration
    objects: tuple[tuple[Resource[Any], Json], ...]  # cluster-scoped and local queues, in order of creation
    submissions: tuple[Submission, ...]
    has_check: bool

    def named(self, name: str) -> Submission:
        return next(each for each in self.submissions if each.name == name)


def generate_scene(seed: int) -> Scene:
    rng = random.Random(f"scene {seed}")
    waits = rng.random() < 0.35
    has_check = rng.random() < 0.3
    queues = [f"team-{letter}" for letter in "abc"[: rng.choice((1, 2, 3))]]
    flavors = ["spot", "dear"][: rng.choice((1, 2))]
    submissions = [_submission(rng, number, queues) for number in range(rng.randint(7, 11))]
    submissions.append(_submission(rng, len(submissions), queues, endless=True))
    if waits:
        submissions.append(_submission(rng, len(submissions), queues, stuck=True))
    submissions += [_unmanaged("stranger", "150ms"), _unmanaged("squatter", ENDLESS_DURATION)]
    return Scene(
        Configuration(wait_for_pods_ready=_wait_for_pods_ready(rng) if waits else None),
        tuple(_objects(rng, queues, flavors, has_check)),
        tuple(submissions),
        has_check,
    )


def _wait_for_pods_ready(rng: random.Random) -> WaitForPodsReady:
    return WaitForPodsReady(
        timeout_s=1.0,
        recovery_timeout_s=1.0,
        block_admission=rng.choice((None, "AllQueues", "SameFlavors")),
        requeuing_strategy=RequeuingStrategy(
            timestamp=rng.choice(("Eviction", "Creation")), backoff_limit_count=0
        ),
    )


def _objects(
    rng: random.Random, queues: list[str], flavors: list[str], has_check: bool
) -> list[tuple[Resource[Any], Json]]:
    objects: list[tuple[Resource[Any], Json]] = [(RESOURCE_FLAVORS, _named(name)) for name in flavors]
    objects += [
        (WORKLOAD_PRIORITY_CLASSES, _named(name) | {"value": value}) for name, value in PRIORITIES.items()
    ]
    if has_check:
        objects.append((ADMISSION_CHECKS, _named(CHECK, controllerName=CHECK_CONTROLLER)))
    cohort = len(queues) > 1 and rng.random() < 0.8
    if cohort and rng.random() < 0.5:
        shared = [{"name": flavor, "resources": [{"name": "cpu", "nominalQuota": "1"}]} for flavor in flavors]
        objects.append((COHORTS, _named("whole", resourceGroups=_groups(shared))))
    for queue in queues:
        objects.append((CLUSTER_QUEUES, _cluster_queue(rng, queue, flavors, cohort, has_check)))
        objects.append((LOCAL_QUEUES, _named(queue, clusterQueue=queue)))
    return objects


def _cluster_queue(rng: random.Random, name: str, flavors: list[str], cohort: bool, has_check: bool) -> Json:
    quotas = []
    for flavor in flavors:
        # The first flavor alone fits the largest job, so each job can run.
        cpu: Json = {
            "name": "cpu",
            "nominalQuota": str(rng.choice((4, 5) if flavor == flavors[0] else (0, 2))),
        }
        if cohort and rng.random() < 0.4:
            cpu["borrowingLimit"] = str(rng.choice((0, 1, 3)))
        if cohort and rng.random() < 0.3:
            cpu["lendingLimit"] = str(min(rng.choice((0, 1)), int(cpu["nominalQuota"])))
        quotas.append({"name": flavor, "resources": [cpu]})
    spec: Json = {
        "namespaceSelector": {},
        "resourceGroups": _groups(quotas),
        "queueingStrategy": rng.choice(("BestEffortFIFO", "StrictFIFO")),
        "preemption": {
            "withinClusterQueue": rng.choice(("Never", "LowerPriority", "LowerOrNewerEqualPriority")),
            # A lender must be able to reclaim its quota from a job that never ends.
            "reclaimWithinCohort": "Any",
        },
        "flavorFungibility": {
            "whenCanBorrow": rng.choice(("MayStopSearch", "TryNextFlavor")),
            "whenCanPreempt": rng.choice(("MayStopSearch", "TryNextFlavor")),
        },
    }
    if cohort:
        spec["cohortName"] = "whole"
    if has_check:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
    return _named(name, **spec)


def _submission(
    rng: random.Random, number: int, queues: list[str], *, stuck: bool = False, endless: bool = False
) -> Submission:
    pods = 1 if endless else rng.choice((1, 1, 2, 3))
    runs = ENDLESS_DURATION if endless else f"{rng.choice((20, 60, 120))}ms"
    starts = ENDLESS_DURATION if stuck else f"{rng.choice((0, 10, 30))}ms"
    name = f"job-{number}"
    labels = {"kueue.x-k8s.io/queue-name": rng.choice(queues)}
    if not endless and rng.random() < 0.6:
        labels["kueue.x-k8s.io/priority-class"] = rng.choice(tuple(PRIORITIES))
    annotations = {}
    if pods > 1 and rng.random() < 0.4:
        annotations["kueue.x-k8s.io/job-min-parallelism"] = "1"
    leaves = not (stuck or endless) and rng.random() < 0.15
    at_s = rng.choice((0.0, 0.0, 0.1, 0.3))
    return Submission(
        name,
        at_s,
        labels["kueue.x-k8s.io/queue-name"],
        _job(name, pods, runs, starts, labels, annotations),
        stuck,
        endless,
        at_s + rng.choice((0.02, 0.15, 0.4)) if leaves else None,
    )


def _unmanaged(name: str, runs: str) -> Submission:
    body = _job(name, 1, runs, "0ms", {}, {})
    body["spec"]["suspend"] = False
    return Submission(name, 0.0, "", body, endless=runs == ENDLESS_DURATION)


def _job(
    name: str, pods: int, runs: str, starts: str, labels: dict[str, str], annotations: dict[str, str]
) -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    simulated = {"simulate.quorate.dev/duration": runs, "simulate.quorate.dev/start-delay": starts}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "suspend": True,
            "template": {
                "metadata": {"annotations": simulated},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def _named(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, **({"spec": spec} if spec else {})}


def _groups(flavors: list[Json]) -> list[Json]:
    return [{"coveredResources": ["cpu"], "flavors": flavors}]
