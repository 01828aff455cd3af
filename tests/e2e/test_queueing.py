"""Jobs in queues over HTTP: admission, pending reasons and writes."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.kueue import ClusterQueue
from quorate.api.meta import Key, epoch
from quorate.controllers.limits import WRITES_IN_ONE_TURN
from quorate.kube.client import PatchKind
from quorate.kube.clock import WallClock
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    EVENTS,
    JOBS,
    PODS,
    RESOURCE_QUOTAS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from quorate.local.nodes import NodePool
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.decided_status import decided_status
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

PLAIN = Configuration()
NODES = NodePool(2, cpu="8", labels={"pool": "spot"})
SHORT_BY_2 = (
    "couldn't assign flavors to pod set main: "
    "insufficient unused quota for cpu in flavor default, 2 more needed"
)


async def cluster_queue(world: World) -> ClusterQueue:
    return await world.client.get(CLUSTER_QUEUES, Key("", "research"))


async def events_about(world: World, kind: str) -> set[str]:
    listed = await world.client.list(EVENTS, NAMESPACE)
    return {
        each.reason for each in listed.items if each.regarding is not None and each.regarding.kind == kind
    }


def test_a_job_is_suspended_admitted_started_on_its_flavor_and_finished() -> None:
    async def story(world: World) -> None:
        await world.flavor("spot", nodeLabels={"pool": "spot"})
        await world.cluster_queue("4", flavor="spot")
        await world.local_queue()
        # Without webhooks pods may exist before the job is suspended; they must not end before it is.
        await world.job("train", pods=3, runs="2s")
        await world.until_finished("train")

        job = await world.get_job("train")
        assert (job.spec.suspend, job.status.succeeded) == (False, 3)
        for pod in (await world.client.list(PODS, NAMESPACE)).items:
            assert pod.spec.node_selector == {"pool": "spot"}
            assert pod.metadata.labels["kueue.x-k8s.io/podset"] == "main"

        async def settled() -> bool:
            status = (await cluster_queue(world)).status
            counts = (status.pending_workloads, status.reserving_workloads, status.admitted_workloads)
            workload = await world.workload("train")
            assert workload is not None
            return counts == (0, 0, 0) and not workload.metadata.finalizers

        await world.until("the quota is released and the finalizer removed", settled)

        async def reported() -> bool:
            return await events_about(world, "Job") >= {
                "CreatedWorkload",
                "Started",
                "FinishedWorkload",
            } and (await events_about(world, "Workload") >= {"QuotaReserved", "Admitted"})

        await world.until("events", reported)
        (active,) = (await cluster_queue(world)).status.conditions
        assert (active.type, active.status, active.reason, active.message) == (
            "Active",
            "True",
            "Ready",
            "Can admit new workloads",
        )

    run_story(story, PLAIN, NODES)


def test_the_second_of_two_jobs_waits_and_starts_when_the_first_finishes() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        await world.job("first", pods=2, runs="5s")  # longer than the second takes to be held
        await world.until_admitted("first")
        await world.job("second", pods=2)
        held = await world.until_condition(
            "second", "QuotaReserved", "False", reason="WaitingForQuota", message=SHORT_BY_2
        )
        assert str(held.status.resource_requests[0].resources["cpu"]) == "2"
        assert (await world.get_job("second")).spec.suspend
        await world.until_finished("first", "second")

    run_story(story, PLAIN, NODES)


def test_a_job_like_a_deleted_one_starts_on_the_quota_that_was_released_while_none_waited() -> None:
    """The outcome of the deleted job says nothing about the later one."""

    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("runs", pods=4, runs="forever")
        await world.until_admitted("runs")
        await world.job("one", pods=2, runs="forever")
        await world.until_condition("one", "QuotaReserved", "False", "WaitingForQuota", SHORT_BY_2)
        for name in ("one", "runs"):
            await world.client.delete(JOBS, Key(NAMESPACE, name), propagation="Background")

        async def is_empty() -> bool:
            status = (await cluster_queue(world)).status
            return (status.pending_workloads, status.reserving_workloads) == (0, 0)

        await world.until("the queue is empty", is_empty)
        await world.job("two", pods=2, runs="forever")
        await world.until_admitted("two")

    run_story(story, PLAIN, NODES)


def test_finished_pods_release_quota_before_their_job_finishes() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        await world.job("long", pods=2, runs="3s")  # pods run in sequence: the node fits one
        await world.until_admitted("long")
        await world.job("short")
        await world.until_condition("short", "QuotaReserved", "False")
        await world.until_admitted("short")
        assert "long" in await world.admitted()

    run_story(story, PLAIN, NodePool(1, cpu="1"))


def test_the_pending_reason_of_a_job_above_its_quota_has_the_amounts() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        await world.job("vast", pods=3)
        await world.until_condition(
            "vast",
            "QuotaReserved",
            "False",
            message="couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, "
            "previously considered podsets requests (0) + current podset request (3) > maximum capacity (2)",
        )
        # A higher quota admits the job without another change.
        patch = [
            {
                "op": "replace",
                "path": "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota",
                "value": "3",
            }
        ]
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), patch, kind=PatchKind.JSON)
        await world.until_admitted("vast")

    run_story(story, PLAIN)


def test_a_job_with_an_invalid_template_gets_an_event_until_it_is_corrected() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        await world.job("odd", pods=2, annotations={"kueue.x-k8s.io/job-min-parallelism": "7"}, suspend=True)

        async def why() -> str:
            listed = await world.client.list(EVENTS, NAMESPACE)
            return "; ".join(each.note for each in listed.items if each.reason == "ErrWorkloadCompose")

        await world.until("the event", why)
        assert "spec.podSets[0]: Invalid value: minCount is at most count" in await why()
        mended = {"metadata": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}}}
        await world.client.patch(JOBS, Key(NAMESPACE, "odd"), mended)
        await world.until_admitted("odd")
        assert (await why()).count("no Workload can be made") == 1

    run_story(story, PLAIN)


def test_a_job_of_which_the_workload_is_forbidden_gets_an_event() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        none = {"count/workloads.kueue.x-k8s.io": "0"}
        quota = {"metadata": {"name": "none"}, "spec": {"hard": none}}
        await world.client.create(RESOURCE_QUOTAS, quota, NAMESPACE)

        async def is_counted() -> bool:
            stored = await world.client.get(RESOURCE_QUOTAS, Key(NAMESPACE, "none"))
            return bool(stored.status.hard)

        await world.until("the quota is in force", is_counted)
        await world.job("many", suspend=True)

        async def why() -> bool:
            listed = await world.client.list(EVENTS, NAMESPACE)
            return any(
                event.reason == "ErrWorkloadCompose" and "exceeded quota: none" in event.note
                for event in listed.items
            )

        await world.until("the event", why)
        await world.client.delete(RESOURCE_QUOTAS, Key(NAMESPACE, "none"))
        await world.client.patch(JOBS, Key(NAMESPACE, "many"), {"metadata": {"labels": {"tried": "again"}}})
        await world.until_admitted("many")

    run_story(story, PLAIN)


def test_a_job_waits_for_missing_queues_and_its_condition_names_them() -> None:
    async def story(world: World) -> None:
        async def held(message: str) -> None:
            await world.until_condition("train", "QuotaReserved", "False", message=message)

        await world.job("train")
        await held("LocalQueue queue doesn't exist")
        await world.local_queue()
        await held("ClusterQueue research doesn't exist")
        await world.cluster_queue("1")
        await held("ClusterQueue research is inactive")
        await world.flavor()
        await world.until_admitted("train")

    run_story(story, PLAIN)


def test_the_older_annotation_names_the_queue() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1")
        await world.job("train", queue="", annotations={"kueue.x-k8s.io/queue-name": "queue"})
        await world.until_admitted("train")

    run_story(story, PLAIN)


def test_a_job_without_a_queue_is_not_managed() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1")
        await world.job("free", queue="")

        async def complete() -> bool:
            return (await world.get_job("free")).status.succeeded == 1

        await world.until("the unmanaged job completes", complete)
        assert (await world.client.list(WORKLOADS)).items == ()

    run_story(story, PLAIN, NODES)


def test_a_deleted_job_releases_its_quota() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1")
        await world.job("first", runs="forever")
        await world.until_admitted("first")
        await world.job("second")
        await world.until_condition("second", "QuotaReserved", "False")
        await world.client.delete(JOBS, Key(NAMESPACE, "first"), propagation="Background")
        await world.until_admitted("second")

        async def deleted() -> bool:
            return await world.workload("first") is None

        await world.until("the workload of the deleted job is deleted", deleted)

    run_story(story, PLAIN)


def test_the_higher_priority_is_admitted_first() -> None:
    async def story(world: World) -> None:
        for name, value in (("low", 1), ("high", 100)):
            await world.create(WORKLOAD_PRIORITY_CLASSES, name, value=value)
        await world.queues(cpu="1")
        await world.job("blocker", runs="forever")
        await world.until_admitted("blocker")
        for name in ("low", "high"):
            await world.job(name, runs="forever", labels={"kueue.x-k8s.io/priority-class": name})
            await world.until_condition(name, "QuotaReserved", "False")
        await world.client.delete(JOBS, Key(NAMESPACE, "blocker"), propagation="Background")
        high = await world.until_condition("high", "Admitted")
        assert high.spec.priority == 100
        assert await world.admitted() == {"high"}

    run_story(story, PLAIN)


def test_a_higher_priority_preempts_a_lower_one_which_is_admitted_again_later() -> None:
    async def story(world: World) -> None:
        for name, value in (("low", 1), ("high", 100)):
            await world.create(WORKLOAD_PRIORITY_CLASSES, name, value=value)
        await world.queues(cpu="1", preemption={"withinClusterQueue": "LowerPriority"})
        await world.job("modest", runs="1s", labels={"kueue.x-k8s.io/priority-class": "low"})
        await world.until_admitted("modest")
        await world.job("urgent", labels={"kueue.x-k8s.io/priority-class": "high"})
        await world.until_condition("modest", "Preempted", reason="InClusterQueue")
        await world.until_condition("modest", "Evicted", reason="Preempted")
        await world.until_finished("urgent", "modest")
        modest = await world.workload("modest")
        assert modest is not None
        assert modest.status.scheduling_stats is not None
        (evictions,) = modest.status.scheduling_stats.evictions
        assert (evictions.reason, evictions.underlying_cause, evictions.count) == ("Preempted", "", 1)
        reported = await events_about(world, "Workload")
        assert reported >= {"Preempted", "PreemptedWorkload", "EvictedDueToPreempted"}

    run_story(story, PLAIN, NODES)


def test_a_job_with_partial_admission_starts_with_fewer_pods() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="3")
        fewer = {"kueue.x-k8s.io/job-min-parallelism": "2"}
        await world.job("elastic", pods=5, annotations=fewer)
        await world.until_admitted("elastic")

        async def started() -> bool:
            job = await world.get_job("elastic")
            return not job.spec.suspend and job.spec.parallelism == 3

        await world.until("the job runs with three pods", started)
        await world.until_finished("elastic")
        assert (await world.get_job("elastic")).status.succeeded == 5

    run_story(story, PLAIN, NODES)


def test_a_changed_priority_class_updates_pending_workloads() -> None:
    async def story(world: World) -> None:
        for name, value in (("one", 1), ("two", 2)):
            await world.create(WORKLOAD_PRIORITY_CLASSES, name, value=value)
        await world.queues(cpu="1")
        await world.job("blocker", runs="forever")
        await world.until_admitted("blocker")
        for name in ("one", "two"):
            await world.job(name, runs="forever", labels={"kueue.x-k8s.io/priority-class": name})
            await world.until_condition(name, "QuotaReserved", "False")
        await world.client.patch(WORKLOAD_PRIORITY_CLASSES, Key("", "one"), {"value": 3})

        async def raised() -> bool:
            workload = await world.workload("one")
            return workload is not None and workload.spec.priority == 3

        await world.until("the workload has the new priority", raised)
        await world.client.delete(JOBS, Key(NAMESPACE, "blocker"), propagation="Background")
        await world.until_admitted("one")
        assert await world.admitted() == {"one"}

    run_story(story, PLAIN)


@pytest.mark.parametrize(
    ("strategy", "small_starts"),
    [
        pytest.param("BestEffortFIFO", True, id="BestEffortFIFO admits a small job before a big one"),
        pytest.param("StrictFIFO", False, id="StrictFIFO does not"),
    ],
)
def test_queueing_strategy(strategy: str, small_starts: bool) -> None:
    async def story(world: World) -> None:
        async def a_later_second() -> bool:
            """Wait for the next second: creation times have whole seconds, and the uid breaks ties."""
            created = (await world.get_job("big")).metadata.creation_timestamp
            assert created is not None
            return WallClock().now() >= epoch(created) + 1

        await world.queues(cpu="3", queueingStrategy=strategy)
        await world.job("running", pods=2, runs="forever")
        await world.until_admitted("running")
        await world.job("big", pods=3)
        await world.until_condition("big", "QuotaReserved", "False")
        await world.until("the second of the creation of the big job is over", a_later_second)
        await world.job("small", pods=1, runs="forever")
        if small_starts:
            await world.until_admitted("small")
            return

        async def counted() -> bool:
            return (await cluster_queue(world)).status.pending_workloads == 2

        await world.until("both wait", counted)
        assert await world.admitted() == {"running"}
        # Without the big job, the small job is first in the queue.
        await world.client.delete(JOBS, Key(NAMESPACE, "big"), propagation="Background")
        await world.until_admitted("small")

    run_story(story, PLAIN)


def test_an_admission_takes_a_bounded_number_of_writes() -> None:
    """Count the writes for one suspended job from creation to end, without events and queue statuses.

    The job has one pod: with several, each early end of a pod releases quota with another write.
    """

    async def story(world: World) -> None:
        await world.queues(cpu="100")
        await world.until("the queue is active", lambda: active(world))
        world.queueing_client.succeeded.clear()
        jobs = [f"job-{number}" for number in range(10)]
        await asyncio.gather(*(world.job(name, suspend=True) for name in jobs))
        await world.until_finished(*jobs)

        async def finalizers_removed() -> bool:
            return not any(each.metadata.finalizers for each in (await world.client.list(WORKLOADS)).items)

        async def answered() -> bool:
            return world.queueing_client.succeeded["PATCH workloads"] >= len(jobs)

        await world.until("no workload has a finalizer", finalizers_removed)
        await world.until("each removal was answered", answered)
        per_job = {
            what: count / len(jobs)
            for what, count in world.queueing_client.writes.items()
            if "queues" not in what
        }
        assert per_job == {
            "PATCH jobs": 1.0,  # started
            "PATCH workloads": 1.0,  # finalizer removed at the end
            "PATCH workloads/status": 2.0,  # admitted, finished
            "POST workloads": 1.0,
        }

    run_story(story, PLAIN, NODES)


async def active(world: World) -> bool:
    return any(each.status == "True" for each in (await cluster_queue(world)).status.conditions)


def test_few_writes_of_one_cycle_begin_in_one_turn_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = 0  # of those in which writes begin
    begun = Counter[int]()  # writes, by turn

    def end_turn() -> None:
        nonlocal turn
        turn += 1

    def counted(*arguments: Any) -> Any:
        if turn not in begun:
            asyncio.get_running_loop().call_soon(end_turn)
        begun[turn] += 1
        return decided_status(*arguments)

    monkeypatch.setattr("quorate.controllers.admission.writer.decided_status", counted)

    async def story(world: World) -> None:
        jobs = 4 * WRITES_IN_ONE_TURN
        await world.queues(str(jobs), stopPolicy="Hold")
        for number in range(jobs):
            await world.job(f"job-{number}", runs="forever")
        assert world.replica.view is not None
        entries = world.replica.view.state.ledger.entries

        async def all_wait() -> bool:
            return len(entries) == jobs

        async def all_are_admitted() -> bool:
            return all(map(c.is_admitted, (await world.client.list(WORKLOADS)).items))

        await world.until("all jobs wait", all_wait)
        opened = {"spec": {"stopPolicy": "None"}}
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), opened, kind=PatchKind.MERGE)
        await world.until("all are admitted", all_are_admitted)
        assert begun.total() >= jobs
        assert max(begun.values()) <= 2 * WRITES_IN_ONE_TURN  # with those that waited for another write

    run_story(story, PLAIN)
