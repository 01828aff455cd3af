"""Queues that are stopped, that are in use, and that say whether they are active, over HTTP."""

import pytest

from quorate.api.batch import decode_template
from quorate.api.configuration import Configuration
from quorate.api.meta import Key, find_condition
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
)
from quorate.local.nodes import NodePool
from tests.e2e.test_queueing import cluster_queue
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

PLAIN = Configuration()
NODES = NodePool(2, cpu="8", labels={"pool": "spot"})


async def set_stop_policy(world: World, policy: str) -> None:
    await world.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": {"stopPolicy": policy}})


def test_a_held_queue_keeps_admitted_workloads_and_admits_no_new_ones() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        await world.job("before", runs="forever")
        await world.until_admitted("before")
        await set_stop_policy(world, "Hold")
        await world.job("after", runs="forever")
        await world.until_condition(
            "after", "QuotaReserved", "False", "Suspended", "ClusterQueue research is inactive"
        )
        assert await world.admitted() == {"before"}
        await set_stop_policy(world, "None")
        await world.until_admitted("after")

    run_story(story, PLAIN, NODES)


def test_a_drained_queue_evicts_admitted_workloads_and_readmits_them_on_resume() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        await world.job("train", pods=2, runs="forever")
        await world.until_admitted("train")
        await set_stop_policy(world, "HoldAndDrain")
        evicted = await world.until_condition(
            "train", "Evicted", "True", "ClusterQueueStopped", "The ClusterQueue is stopped"
        )
        assert evicted.status.scheduling_stats is not None

        async def stopped() -> bool:
            job = await world.get_job("train")
            return job.spec.suspend and not job.metadata.annotations.get("kueue.x-k8s.io/stopping")

        await world.until("the job is stopped", stopped)
        labels = decode_template((await world.get_job("train")).spec.template).metadata.labels
        assert "kueue.x-k8s.io/podset" not in labels
        await world.until_condition("train", "Requeued", "False", "ClusterQueueStopped")
        await set_stop_policy(world, "None")
        await world.until_condition("train", "Requeued", "True", "ClusterQueueRestarted")
        await world.until_admitted("train")
        await world.until_condition("train", "Evicted", "False", "QuotaReserved")

    run_story(story, PLAIN, NODES)


def test_objects_in_use_keep_their_finalizer() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1")
        await world.job("train", runs="forever")
        await world.until_admitted("train")

        async def held() -> bool:
            queue, flavor = (
                await cluster_queue(world),
                await world.client.get(RESOURCE_FLAVORS, Key("", "default")),
            )
            return bool(queue.metadata.finalizers and flavor.metadata.finalizers)

        await world.until("finalizers", held)
        await world.client.delete(RESOURCE_FLAVORS, Key("", "default"))
        await world.client.delete(CLUSTER_QUEUES, Key("", "research"))

        async def terminating() -> bool:
            (active,) = (await cluster_queue(world)).status.conditions
            return active.reason == "Terminating"

        await world.until("the queue has the reason Terminating", terminating)
        await world.job("late", runs="forever")
        await world.until_condition("late", "QuotaReserved", "False")

        async def are_counted() -> bool:
            status = (await cluster_queue(world)).status
            return (status.admitted_workloads, status.pending_workloads) == (1, 1)

        await world.until("both jobs are counted", are_counted)
        await world.client.delete(JOBS, Key(NAMESPACE, "train"), propagation="Background")

        async def deleted() -> bool:
            left = [
                *(await world.client.list(CLUSTER_QUEUES)).items,
                *(await world.client.list(RESOURCE_FLAVORS)).items,
            ]
            return not left

        await world.until("queue and flavor are deleted", deleted)

        async def is_told() -> bool:
            status = (await world.client.get(LOCAL_QUEUES, Key(NAMESPACE, "queue"))).status
            counts = (status.admitted_workloads, status.reserving_workloads)
            return [each.reason for each in status.conditions] == ["ClusterQueueDoesNotExist"] and counts == (
                0,
                0,
            )

        await world.until("the local queue tells that its cluster queue is gone", is_told)

    run_story(story, PLAIN)


def test_local_queues_report_whether_they_are_active() -> None:
    async def story(world: World) -> None:
        async def active(reason: str, message: str) -> None:
            async def find() -> bool:
                queue = await world.client.get(LOCAL_QUEUES, Key(NAMESPACE, "queue"))
                found = find_condition(queue.status.conditions, "Active")
                return found is not None and (found.reason, found.message) == (reason, message)

            await world.until(f"local queue {reason}", find)

        await world.local_queue()
        await active("ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue")
        await world.cluster_queue("1")
        await active("ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
        await world.flavor()
        await active("Ready", "Can submit new workloads to localQueue")

    run_story(story, PLAIN)
