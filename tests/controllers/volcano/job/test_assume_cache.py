"""Own writes count before the watch delivers them; lost pods count until replaced."""

import asyncio

from msgspec.structs import replace

from quorate.controllers.volcano.job.assume_cache import AssumeCache, LostPods
from quorate.controllers.volcano.job.job_pod_group import owner_reference_to
from quorate.controllers.volcano.job.job_pods import JobPod
from quorate.kube.controller.expectations import OWN_WRITE_TIMEOUT_S
from quorate.kube.informer import Change
from tests.controllers.volcano.job.notation import NOW, a_group, a_job, job_pods
from tests.kube.virtual_clock import VirtualClock

JOB = a_job("worker=2")


def one_pod(states: str, version: int = 0) -> JobPod:
    (pod,) = job_pods(f"worker: {states}", version=version)
    return pod


def test_a_created_pod_exists_until_the_watch_delivers_it() -> None:
    cache = AssumeCache(VirtualClock(NOW))
    created = one_pod("pending@")
    cache.assume_created(JOB, created)
    assert cache.pods(JOB, []) == [created]
    running = replace(created, status=replace(created.status, phase="Running"))
    assert cache.pods(JOB, [running]) == [running]
    cache.observe(Change(None, created))
    assert cache.pods(JOB, []) == []


def test_a_deleted_pod_is_terminating_until_the_watch_delivers_the_deletion() -> None:
    cache = AssumeCache(VirtualClock(NOW))
    pod = one_pod("running")
    cache.assume_deleted(pod.metadata.uid)
    (deleted,) = cache.pods(JOB, [pod])
    assert deleted.is_terminating
    cache.observe(Change(pod, None))
    assert not cache.is_deleted(pod.metadata.uid)


def test_a_failed_deletion_is_not_assumed() -> None:
    cache = AssumeCache(VirtualClock(NOW))
    pod = one_pod("running")
    cache.assume_deleted(pod.metadata.uid)
    cache.deletion_failed(pod.metadata.uid)
    assert cache.pods(JOB, [pod]) == [pod]


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
    lost_pods.record(one_pod("- running"))
    (lost,) = lost_pods.of_job(JOB, [])
    assert (lost.task, lost.index, lost.at) == ("worker", 1, NOW)
    assert lost_pods.of_job(JOB, [one_pod("- pending")]) == [lost]
    assert lost_pods.of_job(JOB, [one_pod("- running")]) == []
    assert lost_pods.of_job(JOB, []) == []


def test_finished_unscheduled_outdated_and_surplus_pods_are_not_lost() -> None:
    lost_pods = LostPods(VirtualClock(NOW))
    for states in ("succeeded", "failed", "pending@"):
        lost_pods.record(one_pod(states))
    assert lost_pods.of_job(JOB, []) == []
    lost_pods.record(one_pod("running"))
    assert lost_pods.of_job(a_job("worker=2", version=1), []) == []
    lost_pods.record(one_pod("- - - running"))
    assert lost_pods.of_job(JOB, []) == []  # the task has no such replica


def test_a_lost_pod_of_a_task_with_billions_of_replicas_costs_nothing() -> None:
    lost = LostPods(VirtualClock(NOW))
    pod = one_pod("running")
    owner = owner_reference_to(JOB)
    lost.record(replace(pod, metadata=replace(pod.metadata, owner_references=(owner,))))
    assert [each.task for each in lost.of_job(a_job(f"worker={2**31 - 1}"), ())] == ["worker"]
