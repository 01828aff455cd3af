"""Devices that the pods of a job claim need quota: the templates of claims are read from the cluster."""

from typing import Any

import msgspec
import pytest

from quorate.api.configuration import default_configuration
from quorate.api.configuration.queueing import ResourceOptions
from quorate.kube.errors import NotFound
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, RESOURCE_CLAIM_TEMPLATES, untyped
from quorate.kube.rest.discovery import plural_of
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

DEVICES = msgspec.structs.replace(
    default_configuration(), resources=ResourceOptions(device_classes={"gpu.example.com": "gpus"})
)
DEFINITIONS = untyped(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
# The local cluster has no such kind; a real one serves it from 1.34 on.
TEMPLATE_DEFINITION: dict[str, Any] = {
    "metadata": {
        "name": "resourceclaimtemplates.resource.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for this test"},
    },
    "spec": {
        "group": "resource.k8s.io",
        "scope": "Namespaced",
        "names": {
            "kind": "ResourceClaimTemplate",
            "plural": "resourceclaimtemplates",
            "singular": "resourceclaimtemplate",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}


async def a_job(world: World, name: str, pods: int) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": "two-gpus"}]
    pod = {"restartPolicy": "Never", "containers": [container], "resourceClaims": claims}
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
        "spec": {"suspend": True, "parallelism": pods, "completions": pods, "template": {"spec": pod}},
    }
    await world.client.create(JOBS, body, NAMESPACE)


def test_claimed_devices_need_quota() -> None:
    async def scenario(world: World) -> None:
        await world.flavor()
        amounts = {"cpu": "100", "gpus": "4"}
        quotas = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
        flavors = [{"name": "default", "resources": quotas}]
        group = {"coveredResources": list(amounts), "flavors": flavors}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        await world.create(CLUSTER_QUEUES, "research", spec=spec)
        await world.local_queue()
        await a_job(world, "fits", pods=2)
        waiting = await world.until_condition("fits", "QuotaReserved", "False")
        assert "ResourceClaimTemplate two-gpus does not exist" in str(waiting.status.conditions)

        if not await plural_of(world.client, "resource.k8s.io/v1", "ResourceClaimTemplate"):
            await world.client.create(DEFINITIONS, TEMPLATE_DEFINITION)
        request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}
        template: dict[str, Any] = {
            "metadata": {"name": "two-gpus"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }

        async def is_created() -> bool:
            try:
                await world.client.create(RESOURCE_CLAIM_TEMPLATES, template, NAMESPACE)
            except NotFound:
                return False
            return True

        await world.until("the kind is served", is_created)
        await world.until_admitted("fits")
        await a_job(world, "more", pods=1)
        held = await world.until_condition("more", "QuotaReserved", "False")
        assert "insufficient unused quota for gpus in flavor default, 2 more needed" in str(
            held.status.conditions
        )

    run_story(scenario, DEVICES)
