"""Batch jobs over the queueing core, with the pods that a Job controller makes, beside the witness.

The decisions are those of the product: the admission cycle, the rules of workloads and those of batch jobs.
Simulated are only the API server (merge patches, defaults of requests), the Job controller (as many pods as
parallelism and completions allow) and the nodes (pods run and end at random).  After every transition the
witness compares what runs with the limits.

    python -m tests.witness.simulated_jobs [--steps N] [--seed N]

Prints the first difference and exits with 1, or the number of steps: each pod that starts or ends, and each
change of a workload or queue, is one.
"""

import argparse
import itertools
import random
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.batch import Job
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import Key, at_epoch
from quorate.controllers.jobframework.job_plan import JobOptions, ReconcileContext, job_options
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobs.batch import BatchJob
from quorate.kube.writes import Create, Patch, Write
from quorate.queueing import conditions as c
from quorate.queueing.outside_quota import ANNOTATION, as_annotation, recorded_use
from quorate.queueing.pods_outside_quota import find_pods_outside
from quorate.witness.admissions import WitnessedWorkload
from quorate.witness.pods import WitnessedPod
from quorate.witness.report import Report
from quorate.witness.witness import Facts, Witness
from tests.queueing.notation import Json
from tests.queueing.world import World
from tests.witness.objects import a_cohort, a_node

GRACE_S: Final = 30.0  # of the witness; the simulation has no delays, so that every difference is a fault
TICK_S: Final = 1.0
QUEUES: Final = ("a", "b", "c", "d")
CREDITS: Final = {"input": "example.com/vram", "strategy": "Replace", "outputs": {"example.com/credits": "2"}}
CONFIG: Final[Json] = {
    "resources": {"excludeResourcePrefixes": ["example.com/vram"], "transformations": [CREDITS]}
}
LIMIT_RANGE: Final = {"type": "Container", "defaultRequest": {"cpu": "100m"}}
MOST_JOBS: Final = 14
STEPS_OF_A_SEED: Final = 20_000
COHORTS: Final = (a_cohort("left", parent="top"), a_cohort("top"))
NODE: Final = a_node(cpu="100000", pods="100000", vram="100000")


def _world(rng: random.Random) -> World:
    """Return queues with quota for some tens of pods, in a cohort below another one."""

    def quota(cpu: int, credits: int) -> list[Json]:
        limits: Json = {"nominal": cpu}
        if rng.random() < 0.3:
            limits["borrowingLimit"] = rng.randrange(0, cpu + 1)
        if rng.random() < 0.3:
            limits["lendingLimit"] = rng.randrange(0, cpu + 1)
        return [{flavor: {"cpu": limits, "example.com/credits": credits}} for flavor in ("one", "two")]

    preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
    queues = {
        name: {
            "cohort": rng.choice(("left", "left", "top")),
            "preemption": preemption if rng.random() < 0.7 else {},
            "quota": quota(rng.randrange(5, 90), rng.randrange(2, 40)),
        }
        for name in QUEUES
    }
    return World(
        {
            "config": CONFIG,
            "flavors": ["one", "two"],
            "limitRanges": [LIMIT_RANGE],
            "cohorts": {"left": {"parent": "top"}, "top": {}},
            "clusterQueues": queues,
            "workloads": [],
        }
    )


def _container(rng: random.Random, name: str, **fields: Any) -> Json:
    """Return a container that requests cpu by requests, by limits or by the LimitRange, and maybe vram."""
    cpu = f"{rng.choice((100, 250, 500, 1000, 2000))}m"
    resources: Json = rng.choice(({"requests": {"cpu": cpu}}, {"limits": {"cpu": cpu}}, {}))
    if rng.random() < 0.3:
        resources = {**resources, "requests": {**resources.get("requests", {}), "example.com/vram": "1"}}
        resources["limits"] = {**resources.get("limits", {}), "example.com/vram": "1"}
    return {"name": name, "image": "busybox", "resources": resources, **fields}


def _template(rng: random.Random) -> Json:
    spec: Json = {
        "restartPolicy": "Never",
        "containers": [_container(rng, f"c{index}") for index in range(rng.choice((1, 1, 2)))],
    }
    if rng.random() < 0.5:
        policy = {"restartPolicy": "Always"} if rng.random() < 0.7 else {}
        spec["initContainers"] = [_container(rng, "i0", **policy), _container(rng, "i1")]
    if rng.random() < 0.15:
        spec["resources"] = {"requests": {"cpu": "12"}}  # more than any containers request together
    if rng.random() < 0.3:
        spec["overhead"] = {"cpu": "1"}
    return {"spec": spec}


def _stored(spec: Json) -> Json:
    """Return the spec of a pod as the API server stores it: limits are requests, then the LimitRange."""

    def stored(container: Json) -> Json:
        resources = container["resources"]
        requests = {**resources.get("limits", {}), **resources.get("requests", {})}
        return {**container, "resources": {**resources, "requests": {"cpu": "100m", **requests}}}

    return {
        **spec,
        "containers": [stored(each) for each in spec["containers"]],
        "initContainers": [stored(each) for each in spec.get("initContainers", ())],
    }


def merged(target: Any, patch: Any) -> Any:
    """Return ``target`` after a JSON merge patch."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class _SimulatedJob:
    """A stored Job and its pods; the counts of its status are those of a Job controller."""

    def __init__(self, name: str, body: Json) -> None:
        self.name = name
        self.body = body
        self.pods: dict[str, WitnessedPod] = {}
        self.bound: dict[str, Pod] = {}  # the same pods, as the controllers read them
        self.made = 0
        self.succeeded = 0
        self.version = 0  # of ``body``
        self.reconciled: tuple[str, int, int, int] | None = None  # what the last plan was made from

    @property
    def typed(self) -> Job:
        counts = {"active": len(self.pods), "ready": len(self.pods), "succeeded": self.succeeded}
        done = [{"type": "Complete", "status": "True"}] if self.is_complete else []
        return codec.decode(
            Job,
            codec.encode(
                {**self.body, "status": {**self.body.get("status", {}), **counts, "conditions": done}}
            ),
        )

    @property
    def completions(self) -> int:
        return int(self.body["spec"]["completions"])

    @property
    def is_complete(self) -> bool:
        return self.succeeded >= self.completions

    @property
    def is_deleted(self) -> bool:
        return "deletionTimestamp" in self.body["metadata"]

    def sync(self) -> int:
        """Create and delete pods as the Job controller does; return how many."""
        if self.is_deleted:
            return 0
        spec = self.body["spec"]
        wanted = 0 if spec["suspend"] else min(spec["parallelism"], self.completions - self.succeeded)
        changes = 0
        while len(self.pods) > wanted:
            name, _ = self.pods.popitem()
            del self.bound[name]
            changes += 1
        while len(self.pods) < wanted:
            self.made += 1
            name = f"{self.name}-{self.made}"
            pod = self._pod(name, spec["template"])
            self.pods[name], self.bound[name] = codec.convert(WitnessedPod, pod), codec.convert(Pod, pod)
            changes += 1
        return changes

    def end(self, name: str) -> None:
        """Let a pod succeed."""
        del self.pods[name], self.bound[name]
        self.succeeded += 1

    def _pod(self, name: str, template: Json) -> Json:
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": self.name,
            "uid": self.name,
            "controller": True,
        }
        metadata = {**template.get("metadata", {}), "name": name, "namespace": "default", "uid": name}
        return {
            "metadata": {**metadata, "ownerReferences": [owner]},
            "spec": {**_stored(template["spec"]), "nodeName": "n"},
            "status": {"phase": "Running"},
        }


class SimulatedJobs:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.world = _world(self._rng)
        self.jobs: dict[str, _SimulatedJob] = {}
        self._options: JobOptions = job_options(self.world.configuration)
        self._witness = Witness(GRACE_S)
        self._decoded: dict[str, WitnessedWorkload] = {}
        self._made = 0
        self.steps = 0
        self.admitted = 0
        self.outside_quota = ""  # the last job with pods outside of quota that could be stopped
        self.observe()

    def play(self) -> Iterator[Report]:
        """Make one random change after the other, without end; yield what the witness finds after each."""
        changes = (self._submit, self._submit, self._cycle, self._cycle, self._end_pods, self._end_pods,
                   self._end_pods, self._delete, self._deactivate, self._change_quota)  # fmt: skip
        weights = (3, 3, 4, 4, 3, 3, 3, 1, 0.5, 0.2)
        while True:
            self.world.now += TICK_S
            (change,) = self._rng.choices(changes, weights)
            change()
            self.steps += 1
            self._reconcile()
            yield self.observe()

    def observe(self) -> Report:
        world = self.world
        ledger = world.state.ledger
        return self._witness.observe(
            Facts(
                resources=world.configuration.resources,
                pods=[pod for job in self.jobs.values() for pod in job.pods.values()],
                workloads=[self._witnessed(workload) for workload in world.workloads.values()],
                cluster_queues=[queue.object for queue in ledger.cluster_queues.values()],
                cohorts=COHORTS,
                nodes=[NODE],
            ),
            world.now,
        )

    def _witnessed(self, workload: Workload) -> WitnessedWorkload:
        """Return the workload as the witness decodes it; equal versions are decoded once."""
        name, version = workload.metadata.name, workload.metadata.resource_version
        known = self._decoded.get(name)
        if known is None or known.metadata.resource_version != version:
            self._decoded[name] = known = codec.decode(WitnessedWorkload, codec.encode(workload))
        return known

    # Changes.

    def _submit(self) -> None:
        if len(self.jobs) >= MOST_JOBS:
            return
        rng = self._rng
        self._made += 1
        name = f"j{self._made}"
        parallelism = rng.choice((1, 3, 12, 30))
        partial = {"kueue.x-k8s.io/job-min-parallelism": str(rng.randrange(1, parallelism + 1))}
        queue = rng.choice(QUEUES)
        self.world.put_local_queue("default", queue)
        body = {
            "metadata": {
                "name": name, "namespace": "default", "uid": name, "resourceVersion": "1", "generation": 1,
                "creationTimestamp": codec.to_builtins(at_epoch(self.world.now)),
                "labels": {"kueue.x-k8s.io/queue-name": queue},
                "annotations": partial if rng.random() < 0.4 else {},
            },
            "spec": {
                "parallelism": parallelism, "completions": rng.choice((1, 5, 40, 200)), "suspend": True,
                "template": _template(rng),
            },
        }  # fmt: skip
        self.jobs[name] = _SimulatedJob(name, body)

    def _cycle(self) -> None:
        before = set(self.world.admitted())
        self.world.run("cycle")
        self.admitted += len(set(self.world.admitted()) - before)

    def _end_pods(self) -> None:
        """Let some pods of a running job succeed, at most as many as its Job still needs."""
        running = [job for job in self.jobs.values() if job.pods]
        if not running:
            return
        job = self._rng.choice(running)
        for _ in range(self._rng.randrange(1, len(job.pods) + 1)):
            job.end(self._rng.choice(sorted(job.pods)))
            self.steps += 1

    def _delete(self) -> None:
        """Delete a job and its pods at once; or a finalizer keeps the job, and its pods run on."""
        if not self.jobs:
            return
        job = self.jobs[self._rng.choice(sorted(self.jobs))]
        if self._rng.random() < 0.5:
            moment = {"deletionTimestamp": codec.to_builtins(at_epoch(self.world.now))}
            job.body = merged(job.body, {"metadata": moment})
            job.version += 1
        else:
            self.steps += len(job.pods)
            self._remove(job)

    def _remove(self, job: _SimulatedJob) -> None:
        del self.jobs[job.name]
        if (workload := self._workload_of(job)) is not None:
            self.world.run({"delete": [workload.metadata.name]})

    def _deactivate(self) -> None:
        """Change whether a workload is active, half of the time that of a job that cannot be stopped."""
        if not self.world.workloads:
            return
        kept = [self._workload_of(job) for job in self.jobs.values() if job.is_deleted]
        names = [workload.metadata.name for workload in kept if workload is not None]
        if not names or self._rng.random() < 0.5:
            names = sorted(self.world.workloads)
        self.world.run({"active": {self._rng.choice(names): self._rng.random() < 0.5}})

    def _change_quota(self) -> None:
        """Raise or lower a quota; what runs above a lowered one is told apart by the witness."""
        queue = self._rng.choice(QUEUES)
        given = self.world.given["clusterQueues"][queue]["quota"]
        for flavor in given:
            for limits in flavor.values():
                limits["cpu"]["nominal"] = self._rng.randrange(5, 90)
                limits["cpu"].pop("borrowingLimit", None)
                limits["cpu"].pop("lendingLimit", None)
        self.world.run({"update": {"clusterQueues": {queue: {"quota": given}}}})

    # Controllers.

    def _reconcile(self) -> None:
        """Run the rules of batch jobs and the Job controller until nothing changes."""
        for _ in range(20):
            changes = sum(self._reconcile_job(job) for job in list(self.jobs.values()))
            self.world.settle()
            if not changes:
                break
        else:
            raise AssertionError("the jobs do not become idle")
        for job in self.jobs.values():
            self._record_outside(job)

    def _record_outside(self, job: _SimulatedJob) -> None:
        """Record what pods use outside of quota, at once: nothing here is late.

        Only a job that cannot be stopped has such pods.
        """
        workload, world = self._workload_of(job), self.world
        if workload is None:
            return
        found = find_pods_outside(
            (workload,), job.bound.values(), world.state.ledger.cluster_queues, world.configuration
        )
        if found is not None and found.use is not None and not job.is_deleted:
            self.outside_quota = f"{job.name}: {found.message}"
        if found is not None and found.use != recorded_use(workload):
            value = None if found.use is None else as_annotation(found.use)
            self._patch_workload(workload.metadata.key, {"metadata": {"annotations": {ANNOTATION: value}}})
            self.steps += 1

    def _reconcile_job(self, job: _SimulatedJob) -> int:
        changes = job.sync()
        self.steps += changes
        workload = self._workload_of(job)
        is_over = (job.is_complete or job.is_deleted) and not job.pods
        if is_over and (workload is None or c.is_finished(workload)):
            self._remove(job)
            return changes + 1
        version = "" if workload is None else workload.metadata.resource_version
        seen = (version, job.version, job.succeeded, len(job.pods))
        if job.reconciled == seen:
            return changes
        job.reconciled = seen
        context = ReconcileContext(
            flavors=dict(self.world.state.flavors), workload_classes={}, pod_classes={}
        )
        owned = [] if workload is None else [workload]
        plan = decide(BatchJob(), job.typed, owned, context, self._options, self.world.now)
        for write in plan.all_writes:
            changes += self._carry_out(job, write)
        return changes

    def _carry_out(self, job: _SimulatedJob, write: Write) -> int:
        self.steps += 1
        match write:
            case Create(body=Workload() as workload):
                name = workload.metadata.name
                uid = {"uid": name, "creation_timestamp": at_epoch(self.world.now)}
                metadata = msgspec.structs.replace(workload.metadata, **uid)
                self.world.put(name, msgspec.structs.replace(workload, metadata=metadata))
            case Patch(resource=resource, body=body, key=key) if resource.kind == "Workload":
                self._patch_workload(key, body)
            case Patch(resource=resource, body=body) if resource.kind == "Job":
                job.body = merged(job.body, codec.to_builtins(body))
                job.version += 1
            case _:
                raise AssertionError(f"not simulated: {write}")
        return 1

    def _patch_workload(self, key: Key, body: Mapping[str, Any]) -> None:
        old = self.world.workloads[key.name]
        new = codec.decode(Workload, codec.encode(merged(codec.to_builtins(old), codec.to_builtins(body))))
        self.world.put(key.name, new)

    def _workload_of(self, job: _SimulatedJob) -> Workload | None:
        for workload in self.world.workloads.values():
            if any(owner.uid == job.name for owner in workload.metadata.owner_references):
                return workload
        return None


def first_fault(seed: int, steps: int) -> tuple[SimulatedJobs, str]:
    """Play ``steps`` steps from ``seed``; return the simulation and the first fault found, empty if none.

    What the simulation finds itself is only returned at the end, after what the witness finds.
    """
    simulation = SimulatedJobs(seed)
    for report in simulation.play():
        for each in report.differences:
            if each.reason.is_fault:
                return (
                    simulation,
                    f"seed {seed}, step {simulation.steps}: {each.reason} {each.place}: {each.message}",
                )
        if simulation.steps >= steps:
            return simulation, simulation.outside_quota
    raise AssertionError("the simulation ends by itself")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    done = admitted = 0
    began = time.monotonic()
    for seed in itertools.count(options.seed):
        simulation, fault = first_fault(seed, min(STEPS_OF_A_SEED, options.steps - done))
        if fault:
            sys.stderr.write(f"{fault}\n")
            return 1
        done, admitted = done + simulation.steps, admitted + simulation.admitted
        if done >= options.steps:
            break
    seconds = time.monotonic() - began
    sys.stdout.write(f"{done} steps, {admitted} admissions, no difference ({seconds:.0f} s)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
