"""A job that ended in a worker cluster ends here, whatever is deleted there, and does not run again."""

import asyncio
from dataclasses import dataclass
from typing import Any, Final

import pytest

from quorate.api import codec
from quorate.api.configuration.integrations import VOLCANO_JOB, Integrations
from quorate.api.kueue import Workload
from quorate.api.meta import at_epoch
from quorate.api.names.multikueue import ORIGIN
from quorate.controllers.integrations import INTEGRATIONS
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobs.unstructured import UnstructuredJob, unstructured_resource
from quorate.controllers.multikueue.jobs import copy_content
from quorate.controllers.multikueue.jobs.remote_kinds import RemoteKind, remote_kinds
from quorate.kube.resources import VOLCANO_JOBS, WORKLOADS, Json, Resource
from tests.controllers.multikueue.jobs.clusters import (
    KEY,
    NAMESPACE,
    OURS,
    Clusters,
    configured,
    two_clusters,
    workload_of,
)
from tests.controllers.multikueue.jobs.test_job_copies import managed_spec
from tests.e2e.kinds import DECLARED, EXAMPLES, FINISHED_AT, Example, pods

NOW: Final = at_epoch(1_000.0)
PODS: Final = unstructured_resource("", "v1", "pods", "Pod")
VOLCANO: Final = unstructured_resource(
    VOLCANO_JOBS.group, VOLCANO_JOBS.version, VOLCANO_JOBS.plural, VOLCANO_JOBS.kind
)
WITHOUT_END: Final = {"LeaderWorkerSet", "RayCluster", "RayService", "StatefulSet"}


@dataclass(frozen=True)
class Case:
    """A kind with an end: a job of it, and the status of its copy that has succeeded."""

    integrations: Integrations
    resource: Resource[UnstructuredJob]
    spec: Json
    succeeded: Json

    @property
    def row(self) -> RemoteKind:
        rows = remote_kinds(configured(self.integrations)).values()
        return next(row for row in rows if row.resource.kind == self.resource.kind)


def _of(example: Example) -> Case:
    assert example.succeeded is not None
    spec = managed_spec(example) if "spark" not in example.resource.group else example.spec
    return Case(example.integrations, example.resource, spec, example.succeeded)


CASES: Final = (
    *(_of(example) for example in EXAMPLES if example.succeeded is not None),
    Case(
        Integrations(frameworks=(VOLCANO_JOB,)),
        VOLCANO,
        {"minAvailable": 1, "tasks": [{"name": "main", "replicas": 1, "template": pods()}]},
        {"state": {"phase": "Completed"}, "succeeded": 1},
    ),
    Case(Integrations(frameworks=("pod",)), PODS, pods()["spec"], {"phase": "Succeeded"}),
)


def kind_of(case: Case) -> str:
    return case.resource.kind


@pytest.mark.parametrize("success", [True, False], ids=["succeeded", "failed"])
@pytest.mark.parametrize("case", CASES, ids=kind_of)
def test_the_status_that_shows_an_end_is_read_as_that_end(case: Case, success: bool) -> None:
    document = {"metadata": {"name": "train"}, "spec": case.spec, "status": {}}
    job = codec.convert(UnstructuredJob, document)
    status = copy_content.ended_status(case.row, job, Outcome(success, "why"), NOW)
    assert status is not None
    encoded = codec.decode(dict[str, Any], codec.encode(status))
    found = copy_content.outcome_of(case.row, job, encoded)
    assert found is not None
    assert found.success is success


def test_every_kind_has_a_case_or_no_end() -> None:
    declared = DECLARED.integrations.declared
    rows = remote_kinds(configured(Integrations(frameworks=tuple(INTEGRATIONS), declared=declared)))
    kinds = {row.resource.kind for row in rows.values()}
    assert kinds - {case.resource.kind for case in CASES} == WITHOUT_END


def test_a_failed_spark_application_that_is_always_restarted_has_no_end() -> None:
    (case,) = [case for case in CASES if kind_of(case) == "SparkApplication"]
    spec = {**case.spec, "restartPolicy": {"type": "Always"}}
    document = {"metadata": {"name": "train"}, "spec": spec, "status": {}}
    job = codec.convert(UnstructuredJob, document)
    assert copy_content.ended_status(case.row, job, Outcome(False, "why"), NOW) is None


async def _dispatched(clusters: Clusters, case: Case) -> Workload:
    """Return the workload of a job that has a copy, the end of which the watch has shown."""
    job = await clusters.create(case.resource, case.spec)
    workload = workload_of(case.resource, job.metadata)
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]
    copy = {"metadata": {"name": workload.metadata.name, "labels": {ORIGIN: OURS}}}
    await clusters.remote.create(WORKLOADS, {**copy, "spec": {"podSets": pod_sets}}, NAMESPACE)
    await clusters.sync(workload)
    return workload


async def _ends(clusters: Clusters, case: Case, workload: Workload) -> None:
    await clusters.set_status(clusters.remote, case.resource, case.succeeded)
    await clusters.until_run(workload)


async def _finish(clusters: Clusters, workload: Workload) -> None:
    finished = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "It ended.",
                "lastTransitionTime": FINISHED_AT}  # fmt: skip
    key = workload.metadata.key
    await clusters.remote.patch(WORKLOADS, key, {"status": {"conditions": [finished]}}, subresource="status")


async def _delete_job(clusters: Clusters, case: Case) -> None:
    await clusters.remote.delete(case.resource, KEY, propagation="Background")


async def _has_ended(clusters: Clusters, case: Case) -> bool:
    job = await clusters.here(case.resource)
    end = copy_content.outcome_of(case.row, job, job.status)
    return end is not None and end.success and await clusters.there(case.resource) is None


async def _after_a_finished_workload(clusters: Clusters, case: Case) -> bool:
    workload = await _dispatched(clusters, case)
    await _finish(clusters, workload)
    await _delete_job(clusters, case)
    await clusters.until_gone(workload)
    await clusters.sync(workload)
    return await _has_ended(clusters, case)


async def _before_its_workload_finished(clusters: Clusters, case: Case) -> bool:
    workload = await _dispatched(clusters, case)
    await _ends(clusters, case, workload)
    await _delete_job(clusters, case)
    await clusters.until_gone(workload)
    await clusters.sync(workload)
    return await _has_ended(clusters, case)


async def _both_deleted(clusters: Clusters, case: Case) -> bool:
    workload = await _dispatched(clusters, case)
    await _ends(clusters, case, workload)
    await _finish(clusters, workload)
    await clusters.remote.delete(WORKLOADS, workload.metadata.key)
    await _delete_job(clusters, case)
    await clusters.until_gone(workload)
    end = await clusters.copies.end(clusters.worker, clusters.job(workload))
    assert end is not None
    assert end.success
    return await _has_ended(clusters, case)


async def _workload_deleted(clusters: Clusters, case: Case) -> bool:
    workload = await _dispatched(clusters, case)
    job = clusters.job(workload)
    assert await clusters.copies.end(clusters.worker, job) is None
    await clusters.set_status(clusters.remote, case.resource, case.succeeded)
    await clusters.remote.delete(WORKLOADS, workload.metadata.key)
    end = await clusters.copies.end(clusters.worker, job)
    assert end is not None
    assert end.success
    await _delete_job(clusters, case)
    return await _has_ended(clusters, case)


DELETIONS: Final = (
    _after_a_finished_workload,
    _before_its_workload_finished,
    _both_deleted,
    _workload_deleted,
)


@pytest.mark.parametrize("case", CASES, ids=kind_of)
def test_a_job_ends_as_its_copy_whatever_is_deleted_there(case: Case) -> None:
    async def stories() -> None:
        built_in = case.resource.group in ("", "batch")
        definitions: list[Resource[Any]] = [WORKLOADS, *(() if built_in else (case.resource,))]
        async with two_clusters(configured(case.integrations), definitions) as clusters:
            for story in DELETIONS:
                assert await story(clusters, case), story.__name__
                kinds: tuple[Resource[Any], ...] = (case.resource, WORKLOADS)
                for client in (clusters.manager, clusters.remote):
                    for resource in kinds:
                        for each in (await client.list(resource, NAMESPACE)).items:
                            await client.delete(resource, each.metadata.key, propagation="Background")

    asyncio.run(stories())
