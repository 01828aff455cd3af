"""Copies of pods, sets, Volcano Jobs and kinds of other controllers, and fields that are forwarded."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import VOLCANO_JOB, ExternalFramework, Integrations
from quorate.api.configuration.multikueue import MultiKueueGates
from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import Key, OwnerReference
from quorate.api.names.kueue import ADMISSION_GATE, MANAGED, PREBUILT_WORKLOAD, SLICE_NAME
from quorate.api.names.multikueue import CONTROLLER, ORIGIN, ORIGIN_UID
from quorate.api.names.volcano import ADMITTED_POD_SETS
from quorate.controllers.jobframework.construct_workload import workload_name
from quorate.controllers.jobs.unstructured import UnstructuredJob, unstructured_resource
from quorate.controllers.multikueue.dispatch.job_adapter import Synced
from quorate.controllers.multikueue.jobs.remote_kinds import remote_kinds
from quorate.kube.errors import NotFound
from quorate.kube.resources import JOBS, VOLCANO_JOBS, Json, Resource
from tests.controllers.multikueue.jobs.clusters import (
    KEY,
    NAMESPACE,
    OURS,
    Clusters,
    configured,
    two_clusters,
    until,
    workload_of,
)
from tests.e2e.kinds import JOB, RAY_CLUSTER, RAY_SERVICE, SPARK_APPLICATION, TRAIN_JOB, pods

PODS = unstructured_resource("", "v1", "pods", "Pod")
SETS = unstructured_resource("apps", "v1", "statefulsets", "StatefulSet")
GROUPS = unstructured_resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
VOLCANO = unstructured_resource(VOLCANO_JOBS.group, VOLCANO_JOBS.version, "jobs", "Job")
PIPELINES = unstructured_resource("tekton.dev", "v1", "pipelineruns", "PipelineRun")


def run(
    story: Callable[[Clusters], Awaitable[None]],
    configuration: Configuration,
    kinds: Sequence[Resource[Any]] = (),
    **options: Any,
) -> None:
    async def of_clusters() -> None:
        async with two_clusters(configuration, kinds, **options) as clusters:
            await story(clusters)

    asyncio.run(of_clusters())


def enabling(*frameworks: str) -> Configuration:
    return configured(Integrations(frameworks=frameworks))


def gated_pod(name: str) -> Json:
    labels = {MANAGED: "true", "kueue.x-k8s.io/pod-group-name": "group"}
    spec = {**pods()["spec"], "schedulingGates": [{"name": ADMISSION_GATE}]}
    return {"metadata": {"name": name, "labels": labels, "finalizers": [MANAGED]}, "spec": spec}


def group_of(members: Sequence[UnstructuredJob]) -> Workload:
    owners = tuple(
        OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)
        for pod in members
    )
    workload = workload_of(PODS, members[0].metadata, name="group")
    return msgspec.structs.replace(
        workload, metadata=msgspec.structs.replace(workload.metadata, owner_references=owners)
    )


def test_all_pods_of_a_group_are_copied_and_stay_gated_here() -> None:
    async def story(clusters: Clusters) -> None:
        members = [
            await clusters.manager.create(PODS, gated_pod(name), NAMESPACE) for name in ("a", "b", "c")
        ]
        waiting = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
        await clusters.set_status(clusters.manager, PODS, {"conditions": [waiting]}, "a")
        workload = group_of(members)
        assert await clusters.refusal(workload) == ""
        await clusters.sync(workload)
        copy = await clusters.there(PODS, "b")
        assert copy is not None
        assert copy.metadata.annotations[PREBUILT_WORKLOAD] == "group"
        assert copy.metadata.annotations[ORIGIN_UID] == members[1].metadata.uid
        assert MANAGED not in copy.metadata.labels, "the worker cluster adopts the pod"
        assert copy.spec["schedulingGates"] == [{"name": ADMISSION_GATE}]

        unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await clusters.set_status(clusters.remote, PODS, {"conditions": [unschedulable]}, "a")
        await clusters.set_status(clusters.remote, PODS, {"phase": "Running"}, "b")

        async def running() -> bool | None:
            await clusters.sync(workload)
            return (await clusters.here(PODS, "b")).status.get("phase") == "Running" or None

        await until(running)
        assert _scheduled(await clusters.here(PODS, "a")) == "SchedulingGated"
        scheduled = {"type": "PodScheduled", "status": "True"}
        await clusters.set_status(clusters.remote, PODS, {"phase": "Running", "conditions": [scheduled]}, "a")

        async def placed() -> bool | None:
            await clusters.sync(workload)
            return _scheduled(await clusters.here(PODS, "a")) == "" or None

        await until(placed)
        assert clusters.copies.presence(clusters.worker, clusters.job(workload)) == "present"
        await clusters.copies.lost(clusters.job(workload))
        assert (await clusters.here(PODS, "b")).status["phase"] == "Pending"

        fewer = group_of(members[:1])  # a pod that has left the group has a copy, too
        await clusters.delete(fewer)
        for name in ("a", "b", "c"):
            assert await clusters.there(PODS, name) is None

    run(story, enabling("pod"))


def test_a_group_that_was_evicted_in_its_worker_has_not_ended() -> None:
    async def story(clusters: Clusters) -> None:
        members = [await clusters.manager.create(PODS, gated_pod(name), NAMESPACE) for name in ("a", "b")]
        workload = group_of(members)
        await clusters.sync(workload)
        for name in ("a", "b"):
            await clusters.set_status(clusters.remote, PODS, {"phase": "Failed"}, name)
        end = await clusters.copies.end(clusters.worker, clusters.job(workload))
        assert end is not None
        assert not end.success
        for name in ("a", "b"):
            key = Key(NAMESPACE, name)
            await clusters.remote.patch(PODS, key, {"metadata": {"finalizers": [MANAGED]}})
            await clusters.remote.delete(PODS, key)
        assert await clusters.copies.end(clusters.worker, clusters.job(workload)) is None

    run(story, enabling("pod"))


def test_a_pod_that_has_ended_does_not_run_in_another_worker() -> None:
    async def story(clusters: Clusters) -> None:
        members = [await clusters.manager.create(PODS, gated_pod(name), NAMESPACE) for name in ("a", "b")]
        await clusters.set_status(clusters.manager, PODS, {"phase": "Failed"}, "a")
        await clusters.sync(group_of(members))
        assert await clusters.there(PODS, "a") is None
        assert await clusters.there(PODS, "b") is not None

    run(story, enabling("pod"))


def _scheduled(pod: UnstructuredJob) -> str:
    conditions: list[Json] = pod.status.get("conditions") or []
    (found,) = [condition for condition in conditions if condition["type"] == "PodScheduled"]
    return str(found.get("reason", ""))


def test_a_set_is_copied_without_its_status() -> None:
    """The controller of the set in this cluster would overwrite the status of a copy."""

    async def story(clusters: Clusters) -> None:
        selector = {"matchLabels": {"team": "a"}}
        template = {**pods(), "spec": {**pods()["spec"], "restartPolicy": "Always"}}
        spec = {"replicas": 2, "serviceName": "db", "selector": selector, "template": template}
        stored = await clusters.create(SETS, spec)
        workload = workload_of(SETS, stored.metadata)
        await clusters.sync(workload)
        copy = await clusters.there(SETS)
        assert copy is not None
        assert copy.metadata.annotations[ORIGIN_UID] == stored.metadata.uid
        await clusters.set_status(clusters.remote, SETS, {"replicas": 2, "readyReplicas": 2})

        async def followed() -> bool | None:
            return workload.metadata.key in clusters.changed or None

        await until(followed)
        writes = clusters.manager.writes
        assert await clusters.sync(workload) == Synced()
        assert clusters.manager.writes == writes

    run(story, enabling("statefulset"))


def test_a_leader_worker_set_has_one_copy_and_a_workload_for_each_replica() -> None:
    async def story(clusters: Clusters) -> None:
        stored = await clusters.create(GROUPS, {"replicas": 2, "leaderWorkerTemplate": {"size": 2}})
        names = [
            workload_name("LeaderWorkerSet", GROUPS.group, "train", stored.metadata.uid, str(index))
            for index in range(2)
        ]
        workloads = [workload_of(GROUPS, stored.metadata, name=name) for name in names]
        for workload in workloads:
            assert await clusters.sync(workload) == Synced()
        copy = await clusters.there(GROUPS)
        assert copy is not None
        assert PREBUILT_WORKLOAD not in {**copy.metadata.labels, **copy.metadata.annotations}
        assert copy.metadata.annotations[ORIGIN_UID] == stored.metadata.uid

        async def followed() -> bool | None:
            return {Key(NAMESPACE, name) for name in names} <= set(clusters.changed) or None

        await until(followed)

    run(story, enabling("leaderworkerset.x-k8s.io/leaderworkerset"), [GROUPS])


def test_a_volcano_job_stays_suspended_here_and_gets_the_end_of_its_copy() -> None:
    async def story(clusters: Clusters) -> None:
        tasks = [{"name": "main", "replicas": 2, "template": pods()}]
        body = {
            "metadata": {"name": "train", "annotations": {ADMITTED_POD_SETS: "{}"}},
            "spec": {"minAvailable": 2, "tasks": tasks},
        }
        job = await clusters.manager.create(VOLCANO, body, NAMESPACE)
        workload = workload_of(VOLCANO, job.metadata)
        assert await clusters.refusal(workload) == ""
        await clusters.sync(workload)
        copy = await clusters.there(VOLCANO)
        assert copy is not None
        assert ADMITTED_POD_SETS not in copy.metadata.annotations
        await clusters.set_status(clusters.remote, VOLCANO, {"state": {"phase": "Running"}, "running": 2})

        async def followed() -> bool | None:
            return workload.metadata.key in clusters.changed or None

        await until(followed)
        assert await clusters.sync(workload) == Synced()
        assert not (await clusters.here(VOLCANO)).status.get("running")
        ended = {"state": {"phase": "Completed"}, "running": None, "succeeded": 2}
        await clusters.set_status(clusters.remote, VOLCANO, ended)
        await clusters.synced_until(VOLCANO, workload, lambda job: job.status.get("succeeded") == 2)

    run(story, enabling(VOLCANO_JOB), [VOLCANO])


def test_a_spark_application_stays_suspended_here_and_gets_the_end_of_its_copy() -> None:
    async def story(clusters: Clusters) -> None:
        resource = SPARK_APPLICATION.resource
        job = await clusters.create(resource, {**SPARK_APPLICATION.spec, "suspend": True})
        workload = workload_of(resource, job.metadata)
        assert await clusters.refusal(workload) == ""
        await clusters.sync(workload)
        copy = await clusters.there(resource)
        assert copy is not None
        assert copy.spec["suspend"] is True
        await clusters.set_status(clusters.remote, resource, SPARK_APPLICATION.runs)

        async def followed() -> bool | None:
            return workload.metadata.key in clusters.changed or None

        await until(followed)
        assert await clusters.sync(workload) == Synced()
        assert not (await clusters.here(resource)).status
        assert SPARK_APPLICATION.succeeded is not None
        await clusters.set_status(clusters.remote, resource, SPARK_APPLICATION.succeeded)
        wanted = SPARK_APPLICATION.succeeded["applicationState"]
        await clusters.synced_until(
            resource, workload, lambda job: job.status.get("applicationState") == wanted
        )

    run(story, configured(SPARK_APPLICATION.integrations), [SPARK_APPLICATION.resource])


def external(**gates: bool) -> Configuration:
    configuration = enabling("batch/job")
    framework = ExternalFramework(group="tekton.dev", version="v1", kind="PipelineRun")
    multikueue = msgspec.structs.replace(configuration.multikueue, external_frameworks=(framework,))
    return msgspec.structs.replace(
        configuration, multikueue=multikueue, multikueue_gates=MultiKueueGates(**gates)
    )


def test_a_kind_of_another_controller_is_copied_by_its_name_in_the_configuration() -> None:
    async def story(clusters: Clusters) -> None:
        owners = [{"apiVersion": "v1", "kind": "Any", "name": "owner", "uid": "1"}]
        job = await clusters.create(PIPELINES, {"managedBy": CONTROLLER, "x": 1}, ownerReferences=owners)
        workload = workload_of(PIPELINES, job.metadata)
        assert await clusters.refusal(workload) == ""
        await clusters.sync(workload)
        copy = await clusters.there(PIPELINES)
        assert copy is not None
        assert copy.spec == {"x": 1}
        assert copy.metadata.owner_references == ()
        await clusters.set_status(clusters.remote, PIPELINES, {"done": True})
        await clusters.synced_until(PIPELINES, workload, lambda job: job.status == {"done": True})

        other = await clusters.manager.create(PIPELINES, {"metadata": {"name": "o"}, "spec": {}}, NAMESPACE)
        reason = await clusters.refusal(workload_of(PIPELINES, other.metadata))
        assert reason == f'Expecting .spec.managedBy to be "{CONTROLLER}" not ""'

    run(story, external(), [PIPELINES])


def test_the_gate_of_kinds_of_other_controllers() -> None:
    name = "tekton.dev/v1, Kind=PipelineRun"
    assert name in remote_kinds(external())
    assert name not in remote_kinds(external(adapters_for_custom_jobs=False))


def test_a_worker_cluster_that_does_not_serve_the_kind_refuses_the_copy() -> None:
    async def story(clusters: Clusters) -> None:
        job = await clusters.create(PIPELINES, {"managedBy": CONTROLLER})
        with pytest.raises(NotFound):
            await clusters.sync(workload_of(PIPELINES, job.metadata))

    run(story, external(), [PIPELINES], served_by_worker=False)


def test_a_changed_serve_configuration_is_forwarded() -> None:
    async def story(clusters: Clusters) -> None:
        resource = RAY_SERVICE.resource
        spec = {**RAY_SERVICE.spec, "managedBy": CONTROLLER}
        job = await clusters.create(resource, spec)
        workload = workload_of(resource, job.metadata)
        await clusters.sync(workload)
        await clusters.manager.patch(resource, KEY, {"spec": {"serveConfigV2": "applications: [a]"}})

        async def forwarded() -> bool | None:
            await clusters.sync(workload)
            copy = await clusters.there(resource)
            return (copy is not None and copy.spec["serveConfigV2"] == "applications: [a]") or None

        await until(forwarded)
        writes = clusters.remote.writes
        await clusters.sync(workload)
        assert clusters.remote.writes == writes

    run(story, configured(RAY_SERVICE.integrations), [RAY_SERVICE.resource])


def elastic(resource: Resource[Any], job: UnstructuredJob, pods_in_workload: int, name: str) -> Workload:
    pod_sets = (PodSet(count=pods_in_workload),)
    return workload_of(resource, job.metadata, pod_sets, name, annotations={SLICE_NAME: "job-train-1"})


def test_the_copy_of_an_elastic_job_follows_its_size_once_the_workload_has_it() -> None:
    async def story(clusters: Clusters) -> None:
        resource = JOB.resource
        job = await clusters.create(resource, {**JOB.spec, "managedBy": CONTROLLER, "completions": 9})
        first = elastic(resource, job, 3, "job-train-1")
        await clusters.sync(first)
        job = await clusters.manager.patch(resource, KEY, {"spec": {"parallelism": 5}})

        async def listed() -> bool | None:
            return clusters.copies.presence(clusters.worker, clusters.job(first)) == "present" or None

        await until(listed)
        await clusters.sync(first)
        assert await _size(clusters, resource) == (3, "job-train-1"), "its workload has 3 pods yet"
        second = elastic(resource, job, 5, "job-train-2")
        await clusters.sync(second)
        assert await _size(clusters, resource) == (5, "job-train-2")
        await clusters.manager.patch(resource, KEY, {"spec": {"parallelism": 2}})
        await clusters.sync(second)
        assert await _size(clusters, resource) == (2, "job-train-2"), "it shrinks at once"

    run(story, enabling("batch/job"))


async def _size(clusters: Clusters, resource: Resource[UnstructuredJob]) -> tuple[int, str]:
    copy = await clusters.there(resource)
    assert copy is not None
    return copy.spec["parallelism"], copy.metadata.labels[PREBUILT_WORKLOAD]


def test_the_copy_of_an_elastic_ray_cluster_follows_the_sizes_of_its_groups() -> None:
    async def story(clusters: Clusters) -> None:
        resource = RAY_CLUSTER.resource
        job = await clusters.create(resource, {**RAY_CLUSTER.spec, "managedBy": CONTROLLER})
        await clusters.sync(elastic(resource, job, 5, "job-train-1"))
        groups = [{**group, "replicas": 3} for group in RAY_CLUSTER.spec["workerGroupSpecs"]]
        await clusters.manager.patch(resource, KEY, {"spec": {"workerGroupSpecs": groups}})

        async def forwarded() -> bool | None:
            await clusters.sync(elastic(resource, job, 10, "job-train-2"))
            copy = await clusters.there(resource)
            return (copy is not None and copy.spec["workerGroupSpecs"] == groups) or None

        await until(forwarded)

    run(story, configured(RAY_CLUSTER.integrations), [RAY_CLUSTER.resource])


def test_the_copy_of_a_train_job_gets_the_runtime_patch_of_its_own_cluster() -> None:
    async def story(clusters: Clusters) -> None:
        job = await clusters.create(TRAIN_JOB.resource, {**TRAIN_JOB.spec, "managedBy": CONTROLLER})
        await clusters.sync(workload_of(TRAIN_JOB.resource, job.metadata))
        copy = await clusters.there(TRAIN_JOB.resource)
        assert copy is not None
        assert [patch["manager"] for patch in copy.spec["runtimePatches"]] == ["example.com/user"]

    run(story, configured(TRAIN_JOB.integrations), [TRAIN_JOB.resource])


@pytest.mark.parametrize("clears", [False, True])
def test_the_retention_of_the_copy_of_a_batch_job(clears: bool) -> None:
    configuration = enabling("batch/job")
    gates = MultiKueueGates(clear_ttl_on_worker=clears)
    configuration = msgspec.structs.replace(configuration, multikueue_gates=gates)

    async def story(clusters: Clusters) -> None:
        job = await clusters.create(JOB.resource, {**JOB.spec, "ttlSecondsAfterFinished": 7})
        await clusters.sync(workload_of(JOBS, job.metadata))
        copy = await clusters.there(JOB.resource)
        assert copy is not None
        assert copy.metadata.labels[ORIGIN] == OURS
        assert ("ttlSecondsAfterFinished" in copy.spec) is not clears

    run(story, configuration)
