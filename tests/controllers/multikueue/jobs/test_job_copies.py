"""The copy of a job of each kind in a worker cluster, over HTTP: its content, and what comes back from it."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api.configuration.integrations import Integrations
from quorate.api.field_path import look_up, parse_path
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta, Uid
from quorate.api.names.kueue import PREBUILT_WORKLOAD
from quorate.api.names.multikueue import CONTROLLER, ORIGIN, ORIGIN_UID
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.multikueue.dispatch.job_adapter import Member, NoKind, Synced
from quorate.kube.resources import JOBS, PODS, WORKLOADS, Json
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
from tests.e2e.kinds import (
    DECLARED,
    EXAMPLES,
    JOB,
    JOB_SET,
    MPI_JOB,
    RAY_CLUSTER,
    SPARK_APPLICATION,
    STARTED_AT,
    TRAINING_JOBS,
    Example,
)

DELEGATED = [example for example in EXAMPLES if example is not SPARK_APPLICATION]


def kind_name(example: Example) -> str:
    return example.resource.kind


def managed_spec(example: Example, manager: str = CONTROLLER) -> Json:
    """Return the spec of an example that names its controller."""
    spec = {name: value for name, value in example.spec.items() if name != "managedBy"}
    if "runPolicy" in spec:
        return {**spec, "runPolicy": {**spec["runPolicy"], "managedBy": manager}}
    return {**spec, "managedBy": manager}


def crds(example: Example) -> list[Any]:
    return [] if example.is_built_in else [example.resource]


@pytest.mark.parametrize("example", DELEGATED, ids=kind_name)
def test_a_job_of_each_kind_is_copied_followed_and_deleted(example: Example) -> None:
    async def story(clusters: Clusters) -> None:
        resource = example.resource
        finalizers = ["example.com/keep"]
        job = await clusters.create(
            resource, managed_spec(example), labels={"team": "a"}, finalizers=finalizers
        )
        workload = workload_of(resource, job.metadata)
        assert await clusters.refusal(workload) == ""
        assert await clusters.sync(workload) == Synced()

        copy = await clusters.there(resource)
        assert copy is not None
        labels = {"team": "a", ORIGIN: OURS, PREBUILT_WORKLOAD: "job-train-1"}
        assert copy.metadata.labels.items() >= labels.items()
        assert copy.metadata.annotations[PREBUILT_WORKLOAD] == "job-train-1"
        assert copy.metadata.annotations[ORIGIN_UID] == job.metadata.uid
        assert copy.metadata.finalizers == ()
        assert look_up({"spec": copy.spec}, parse_path(example.suspend)) == example.stopped_is
        assert "managedBy" not in str(copy.spec)

        # Some kinds hold back the status of a running copy until the local job is started here.
        await clusters.manager.patch(resource, KEY, {"spec": _at(example.suspend, example.running_is)})
        status = example.runs if example is not JOB else {"active": 3, "ready": 3, "startTime": STARTED_AT}
        await clusters.set_status(clusters.remote, resource, status)
        job = await clusters.synced_until(resource, workload, lambda job: _contains(job.status, status))
        writes = clusters.manager.writes.copy()
        assert not (await clusters.sync(workload)).deferred
        assert clusters.manager.writes == writes, "an unchanged status is not written again"
        assert workload.metadata.key in clusters.changed

        await clusters.delete(workload)
        assert await clusters.there(resource) is None

    run(story, example)


def _at(path: str, value: Any) -> Json:
    first, *rest = path.split(".")[1:]
    return {first: _at(".".join(["", *rest]), value) if rest else value}


def _contains(status: Json, wanted: Json) -> bool:
    return all(status.get(name) == value for name, value in wanted.items())


def run(story: Any, example: Example, **options: Any) -> None:
    async def of_clusters() -> None:
        async with two_clusters(configured(example.integrations), crds(example), **options) as clusters:
            await story(clusters)

    asyncio.run(of_clusters())


def test_an_object_of_others_is_neither_followed_nor_deleted() -> None:
    async def story(clusters: Clusters) -> None:
        resource = JOB_SET.resource
        other = await clusters.remote.create(resource, {"metadata": {"name": "train"}, "spec": {}}, NAMESPACE)
        job = await clusters.create(resource, managed_spec(JOB_SET))
        workload = workload_of(resource, job.metadata)
        problem = (await clusters.sync(workload)).problem
        assert problem == (
            f'remote object is not owned by MultiKueue: expected "{ORIGIN}"="{OURS}" on JobSet default/train'
        )
        assert (await clusters.sync(workload)).problem == problem
        await clusters.delete(workload)
        found = await clusters.there(resource)
        assert found is not None
        assert found.metadata.uid == other.metadata.uid

    run(story, JOB_SET)


def test_the_copy_of_an_earlier_job_of_the_same_name_is_replaced() -> None:
    async def story(clusters: Clusters) -> None:
        resource = JOB_SET.resource
        body = {
            "metadata": {"name": "train", "labels": {ORIGIN: OURS}, "annotations": {ORIGIN_UID: "earlier"}},
            "spec": {},
        }
        await clusters.remote.create(resource, body, NAMESPACE)
        job = await clusters.create(resource, managed_spec(JOB_SET))
        workload = workload_of(resource, job.metadata)

        async def replaced() -> bool | None:
            clusters.copied = None  # no workload is in the worker cluster, which would count as the end
            await clusters.sync(workload)
            copy = await clusters.there(resource)
            is_ours = copy is not None and copy.metadata.annotations[ORIGIN_UID] == job.metadata.uid
            return is_ours or None

        assert await until(replaced)

    run(story, JOB_SET)


def test_the_copy_of_a_started_job_is_suspended_and_has_the_templates_of_its_workload() -> None:
    async def story(clusters: Clusters) -> None:
        resource = JOB.resource
        job = await clusters.create(resource, {**managed_spec(JOB), "suspend": True})
        pod_sets = BatchJob().pod_sets(await clusters.manager.get(JOBS, KEY))
        injected = {"template": {"spec": {"nodeSelector": {"pool": "here"}}}, "suspend": False}
        await clusters.manager.patch(resource, KEY, {"spec": injected})
        await clusters.sync(workload_of(resource, job.metadata, pod_sets))
        copy = await clusters.there(resource)
        assert copy is not None
        assert copy.spec["suspend"] is True
        assert copy.spec["template"]["spec"]["nodeSelector"] == {"disk": "ssd"}

    run(story, JOB)


RUNNING = {"active": 3, "ready": 3, "startTime": STARTED_AT}
ENDED = JOB.succeeded
assert ENDED is not None


def test_a_suspended_job_gets_the_status_of_its_running_copy_once_it_has_started() -> None:
    """A status with pods is not valid for a suspended Job, and blocks the change of its template."""

    async def story(clusters: Clusters) -> None:
        resource = JOB.resource
        job = await clusters.create(resource, {**managed_spec(JOB), "suspend": True})
        workload = workload_of(resource, job.metadata)
        await clusters.sync(workload)
        await clusters.remote.patch(resource, KEY, {"spec": {"suspend": False}})
        await clusters.set_status(clusters.remote, resource, RUNNING)

        async def deferred() -> bool | None:
            return (await clusters.sync(workload)).deferred or None

        await until(deferred)
        status = (await clusters.here(resource)).status
        (condition,) = status["conditions"]
        assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
            "Suspended",
            "True",
            "MultiKueueAdapter",
            "Set by MultiKueue adapter",
        )
        assert not status.get("active")
        await clusters.manager.patch(resource, KEY, {"spec": {"suspend": False}})
        job = await clusters.synced_until(resource, workload, lambda job: job.status.get("active") == 3)
        assert not (await clusters.sync(workload)).deferred

    run(story, JOB)


def test_a_job_that_names_no_controller_stays_suspended_and_gets_only_its_end() -> None:
    async def story(clusters: Clusters) -> None:
        resource = JOB.resource
        spec = {name: value for name, value in JOB.spec.items() if name != "managedBy"}
        job = await clusters.create(resource, {**spec, "suspend": True})
        workload = workload_of(resource, job.metadata)
        assert await clusters.refusal(workload) == ""
        await clusters.sync(workload)
        await clusters.remote.patch(resource, KEY, {"spec": {"suspend": False}})
        await clusters.set_status(clusters.remote, resource, RUNNING)

        async def followed() -> bool | None:
            return workload.metadata.key in clusters.changed or None

        await until(followed)
        assert await clusters.sync(workload) == Synced()
        assert not (await clusters.here(resource)).status.get("active")
        assert ENDED is not None
        await clusters.set_status(clusters.remote, resource, {**ENDED, "active": None, "ready": None})
        job = await clusters.synced_until(resource, workload, lambda job: job.status.get("succeeded") == 3)
        assert job.spec["suspend"] is True
        assert {condition["type"] for condition in job.status["conditions"]} >= {"Complete"}

    run(story, JOB)


REFUSAL = 'Expecting {field} to be "kueue.x-k8s.io/multikueue" not "{manager}"'


@pytest.mark.parametrize(
    ("example", "manager", "refused_field"),
    [
        pytest.param(JOB, "example.com/a", "spec.managedBy", id="Job"),
        pytest.param(MPI_JOB, "", "spec.runPolicy.managedBy", id="MPIJob"),
        pytest.param(TRAINING_JOBS[0], "a", "spec.managedBy", id="JAXJob, as Kueue writes it"),
        pytest.param(JOB_SET, "", "", id="a JobSet may stay suspended"),
        pytest.param(DECLARED, "", "", id="a job of a declared kind, too"),
        pytest.param(RAY_CLUSTER, "", "spec.managedBy", id="a RayCluster has no end to report"),
    ],
)
def test_why_a_job_is_not_given_away(example: Example, manager: str, refused_field: str) -> None:
    async def story(clusters: Clusters) -> None:
        resource = example.resource
        job = await clusters.create(resource, without_nothing(managed_spec(example, manager)))
        found = await clusters.refusal(workload_of(resource, job.metadata))
        assert found == (REFUSAL.format(field=refused_field, manager=manager) if refused_field else "")

    run(story, example)


def without_nothing(spec: Json) -> Json:
    """Leave out fields with an empty text."""
    return {
        name: without_nothing(value) if name == "runPolicy" else value
        for name, value in spec.items()
        if value != ""
    }


def test_jobs_of_kinds_without_a_row_are_not_copied() -> None:
    async def story() -> None:
        async with two_clusters(configured(Integrations(frameworks=("batch/job",)))) as clusters:
            copies, about = clusters.copies, ObjectMeta(name="train", namespace=NAMESPACE)
            mpi_job = NoKind("kubeflow.org/v2beta1, Kind=MPIJob")
            assert copies.job_of(workload_of(MPI_JOB.resource, about)) == mpi_job
            assert copies.job_of(workload_of(PODS, about)) == NoKind("/v1, Kind=Pod")
            assert copies.job_of(Workload(metadata=about)) == NoKind()

    asyncio.run(story())


def test_the_pods_of_a_job_no_longer_count_when_the_cluster_with_its_copy_is_given_up() -> None:
    async def story(clusters: Clusters) -> None:
        resource = JOB.resource
        job = await clusters.create(resource, {**managed_spec(JOB), "suspend": False})
        workload = workload_of(resource, job.metadata)
        await clusters.set_status(clusters.manager, resource, {**RUNNING, "failed": 1})
        former = replace(clusters.job(workload), members=(Member(job.metadata.name, Uid("former")),))
        await clusters.copies.lost(former)
        assert (await clusters.here(resource)).status["active"] == RUNNING["active"]
        await clusters.copies.lost(clusters.job(workload))
        status = (await clusters.here(resource)).status
        assert (status.get("active", 0), status.get("ready", 0), status["failed"]) == (0, 0, 1)

        # The next copy has not failed yet; a count of failed pods must not decrease.
        await clusters.sync(workload)
        await clusters.set_status(clusters.remote, resource, RUNNING)
        job = await clusters.synced_until(resource, workload, lambda job: job.status.get("active") == 3)
        assert job.status["failed"] == 1

    run(story, JOB)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("reason", ["Succeeded", "Failed"])
def test_a_job_that_was_removed_after_its_end_does_not_run_again(is_known: bool, reason: str) -> None:
    """Such as by ttlSecondsAfterFinished; the cache of the worker cluster may not show the end yet."""

    async def story(clusters: Clusters) -> None:
        resource = JOB.resource
        job = await clusters.create(resource, {**managed_spec(JOB), "suspend": True})
        workload = workload_of(resource, job.metadata)
        pod_sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]
        copy = {"metadata": {"name": workload.metadata.name, "labels": {ORIGIN: OURS}}}
        await clusters.remote.create(WORKLOADS, {**copy, "spec": {"podSets": pod_sets}}, NAMESPACE)
        await clusters.sync(workload)
        await clusters.remote.delete(JOBS, KEY, propagation="Background")
        await clusters.until_gone(workload)
        await clusters.sync(workload)
        assert await clusters.there(resource) is not None, "it has not ended"

        finished = {"type": "Finished", "status": "True", "reason": reason, "message": "It ended.",
                    "lastTransitionTime": STARTED_AT}  # fmt: skip
        await clusters.remote.patch(
            WORKLOADS, workload.metadata.key, {"status": {"conditions": [finished]}}, subresource="status"
        )
        await clusters.remote.delete(JOBS, KEY, propagation="Background")
        await clusters.until_gone(workload)
        workloads = clusters.worker.workloads
        following = asyncio.create_task(workloads.run()) if is_known else None
        if is_known:
            await workloads.synced.wait()
        assert await clusters.sync(workload) == Synced()
        assert await clusters.there(resource) is None
        end = BatchJob().finished(await clusters.manager.get(JOBS, KEY))
        assert end == Outcome(success=reason == "Succeeded", message="It ended.")
        if following is not None:
            following.cancel()

    async def of_clusters() -> None:
        async with two_clusters(configured(JOB.integrations), [WORKLOADS]) as clusters:
            await story(clusters)

    asyncio.run(of_clusters())


@pytest.mark.parametrize(
    ("waits", "status", "is_ending"),
    [(True, RUNNING, True), (True, {}, False), (False, RUNNING, False)],
    ids=["it has run", "it never ran", "its workload is gone"],
)
def test_a_deleted_job_that_has_run_exists_until_its_pods_are_gone(
    waits: bool, status: Json, is_ending: bool
) -> None:
    """This cluster has no garbage collector, so that the end of the pods never comes."""

    async def story(clusters: Clusters) -> None:
        resource = JOB.resource
        job = await clusters.create(resource, {**managed_spec(JOB), "suspend": True})
        workload = workload_of(resource, job.metadata)
        await clusters.sync(workload)
        if status:
            await clusters.remote.patch(resource, KEY, {"spec": {"suspend": False}})
            await clusters.set_status(clusters.remote, resource, status)
            await clusters.until_run(workload)
        await clusters.delete(workload, waits_for_pods=waits)
        copy = await clusters.there(resource)
        assert (copy is not None) is is_ending
        presence = "ending" if is_ending else "removed" if status else "absent"

        async def seen() -> bool | None:
            return clusters.copies.presence(clusters.worker, clusters.job(workload)) == presence or None

        await until(seen)

    run(story, JOB)


def test_a_job_gets_the_conditions_of_its_end_only_once_it_has_ended() -> None:
    """Its copy may be lost before it is complete, and the next one may fail."""

    async def story(clusters: Clusters) -> None:
        resource = JOB.resource
        job = await clusters.create(resource, {**managed_spec(JOB), "suspend": False})
        workload = workload_of(resource, job.metadata)
        await clusters.sync(workload)
        await clusters.remote.patch(resource, KEY, {"spec": {"suspend": False}})
        assert ENDED is not None
        ends = [each for each in ENDED["conditions"] if each["type"] != "Complete"]
        assert ends
        ending = {"active": 1, "startTime": STARTED_AT, "conditions": ends}
        await clusters.set_status(clusters.remote, resource, ending)
        job = await clusters.synced_until(resource, workload, lambda job: job.status.get("active") == 1)
        assert not job.status.get("conditions")
        await clusters.set_status(clusters.remote, resource, {**ENDED, "active": None})
        job = await clusters.synced_until(resource, workload, lambda job: job.status.get("succeeded") == 3)
        assert {each["type"] for each in job.status["conditions"]} == {"Complete", "SuccessCriteriaMet"}

    run(story, JOB)


@pytest.mark.parametrize("ahead_s", [-3600, 3600], ids=["it started before", "its clock is ahead"])
def test_the_end_of_a_copy_reaches_a_job_that_has_the_start_of_an_earlier_copy(ahead_s: int) -> None:
    """The API server lets no other start into the status of a started Job, and no end before it."""

    async def story(clusters: Clusters) -> None:
        resource = JOB.resource
        job = await clusters.create(resource, {**managed_spec(JOB), "suspend": False})
        workload = workload_of(resource, job.metadata)
        assert ENDED is not None
        earlier = (datetime.fromisoformat(ENDED["completionTime"]) + timedelta(seconds=ahead_s)).isoformat()
        await clusters.set_status(clusters.manager, resource, {"active": 3, "startTime": earlier})
        await clusters.sync(workload)
        await clusters.remote.patch(resource, KEY, {"spec": {"suspend": False}})
        await clusters.set_status(clusters.remote, resource, RUNNING)
        await clusters.synced_until(resource, workload, lambda job: job.status.get("ready") == 3)
        await clusters.set_status(clusters.remote, resource, {**ENDED, "active": None, "ready": None})
        job = await clusters.synced_until(resource, workload, lambda job: job.status.get("succeeded") == 3)
        assert datetime.fromisoformat(job.status["startTime"]) == datetime.fromisoformat(earlier)
        assert job.status["completionTime"] >= job.status["startTime"]

    run(story, JOB)


def test_a_suspended_job_gets_the_pods_of_a_copy_that_stops_but_not_its_start() -> None:
    """Otherwise the next copy could not set another one."""

    async def story(clusters: Clusters) -> None:
        resource = JOB.resource
        job = await clusters.create(resource, {**managed_spec(JOB), "suspend": True})
        workload = workload_of(resource, job.metadata)
        await clusters.sync(workload)
        resumed = {"type": "Suspended", "status": "False", "lastTransitionTime": STARTED_AT}
        await clusters.set_status(clusters.remote, resource, {**RUNNING, "conditions": [resumed]})
        job = await clusters.synced_until(resource, workload, lambda job: job.status.get("active") == 3)
        assert "startTime" not in job.status
        (condition,) = job.status["conditions"]
        assert (condition["type"], condition["status"]) == ("Suspended", "True")

    run(story, JOB)


def test_no_informer_starts_once_the_copies_are_no_longer_followed() -> None:
    """A reconcile that ends with the process reads from the API server."""

    async def story() -> None:
        async with two_clusters(configured(JOB.integrations)) as clusters:
            resource = JOB.resource
            job = await clusters.create(resource, {**managed_spec(JOB), "suspend": True})
            workload = workload_of(resource, job.metadata)
            clusters.following.cancel()
            await asyncio.wait({clusters.following})
            assert clusters.copies.presence(clusters.worker, clusters.job(workload)) is None
            assert await clusters.sync(workload) == Synced()
            assert await clusters.there(resource) is not None

    asyncio.run(story())
