"""Kubernetes' own pod groups on the local cluster: protection, and the groups of Indexed jobs."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import NATIVE_POD_GROUPS, Json, untyped
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import PODS, LocalCluster, local_cluster

pytestmark = pytest.mark.slow

GROUPS = untyped("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True)
WORKLOADS = untyped("scheduling.k8s.io", "v1alpha2", "workloads", "Workload", True)


def play(story: Callable[[LocalCluster], Awaitable[None]], *, jobs: bool = False) -> None:
    async def run() -> None:
        async with local_cluster(NodePool(2), speed=50.0, with_job_pod_groups=jobs) as cluster:
            await story(cluster)

    asyncio.run(run())


def test_a_pod_group_stays_until_its_last_active_pod_has_gone() -> None:
    async def story(cluster: LocalCluster) -> None:
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}}}
        await cluster.client.create(GROUPS, group, "default")
        spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "g"}}
        await cluster.client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
        await cluster.client.delete(GROUPS, Key("default", "g"))
        assert not await cluster.gone(NATIVE_POD_GROUPS, "g")
        await cluster.client.delete(PODS, Key("default", "p"))
        await cluster.until("the group is gone", lambda: cluster.gone(NATIVE_POD_GROUPS, "g"))

    play(story)


def test_an_unused_pod_group_is_deleted_at_once() -> None:
    async def story(cluster: LocalCluster) -> None:
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
        await cluster.client.create(GROUPS, group, "default")
        await cluster.client.delete(GROUPS, Key("default", "g"))
        await cluster.until("the group is gone", lambda: cluster.gone(NATIVE_POD_GROUPS, "g"))

    play(story)


async def groups_of(cluster: LocalCluster) -> list[Json]:
    return list((await cluster.client.list(GROUPS, "default")).items)


def test_an_indexed_job_that_runs_all_its_pods_at_once_has_a_gang() -> None:
    async def story(cluster: LocalCluster) -> None:
        await cluster.run_job("j", 3, {"duration": "60s"}, completionMode="Indexed")
        await cluster.run_job("plain", 3, {"duration": "60s"})

        async def has_pods() -> bool:
            return len(await cluster.pods("j")) == len(await cluster.pods("plain")) == 3

        await cluster.until("both jobs have pods", has_pods)
        (group,) = await groups_of(cluster)
        (workload,) = (await cluster.client.list(WORKLOADS, "default")).items
        assert workload["spec"]["controllerRef"] == {"apiGroup": "batch", "kind": "Job", "name": "j"}
        (template,) = workload["spec"]["podGroupTemplates"]
        assert (template["name"], template["schedulingPolicy"]) == ("j-pgt-0", {"gang": {"minCount": 3}})
        reference = {"workloadName": workload["metadata"]["name"], "podGroupTemplateName": "j-pgt-0"}
        assert group["spec"]["podGroupTemplateRef"] == {"workload": reference}
        assert group["spec"]["schedulingPolicy"] == {"gang": {"minCount": 3}}
        assert [owner["kind"] for owner in group["metadata"]["ownerReferences"]] == ["Job", "Workload"]
        name = {"podGroupName": group["metadata"]["name"]}
        for pod in await cluster.pods("j"):
            assert pod["spec"]["schedulingGroup"] == name
            assert [owner["kind"] for owner in pod["metadata"]["ownerReferences"]] == ["Job", "PodGroup"]
        for pod in await cluster.pods("plain"):
            assert "schedulingGroup" not in pod["spec"]

    play(story, jobs=True)


def test_jobs_have_no_gangs_without_the_gate() -> None:
    async def story(cluster: LocalCluster) -> None:
        await cluster.run_job("j", 2, {"duration": "60s"}, completionMode="Indexed")

        async def has_pods() -> bool:
            return len(await cluster.pods("j")) == 2

        await cluster.until("the job has pods", has_pods)
        assert await groups_of(cluster) == []

    play(story)


CLAIMS = untyped("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
TEMPLATES = untyped("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)


def test_pods_of_a_group_share_the_claim_that_is_made_for_the_group() -> None:
    async def story(cluster: LocalCluster) -> None:
        claim = {"name": "gpu", "resourceClaimTemplateName": "one"}
        policy = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": [claim]}
        await cluster.client.create(GROUPS, {"metadata": {"name": "g"}, "spec": policy}, "default")
        for index in range(2):
            spec = {
                "containers": [{"name": "c", "image": "i"}],
                "schedulingGroup": {"podGroupName": "g"},
                "resourceClaims": [claim, {"name": "own", "resourceClaimTemplateName": "one"}],
            }
            await cluster.client.create(PODS, {"metadata": {"name": f"p{index}"}, "spec": spec}, "default")
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        await cluster.client.create(TEMPLATES, template, "default")

        statuses: list[list[Json]] = []

        async def have_claims() -> bool:
            statuses[:] = [pod["status"].get("resourceClaimStatuses", []) for pod in await cluster.pods()]
            return [len(status) for status in statuses] == [2, 2]

        await cluster.until("both pods have their claims", have_claims)
        names = [{row["name"]: row["resourceClaimName"] for row in status} for status in statuses]
        assert names[0]["gpu"] == names[1]["gpu"]
        assert names[0]["own"] != names[1]["own"]
        assert len((await cluster.client.list(CLAIMS, "default")).items) == 3
        (group,) = await groups_of(cluster)
        shared = [{"name": "gpu", "resourceClaimName": names[0]["gpu"]}]
        assert group["status"]["resourceClaimStatuses"] == shared

    play(story)
