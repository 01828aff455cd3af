"""The lifecycle of a job of each kind, over HTTP; tests imitate the controller of the kind."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.configuration.pods_ready import WaitForPodsReady
from quorate.api.configuration.queueing import ResourceOptions
from quorate.api.field_path import look_up, parse_path, write_field
from quorate.api.kueue import Workload
from quorate.api.meta import Key, find_condition, is_true
from quorate.controllers.integrations import BATCH_JOB, FRAMEWORK_KINDS
from quorate.controllers.jobframework.construct_workload import owner_of
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.inspect.connection import Connection
from quorate.inspect.explain.answers import Answers
from quorate.inspect.explain.targets import named_targets
from quorate.kube.errors import NotFound
from quorate.kube.resources import CLUSTER_QUEUES, CONFIG_MAPS, EVENTS, JOBS, PODS, WORKLOADS
from quorate.processes.local.apply import install_definitions
from quorate.queueing.conditions import has_quota_reservation, is_finished
from tests.e2e.kinds import EXAMPLES, JOB_SET, TRAIN_JOB, Added, Example, Json, pods, without_times
from tests.e2e.minimal_definitions import definition
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,  # long stories of code that other tests measure
]

KEY = Key(NAMESPACE, "train")
TOLERATION = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}


class ManagedJob:
    """The job of one example in a test cluster."""

    def __init__(self, world: World, example: Example) -> None:
        self.world = world
        self.example = example
        self.resource = example.resource
        self.written: Json = {}  # as stored for its user, but suspended

    async def create(self) -> None:
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        body = {"metadata": {"name": KEY.name, "labels": labels}, "spec": self.example.spec}
        stored = await self.world.client.create(self.resource, body, NAMESPACE)
        self.written = copy.deepcopy({"spec": stored.spec})
        write_field(self.written, parse_path(self.example.suspend), self.example.stopped_is)
        for resource, dependency in self.example.dependencies:
            namespace = NAMESPACE if resource.namespaced else ""
            await self.world.client.create(
                resource, {"metadata": {"name": KEY.name}, **dependency}, namespace
            )

    async def job(self) -> UnstructuredJob:
        return await self.world.client.get(self.resource, KEY)

    async def until_suspended(self, suspended: bool) -> UnstructuredJob:
        async def find() -> UnstructuredJob | None:
            job = await self.job()
            is_stopped = look_up(job.document, parse_path(self.example.suspend)) == self.example.stopped_is
            return job if is_stopped is suspended else None

        return await self.world.until(f"suspended is {suspended}", find)

    async def until_restored(self) -> None:
        async def find() -> bool:
            return {"spec": without_times((await self.job()).spec)} == self.written

        await self.world.until(f"the job is {self.written}", find)

    async def patch_status(self, status: Json) -> None:
        """Replace the status, as the controller of the kind does."""
        fresh = {**dict.fromkeys((await self.job()).status), **status}
        await self.world.client.patch(self.resource, KEY, {"status": fresh}, subresource="status")

    async def create_pod(self, workload: Workload) -> Key:
        """Create a pod, as the controller of the kind does before it counts it in the status."""
        labels = {
            "kueue.x-k8s.io/podset": workload.spec.pod_sets[0].name,
            "batch.kubernetes.io/controller-uid": (await self.job()).metadata.uid,
        }
        annotations = {"kueue.x-k8s.io/workload": workload.metadata.name}
        metadata = {"name": "uncounted", "labels": labels, "annotations": annotations}
        body = {"metadata": metadata, "spec": pods()["spec"]}
        key = (await self.world.client.create(PODS, body, NAMESPACE)).metadata.key
        await self.world.client.patch(PODS, key, {"status": {"phase": "Running"}}, subresource="status")
        return key

    async def until_workload(self, what: str, accept: Any) -> Workload:
        async def find() -> Workload | None:
            workload = await self.world.workload(KEY.name)
            return workload if workload is not None and accept(workload) else None

        return await self.world.until(what, find)

    async def is_deleted(self) -> bool:
        try:
            await self.job()
        except NotFound:
            return await self.world.workload(KEY.name) is None
        return False


def running(integrations: Integrations) -> Configuration:
    waiting = WaitForPodsReady(timeout_s=60, recovery_timeout_s=60, block_admission=None)
    counted = ResourceOptions(exclude_resource_prefixes=("memory",))  # which Spark requests by itself
    return Configuration(integrations=integrations, wait_for_pods_ready=waiting, resources=counted)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.resource.kind)
def test_a_job_of_each_kind_has_the_same_lifecycle(example: Example) -> None:
    async def story(world: World) -> None:
        await install(world, example)
        await world.start_queueing(running(example.integrations))
        await run_lifecycle(world, example)

    run_story(story)


async def run_lifecycle(world: World, example: Example) -> None:
    managed = ManagedJob(world, example)
    await managed.create()
    await stays_suspended(managed)
    await is_explained(managed)
    await world.flavor(nodeLabels={"zone": "a"}, tolerations=[TOLERATION])
    await world.cluster_queue(example.cpu)
    await world.local_queue()
    await starts_on_admitted_flavor(managed, example.admitted)
    await gets_ready_and_reclaims(managed)
    await is_evicted_and_restored(managed)
    await starts_on_admitted_flavor(managed, {**example.admitted, **example.readmitted})
    await finishes(managed)
    await deletes_job_and_workload(managed)


async def install(world: World, example: Example) -> None:
    resources = {resource.plural: resource for resource, _ in example.dependencies}
    for name in example.integrations.frameworks:
        kind = FRAMEWORK_KINDS.get(name)
        resources |= {each.plural: each for each in (kind.referenced_kinds if kind is not None else ())}
    if not example.is_built_in:
        resources[example.resource.plural] = example.resource
    await install_definitions(world.client, [definition(resource) for resource in resources.values()])


async def stays_suspended(managed: ManagedJob) -> None:
    job = await managed.until_suspended(True)
    assert {"spec": without_times(job.spec)} == managed.written
    workload = await managed.until_workload("a workload", bool)
    assert {each.name: each.count for each in workload.spec.pod_sets} == managed.example.requested


async def is_explained(managed: ManagedJob) -> None:
    """``quorate explain KIND.GROUP/NAME`` finds the workload of a job of the kind, and what holds it."""
    connection, resource = Connection(managed.world.client, NAMESPACE), managed.resource
    (target,) = await named_targets(connection, f"{resource.kind.lower()}.{resource.group}/{KEY.name}")
    found = await Answers(connection, None).of(target)
    workload = await managed.until_workload("a workload", bool)
    assert (found.object.name, found.state) == (workload.metadata.name, "Held")
    assert [each.code for each in found.reasons] == ["QueueMissing"]


async def starts_on_admitted_flavor(managed: ManagedJob, admitted: Mapping[str, int]) -> None:
    example = managed.example
    job = await managed.until_suspended(False)
    workload = await managed.until_workload("admitted", lambda it: is_true(it.status.conditions, "Admitted"))
    expected = copy.deepcopy(managed.written)
    write_field(expected, parse_path(example.suspend), example.running_is)
    for name, path in example.templates.items():
        added = Added(
            labels={
                "kueue.x-k8s.io/podset": name,
                "kueue.x-k8s.io/local-queue-name": "queue",
                "kueue.x-k8s.io/cluster-queue-name": "research",
            },
            annotations={"kueue.x-k8s.io/workload": workload.metadata.name},
            node_selector={"zone": "a"},
            toleration=TOLERATION,
        )
        example.add(expected, path, added)
    for name, count in example.admitted.items():
        write_field(expected, parse_path(example.counts[name]), count)
    assert {"spec": without_times(job.spec)} == expected
    assert workload.status.admission is not None
    pod_counts = {each.name: each.count for each in workload.status.admission.pod_set_assignments}
    assert pod_counts == {**example.requested, **admitted}


async def gets_ready_and_reclaims(managed: ManagedJob) -> None:
    example = managed.example
    await managed.world.until_condition(KEY.name, "PodsReady", "False")
    await managed.patch_status(example.runs)
    await managed.world.until_condition(KEY.name, "PodsReady", "True")
    if example.progress is not None:
        await managed.patch_status(example.progress)
        await managed.until_workload(
            f"reclaimed {example.reclaims}",
            lambda it: {each.name: each.count for each in it.status.reclaimable_pods} == example.reclaims,
        )


async def is_evicted_and_restored(managed: ManagedJob) -> None:
    workload = await managed.until_workload("any", bool)
    await managed.world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
    await managed.until_suspended(True)
    evicted = await managed.world.until_condition(KEY.name, "Evicted")
    assert is_true(evicted.status.conditions, "QuotaReserved"), "quota stays reserved while pods run"
    await managed.patch_status(managed.example.stopped)
    await managed.world.until_condition(KEY.name, "QuotaReserved", "False")
    await managed.until_restored()
    await managed.world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": True}})


async def finishes(managed: ManagedJob) -> None:
    if managed.example.succeeded is None:
        return
    await managed.patch_status(managed.example.succeeded)
    finished = await managed.world.until_condition(KEY.name, "Finished", "True", "Succeeded")
    condition = find_condition(finished.status.conditions, "Finished")
    assert condition is not None
    assert condition.message == managed.example.ends_with
    await managed.until_workload("released", lambda it: not it.metadata.finalizers)


async def deletes_job_and_workload(managed: ManagedJob) -> None:
    await managed.world.client.delete(managed.resource, KEY, propagation="Background")
    await managed.world.until("job and workload are deleted", managed.is_deleted)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.resource.kind)
def test_quota_is_not_released_while_a_pod_runs_that_the_status_does_not_count(example: Example) -> None:
    """Neither by an eviction, nor when the workload or the job is deleted."""

    async def story(world: World) -> None:
        await install(world, example)
        await world.start_queueing(running(example.integrations))
        await world.queues(example.cpu)
        managed = ManagedJob(world, example)
        await managed.create()
        workload, pod = await starts_an_uncounted_pod(managed)
        await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
        await stops_and_keeps_quota(managed)
        await world.client.delete(PODS, pod, grace_period_s=0)
        await world.until_condition(KEY.name, "QuotaReserved", "False")
        await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": True}})

        workload, pod = await starts_an_uncounted_pod(managed)
        await world.client.delete(WORKLOADS, workload.metadata.key)
        await stops_and_keeps_quota(managed)
        await world.client.delete(PODS, pod, grace_period_s=0)
        uid = workload.metadata.uid
        await managed.until_workload("another one", lambda it: it.metadata.uid != uid)

    run_story(story)


def test_a_train_job_has_the_pods_of_the_runtime_that_the_trainer_stored() -> None:
    async def story(world: World) -> None:
        await install(world, TRAIN_JOB)
        await world.start_queueing(running(TRAIN_JOB.integrations))
        managed = ManagedJob(world, TRAIN_JOB)
        await managed.create()
        await stays_suspended(managed)
        resource, runtime = TRAIN_JOB.dependencies[1]

        def with_data_pods(count: int) -> Json:
            changed = copy.deepcopy(runtime)
            path = parse_path("spec.template.spec.replicatedJobs[0].template.spec.parallelism")
            write_field(changed, path, count)
            return changed

        owner = owner_of(managed.resource, (await managed.job()).metadata)
        body = {
            "metadata": {"name": "train-runtime-snapshot", "ownerReferences": [codec.to_builtins(owner)]},
            "data": {"runtime": json.dumps(with_data_pods(2))},
        }
        await world.client.create(CONFIG_MAPS, body, NAMESPACE)
        await world.client.patch(resource, Key("", KEY.name), with_data_pods(5))
        await managed.until_workload("the stored size", lambda workload: workload.spec.pod_sets[0].count == 2)
        await world.client.delete(resource, Key("", KEY.name))
        await world.queues(TRAIN_JOB.cpu)
        await managed.until_suspended(False)
        admitted = await managed.until_workload("admitted", lambda workload: workload.status.admission)
        assert admitted.status.admission is not None
        assert [each.count for each in admitted.status.admission.pod_set_assignments] == [2, 3]

    run_story(story)


def test_no_pods_are_listed_while_a_watched_pod_of_a_stopped_job_runs() -> None:
    example = EXAMPLES[0]

    async def story(world: World) -> None:
        await world.queues(example.cpu)  # its flavor may depend on nodes, so that all pods are watched
        await world.start_queueing(running(example.integrations))
        managed = ManagedJob(world, example)
        await managed.create()
        workload, pod = await starts_an_uncounted_pod(managed)
        before = world.queueing_client.succeeded["GET pods"]
        drain = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), drain)
        await managed.until_suspended(True)
        await managed.patch_status(example.stopped)
        await world.job("later", queue="nowhere")  # once this job is reconciled, earlier changes are too
        await until_suspended(world, "later")
        assert has_quota_reservation(await world.client.get(WORKLOADS, workload.metadata.key))
        assert world.queueing_client.succeeded["GET pods"] == before
        await world.client.delete(PODS, pod, grace_period_s=0)

        async def released() -> bool:
            stored = await world.client.get(WORKLOADS, workload.metadata.key)
            return is_finished(stored) or not has_quota_reservation(stored)

        await world.until("the quota is released", released)

    run_story(story)


async def starts_an_uncounted_pod(managed: ManagedJob) -> tuple[Workload, Key]:
    await managed.world.until_condition(KEY.name, "Admitted", "True")
    await managed.until_suspended(False)
    workload = await managed.until_workload("any", bool)
    return workload, await managed.create_pod(workload)


async def stops_and_keeps_quota(managed: ManagedJob) -> None:
    await managed.until_suspended(True)
    await managed.patch_status(managed.example.stopped)
    await keeps_quota(managed)


async def keeps_quota(managed: ManagedJob) -> None:
    requests = managed.world.queueing_client.succeeded
    before = requests["GET pods"]

    async def looked_twice() -> bool:
        return requests["GET pods"] >= before + 2

    await managed.world.until("the pods of the job are listed twice", looked_twice)
    evicted = await managed.until_workload("any", bool)
    assert is_true(evicted.status.conditions, "QuotaReserved")


def test_a_child_job_has_no_workload_and_runs_only_with_its_parent() -> None:
    async def story(world: World) -> None:
        example = JOB_SET
        await install_definitions(world.client, [definition(example.resource)])
        frameworks = Integrations(frameworks=("batch/job", *example.integrations.frameworks))
        await world.start_queueing(
            Configuration(integrations=frameworks, manage_jobs_without_queue_name=True)
        )
        parent = ManagedJob(world, example)
        await parent.create()
        owner = {
            "apiVersion": example.resource.api_version,
            "kind": example.resource.kind,
            "name": KEY.name,
            "uid": (await parent.job()).metadata.uid,
            "controller": True,
        }
        metadata = {"name": "part", "ownerReferences": [owner]}
        await world.client.create(JOBS, {"metadata": metadata, "spec": {"template": pods()}}, NAMESPACE)
        await until_suspended(world, "part")

        await world.queues(cpu="100")
        await world.until_admitted(KEY.name)
        await world.client.patch(JOBS, Key(NAMESPACE, "part"), {"spec": {"suspend": False}})
        await world.job("later", queue="nowhere")  # once this job is reconciled, earlier changes are too
        await until_suspended(world, "later")
        assert not (await world.get_job("part")).spec.suspend
        assert await world.workload("part") is None

        workload = await world.workload(KEY.name)
        assert workload is not None
        await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
        await until_suspended(world, "part")

    run_story(story)


def test_a_job_with_too_deep_ownership_gets_an_event_and_is_not_managed() -> None:
    async def story(world: World) -> None:
        owner: list[Json] = []
        for level in range(12):
            spec = {"template": pods(), "suspend": True}
            job = {"metadata": {"name": f"level-{level}", "ownerReferences": owner}, "spec": spec}
            uid = (await world.client.create(JOBS, job, NAMESPACE)).metadata.uid
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": f"level-{level}", "uid": uid}
            owner = [{**reference, "controller": True}]

        async def reported() -> bool:
            listed = await world.client.list(EVENTS, NAMESPACE)
            about = {
                each.regarding.name
                for each in listed.items
                if each.reason == "JobNestingTooDeep" and each.regarding
            }
            return about == {"level-11"}

        await world.until("the lowest job has the event", reported)

    run_story(story, Configuration(manage_jobs_without_queue_name=True))


async def until_suspended(world: World, name: str) -> None:
    async def find() -> bool:
        return (await world.get_job(name)).spec.suspend

    await world.until(f"{name} is suspended", find)


def test_every_kind_has_an_example() -> None:
    named = {name for example in EXAMPLES for name in example.integrations.frameworks}
    assert named == {BATCH_JOB, *FRAMEWORK_KINDS}


def test_a_kind_is_managed_once_its_crd_is_established() -> None:
    async def story(world: World) -> None:
        example = JOB_SET
        await world.queues(cpu="100")
        await world.job("plain", runs="forever")
        await world.until_admitted("plain")  # kinds with a CRD do not wait for missing CRDs
        await install_definitions(world.client, [definition(example.resource)])
        managed = ManagedJob(world, example)
        await managed.create()
        await world.until_admitted(KEY.name)

    run_story(story, Configuration(integrations=Integrations(frameworks=("batch/job", *FRAMEWORK_KINDS))))
