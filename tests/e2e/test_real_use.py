"""What users did with jobs and sets: scaled them while they were stopped, rolled them out on a full queue."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from quorate.api.configuration import Configuration
from quorate.api.configuration.pods_ready import RequeuingStrategy, WaitForPodsReady
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.kueue import Workload
from quorate.api.meta import Key, is_true
from quorate.controllers.pods.queued_pod import is_gated
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, JOBS, PODS, WORKLOADS
from tests.e2e.kinds import RAY_JOB, SPARK_APPLICATION, Json
from tests.e2e.test_kinds import KEY, ManagedJob, install
from tests.e2e.test_pods import more_cpu, pods_of
from tests.e2e.test_sets import (
    DEPLOYMENTS,
    FLEET,
    QUEUED,
    STATEFUL_SETS,
    WEB,
    a_set,
    live_pods,
    no_pods,
    until_ready,
)
from tests.e2e.topologies import HOST, create_host, create_job_in, create_topology, places_of
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,  # rules that other tests cover, in the order in which users met them
]
RESEARCH = Key("", "research")


def test_a_set_that_is_stopped_and_scaled_to_0_at_once_comes_back_with_any_size() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await world.client.create(STATEFUL_SETS, a_set(3), NAMESPACE)
        await until_ready(world, STATEFUL_SETS, 3)
        await world.client.patch(CLUSTER_QUEUES, RESEARCH, {"spec": {"stopPolicy": "HoldAndDrain"}})
        await world.client.patch(STATEFUL_SETS, WEB, {"spec": {"replicas": 0}})
        await world.until_condition("web", "QuotaReserved", "False")
        await world.client.patch(CLUSTER_QUEUES, RESEARCH, {"spec": {"stopPolicy": "None"}})
        await world.client.patch(STATEFUL_SETS, WEB, {"spec": {"replicas": 3}})
        await until_ready(world, STATEFUL_SETS, 3)
        await world.client.patch(STATEFUL_SETS, WEB, {"spec": {"replicas": 0}})
        await world.until_condition("web", "QuotaReserved", "False", "OnHold")
        await world.client.patch(STATEFUL_SETS, WEB, {"spec": {"replicas": 4}})
        await until_ready(world, STATEFUL_SETS, 4)
        again = await world.until_condition("web", "Admitted")
        assert [each.count for each in again.spec.pod_sets] == [4]

    run_story(story, QUEUED, FLEET)


def test_a_set_that_changes_while_it_is_evicted_runs_no_pod_before_its_admission() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await world.client.create(STATEFUL_SETS, a_set(2), NAMESPACE)
        await until_ready(world, STATEFUL_SETS, 2)
        key = (await world.until_condition("web", "Admitted")).metadata.key
        await world.client.patch(WORKLOADS, key, {"spec": {"active": False}})
        changed = {"spec": {"template": {"metadata": {"annotations": {"changed": "yes"}}}}}
        await world.client.patch(STATEFUL_SETS, WEB, changed)
        await world.until_condition("web", "QuotaReserved", "False")
        await world.until("its pods wait", lambda: all_wait(world))
        await world.client.patch(WORKLOADS, key, {"spec": {"active": True}})
        await until_ready(world, STATEFUL_SETS, 2)

    run_story(story, QUEUED, FLEET)


def test_a_set_that_asks_for_less_while_it_waits_starts() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        template = a_set(2)["spec"]["template"]["spec"]
        (container,) = template["containers"]
        large = {"containers": [{**container, "resources": {"requests": {"cpu": "5"}}}]}
        waiting = a_set(2)
        waiting["spec"]["template"]["spec"] |= large
        await world.client.create(STATEFUL_SETS, waiting, NAMESPACE)
        await world.until("its pods wait", lambda: all_wait(world))
        await world.client.patch(STATEFUL_SETS, WEB, {"spec": {"template": {"spec": template}}})
        await until_ready(world, STATEFUL_SETS, 2)

    run_story(story, QUEUED, FLEET)


async def all_wait(world: World) -> bool:
    pods = await live_pods(world)
    return bool(pods) and all(map(is_gated, pods))


async def some_pod(world: World, holds: Callable[[Any], bool]) -> bool:
    return any(map(holds, (await pods_of(world)).values()))


def test_the_rollout_of_a_deployment_on_a_full_queue_waits_for_quota() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await world.client.create(DEPLOYMENTS, a_set(2), NAMESPACE)
        await until_ready(world, DEPLOYMENTS, 2)
        strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        template = {"metadata": {"annotations": {"changed": "yes"}}}
        await world.client.patch(DEPLOYMENTS, WEB, {"spec": {"strategy": strategy, "template": template}})
        await world.until("the surge pod waits", lambda: some_pod(world, is_gated))
        await until_ready(world, DEPLOYMENTS, 2)
        await world.client.patch(CLUSTER_QUEUES, RESEARCH, more_cpu("3"))
        await world.until("all pods are new", lambda: all_changed(world))
        await until_ready(world, DEPLOYMENTS, 2)

    run_story(story, QUEUED, FLEET)


async def all_changed(world: World) -> bool:
    pods = await live_pods(world)
    return len(pods) == 2 and all("changed" in pod.metadata.annotations for pod in pods)


def test_a_set_that_crashes_is_evicted_and_comes_back_until_it_is_deleted() -> None:
    waiting = WaitForPodsReady(
        timeout_s=2.0,
        recovery_timeout_s=1.0,
        block_admission=None,
        requeuing_strategy=RequeuingStrategy(backoff_base_s=1.0),
    )
    crashing = a_set(2)
    fails = {"simulate.quorate.dev/exit-code": "1", "simulate.quorate.dev/duration": "100ms"}
    crashing["spec"]["template"]["metadata"]["annotations"] |= fails

    async def story(world: World) -> None:
        await world.queues("2")
        await world.client.create(STATEFUL_SETS, crashing, NAMESPACE)

        async def evicted_twice() -> bool:
            workload = await world.workload("web")
            state = None if workload is None else workload.status.requeue_state
            return state is not None and (state.count or 0) >= 2

        await world.until("it was admitted and evicted twice", evicted_twice)
        await world.until_condition("web", "Admitted")
        await world.client.delete(STATEFUL_SETS, WEB, propagation="Background")
        await world.until("no pod is stuck", lambda: no_pods(world))

    run_story(story, structs.replace(QUEUED, wait_for_pods_ready=waiting), FLEET)


@pytest.mark.provokes("WithoutAdmission")
def test_a_job_that_leaves_its_pods_behind_gives_its_quota_back() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await world.job("first", runs="1h")
        await world.until_admitted("first")
        job = (await world.get_job("first")).metadata
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "first", "uid": job.uid}
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        pods = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
        foreign = {"name": "foreign", "ownerReferences": [owner]}
        body = {"metadata": foreign, "spec": {"queueName": "queue", "podSets": [pods]}}
        await world.client.create(WORKLOADS, body, NAMESPACE)
        await world.until("the foreign workload is admitted", lambda: is_admitted(world, "foreign"))
        assert not (await world.get_job("first")).spec.suspend
        await world.client.delete(JOBS, Key(NAMESPACE, "first"), propagation="Orphan")
        await world.job("second", runs="1h")
        await world.until_admitted("second")

    run_story(story, Configuration(), FLEET)


async def is_admitted(world: World, name: str) -> bool:
    workload: Workload = await world.client.get(WORKLOADS, Key(NAMESPACE, name))
    return is_true(workload.status.conditions, "Admitted")


def test_pods_run_on_the_node_of_their_place_if_its_host_label_is_not_its_name() -> None:
    async def story(world: World) -> None:
        await create_topology(world, "8")
        for number in (1, 2):
            await create_host(world, f"node-{number}", "rack", "4", {HOST: f"host-{number}"})
        await create_job_in(world, "placed", HOST, 3)
        await world.until_admitted("placed")
        ((host, count),) = (await places_of(world, "placed")).items()

        async def nodes() -> set[str] | None:
            bound = [each.spec.node_name for each in (await world.client.list(PODS, NAMESPACE)).items]
            return set(bound) if len(bound) == count and all(bound) else None

        assert await world.until("all pods are bound", nodes) == {host.replace("host", "node")}

    run_story(story, Configuration())


def test_a_spark_submission_that_is_retried_keeps_its_quota() -> None:
    policy = {"restartPolicy": {"type": "OnFailure", "onSubmissionFailureRetries": 3}}
    example = replace(SPARK_APPLICATION, spec={**SPARK_APPLICATION.spec, **policy})

    async def story(world: World) -> None:
        await install(world, example)
        await world.queues(example.cpu)
        counted = ResourceOptions(exclude_resource_prefixes=("memory",))  # which Spark requests by itself
        await world.start_queueing(Configuration(integrations=example.integrations, resources=counted))
        managed = ManagedJob(world, example)
        await managed.create()
        await managed.until_suspended(False)
        failed = {"applicationState": {"state": "SUBMISSION_FAILED"}, "submissionAttempts": 1}
        for status in (failed, example.runs):
            await managed.patch_status(status)
        await managed.patch_status({**failed, "submissionAttempts": 3})
        await managed.patch_status(example.runs)
        still = await world.until_condition(KEY.name, "Admitted")
        assert not is_true(still.status.conditions, "Finished")
        await managed.patch_status({**failed, "submissionAttempts": 4})
        await world.until_condition(KEY.name, "Finished", "True", "Failed")

    run_story(story)


def test_ray_jobs_that_make_no_sense_get_an_event_each_and_stop_nothing() -> None:
    async def story(world: World) -> None:
        await install(world, RAY_JOB)
        await world.queues(RAY_JOB.cpu)
        await world.start_queueing(Configuration(integrations=RAY_JOB.integrations))
        for name, spec in (("empty", {"containers": []}), ("null", {"containers": None}), ("none", {})):
            await world.client.create(RAY_JOB.resource, a_ray_job(name, spec), NAMESPACE)
        await world.until("an event on each", lambda: have_events(world, {"empty", "null", "none"}))
        managed = ManagedJob(world, RAY_JOB)
        await managed.create()
        await managed.until_suspended(False)
        await managed.patch_status({"jobDeploymentStatus": "ValidationFailed"})
        await world.until_condition(KEY.name, "QuotaReserved", "False")

    run_story(story)


def a_ray_job(name: str, head: Json) -> Json:
    labels = {"kueue.x-k8s.io/queue-name": "queue"}
    cluster = {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": head}}}
    spec = {"suspend": True, "shutdownAfterJobFinishes": True, "rayClusterSpec": cluster}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


async def have_events(world: World, names: set[str]) -> bool:
    events = (await world.client.list(EVENTS, NAMESPACE)).items
    found = {
        each.regarding.name
        for each in events
        if each.reason == "ErrWorkloadCompose" and each.regarding is not None
    }
    return names <= found
