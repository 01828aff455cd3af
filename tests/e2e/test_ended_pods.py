"""Pods that ended for good: what they used is free, and nothing waits for them."""

from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration, default_configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.configuration.pods_ready import WaitForPodsReady
from quorate.api.configuration.queueing import NodeFit
from quorate.api.kueue import PODS_RUN_AGAIN, Workload
from quorate.api.meta import Key, find_condition, is_true
from quorate.controllers.pods import constants
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, JOBS, PODS, Json
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import install_definitions
from tests.e2e.job_sets import SET, SET_NAME
from tests.e2e.minimal_definitions import definition
from tests.e2e.test_pods import FAILS, FOREVER, has, pod, until_workload
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

NODES = NodePool(4, cpu="8")
ENDLESS = {"simulate.quorate.dev/duration": "forever", "simulate.quorate.dev/start-delay": "50ms"}


async def create_job(world: World, name: str, cpu: str = "1", **fields: Any) -> None:
    """Create a Job of which no pod ends by itself; ``fields`` of its spec, and ``annotations``."""
    metadata = {
        "name": name,
        "labels": {"kueue.x-k8s.io/queue-name": "queue"},
        "annotations": fields.pop("annotations", {}),
    }
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": ENDLESS},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"suspend": True, "template": template, **fields}
    await world.client.create(JOBS, {"metadata": metadata, "spec": spec}, NAMESPACE)


async def running(world: World, job: str) -> list[str]:
    """Return the names of the running pods of a Job."""
    pods = (await world.client.list(PODS, NAMESPACE, f"job-name={job}")).items
    return sorted(pod.metadata.name for pod in pods if pod.status.phase == "Running")


async def until_running(world: World, job: str, count: int) -> list[str]:
    async def find() -> list[str]:
        names = await running(world, job)
        return names if len(names) == count else []

    return await world.until(f"{count} pods of {job} run", find)


async def end(world: World, *names: str, phase: str = "Succeeded") -> None:
    """End pods by writing their status, as a kubelet does."""
    for name in names:
        body = {"status": {"phase": phase}}
        await world.client.patch(PODS, Key(NAMESPACE, name), body, subresource="status")


async def used_cpu(world: World, queue: str = "research") -> str:
    status = (await world.client.get(CLUSTER_QUEUES, Key("", queue))).status
    return str(status.flavors_reservation[0].resources[0].total) if status.flavors_reservation else "0"


async def until_used(world: World, cpu: str) -> None:
    async def is_used() -> bool:
        return await used_cpu(world) == cpu

    await world.until(f"{cpu} cpus are used", is_used)


async def until_reclaimable(world: World, job: str, count: int) -> Workload:
    async def find() -> Workload | None:
        workload = await world.workload(job)
        counts: Collection[int] = (
            [] if workload is None else [each.count for each in workload.status.reclaimable_pods]
        )
        return workload if sum(counts) == count else None

    return await world.until(f"{count} pods of {job} are reclaimable", find)


def test_the_room_of_ended_pods_on_a_node_is_free() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="100")
        await create_job(world, "w", parallelism=4, completions=4)
        pods = await until_running(world, "w", 4)
        await create_job(world, "v", cpu="2")
        await world.until_condition("v", "quorate.dev/Waiting")
        await end(world, *pods[:3])
        await until_running(world, "v", 1)
        assert await running(world, "w") == pods[3:]

    requiring = msgspec.structs.replace(default_configuration(), node_fit=NodeFit(mode="Require"))
    run_story(story, requiring, NodePool(1, cpu="4"))


def test_a_job_with_parallelism_above_its_completions_holds_quota_for_the_completions_left() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="6")
        await create_job(world, "wide", parallelism=10, completions=6, completionMode="Indexed")
        pods = await until_running(world, "wide", 6)
        await create_job(world, "next", parallelism=4, completions=4)
        await end(world, *pods[:2])
        await until_reclaimable(world, "wide", 2)
        await until_used(world, "4")
        await world.until_condition("next", "quorate.dev/Waiting")
        assert len(await running(world, "wide")) == 4
        await end(world, *pods[2:4])
        await until_running(world, "next", 4)
        await until_used(world, "6")

    run_story(story, default_configuration(), NODES)


def test_a_partially_admitted_job_releases_the_quota_of_its_last_pods() -> None:
    """Eight pods are requested and four admitted, so nothing is released while four completions are left."""

    async def story(world: World) -> None:
        await world.queues(cpu="4")
        minimum = {"kueue.x-k8s.io/job-min-parallelism": "2"}
        await create_job(
            world, "half", parallelism=8, completions=8, completionMode="Indexed", annotations=minimum
        )
        await until_running(world, "half", 4)
        await create_job(world, "next", parallelism=1, completions=1)
        for _ in range(4):
            await end(world, (await until_running(world, "half", 4))[0])
        left = await until_running(world, "half", 4)
        await world.until_condition("next", "quorate.dev/Waiting")
        await until_used(world, "4")
        await end(world, left[0])
        await until_running(world, "next", 1)
        assert await running(world, "half") == left[1:]
        await until_used(world, "4")
        await end(world, *left[1:])
        await world.until_finished("half")

    run_story(story, default_configuration(), NODES)


def _replicas(active: int, succeeded: int, restarts: int = 0) -> Json:
    counts = {"ready": active, "active": active, "succeeded": succeeded, "failed": 0, "suspended": 0}
    return {"restarts": restarts, "replicatedJobsStatus": [{"name": "workers", **counts}]}


def test_a_job_set_that_restarts_is_counted_with_all_its_jobs_again() -> None:
    async def story(world: World) -> None:
        async def report(**counts: int) -> None:
            status = {"status": _replicas(**counts)}
            await world.client.patch(SET, Key(NAMESPACE, "js"), status, subresource="status")

        await install_definitions(world.client, [definition(SET)])
        await world.start_queueing(
            Configuration(integrations=Integrations(frameworks=("batch/job", SET_NAME)))
        )
        await world.queues(cpu="4")
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        workers = {"name": "workers", "replicas": 4, "template": {"spec": {"template": template}}}
        metadata = {"name": "js", "labels": {"kueue.x-k8s.io/queue-name": "queue"}}
        spec = {"suspend": True, "replicatedJobs": [workers]}
        await world.client.create(SET, {"metadata": metadata, "spec": spec}, NAMESPACE)
        await world.until_admitted("js")
        await report(active=4, succeeded=0)
        await report(active=1, succeeded=3)
        await until_reclaimable(world, "js", 3)
        await create_job(world, "next", parallelism=3, completions=3)
        await world.until_admitted("next")
        await until_used(world, "4")
        await create_job(world, "small", parallelism=1, completions=1)
        await report(active=4, succeeded=0, restarts=1)
        await until_used(world, "7")
        workload = await until_reclaimable(world, "js", 0)
        shown = find_condition(workload.status.conditions, PODS_RUN_AGAIN)
        assert shown is not None
        assert "3 of pod set workers" in shown.message

        async def is_reported() -> bool:
            events = (await world.client.list(EVENTS, NAMESPACE)).items
            return [each.type for each in events if each.reason == "PodsRunAgain"] == ["Warning"]

        await world.until("the event is there", is_reported)
        await world.until_condition("small", "quorate.dev/Waiting")
        assert await world.admitted() == {"js", "next"}

    run_story(story, None, NODES)


def recovering(recovery_s: float = 2) -> Configuration:
    """Return a configuration that evicts workloads which miss pods for a moment."""
    waits = WaitForPodsReady(timeout_s=60, recovery_timeout_s=recovery_s, block_admission=None)
    return Configuration(
        integrations=Integrations(frameworks=("batch/job", "pod")), wait_for_pods_ready=waits
    )


async def stays_ready(world: World, job: str, others_for_s: str = "3s") -> None:
    """Let another job run for longer than the recovery timeout, and see that ``job`` was not evicted."""
    await world.job("clock", runs=others_for_s)
    await world.until_finished("clock")
    workload = await world.workload(job)
    assert workload is not None
    assert is_true(workload.status.conditions, "PodsReady"), await world.describe()
    assert find_condition(workload.status.conditions, "Evicted") is None


def test_failed_indexes_need_no_recovery() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="5")
        await create_job(
            world,
            "idx",
            parallelism=4,
            completions=4,
            completionMode="Indexed",
            backoffLimitPerIndex=0,
            maxFailedIndexes=4,
        )
        pods = await until_running(world, "idx", 4)
        await world.until_condition("idx", "PodsReady")
        await end(world, *pods[:2], phase="Failed")
        await until_reclaimable(world, "idx", 2)
        await until_used(world, "2")
        await stays_ready(world, "idx")
        assert await running(world, "idx") == pods[2:]
        await end(world, *pods[2:])
        await world.until_condition("idx", "Finished", "True", "Failed")

    run_story(story, recovering(), NODES)


def test_some_ended_pods_of_a_job_need_no_recovery() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="6")
        await create_job(world, "j", parallelism=3, completions=3)
        pods = await until_running(world, "j", 3)
        await world.until_condition("j", "PodsReady")
        await end(world, pods[0])
        await until_used(world, "2")
        await stays_ready(world, "j")
        assert await running(world, "j") == pods[1:]

    run_story(story, recovering(), NODES)


NOT_RETRIED = {constants.RETRIABLE: "false"}


async def group_stays_ready(world: World) -> None:
    await world.job("clock", runs="3s")
    await world.until_finished("clock")
    workload = await until_workload(world, "grp", "is ready", has("PodsReady"))
    assert find_condition(workload.status.conditions, "Evicted") is None
    assert not is_true(workload.status.conditions, "WaitingForReplacementPods")


def test_a_group_that_does_not_retry_runs_on_with_its_other_pods() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await pod(world, "a", group="grp", total=2, runs="2s", annotations={**NOT_RETRIED, **FAILS})
        await pod(world, "b", group="grp", total=2, runs=FOREVER, annotations=NOT_RETRIED)
        await until_workload(world, "grp", "is ready", has("PodsReady"))
        await until_used(world, "1")
        await group_stays_ready(world)
        await end(world, "b")
        finished = await until_workload(world, "grp", "is finished", has("Finished"))
        condition = find_condition(finished.status.conditions, "Finished")
        assert condition is not None
        assert (condition.reason, condition.message) == ("Failed", "Pods succeeded: 1/2.")

    run_story(story, recovering(), NODES)


def test_a_failed_pod_of_a_group_that_does_not_retry_has_given_back_its_quota() -> None:
    """Another pod of the group would use quota that belongs to other workloads."""

    async def story(world: World) -> None:
        await world.queues(cpu="2")
        await pod(world, "a", group="grp", total=2, runs="1s", annotations={**NOT_RETRIED, **FAILS})
        await pod(world, "b", group="grp", total=2, runs=FOREVER, annotations=NOT_RETRIED)
        await until_workload(world, "grp", "is ready", has("PodsReady"))
        await create_job(world, "next", parallelism=1, completions=1)
        await until_running(world, "next", 1)
        await pod(world, "c", group="grp", total=2, runs=FOREVER, annotations=NOT_RETRIED)

        async def is_deleted() -> bool:
            events = (await world.client.list(EVENTS, NAMESPACE)).items
            return any(each.reason == "ExcessPodDeleted" for each in events)

        await world.until("the pod too many is deleted", is_deleted)
        await until_used(world, "2")

    run_story(story, recovering(), NODES)


@pytest.mark.parametrize("cpu", ["1", "2"])
def test_a_member_of_a_group_that_completes_needs_no_recovery(cpu: str) -> None:
    """``cpu``: of the pod that completes, which has a role of its own if it requests more."""

    async def story(world: World) -> None:
        await world.queues(cpu="6")
        await pod(world, "a", group="grp", total=3, runs="2s", cpu=cpu)
        for name in ("b", "c"):
            await pod(world, name, group="grp", total=3, runs=FOREVER)
        await until_workload(world, "grp", "is ready", has("PodsReady"))
        await until_used(world, "2")
        await group_stays_ready(world)

    run_story(story, recovering(), NODES)
