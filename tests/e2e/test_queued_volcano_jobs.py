"""Volcano Jobs and pod groups that name a local queue: quota first, then their gang."""

from typing import Any

import msgspec
import pytest

from quorate.api.configuration import default_configuration
from quorate.api.configuration.integrations import VOLCANO_JOB, VOLCANO_POD_GROUP, Integrations
from quorate.api.meta import Key
from quorate.api.names.kueue import STOPPING
from quorate.api.names.volcano import ADMITTED_POD_SETS, GROUP_NAME, SUSPENDED
from quorate.api.volcano import PodGroup
from quorate.kube.resources import LOCAL_QUEUES, POD_GROUPS, PODS, VOLCANO_JOBS, WORKLOADS
from tests.e2e.volcano import Gangs, run_story
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

QUEUED = msgspec.structs.replace(
    default_configuration(), integrations=Integrations(frameworks=(VOLCANO_JOB, VOLCANO_POD_GROUP))
)


async def a_queued_job(
    gangs: Gangs, name: str, replicas: int, min_available: int, queue: str = "queue"
) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {
            "minAvailable": min_available,
            "tasks": [{"name": "worker", "replicas": replicas, "template": template}],
        },
    }
    await gangs.client.create(VOLCANO_JOBS, body, NAMESPACE)


async def run_pods(gangs: Gangs, job: str, *names: str) -> None:
    await gangs.set_group_phase(await gangs.until_group(job), "Inqueue")

    async def created() -> bool:
        return set(names) <= set(await gangs.pods())

    await gangs.world.until(f"the pods {names}", created)
    await gangs.bind(*names)
    await gangs.set_pod_phase("Running", *names)
    await gangs.until_job(job, "Running", running=len(names))


async def remove_pods(gangs: Gangs, *names: str) -> None:
    """Remove terminating pods, as the node would on which they run."""

    async def terminating() -> bool:
        pods = await gangs.pods()
        return all(pods[name].metadata.deletion_timestamp is not None for name in names)

    await gangs.world.until(f"the pods {names} terminate", terminating)
    for name in names:
        await gangs.client.delete(PODS, Key(NAMESPACE, name), grace_period_s=0)


async def pod_groups(gangs: Gangs) -> set[str]:
    groups = (await gangs.client.list(POD_GROUPS, NAMESPACE)).items
    return {owner.name for group in groups if (owner := group.metadata.controller) is not None}


def test_quota_before_the_gang() -> None:
    async def scenario(gangs: Gangs) -> None:
        world = gangs.world
        await world.flavor(nodeLabels={"zone": "a"})
        await world.cluster_queue("4")
        await world.local_queue()
        await world.local_queue("drained")
        await a_queued_job(gangs, "first", replicas=3, min_available=3, queue="drained")
        await world.until_admitted("first")
        firsts = ("first-worker-0", "first-worker-1", "first-worker-2")
        await run_pods(gangs, "first", *firsts)
        pod = (await gangs.pods())["first-worker-0"]
        assert pod.spec.node_selector == {"zone": "a"}

        await a_queued_job(gangs, "second", replicas=3, min_available=2)
        await world.until_condition("second", "QuotaReserved", "False")
        await a_queued_job(gangs, "third", replicas=3, min_available=1)
        await world.until_admitted("third")
        await run_pods(gangs, "third", "third-worker-0")
        assert await pod_groups(gangs) == {"first", "third"}, "second has no quota"
        assert (await gangs.get_job("second")).status.state.phase == "Pending"

        hold = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await gangs.client.patch(LOCAL_QUEUES, Key(NAMESPACE, "drained"), hold)
        await remove_pods(gangs, *firsts[:2])
        await gangs.until_job("first", "Pending", running=0, terminating=1)
        assert await world.admitted() == {"first", "third"}, "its quota is held by the last pod"
        await remove_pods(gangs, firsts[2])
        await world.until_admitted("second")
        await gangs.until_job("first", "Pending", terminating=0)
        seconds = tuple(f"second-worker-{index}" for index in range(3))
        await run_pods(gangs, "second", *seconds)

        await gangs.command("AbortJob", await gangs.get_job("second"))
        await remove_pods(gangs, *seconds)
        await world.until_condition("second", "QuotaReserved", "False", "OnHold")
        await gangs.command("ResumeJob", await gangs.get_job("second"))
        await world.until_admitted("second")
        await run_pods(gangs, "second", *seconds)

        await gangs.set_pod_phase("Succeeded", *seconds, "third-worker-0")
        await world.until_finished("second", "third")

    run_story(scenario, QUEUED)


async def a_queued_group(gangs: Gangs, name: str, pods: int, queue: str = "queue") -> None:
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {"minMember": pods, "minResources": {"cpu": str(pods)}},
    }
    await gangs.client.create(POD_GROUPS, body, NAMESPACE)


async def a_pod_of(gangs: Gangs, group: str, name: str) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    body: dict[str, Any] = {
        "metadata": {"name": name, "annotations": {GROUP_NAME: group}},
        "spec": {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [container]},
    }
    await gangs.client.create(PODS, body, NAMESPACE)


async def until_group_annotations(gangs: Gangs, name: str, *wanted: str) -> PodGroup:
    async def find() -> PodGroup | None:
        group = await gangs.client.get(POD_GROUPS, Key(NAMESPACE, name))
        present = {SUSPENDED, STOPPING, ADMITTED_POD_SETS} & group.metadata.annotations.keys()
        return group if present == set(wanted) else None

    return await gangs.world.until(f"the pod group {name} has {wanted}", find)


async def quota_before_pod_groups(gangs: Gangs) -> None:
    """Needs 4 free cpus in the queue of the world."""
    world, client = gangs.world, gangs.client
    await world.local_queue("drained")
    await a_queued_group(gangs, "one", pods=3, queue="drained")
    await world.until_admitted("one")
    one = await until_group_annotations(gangs, "one", ADMITTED_POD_SETS)
    await a_queued_group(gangs, "two", pods=2)
    await world.until_condition("two", "QuotaReserved", "False")
    await until_group_annotations(gangs, "two", SUSPENDED)

    for name in ("one-0", "one-1", "one-2"):
        await a_pod_of(gangs, "one", name)
    await gangs.bind("one-0", "one-1")
    await gangs.set_pod_phase("Running", "one-0", "one-1")
    await client.patch(POD_GROUPS, one.metadata.key, {"status": {"phase": "Running", "running": 2}})
    hold = {"spec": {"stopPolicy": "HoldAndDrain"}}
    await client.patch(LOCAL_QUEUES, Key(NAMESPACE, "drained"), hold)
    await until_group_annotations(gangs, "one", SUSPENDED, STOPPING)
    await remove_pods(gangs, "one-0")
    assert "one" in await world.admitted(), "its quota is held by the last pod"
    await remove_pods(gangs, "one-1")
    await client.patch(POD_GROUPS, one.metadata.key, {"status": {"phase": "Pending", "running": 0}})
    await until_group_annotations(gangs, "one", SUSPENDED)
    assert (await gangs.pods())["one-2"].metadata.deletion_timestamp is None, "it has no node"

    await world.until_admitted("two")
    two = await until_group_annotations(gangs, "two", ADMITTED_POD_SETS)
    await client.patch(POD_GROUPS, two.metadata.key, {"status": {"phase": "Completed", "succeeded": 2}})
    await world.until_finished("two")
    owners = [each.metadata.controller for each in (await client.list(WORKLOADS, NAMESPACE)).items]
    kinds = sorted((owner.kind, owner.name) for owner in owners if owner is not None)
    assert kinds == [("Job", "train"), ("PodGroup", "one"), ("PodGroup", "two")], "not the job's group"


def test_a_restart_keeps_a_running_job_and_pod_groups_wait_for_quota() -> None:
    async def scenario(gangs: Gangs) -> None:
        world = gangs.world
        await world.queues("4")
        await a_queued_job(gangs, "train", replicas=2, min_available=2)
        await world.until_admitted("train")
        names = ("train-worker-0", "train-worker-1")
        await run_pods(gangs, "train", *names)
        before = {name: pod.metadata.uid for name, pod in (await gangs.pods()).items()}
        await world.stop_queueing()
        await world.start_queueing(QUEUED)
        await gangs.set_pod_phase("Succeeded", *names)
        await world.until_finished("train")
        assert {name: pod.metadata.uid for name, pod in (await gangs.pods()).items()} == before
        stored = await gangs.client.get(VOLCANO_JOBS, Key(NAMESPACE, "train"))
        assert stored.status.succeeded == 2
        await quota_before_pod_groups(gangs)

    run_story(scenario, QUEUED)
