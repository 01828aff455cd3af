"""Own writes count before the watch delivers them; lost pods count until replaced."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from quorate.api.meta import Condition, Uid
from quorate.api.volcano.job import Job
from quorate.controllers.volcano.job.assume_cache import AssumeCache, LostPods
from quorate.controllers.volcano.job.job_pods import JobPod, LostPod
from quorate.kube.informer import Change
from quorate.kube.limits import OWN_WRITE_TIMEOUT_S
from tests.controllers.volcano.job.notation import NOW, a_group, a_job, changed, job_pods
from tests.kube.virtual_clock import VirtualClock

JOB = a_job("worker=2")


def one_pod(states: str, version: int = 0) -> JobPod:
    (pod,) = job_pods(f"worker: {states}", version=version)
    return pod


def of_job(lost: LostPods, job: Job, pods: Sequence[JobPod]) -> list[LostPod]:
    return lost.of_job(job, pods, lambda uid: False)


def test_a_created_pod_exists_until_the_watch_delivers_it() -> None:
    cache = AssumeCache(VirtualClock(NOW))
    created = one_pod("pending@")
    cache.assume_created(JOB, created)
    assert cache.pods(JOB, []) == [created]
    running = changed(created, status=replace(created.pod.status, phase="Running"))
    assert cache.pods(JOB, [running]) == [running]
    cache.observe(Change(None, created.pod))
    assert cache.pods(JOB, []) == []


def test_a_deleted_pod_is_terminating_until_the_watch_delivers_the_deletion() -> None:
    cache = AssumeCache(VirtualClock(NOW))
    pod = one_pod("running")
    cache.assume_deleted(pod.metadata.uid)
    (deleted,) = cache.pods(JOB, [pod])
    assert deleted.is_terminating
    cache.observe(Change(pod.pod, None))
    assert not cache.is_deleted(pod.metadata.uid)


def test_a_failed_deletion_is_not_assumed_but_may_have_been_executed() -> None:
    cache = AssumeCache(VirtualClock(NOW))
    pod = one_pod("running")
    cache.assume_deleted(pod.metadata.uid)
    cache.deletion_failed(pod.metadata.uid)
    assert cache.pods(JOB, [pod]) == [pod]
    assert cache.is_deleted(pod.metadata.uid)


def test_a_decided_deletion_is_an_own_one_although_something_else_is_faster() -> None:
    cache, pod = AssumeCache(VirtualClock(NOW)), one_pod("running")
    cache.deletion_decided(pod.metadata.uid)
    assert cache.pods(JOB, [pod]) == [pod]
    assert cache.is_deleted(pod.metadata.uid)


def test_assumptions_that_the_watch_never_confirms_time_out() -> None:
    clock = VirtualClock(NOW)
    cache = AssumeCache(clock)
    pod, group = one_pod("running"), a_group("Running")
    cache.assume_created(JOB, one_pod("- pending@"))
    cache.assume_deleted(pod.metadata.uid)
    cache.assume_deleted(group.metadata.uid)
    assumed = cache.group(group)
    assert assumed is not None
    assert assumed.metadata.deletion_timestamp is not None
    asyncio.run(clock.advance_to(NOW + OWN_WRITE_TIMEOUT_S))
    assert cache.pods(JOB, [pod]) == [pod]
    assert cache.group(group) == group


def test_a_lost_pod_is_reported_until_another_pod_runs_in_its_place() -> None:
    lost_pods = LostPods(VirtualClock(NOW))
    first = one_pod("- running")
    lost_pods.record(JOB.metadata.uid, first)
    (lost,) = of_job(lost_pods, JOB, [])
    assert (lost.task, lost.index, lost.at) == ("worker", 1, NOW)
    assert of_job(lost_pods, JOB, [first]) == [lost]
    second = changed(first, metadata=replace(first.metadata, uid=Uid("second")))
    assert of_job(lost_pods, JOB, [changed(second, status=replace(second.pod.status, phase="Pending"))]) == [
        lost
    ]
    assert of_job(lost_pods, JOB, [second]) == []
    assert of_job(lost_pods, JOB, []) == []


def test_a_lost_pod_is_reported_until_an_action_handles_it() -> None:
    lost_pods = LostPods(VirtualClock(NOW))
    for states in ("running", "- running"):
        lost_pods.record(JOB.metadata.uid, one_pod(states))
    first, second = of_job(lost_pods, JOB, [])
    lost_pods.handled(JOB.metadata.uid, {first.uid})
    assert of_job(lost_pods, JOB, []) == [second]


def test_unscheduled_outdated_and_surplus_pods_are_not_lost() -> None:
    lost_pods = LostPods(VirtualClock(NOW))
    lost_pods.record(JOB.metadata.uid, one_pod("pending@"))
    assert of_job(lost_pods, JOB, []) == []
    lost_pods.record(JOB.metadata.uid, one_pod("running"))
    assert of_job(lost_pods, a_job("worker=2", version=1), []) == []
    lost_pods.record(JOB.metadata.uid, one_pod("- - - running"))
    assert of_job(lost_pods, JOB, []) == []  # the task has no such replica


def test_a_pod_that_is_first_seen_while_it_terminates_is_lost_unless_the_last_action_deleted_it() -> None:
    pod = one_pod("failed~")
    (lost,) = of_job(LostPods(VirtualClock(NOW)), JOB, [pod])
    assert lost.failed_at is None  # it may have failed because it was deleted
    assert of_job(LostPods(VirtualClock(NOW)), a_job("worker=2", retries=1), [pod]) == []
    assert LostPods(VirtualClock(NOW)).of_job(JOB, [pod], lambda uid: uid == pod.metadata.uid) == []


def test_a_pod_that_had_failed_when_it_was_deleted_is_lost_and_failed() -> None:
    lost_pods = LostPods(VirtualClock(NOW))
    lost_pods.record(JOB.metadata.uid, one_pod("failed=137"))
    (lost,) = of_job(lost_pods, JOB, [])
    assert (lost.at, lost.failed_at, lost.exit_code) == (NOW, NOW - 60, 137)


def test_a_pod_that_failed_by_a_disruption_was_lost_when_it_failed() -> None:
    lost_pods, pod = LostPods(VirtualClock(NOW)), one_pod("failed=137")
    disrupted = Condition(type="DisruptionTarget", status="True", reason="DeletionByPodGC")
    lost_pods.record(JOB.metadata.uid, changed(pod, status=replace(pod.pod.status, conditions=(disrupted,))))
    (lost,) = of_job(lost_pods, JOB, [])
    assert (lost.at, lost.failed_at) == (NOW - 60, NOW - 60)


def test_a_lost_pod_of_a_task_with_billions_of_replicas_costs_nothing() -> None:
    lost = LostPods(VirtualClock(NOW))
    lost.record(JOB.metadata.uid, one_pod("running"))
    assert [each.task for each in of_job(lost, a_job(f"worker={2**31 - 1}"), ())] == ["worker"]
