"""Claims of pods for devices: made from templates, and given back."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quorate.api.meta import Key
from quorate.kube.client import PatchKind
from quorate.kube.resources import Json, untyped
from tests.local.controllers.running_cluster import PODS, LocalCluster, local_cluster

pytestmark = pytest.mark.slow
CLAIMS = untyped("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
TEMPLATES = untyped("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)
REQUESTS = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


def live(story: Callable[[LocalCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with local_cluster() as cluster:
            await story(cluster)

    asyncio.run(run())


async def create_template(cluster: LocalCluster) -> None:
    spec = {"metadata": {"labels": {"team": "x"}}, "spec": REQUESTS}
    await cluster.client.create(TEMPLATES, {"metadata": {"name": "one-gpu"}, "spec": spec}, "default")


async def create_pod(cluster: LocalCluster) -> Json:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims}
    return dict(await cluster.client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default"))


async def claim_of_pod(cluster: LocalCluster) -> Json:
    async def find() -> Json | None:
        pod = await cluster.client.get(PODS, Key("default", "p"))
        statuses = pod["status"].get("resourceClaimStatuses")
        if not statuses:
            return None
        return dict(await cluster.client.get(CLAIMS, Key("default", statuses[0]["resourceClaimName"])))

    return await cluster.until("the pod has a claim", find)


async def allocate(cluster: LocalCluster, claim: Json, pod: Json) -> None:
    """Allocate a device to a claim and reserve it, as a scheduler does."""
    key = Key("default", claim["metadata"]["name"])
    finalizer = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
    await cluster.client.patch(CLAIMS, key, finalizer)
    result = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}
    consumer = {"resource": "pods", "name": "p", "uid": pod["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
    await cluster.client.patch(CLAIMS, key, {"status": status}, subresource="status")


@pytest.mark.parametrize("template_first", [True, False])
def test_a_claim_is_made_from_the_template(template_first: bool) -> None:
    async def story(cluster: LocalCluster) -> None:
        if template_first:
            await create_template(cluster)
        pod = await create_pod(cluster)
        if not template_first:
            await create_template(cluster)
        claim = await claim_of_pod(cluster)
        metadata = claim["metadata"]
        assert metadata["name"].startswith("p-gpu-")
        assert metadata["labels"] == {"team": "x"}
        assert metadata["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == [pod["metadata"]["uid"]]
        assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
        assert len((await cluster.client.list(CLAIMS, "default")).items) == 1

    live(story)


def test_the_finalizer_of_a_claim_that_is_about_to_be_allocated_stays() -> None:
    async def story(cluster: LocalCluster) -> None:
        await create_template(cluster)
        pod = await create_pod(cluster)
        claim = await claim_of_pod(cluster)
        key = Key("default", claim["metadata"]["name"])
        finalizer = {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}}
        await cluster.client.patch(CLAIMS, key, finalizer)
        # The controller has seen the finalizer once it has made the claim of a later pod.
        body = {"metadata": {"name": "later"}, "spec": pod["spec"]}
        await cluster.client.create(PODS, body, "default")

        async def has_claim() -> bool:
            later = await cluster.client.get(PODS, Key("default", "later"))
            return bool(later["status"].get("resourceClaimStatuses"))

        await cluster.until("the later pod has a claim", has_claim)
        found = await cluster.client.get(CLAIMS, key)
        assert found["metadata"]["finalizers"] == finalizer["metadata"]["finalizers"]

    live(story)


@pytest.mark.parametrize("ends", ["succeeds", "is deleted"])
def test_the_devices_of_a_pod_that_ends_are_given_back(ends: str) -> None:
    async def story(cluster: LocalCluster) -> None:
        await create_template(cluster)
        pod = await create_pod(cluster)
        await allocate(cluster, await claim_of_pod(cluster), pod)
        key = Key("default", "p")
        if ends == "succeeds":
            body = {"status": {"phase": "Succeeded"}}
            await cluster.client.patch(PODS, key, body, subresource="status", kind=PatchKind.STRATEGIC)
        else:
            await cluster.client.delete(PODS, key)

        async def no_claim() -> bool:
            return not (await cluster.client.list(CLAIMS, "default")).items

        await cluster.until("the claim is gone", no_claim)

    live(story)


def test_a_pod_gets_no_claim_of_a_former_pod_with_its_name() -> None:
    async def story(cluster: LocalCluster) -> None:
        await create_template(cluster)
        await create_pod(cluster)
        former = (await claim_of_pod(cluster))["metadata"]["name"]
        kept = {"metadata": {"finalizers": ["example.com/keep"]}}
        await cluster.client.patch(CLAIMS, Key("default", former), kept)
        await cluster.client.delete(PODS, Key("default", "p"), grace_period_s=0)
        pod = await create_pod(cluster)
        (owner,) = (await claim_of_pod(cluster))["metadata"]["ownerReferences"]
        assert owner["uid"] == pod["metadata"]["uid"]

    live(story)


def test_a_claim_by_name_is_deallocated_and_kept() -> None:
    async def story(cluster: LocalCluster) -> None:
        body = {"metadata": {"name": "mine"}, "spec": REQUESTS}
        claim = dict(await cluster.client.create(CLAIMS, body, "default"))
        spec = {
            "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}],
        }
        pod = dict(await cluster.client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default"))
        await allocate(cluster, claim, pod)
        await cluster.client.delete(PODS, Key("default", "p"))

        async def is_free() -> bool:
            found = await cluster.client.get(CLAIMS, Key("default", "mine"))
            return not found.get("status") and not found["metadata"].get("finalizers")

        await cluster.until("the claim is free", is_free)

    live(story)
