"""The sync of the Job controller, as scenarios with one job."""

from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.meta import at_epoch
from quorate.local.controllers.job.failure_policy import (
    Backoff,
    PolicyMatch,
    backoff_delay_s,
    match_pod_failure_policy,
)
from quorate.local.controllers.job.pod_management import PodToCreate, name_prefix, pod_from_template
from quorate.local.controllers.job.sync import SyncResult, sync_job
from quorate.local.controllers.job.types import Job, PodFailurePolicy
from tests.local.controllers.simulated_job import START, SimulatedJob, a_job, a_pod, exited, indexes


def test_a_job_runs_to_completion() -> None:
    world = SimulatedJob(a_job(completions=2, parallelism=2))
    world.settle()
    assert (world.status.active, world.status.ready, world.status.terminating) == (2, 0, 0)
    for name in list(world.pods):
        world.finish(name)
    world.settle()
    assert (world.status.succeeded, world.status.active) == (2, 0)
    assert world.true_conditions == ["SuccessCriteriaMet", "Complete"]
    assert not any(pod.has_tracking_finalizer for pod in world.pods.values())
    assert world.events == ["Completed"]


def test_a_finished_pod_is_listed_as_uncounted_until_it_is_released() -> None:
    world = SimulatedJob(a_job(completions=2, parallelism=1))
    world.settle()
    (name,) = world.pods
    world.finish(name)
    decided = world.reconcile()
    assert [pod.metadata.name for pod in decided.release] == [name]
    assert decided.status.uncounted_terminated_pods is not None
    assert decided.status.uncounted_terminated_pods.succeeded == (name,)
    assert decided.status.succeeded == 0
    world.reconcile()
    assert world.status.succeeded == 1


def test_a_crash_between_listing_and_releasing_counts_the_pod_once() -> None:
    world = SimulatedJob(a_job(completions=2))
    world.settle()
    (name,) = world.pods
    world.finish(name)
    tracked = world.pods[name]
    world.reconcile()
    world.pods[name] = tracked
    world.settle()
    assert world.status.succeeded == 1


def test_a_work_queue_adds_no_pods_after_the_first_success() -> None:
    world = SimulatedJob(a_job(completions=None, parallelism=3))
    world.settle()
    first, *others = world.pods
    world.finish(first)
    world.settle()
    assert [pod.metadata.name for pod in world.live] == others
    for name in others:
        world.finish(name, code=1)
    world.settle()
    assert "Complete" in world.true_conditions


def test_a_pod_that_is_deleted_before_its_job_succeeds_counts_as_failed() -> None:
    world = SimulatedJob(a_job(completions=None, parallelism=2))
    world.settle()
    first, second = world.pods
    world.finish(first)
    world.run(second)
    world.settle()
    world.delete(second)
    world.settle()
    world.stop(second)
    world.settle()
    assert (world.status.succeeded, world.status.failed) == (1, 1)
    assert "Complete" in world.true_conditions


def test_suspending_deletes_the_pods_and_resuming_restarts_the_deadline() -> None:
    world = SimulatedJob(a_job(completions=3, parallelism=3))
    world.settle()
    world.finish(next(iter(world.pods)))
    world.settle()
    world.change(suspend=True)
    world.settle()
    assert (world.status.succeeded, world.status.failed, world.status.start_time) == (1, 0, None)
    assert not world.live
    assert world.true_conditions == ["Suspended"]
    world.now += 100
    world.change(suspend=False)
    world.settle()
    assert world.status.start_time is not None
    assert world.status.start_time.timestamp() == START + 100
    assert len(world.live) == 2
    assert world.events == ["Suspended", "Resumed"]


def test_a_sync_creates_a_limited_number_of_pods() -> None:
    world = SimulatedJob(a_job(completions=1200, parallelism=1200))
    assert [len(world.reconcile().create) for _ in range(4)] == [500, 500, 200, 0]


def test_lowering_the_parallelism_deletes_the_least_advanced_pods() -> None:
    world = SimulatedJob(a_job(completions=3, parallelism=3))
    world.settle()
    running = sorted(world.pods)[1]
    world.run(running)
    world.change(parallelism=1)
    world.settle()
    assert [pod.metadata.name for pod in world.live] == [running]
    assert world.status.failed == 0


def test_only_indexes_that_have_not_succeeded_run_again() -> None:
    world = SimulatedJob(a_job(completions=3, parallelism=2, completionMode="Indexed"))
    world.settle()
    assert indexes(world.live) == [0, 1]
    world.finish(next(pod.metadata.name for pod in world.live if pod.index == 1))
    world.settle()
    assert world.status.completed_indexes == "1"
    assert indexes(world.live) == [0, 2]


def test_shrinking_an_elastic_job_drops_indexes() -> None:
    world = SimulatedJob(a_job(completions=4, parallelism=4, completionMode="Indexed"))
    world.settle()
    world.finish(next(pod.metadata.name for pod in world.live if pod.index == 1))
    world.settle()
    world.change(completions=1, parallelism=1)
    world.settle()
    assert indexes(world.live) == [0]
    assert (world.status.succeeded, world.status.failed, world.status.completed_indexes) == (0, 0, "")


def test_a_duplicate_pod_of_an_index_is_deleted() -> None:
    job = a_job(completions=2, parallelism=2, completionMode="Indexed")
    pods = [a_pod("a", index=0), a_pod("b", "Running", index=0), a_pod("c", index=1)]
    decided = sync_job(job, pods, START, Backoff())
    assert [pod.metadata.name for pod in decided.discard] == ["a"]
    assert not decided.create


def test_a_failed_pod_is_replaced_after_an_exponential_backoff() -> None:
    world = SimulatedJob(a_job())
    world.settle()
    for delay in (10, 20, 40):
        world.finish(next(pod.metadata.name for pod in world.live), code=1)
        assert world.settle().wake_at == world.now + delay
        assert not world.live
        world.now += delay
        world.settle()
        assert len(world.live) == 1


def test_the_backoff_has_a_maximum() -> None:
    assert [backoff_delay_s(failures) for failures in (0, 1, 2, 6, 7, 5000)] == [0, 10, 20, 320, 600, 600]


def test_a_success_resets_the_backoff() -> None:
    backoff = Backoff(failures=3, last_failure=50.0)
    assert backoff.after(succeeded=[60.0], failed=[55.0]) == Backoff()
    assert backoff.after(succeeded=[60.0], failed=[55.0, 70.0]) == Backoff(1, 70.0)
    assert backoff.after(succeeded=[], failed=[70.0]) == Backoff(4, 70.0)


def test_exceeding_the_backoff_limit_fails_the_job_and_deletes_its_pods() -> None:
    world = SimulatedJob(a_job(completions=2, parallelism=2, backoffLimit=0))
    world.settle()
    first, second = world.pods
    world.run(second)
    world.finish(first, code=1)
    world.settle()
    assert world.true_conditions == ["FailureTarget"]
    assert (world.status.active, world.status.terminating) == (0, 1)
    world.stop(second)
    world.settle()
    assert world.true_conditions == ["FailureTarget", "Failed"]
    assert world.status.failed == 2
    assert world.events == ["BackoffLimitExceeded"]


def test_container_restarts_count_against_the_limit() -> None:
    job = a_job(restart="OnFailure", backoffLimit=2)
    restarted: dict[str, Any] = {"containerStatuses": [{"name": "main", "restartCount": 2}]}
    decided = sync_job(job, [a_pod("a", "Running", **restarted)], START, Backoff())
    assert [condition.reason for condition in decided.status.conditions] == ["BackoffLimitExceeded"]


def test_a_job_that_exceeds_its_deadline_fails() -> None:
    world = SimulatedJob(a_job(completions=None, parallelism=2, activeDeadlineSeconds=5))
    assert world.settle().wake_at == START + 5
    world.now += 5
    world.settle()
    assert [condition.reason for condition in world.status.conditions] == ["DeadlineExceeded"] * 2
    assert (world.status.failed, world.pods) == (2, {})


def test_a_suspended_job_has_no_deadline() -> None:
    world = SimulatedJob(a_job(suspend=True, activeDeadlineSeconds=5))
    assert world.settle().wake_at is None
    world.now += 100
    world.settle()
    assert world.true_conditions == ["Suspended"]


def test_a_failed_index_does_not_stop_other_indexes() -> None:
    world = SimulatedJob(
        a_job(completions=2, parallelism=2, completionMode="Indexed", backoffLimit=99, backoffLimitPerIndex=1)
    )
    world.settle()
    world.finish(next(pod.metadata.name for pod in world.live if pod.index == 0), code=1)
    assert world.settle().wake_at == START + 10
    assert world.status.failed == 0, "the failed pod is kept until its successor carries its count"
    world.now += 10
    world.settle()
    (again,) = (pod for pod in world.live if pod.index == 0)
    assert again.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
    world.finish(again.metadata.name, code=1)
    world.settle()
    assert (world.status.failed_indexes, world.status.failed, indexes(world.live)) == ("0", 2, [1])
    world.finish(next(pod.metadata.name for pod in world.live))
    world.settle()
    assert [condition.reason for condition in world.status.conditions] == ["FailedIndexes"] * 2


def test_a_job_of_two_billion_indexes_of_which_most_are_completed_gets_the_missing_ones() -> None:
    world = SimulatedJob(a_job(completions=2**31 - 1, parallelism=2, completionMode="Indexed"))
    status = replace(world.job.status, completed_indexes="0-1000000,1000002-2147483644")
    world.job = replace(world.job, status=status)
    world.settle()
    assert indexes(world.live) == [1000001, 2147483645]


def test_more_failed_indexes_than_allowed_fail_the_job_at_once() -> None:
    limits: dict[str, Any] = {"backoffLimit": 99, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0}
    world = SimulatedJob(a_job(completions=3, parallelism=3, completionMode="Indexed", **limits))
    world.settle()
    world.finish(next(pod.metadata.name for pod in world.live if pod.index == 2), code=1)
    world.settle()
    assert world.status.conditions[-1].reason == "MaxFailedIndexesExceeded"
    assert not world.live


def test_a_success_policy_ends_the_job_before_all_indexes_are_done() -> None:
    policy = {"rules": [{"succeededIndexes": "1-2", "succeededCount": 1}]}
    world = SimulatedJob(a_job(completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy))
    world.settle()
    for index in (0, 2):
        assert world.true_conditions == []
        world.finish(next(pod.metadata.name for pod in world.live if pod.index == index))
        world.settle()
    assert world.true_conditions == ["SuccessCriteriaMet", "Complete"]
    assert world.status.conditions[0].message == "Matched rules at index 0"
    assert (world.status.completed_indexes, world.status.failed) == ("0,2", 0)


@pytest.mark.parametrize(
    ("rule", "code", "want"),
    [
        pytest.param(
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5]}},
            5,
            PolicyMatch(
                "FailJob",
                "Container main for pod ns/p failed with exit code 5 matching FailJob rule at index 0",
            ),
            id="an exit code in the list",
        ),
        pytest.param(
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5]}},
            6,
            None,
            id="an exit code outside the list",
        ),
        pytest.param(
            {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [5]}},
            0,
            None,
            id="a container that succeeded matches no rule",
        ),
        pytest.param(
            {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [5], "containerName": "side"}},
            5,
            None,
            id="another container",
        ),
        pytest.param(
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            137,
            PolicyMatch("Ignore", "Pod ns/p has condition DisruptionTarget matching Ignore rule at index 0"),
            id="a condition",
        ),
    ],
)
def test_pod_failure_policy(rule: dict[str, Any], code: int, want: PolicyMatch | None) -> None:
    disrupted = [{"type": "DisruptionTarget", "status": "True"}]
    pod = a_pod("p", "Failed", conditions=disrupted, **exited(code))
    assert match_pod_failure_policy(codec.convert(PodFailurePolicy, {"rules": [rule]}), pod) == want


def test_an_ignored_failure_does_not_count() -> None:
    policy = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [137]}}]}
    world = SimulatedJob(a_job(backoffLimit=0, podFailurePolicy=policy, podReplacementPolicy="Failed"))
    world.settle()
    world.finish(next(iter(world.pods)), code=137)
    world.now += 10
    world.settle()
    assert (world.status.failed, len(world.live), world.true_conditions) == (0, 1, [])


@pytest.mark.parametrize(
    ("policy", "live", "failed"),
    [
        pytest.param("TerminatingOrFailed", 1, 1, id="replaced while terminating"),
        pytest.param("Failed", 0, 0, id="replaced once finished"),
    ],
)
def test_a_terminating_pod(policy: str, live: int, failed: int) -> None:
    world = SimulatedJob(a_job(podReplacementPolicy=policy))
    world.settle()
    (name,) = world.pods
    world.run(name)
    world.delete(name)
    world.now += 60
    world.settle()
    assert (len(world.live), world.status.failed, world.status.terminating) == (live, failed, 1)


def _finished() -> Job:
    world = SimulatedJob(a_job(completions=0))
    world.settle()
    assert world.true_conditions == ["SuccessCriteriaMet", "Complete"]
    return world.job


def test_a_finished_job_only_releases_its_pods() -> None:
    job, pod = _finished(), a_pod("a")
    assert sync_job(job, [pod], START, Backoff()) == SyncResult(job.status, Backoff(), release=(pod,))


def test_a_job_that_is_being_deleted_counts_its_pods_and_creates_none() -> None:
    job = a_job(parallelism=2)
    deleted = replace(job, metadata=replace(job.metadata, deletion_timestamp=at_epoch(START)))
    pod = a_pod("a")
    got = sync_job(deleted, [pod], START, Backoff())
    assert got == SyncResult(replace(job.status, active=1, ready=0, terminating=0), Backoff(), release=(pod,))


def test_a_pod_has_the_template_an_index_and_an_owner() -> None:
    template = {
        "metadata": {"labels": {"x": "y"}, "finalizers": ["x.io/y"]},
        "spec": {
            "restartPolicy": "Never",
            "unknown": 1,
            "initContainers": [{"name": "ini"}],
            "containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}],
        },
    }
    job = a_job(completionMode="Indexed", template=template)
    variable = {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {
            "fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}
        },
    }
    assert pod_from_template(job, PodToCreate(3)) == {
        "metadata": {
            "generateName": "j-3-",
            "namespace": "ns",
            "labels": {"x": "y", "batch.kubernetes.io/job-completion-index": "3"},
            "annotations": {"batch.kubernetes.io/job-completion-index": "3"},
            "finalizers": ["x.io/y", "batch.kubernetes.io/job-tracking"],
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": "j",
                    "uid": "job",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "restartPolicy": "Never",
            "unknown": 1,
            "hostname": "j-3",
            "initContainers": [{"name": "ini", "env": [variable]}],
            "containers": [{"name": "main", "env": [{"name": "A", "value": "b"}, variable]}],
        },
    }


def test_a_long_job_name_is_truncated_in_pod_names() -> None:
    assert name_prefix("a" * 63, 12) == "a" * 54 + "-12-"
    assert name_prefix("a" * 63, None) == "a" * 63 + "-", "the server truncates it"
