"""Jobs of several kinds that a manager gives to a worker cluster, with controllers in every cluster.

No cluster has webhooks.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from msgspec.structs import replace

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import VOLCANO_JOB, Integrations
from quorate.api.core import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import Key, is_true
from quorate.api.names.multikueue import CONTROLLER, ORIGIN, WORKER_POD
from quorate.controllers.pods.queued_pod import is_gated
from quorate.kube.errors import NotFound
from quorate.kube.resources import CLUSTER_QUEUES, PODS, VOLCANO_JOBS, WORKLOADS, Json
from quorate.processes.local.apply import install_definitions
from tests.e2e.clusters import PROMPT, Clusters, run_clusters_story
from tests.e2e.kinds import APP_WRAPPER, JOB_SET
from tests.e2e.minimal_definitions import definition
from tests.e2e.test_pods import FAILS, has, pod, pods_of, until_pod, until_workload
from tests.e2e.test_sets import (
    LWS,
    SERVE,
    STATEFUL_SETS,
    WEB,
    a_set,
    create_set,
    imitate,
    pod_template,
    until_ready,
)
from tests.e2e.volcano import Gangs
from tests.e2e.world import NAMESPACE, World
from tests.faults.history import recorded

pytestmark = pytest.mark.slow

TRAIN = Key(NAMESPACE, "train")


def enabling(*frameworks: str) -> Configuration:
    return replace(PROMPT, integrations=Integrations(frameworks=frameworks))


async def until_chosen(clusters: Clusters, workload: str) -> World:
    """Return the worker that got the workload."""

    async def find() -> str | None:
        for each in (await clusters.manager.client.list(WORKLOADS, NAMESPACE)).items:
            if each.metadata.name.startswith(workload) and each.status.cluster_name:
                return each.status.cluster_name
        return None

    return clusters.workers[await clusters.until(f"{workload} has a worker", find)]


async def until_finished(clusters: Clusters, workload: str) -> Workload:
    async def find() -> Workload | None:
        for each in (await clusters.manager.client.list(WORKLOADS, NAMESPACE)).items:
            if each.metadata.name.startswith(workload) and is_true(each.status.conditions, "Finished"):
                return each
        return None

    return await clusters.until(f"{workload} is finished", find)


async def until_workers_are_empty(clusters: Clusters) -> None:
    async def find() -> bool:
        return not any(
            [(await worker.client.list(WORKLOADS, NAMESPACE)).items for worker in clusters.workers.values()]
        )

    await clusters.until("no worker has a copy", find)


def test_a_job_that_names_no_controller_runs_in_a_worker_and_stays_suspended() -> None:
    async def story(clusters: Clusters) -> None:
        manager = clusters.manager
        await manager.job("train", pods=2, runs="300ms")
        await manager.until_finished("train")
        job = await manager.get_job("train")
        assert job.spec.suspend
        assert is_true(job.status.conditions, "Complete")
        assert job.status.succeeded == 2
        assert not (await manager.client.list(PODS, NAMESPACE)).items
        await until_workers_are_empty(clusters)

    run_clusters_story(story)


@asynccontextmanager
async def recorded_pods(clusters: Clusters) -> AsyncIterator[Callable[[str], dict[str, Pod]]]:
    """Yield a function that returns the pods that have run in a worker: on a busy machine they soon end."""
    async with AsyncExitStack() as stack:
        histories = {
            name: await stack.enter_async_context(recorded(worker.client, (PODS,)))
            for name, worker in clusters.workers.items()
        }

        def have_run(worker: str) -> dict[str, Pod]:
            pods = (step.object for step in histories[worker].steps if isinstance(step.object, Pod))
            return {each.metadata.name: each for each in pods if each.status.phase == "Running"}

        yield have_run


def test_a_pod_runs_in_a_worker_and_stays_gated_here() -> None:
    async def story(clusters: Clusters) -> None:
        async with recorded_pods(clusters) as have_run:
            await pod(clusters.manager, "one", runs="500ms")
            finished = await until_finished(clusters, "pod-one-")
            remote = have_run(finished.status.cluster_name or "")["one"]
        assert remote.metadata.labels[WORKER_POD] == "true"
        assert remote.metadata.labels[ORIGIN] == PROMPT.multikueue.origin
        local = (await pods_of(clusters.manager))["one"]
        assert local.status.phase == "Succeeded"
        assert is_gated(local)
        await until_workers_are_empty(clusters)

    run_clusters_story(story, configuration=enabling("batch/job", "pod"))


def test_a_pod_group_runs_whole_in_one_worker() -> None:
    async def story(clusters: Clusters) -> None:
        async with recorded_pods(clusters) as have_run:
            for name in ("a", "b", "c"):
                await pod(clusters.manager, name, group="group", total=3, runs="1s")
            chosen = (await until_finished(clusters, "group")).status.cluster_name or ""
            ran = {name: have_run(name).keys() for name in clusters.workers}
        assert ran == {name: {"a", "b", "c"} if name == chosen else set() for name in clusters.workers}
        assert {each.status.phase for each in (await pods_of(clusters.manager)).values()} == {"Succeeded"}
        await until_workers_are_empty(clusters)

        async def gone() -> bool:
            return not await pods_of(clusters.workers[chosen])

        await clusters.until("the worker has no pods of the group", gone)

    run_clusters_story(story, configuration=enabling("batch/job", "pod"))


def test_a_failed_pod_of_a_group_is_replaced_in_its_worker() -> None:
    async def story(clusters: Clusters) -> None:
        manager = clusters.manager
        await pod(manager, "a", group="group", total=2, runs="1h")
        await pod(manager, "b", group="group", total=2, annotations=FAILS)
        await until_pod(manager, "b", "has failed", lambda it: it.status.phase == "Failed")
        await pod(manager, "c", group="group", total=2, runs="1h")
        await until_pod(manager, "c", "runs", lambda it: it.status.phase == "Running")
        chosen = await until_chosen(clusters, "group")
        assert (await pods_of(chosen))["c"].status.phase == "Running"

    run_clusters_story(story, configuration=enabling("batch/job", "pod"))


def test_a_group_that_its_worker_evicts_runs_with_new_pods_in_the_other() -> None:
    async def story(clusters: Clusters) -> None:
        manager = clusters.manager
        for name in ("a", "b"):
            await pod(manager, name, group="group", total=2, runs="1h")
        for name in ("a", "b"):
            await until_pod(manager, name, "runs", lambda it: it.status.phase == "Running")
        former = await until_chosen(clusters, "group")
        drained = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await former.client.patch(CLUSTER_QUEUES, Key("", "research"), drained)
        await until_workload(manager, "group", "waits", has("WaitingForReplacementPods"))
        for name in ("c", "d"):
            await pod(manager, name, group="group", total=2, runs="1h")
        for name in ("c", "d"):
            await until_pod(manager, name, "runs", lambda it: it.status.phase == "Running")
        assert (await until_chosen(clusters, "group")) is not former

    run_clusters_story(story, configuration=enabling("batch/job", "pod"))


def test_a_job_set_gets_the_status_of_its_copy() -> None:
    """The test imitates the controller of JobSets in the worker."""

    async def story(clusters: Clusters) -> None:
        manager, resource = clusters.manager, JOB_SET.resource
        for world in (manager, *clusters.workers.values()):
            await install_definitions(world.client, [definition(resource)])
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        spec = {**JOB_SET.spec, "managedBy": CONTROLLER, "suspend": True}
        jobs = [{**spec["replicatedJobs"][0], "replicas": 2}]
        body = {"metadata": {"name": "train", "labels": labels}, "spec": {**spec, "replicatedJobs": jobs}}
        await manager.client.create(resource, body, NAMESPACE)
        worker = await until_chosen(clusters, "jobset-train-")

        async def started() -> bool:
            try:
                there = await worker.client.get(resource, TRAIN)
            except NotFound:
                return False
            here = await manager.client.get(resource, TRAIN)
            return there.spec["suspend"] is False and here.spec["suspend"] is False

        await clusters.until("the job and its copy are started", started)
        copy = await worker.client.get(resource, TRAIN)
        template = copy.spec["replicatedJobs"][0]["template"]["spec"]["template"]
        assert template["metadata"]["labels"][WORKER_POD] == "true"
        await _set_status(worker, {"replicatedJobsStatus": [{"name": "leader", "active": 2, "ready": 2}]})

        async def active() -> bool:
            status = (await manager.client.get(resource, TRAIN)).status
            return bool(status.get("replicatedJobsStatus"))

        await clusters.until("the job has the status of its copy", active)
        completed = {"type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "done"}
        await _set_status(worker, {"conditions": [completed]})
        finished = await until_finished(clusters, "jobset-train-")
        assert any(each.message == "done" for each in finished.status.conditions)
        await until_workers_are_empty(clusters)

    run_clusters_story(story, configuration=enabling("batch/job", "jobset.x-k8s.io/jobset"))


async def _set_status(worker: World, status: Json) -> None:
    await worker.client.patch(JOB_SET.resource, TRAIN, {"status": status}, subresource="status")


def test_an_app_wrapper_runs_in_a_worker() -> None:
    """The test imitates the controller of AppWrappers in the worker."""

    async def story(clusters: Clusters) -> None:
        manager, resource = clusters.manager, APP_WRAPPER.resource
        for world in (manager, *clusters.workers.values()):
            await install_definitions(world.client, [definition(resource)])
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        spec = {"managedBy": CONTROLLER, "suspend": True, "components": APP_WRAPPER.spec["components"][:1]}
        await manager.client.create(
            resource, {"metadata": {"name": "train", "labels": labels}, "spec": spec}, NAMESPACE
        )
        worker = await until_chosen(clusters, "appwrapper-train-")

        async def started() -> bool:
            with suppress(NotFound):
                return (await worker.client.get(resource, TRAIN)).spec["suspend"] is False
            return False

        await clusters.until("the copy is started", started)
        for phase in ("Running", "Succeeded"):
            status = {"status": {"phase": phase}}
            await worker.client.patch(resource, TRAIN, status, subresource="status")

            async def followed(phase: str = phase) -> bool:
                return (await manager.client.get(resource, TRAIN)).status.get("phase") == phase

            await clusters.until(f"the phase is {phase}", followed)
        await until_finished(clusters, "appwrapper-train-")
        await until_workers_are_empty(clusters)

    run_clusters_story(story, configuration=enabling("batch/job", "workload.codeflare.dev/appwrapper"))


def test_all_groups_of_a_leader_worker_set_run_in_one_worker() -> None:
    """The test imitates the controllers of LeaderWorkerSets; both workers have room for both groups."""

    async def story(clusters: Clusters) -> None:
        manager = clusters.manager
        for world in (manager, *clusters.workers.values()):
            await install_definitions(world.client, [definition(LWS)])
        await create_set(manager, {"workerTemplate": pod_template()})
        worker = await until_chosen(clusters, "leaderworkerset-serve-")

        async def copied() -> bool:
            with suppress(NotFound):
                return bool(await worker.client.get(LWS, SERVE))
            return False

        await clusters.until("the worker has the set", copied)

        async def running() -> bool:
            await imitate(worker)
            pods = (await pods_of(worker)).values()
            return len(pods) == 4 and all(pod.status.phase == "Running" for pod in pods)

        await clusters.until("both groups run in the worker", running)
        workloads = (await manager.client.list(WORKLOADS, NAMESPACE)).items
        assert len({each.status.cluster_name for each in workloads}) == 1
        assert len(workloads) == 2
        assert all(map(is_gated, (await pods_of(manager)).values()))

    run_clusters_story(story, configuration=enabling("batch/job", "leaderworkerset.x-k8s.io/leaderworkerset"))


def test_a_volcano_job_runs_as_a_gang_in_one_worker() -> None:
    """The test imitates the gang scheduler of the worker."""

    async def story(clusters: Clusters) -> None:
        manager = clusters.manager
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        body = {
            "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
            "spec": {"minAvailable": 2, "tasks": [{"name": "worker", "replicas": 2, "template": template}]},
        }
        await manager.client.create(VOLCANO_JOBS, body, NAMESPACE)
        gangs = Gangs(await until_chosen(clusters, "job-train-"))
        await gangs.set_group_phase(await gangs.until_group("train"), "Inqueue")
        names = ("train-worker-0", "train-worker-1")
        await gangs.until_pods(*names)
        await gangs.bind(*names)
        await gangs.set_pod_phase("Running", *names)
        await gangs.until_job("train", "Running", running=2)
        await gangs.set_pod_phase("Succeeded", *names)
        await until_finished(clusters, "job-train-")
        local = await Gangs(manager).until_job("train", "Completed", succeeded=2)
        assert not (await manager.client.list(PODS, NAMESPACE)).items
        assert local.metadata.labels.get(ORIGIN) is None
        await until_workers_are_empty(clusters)

    run_clusters_story(story, configuration=enabling("batch/job", VOLCANO_JOB))


def test_a_stateful_set_serves_in_a_worker() -> None:
    async def story(clusters: Clusters) -> None:
        manager = clusters.manager
        await manager.client.create(STATEFUL_SETS, a_set(2), NAMESPACE)
        worker = await until_chosen(clusters, "statefulset-web-")
        await until_ready(worker, STATEFUL_SETS, 2)
        assert all(map(is_gated, (await pods_of(manager)).values()))
        await manager.client.delete(STATEFUL_SETS, WEB, propagation="Background")

        async def gone() -> bool:
            return (
                not (await pods_of(worker)) and not (await worker.client.list(STATEFUL_SETS, NAMESPACE)).items
            )

        await clusters.until("the worker has nothing of the set", gone)
        await until_workers_are_empty(clusters)

    run_clusters_story(story, configuration=enabling("batch/job", "statefulset"))
