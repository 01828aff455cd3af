"""Kubernetes' own workloads with a queue label: the pods of all their groups get quota together."""

from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.controllers.native_groups import unit_key
from quorate.controllers.pods.queued_pod import is_gated
from quorate.kube.resources import CLUSTER_QUEUES, WORKLOADS
from tests.e2e.stock_kubernetes import create_group, workload_kind
from tests.e2e.test_native_pod_groups import gated, set_quota, until_event_text
from tests.e2e.test_pods import FLEET, FOREVER, PODS_QUEUED, has, pod, pods_of, until_pod, until_workload
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

UNIT = unit_key(Key(NAMESPACE, "train")).name
GANG_OF_TWO: dict[str, Any] = {"gang": {"minCount": 2}}
BASIC: dict[str, Any] = {"basic": {}}


async def native_workload(world: World) -> None:
    """Create a workload of two workers and a driver, in the queue of its label."""
    templates = [
        {"name": "workers", "schedulingPolicy": GANG_OF_TWO},
        {"name": "driver", "schedulingPolicy": BASIC},
    ]
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    body = {"metadata": {"name": "train", "labels": labels}, "spec": {"podGroupTemplates": templates}}
    await world.client.create(await workload_kind(world.client), body, NAMESPACE)


async def member(world: World, name: str, group: str, runs: str = "100ms") -> None:
    """Create a gated pod that names no queue."""
    await pod(world, name, queue="", runs=runs, schedulingGroup={"podGroupName": group})


async def whole_workload(world: World, runs: str = "100ms") -> None:
    await native_workload(world)
    await create_group(world.client, "workers", GANG_OF_TWO, "workers")
    await create_group(world.client, "driver", BASIC, "driver")
    for name, group in (("a", "workers"), ("b", "workers"), ("c", "driver")):
        await member(world, name, group, runs)


def test_the_pods_of_all_groups_get_quota_together() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await whole_workload(world)
        workload = await until_workload(world, UNIT, "waits", has("QuotaReserved", "False"))
        counts = {pod_set.name.rpartition("-")[0]: pod_set.count for pod_set in workload.spec.pod_sets}
        assert counts == {"workers": 2, "driver": 1}
        assert await gated(world) == {"a", "b", "c"}
        await set_quota(world, "3")
        await until_workload(world, UNIT, "is finished", has("Finished", reason="Succeeded"))
        assert len((await world.client.list(WORKLOADS, NAMESPACE)).items) == 1

    run_story(story, PODS_QUEUED, FLEET)


def test_a_workload_is_queued_once_each_template_has_a_group_with_enough_pods() -> None:
    async def story(world: World) -> None:
        await world.queues("8")
        await native_workload(world)
        await create_group(world.client, "workers", GANG_OF_TWO, "workers")
        await member(world, "a", "workers", FOREVER)
        await until_event_text(
            world, "workload train of scheduling.k8s.io has no pod group of its template driver"
        )
        await create_group(world.client, "driver", BASIC, "driver")
        await member(world, "c", "driver", FOREVER)
        await until_event_text(world, "has 1 pods that can run, fewer than 2")
        await member(world, "b", "workers", FOREVER)
        await until_workload(world, UNIT, "is admitted", has("Admitted"))
        for name in ("a", "b", "c"):
            await until_pod(world, name, "is ungated", lambda found: not is_gated(found))

    run_story(story, PODS_QUEUED, FLEET)


def test_a_started_workload_goes_on_when_it_is_deleted_or_grows_and_across_a_restart() -> None:
    async def story(world: World) -> None:
        await world.queues("8")
        await whole_workload(world, FOREVER)
        await until_workload(world, UNIT, "is admitted", has("Admitted"))
        await create_group(world.client, "more", GANG_OF_TWO, "workers")
        await member(world, "late", "more")
        await world.client.delete(await workload_kind(world.client), Key(NAMESPACE, "train"))
        await world.stop_queueing()
        await world.start_queueing(PODS_QUEUED)
        await pod(world, "alone")
        await until_pod(world, "alone", "has run", lambda found: found.has_ended)
        assert await gated(world) == {"late"}
        assert not any(found.is_leaving for found in (await pods_of(world)).values())

    run_story(story, PODS_QUEUED, FLEET)


def test_the_pods_of_an_evicted_workload_are_deleted_together() -> None:
    async def story(world: World) -> None:
        await world.queues("8")
        await whole_workload(world, FOREVER)
        await until_workload(world, UNIT, "is admitted", has("Admitted"))
        for name in ("a", "b", "c"):
            await until_pod(world, name, "runs", lambda found: bool(found.node_name))
        await world.client.patch(
            CLUSTER_QUEUES, Key("", "research"), {"spec": {"stopPolicy": "HoldAndDrain"}}
        )

        async def are_stopped() -> bool:
            return all(found.has_ended or found.is_leaving for found in (await pods_of(world)).values())

        await world.until("all pods are stopped", are_stopped)
        await until_workload(world, UNIT, "has no quota", has("QuotaReserved", "False"))

    run_story(story, PODS_QUEUED, FLEET)
