"""What we did ourselves counts before the watch tells of it; what others did is remembered until answered."""

import asyncio

from msgspec.structs import replace

from quorate.controllers.volcano.job.job_pods import JobPod
from quorate.controllers.volcano.job.pod_expectations import ECHO_S, LostPods, PodExpectations
from quorate.kube.informer import Change
from tests.controllers.volcano.job.notation import NOW, a_group, a_job, members
from tests.kube.virtual_clock import VirtualClock

JOB = a_job("worker=2")


def a_member(states: str, version: int = 0) -> JobPod:
    (member,) = members(f"worker: {states}", version=version)
    return member


def test_a_pod_that_was_made_is_there_until_the_watch_has_its_say() -> None:
    assumed = PodExpectations(VirtualClock(NOW))
    made = a_member("pending@")
    assumed.made(JOB, made)
    assert assumed.members(JOB, []) == [made]
    running = replace(made, status=replace(made.status, phase="Running"))
    assert assumed.members(JOB, [running]) == [running]
    assumed.seen(Change(None, made))
    assert assumed.members(JOB, []) == []


def test_a_pod_that_was_deleted_is_leaving_until_the_watch_has_its_say() -> None:
    assumed = PodExpectations(VirtualClock(NOW))
    pod = a_member("running")
    assumed.ended(pod.metadata.uid)
    (leaving,) = assumed.members(JOB, [pod])
    assert leaving.is_terminating
    assumed.seen(Change(pod, None))
    assert not assumed.was_ended(pod.metadata.uid)


def test_a_deletion_that_failed_is_taken_back() -> None:
    assumed = PodExpectations(VirtualClock(NOW))
    pod = a_member("running")
    assumed.ended(pod.metadata.uid)
    assumed.not_ended(pod.metadata.uid)
    assert assumed.members(JOB, [pod]) == [pod]


def test_what_the_watch_never_tells_is_doubted_after_a_while() -> None:
    clock = VirtualClock(NOW)
    assumed = PodExpectations(clock)
    pod, group = a_member("running"), a_group("Running")
    assumed.made(JOB, a_member("- pending@"))
    assumed.ended(pod.metadata.uid)
    assumed.ended(group.metadata.uid)
    there = assumed.group(group)
    assert there is not None
    assert there.metadata.deletion_timestamp is not None
    asyncio.run(clock.advance_to(NOW + ECHO_S))
    assert assumed.members(JOB, [pod]) == [pod]
    assert assumed.group(group) == group


def test_a_lost_pod_is_remembered_until_another_runs_in_its_place() -> None:
    losses = LostPods(VirtualClock(NOW))
    losses.note(a_member("- running"))
    (lost,) = losses.of(JOB, [])
    assert (lost.task, lost.index, lost.at) == ("worker", 1, NOW)
    assert losses.of(JOB, [a_member("- pending")]) == [lost]
    assert losses.of(JOB, [a_member("- running")]) == []
    assert losses.of(JOB, []) == []


def test_no_loss_is_a_pod_that_ended_or_had_no_node_or_is_of_the_past() -> None:
    losses = LostPods(VirtualClock(NOW))
    for states in ("succeeded", "failed", "pending@"):
        losses.note(a_member(states))
    assert losses.of(JOB, []) == []
    losses.note(a_member("running"))
    assert losses.of(a_job("worker=2", version=1), []) == []
    losses.note(a_member("- - - running"))
    assert losses.of(JOB, []) == []  # a replica that is not wanted any more
