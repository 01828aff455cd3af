"""Jobs with copies are read from a cache, which also tells which changes their copies follow."""

import asyncio
from typing import Any

import pytest

from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.names.multikueue import CONTROLLER
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.controllers.multikueue.dispatch.job_adapter import Synced
from quorate.controllers.multikueue.jobs.remote_kinds import remote_kinds
from quorate.install.crds import queueing_definitions
from quorate.kube.errors import Conflict
from quorate.kube.resources import WORKLOADS, Json
from quorate.kube.writes import Patch, send
from quorate.processes.local.apply import install_definitions
from tests.controllers.multikueue.jobs.clusters import (
    KEY,
    NAMESPACE,
    Clusters,
    configured,
    two_clusters,
    until,
    workload_of,
)
from tests.e2e.kinds import JOB, STARTED_AT

CONFIGURATION = configured(JOB.integrations)
(KIND,) = remote_kinds(CONFIGURATION).values()


async def a_job(clusters: Clusters, manager: str, *, suspend: bool = True) -> Workload:
    spec = {**JOB.spec, "managedBy": manager, "suspend": suspend}
    return workload_of(JOB.resource, (await clusters.create(JOB.resource, spec)).metadata)


async def cached(clusters: Clusters, version: str) -> UnstructuredJob:
    async def found() -> UnstructuredJob | None:
        job = clusters.local_jobs.cached(KIND, KEY)
        return job if job is not None and job.metadata.resource_version == version else None

    return await until(found)


def suspended(job: UnstructuredJob) -> list[Json]:
    return [each for each in job.status.get("conditions", ()) if each["type"] == "Suspended"]


async def without_following(story: Any) -> None:
    async with two_clusters(CONFIGURATION) as clusters:
        await story(clusters)


def run(story: Any) -> None:
    async def of_clusters() -> None:
        async with two_clusters(CONFIGURATION, follows_jobs=True) as clusters:
            await story(clusters)

    asyncio.run(of_clusters())


def test_a_job_that_waits_says_once_that_it_is_suspended() -> None:
    async def story(clusters: Clusters) -> None:
        await a_job(clusters, CONTROLLER)

        async def marked() -> UnstructuredJob | None:
            job = await clusters.here(JOB.resource)
            return job if suspended(job) else None

        job = await until(marked)
        assert suspended(job)[0]["status"] == "True"
        await cached(clusters, job.metadata.resource_version)
        await clusters.manager.patch(JOB.resource, KEY, {"metadata": {"labels": {"a": "b"}}})
        await cached(clusters, (await clusters.here(JOB.resource)).metadata.resource_version)
        assert clusters.manager.writes["PATCH jobs/status"] == 1

    run(story)


def test_a_job_of_another_controller_is_left_to_it_and_not_cached() -> None:
    async def story(clusters: Clusters) -> None:
        await a_job(clusters, "example.com/test")
        spec = {**JOB.spec, "managedBy": CONTROLLER, "suspend": True}
        await clusters.create(JOB.resource, spec, name="later")

        async def marked() -> bool | None:
            return bool(suspended(await clusters.here(JOB.resource, "later"))) or None

        await until(marked)
        assert clusters.local_jobs.cached(KIND, KEY) is None
        assert not suspended(await clusters.here(JOB.resource))

    run(story)


def test_a_cached_job_is_copied_and_its_status_written_without_a_request_to_read_it() -> None:
    async def story(clusters: Clusters) -> None:
        workload = await a_job(clusters, CONTROLLER, suspend=False)
        await cached(clusters, (await clusters.here(JOB.resource)).metadata.resource_version)
        before = clusters.manager.succeeded["GET jobs"]
        assert await clusters.sync(workload) == Synced()
        assert await clusters.sync(workload) == Synced(), "a copy without a status says nothing"
        await clusters.set_status(clusters.remote, JOB.resource, {"active": 3, "startTime": STARTED_AT})

        async def written() -> bool | None:
            await clusters.sync(workload)
            return clusters.manager.writes.get("PATCH jobs/status") == 1 or None

        await until(written)
        assert clusters.manager.succeeded["GET jobs"] == before
        assert (await clusters.here(JOB.resource)).status["active"] == 3

    run(story)


def test_a_write_on_a_version_that_we_replaced_is_refused_without_a_request() -> None:
    async def story(clusters: Clusters) -> None:
        clusters.manager.own_writes.keep(JOB.resource, lambda _: None)
        job = await clusters.create(JOB.resource, JOB.spec)
        body = {"metadata": {"labels": {"a": "b"}}}
        patch = Patch(JOB.resource, KEY, job.metadata.resource_version, body)
        await send(clusters.manager, [patch])
        attempts = clusters.manager.attempted.total()
        with pytest.raises(Conflict):
            await send(clusters.manager, [patch])
        assert clusters.manager.attempted.total() == attempts

    asyncio.run(without_following(story))


def test_a_changed_spec_reports_the_workload_of_the_job() -> None:
    async def story(clusters: Clusters) -> None:
        await install_definitions(clusters.manager, queueing_definitions())
        workload = await a_job(clusters, CONTROLLER)
        body = {
            "metadata": {"name": "of-train", "ownerReferences": workload.metadata.owner_references},
            "spec": {"podSets": [{"count": 3, "template": JOB.spec["template"]}]},
        }
        await clusters.manager.create(WORKLOADS, body, NAMESPACE)

        async def reported() -> bool | None:
            # The first list may already have a change: change it until one is seen.
            parallelism = (await clusters.here(JOB.resource)).spec["parallelism"] + 1
            await clusters.manager.patch(JOB.resource, KEY, {"spec": {"parallelism": parallelism}})
            return bool(clusters.changed) or None

        await until(reported)
        assert set(clusters.changed) == {Key(NAMESPACE, "of-train")}

    run(story)
