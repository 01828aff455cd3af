"""Counts of pods by kind of job: how many may still run, and whether the job is ready."""

import copy
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.api.batch import Job
from quorate.api.kueue import PodSet, ReclaimablePod, Workload
from quorate.controllers.jobframework.pod_counts import PodCounts
from quorate.controllers.jobframework.pod_reports import are_ready, pods_running_again, reclaimable_pods
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.jobs.jobset import JobSet
from quorate.controllers.jobs.kubeflow import TRAINING_JOBS, MPIJob
from quorate.queueing.pending.effective_requests import held_counts
from tests.controllers.jobs.test_unstructured import a_job_set, foreign_job, replicated
from tests.controllers.objects import a_job, a_workload, template, with_admitted_count
from tests.search import examples


def show(counts: PodCounts) -> str:
    """Return the pods that may run by pod set, as ``main 4; ready``."""
    may_run = " ".join(f"{each.name} {each.may_run}" for each in counts)
    return f"{may_run}; {'ready' if are_ready(counts) else 'not ready'}"


INDEXED = {"completionMode": "Indexed"}
ENDS = [{"type": "FailureTarget", "status": "True"}]
SUCCEEDS = [{"type": "SuccessCriteriaMet", "status": "True"}]


@pytest.mark.parametrize(
    ("spec", "status", "want"),
    [
        pytest.param({"completions": 3}, {}, "main 3; not ready", id="suspended"),
        pytest.param({"completions": 3}, {"active": 3, "ready": 2}, "main 3; not ready", id="one starts"),
        pytest.param({"completions": 3}, {"active": 3, "ready": 3}, "main 3; ready", id="all run"),
        pytest.param(
            {"completions": 3}, {"active": 1, "ready": 1, "succeeded": 2}, "main 1; ready", id="two succeeded"
        ),
        pytest.param(
            {"completions": 3},
            {"active": 1, "ready": 1, "succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["p"]}},
            "main 1; ready",
            id="one of two that succeeded is not counted yet",
        ),
        pytest.param(
            {"completions": 3},
            {"active": 2, "ready": 2, "failed": 1},
            "main 3; not ready",
            id="one is retried",
        ),
        pytest.param(
            {"parallelism": 10, "completions": 6},
            {"active": 4, "ready": 4, "succeeded": 2},
            "main 4; ready",
            id="parallelism above the completions",
        ),
        pytest.param(
            {"completions": 10},
            {"active": 3, "ready": 3, "succeeded": 6},
            "main 3; ready",
            id="as many completions left as parallel pods",
        ),
        pytest.param(
            {"completions": 10},
            {"active": 2, "ready": 2, "succeeded": 8},
            "main 2; ready",
            id="two completions left for three pods",
        ),
        pytest.param(
            {"completions": 10},
            {"succeeded": 6},
            "main 3; ready",
            id="pods that succeeded are not waited for, their successors may start late",
        ),
        pytest.param(
            {"completions": 3},
            {"active": 3, "ready": 3, "terminating": 1},
            "main 4; ready",
            id="a deleted pod is replaced before it is gone",
        ),
        pytest.param(
            {"completions": 3, "podReplacementPolicy": "Failed"},
            {"active": 2, "ready": 2, "terminating": 1},
            "main 3; not ready",
            id="a deleted pod is replaced when it is gone",
        ),
        pytest.param(
            {"parallelism": 2, "completions": 3},
            {"active": 3, "ready": 3},
            "main 3; ready",
            id="a pod too many is still there",
        ),
        pytest.param({}, {"active": 3, "ready": 3}, "main 3; ready", id="a work queue"),
        pytest.param(
            {},
            {"active": 1, "ready": 1, "succeeded": 1},
            "main 1; not ready",
            id="after the first success a work queue gets no other pod for one that failed",
        ),
        pytest.param(
            {"completions": 5, **INDEXED},
            {"active": 1, "ready": 1, "succeeded": 3, "completedIndexes": "0,2-3", "failedIndexes": "1,7"},
            "main 1; ready",
            id="failed indexes have ended, indexes beyond the completions do not exist",
        ),
        pytest.param(
            {"parallelism": 4, "completions": 4, **INDEXED},
            {"active": 2, "ready": 2, "failed": 2, "failedIndexes": "0-1"},
            "main 2; ready",
            id="nothing is to be recovered of failed indexes",
        ),
        pytest.param(
            {"parallelism": 4, "completions": 4, **INDEXED},
            {"active": 2, "ready": 2, "failed": 3, "failedIndexes": "0"},
            "main 3; not ready",
            id="another index is tried again",
        ),
        pytest.param(
            {"completions": 2**31 - 1, **INDEXED},
            {
                "active": 2,
                "ready": 2,
                "completedIndexes": "0-2147483643,2-5",
                "failedIndexes": "1-9999999999,nine,2147483645",
            },
            "main 2; ready",
            id="a range is not counted one by one, and what is no range does not count",
        ),
        pytest.param(
            {"completions": 3},
            {"failed": 1, "terminating": 2, "conditions": ENDS},
            "main 2; not ready",
            id="the job has failed, its last pods are being deleted",
        ),
        pytest.param(
            {"completions": 3, **INDEXED},
            {"succeeded": 1, "completedIndexes": "0", "terminating": 2, "conditions": SUCCEEDS},
            "main 2; not ready",
            id="the job has succeeded with its leader, its last pods are being deleted",
        ),
    ],
)
def test_the_pods_of_a_batch_job(spec: dict[str, Any], status: dict[str, Any], want: str) -> None:
    assert show(BatchJob().pod_counts(a_job(**{"parallelism": 3, **spec}, status=status))) == want


def _replicas(name: str, **counts: int) -> dict[str, Any]:
    return {"replicatedJobsStatus": [{"name": name, **counts}, {"name": "unknown", "succeeded": 9}]}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, "workers 6; not ready", id="no child job yet"),
        pytest.param(_replicas("workers", active=3, ready=3), "workers 6; ready", id="all run"),
        pytest.param(
            _replicas("workers", active=1, ready=1, succeeded=2), "workers 2; ready", id="two ended"
        ),
        pytest.param(_replicas("workers", active=2, failed=1), "workers 6; not ready", id="it will restart"),
        pytest.param(_replicas("workers", active=3), "workers 6; not ready", id="all run again"),
        pytest.param(_replicas("workers", succeeded=5), "workers 0; ready", id="a status of more replicas"),
    ],
)
def test_the_pods_of_a_job_set(status: dict[str, Any], want: str) -> None:
    """Three child jobs of two pods each; a TrainJob is counted in the same way."""
    job = a_job_set(replicated(replicas=3, parallelism=2), status=status)
    assert show(JobSet().pod_counts(job)) == want


def _two(first: dict[str, int], second: dict[str, int]) -> dict[str, Any]:
    return {"replicatedJobsStatus": [{"name": "first", **first}, {"name": "second", **second}]}


@pytest.mark.parametrize(
    ("needed", "status", "want"),
    [
        pytest.param("Complete", {}, "first 1 second 2; not ready", id="the first is to start"),
        pytest.param("Complete", _two({"ready": 1}, {}), "first 1 second 2; ready", id="the first runs"),
        pytest.param(
            "Complete",
            _two({"succeeded": 1}, {}),
            "first 0 second 2; not ready",
            id="the second is to start",
        ),
        pytest.param(
            "Ready", _two({"ready": 1}, {}), "first 1 second 2; not ready", id="it may start beside it"
        ),
        pytest.param(
            "Ready",
            _two({"active": 1}, {"active": 2}),
            "first 1 second 2; not ready",
            id="the first is no longer ready",
        ),
        pytest.param(
            "Complete", _two({"succeeded": 1}, {"ready": 2}), "first 0 second 2; ready", id="the second runs"
        ),
    ],
)
def test_no_pod_of_a_replicated_job_that_waits_for_another_must_be_ready(
    needed: str, status: dict[str, Any], want: str
) -> None:
    depends = [{"name": "first", "status": needed}]
    second = replicated("second", replicas=2, dependsOn=depends)
    job = a_job_set(replicated("first"), second, status=status)
    assert show(JobSet().pod_counts(job)) == want


RUNNING = {"conditions": [{"type": "Running", "status": "True"}]}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, "launcher 1 worker 4; not ready", id="no pod yet"),
        pytest.param(
            {"replicaStatuses": {"Worker": {"active": 4}}}, "launcher 1 worker 4; not ready", id="starting"
        ),
        pytest.param(RUNNING, "launcher 1 worker 4; ready", id="running"),
        pytest.param(
            {**RUNNING, "replicaStatuses": {"Worker": {"active": 3, "succeeded": 1}}},
            "launcher 1 worker 3; ready",
            id="a worker has succeeded",
        ),
        pytest.param(
            {**RUNNING, "replicaStatuses": {"Worker": {"active": 3, "failed": 1}}},
            "launcher 1 worker 4; ready",
            id="a failed worker is created again",
        ),
    ],
)
def test_the_pods_of_a_kubeflow_job(status: dict[str, Any], want: str) -> None:
    replicas = {
        type_: {"replicas": count, "template": {}} for type_, count in (("Launcher", 1), ("Worker", 4))
    }
    job = foreign_job({"mpiReplicaSpecs": replicas}, status)
    assert show(MPIJob().pod_counts(job)) == want
    assert {*TRAINING_JOBS} >= {"kubeflow.org/pytorchjob", "kubeflow.org/tfjob"}, "they share the code"


@pytest.mark.parametrize(
    ("size", "admitted", "reported", "may_run", "want"),
    [
        pytest.param(6, 6, 0, 6, 0, id="all may run"),
        pytest.param(6, 6, 0, 4, 2, id="two have ended"),
        pytest.param(4, 4, 3, 4, 0, id="they run again"),
        pytest.param(8, 4, 0, 8, 0, id="admitted in part, all completions left"),
        pytest.param(8, 4, 0, 4, 0, id="admitted in part, as many left as admitted"),
        pytest.param(8, 4, 0, 3, 5, id="admitted in part, one of its pods has no completion left"),
        pytest.param(8, 2, 5, 3, 5, id="queued again for three pods, admitted with two"),
        pytest.param(8, 2, 5, 1, 7, id="one of these has ended"),
        pytest.param(8, None, 0, 3, 5, id="not admitted: it asks for the pods that are left"),
    ],
)
def test_reclaimable_pods(size: int, admitted: int | None, reported: int, may_run: int, want: int) -> None:
    workload = a_job_of(size, admitted, reported)
    counts = BatchJob().pod_counts(a_job(parallelism=may_run, completions=may_run))
    assert sum(each.count for each in reclaimable_pods(counts, workload)) == want


def a_job_of(size: int, admitted: int | None, reported: int = 0) -> Workload:
    """Return the workload of a job of ``size``, some pods of which are admitted, or None."""
    pod_sets = (PodSet(count=size, min_count=1, template=template()),)
    if admitted is None:
        return reporting(a_workload(pod_sets=pod_sets), reported)
    admitted_workload = with_admitted_count(a_workload(admitted_to=["spot"], pod_sets=pod_sets), admitted)
    return reporting(admitted_workload, reported)


def reporting(workload: Workload, count: int) -> Workload:
    """Return ``workload`` with ``count`` reclaimable pods."""
    pods = (ReclaimablePod(name="main", count=count),) if count else ()
    return replace(workload, status=replace(workload.status, reclaimable_pods=pods))


@pytest.mark.parametrize(
    ("size", "admitted", "reported", "now", "want"),
    [
        pytest.param(4, 4, 3, 0, {"main": 3}, id="all pods run again"),
        pytest.param(4, 4, 3, 1, {"main": 2}, id="some run again"),
        pytest.param(4, 4, 1, 3, {}, id="more pods have ended"),
        pytest.param(8, 2, 5, 0, {}, id="fewer reported, and no more quota is needed for it"),
        pytest.param(8, 2, 7, 0, {"main": 1}, id="of two admitted pods one runs again"),
    ],
)
def test_pods_running_again(size: int, admitted: int, reported: int, now: int, want: dict[str, int]) -> None:
    workload = a_job_of(size, admitted, reported)
    assert pods_running_again(workload, reporting(workload, now).status.reclaimable_pods) == want


class ControlledJob:
    """A Job with its pods, as the Job controller handles them; the model of the property below."""

    def __init__(self, parallelism: int, completions: int, *, indexed: bool, waits: bool) -> None:
        self.parallelism, self.completions = parallelism, completions
        self.indexed, self.waits = indexed, waits  # for deleted pods, before it replaces them
        self.pods: list[str] = []  # starting, ready or terminating
        self.succeeded = 0
        self.failed = 0  # indexes

    def create(self) -> None:
        """Create the pods that are missing."""
        wanted = min(self.parallelism, self.completions - self.succeeded - self.failed)
        states = Counter(self.pods)
        present = len(self.pods) if self.waits else len(self.pods) - states["terminating"]
        self.pods += ["starting"] * (wanted - present)

    def change(self, what: str, at: int) -> None:
        """Let one of the pods become ready, end, be deleted or be gone."""
        if not self.pods:
            return
        at %= len(self.pods)
        match what, self.pods[at]:
            case "ready", "starting":
                self.pods[at] = "ready"
            case "delete", _:
                self.pods[at] = "terminating"
            case "succeed", "ready":
                del self.pods[at]
                self.succeeded += 1
            case "fail", _:
                del self.pods[at]
            case "fail for good", "starting" | "ready" if self.indexed:
                del self.pods[at]
                self.failed += 1

    def job(self) -> Job:
        states, ended = Counter(self.pods), self.succeeded + self.failed
        status: dict[str, Any] = {
            "active": len(self.pods) - states["terminating"],
            "ready": states["ready"],
            "terminating": states["terminating"],
            "succeeded": self.succeeded,
        }
        if self.indexed:
            status["completedIndexes"] = f"0-{self.succeeded - 1}" if self.succeeded else ""
            status["failedIndexes"] = f"{self.succeeded}-{ended - 1}" if self.failed else ""
        return a_job(
            suspend=False,
            parallelism=self.parallelism,
            completions=self.completions,
            completionMode="Indexed" if self.indexed else "NonIndexed",
            podReplacementPolicy="Failed" if self.waits else "TerminatingOrFailed",
            status=status,
        )


CHANGES = st.sampled_from(
    ("create", "ready", "ready", "succeed", "succeed", "fail", "fail for good", "delete")
)


@examples(300)
@given(
    size=st.integers(2, 6),
    parallelism=st.integers(1, 8),
    completions=st.integers(1, 8),
    indexed=st.booleans(),
    waits=st.booleans(),
    changes=st.lists(st.tuples(CHANGES, st.integers(0, 7)), max_size=40),
)
def test_quota_is_held_for_what_runs_or_may_run_and_for_nothing_else(
    size: int,
    parallelism: int,
    completions: int,
    indexed: bool,
    waits: bool,
    changes: list[tuple[str, int]],
) -> None:
    """``size``: the pods that the workload requested, of which as many as the Job allows are admitted."""
    admitted = min(parallelism, completions)
    workload = a_job_of(max(size, admitted), admitted)
    world = ControlledJob(parallelism, completions, indexed=indexed, waits=waits)
    for what, at in changes:
        world.create() if what == "create" else world.change(what, at)
        counts = BatchJob().pod_counts(world.job())
        pods = reclaimable_pods(counts, workload)
        workload = reporting(workload, sum(each.count for each in pods))
        held = held_counts(workload)["main"]
        assert held >= min(len(world.pods), admitted), "what runs has quota, also while it terminates"
        then = copy.deepcopy(world)
        then.create()
        assert held == min(len(then.pods), admitted), "nothing is held for pods that never run again"
        arrived = world.pods.count("ready") + world.succeeded + world.failed
        assert are_ready(counts) == (arrived >= admitted), "ready: no pod that is to come is missing"
