"""Devices that pods claim: they need quota, and gangs get them all or none."""

from typing import Any

import msgspec
import pytest

from quorate.api import codec
from quorate.api.configuration import DEFAULT_NAMESPACE, default_configuration
from quorate.api.configuration.queueing import DeviceSource, ResourceOptions
from quorate.api.meta import Key
from quorate.controllers.topology.node_feeds import load_model
from quorate.install import scheduler
from quorate.install.roles import ACCOUNT, controller_roles
from quorate.kube.discovery import plural_of
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    DEVICE_CLASSES,
    JOBS,
    PLACEABLE_PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    untyped,
)
from quorate.local.nodes import NodePool
from quorate.queueing.state import State
from quorate.scheduler.scheduler import Options
from tests.e2e import shared_clusters
from tests.e2e.gangs import GangWorld, running_gang_cluster
from tests.e2e.service_accounts import as_account
from tests.e2e.test_rights import running_controllers
from tests.e2e.test_scheduler_rights import running_scheduler
from tests.e2e.world import NAMESPACE, World, run_story, running_cluster

pytestmark = pytest.mark.slow

DEVICES = msgspec.structs.replace(
    default_configuration(), resources=ResourceOptions(device_classes={"gpu.example.com": "gpus"})
)
DEFINITIONS = untyped(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)
# The local cluster has no such kinds; a real one serves them from 1.34 on.
KINDS = {
    "ResourceClaimTemplate": "Namespaced",
    "ResourceClaim": "Namespaced",
    "ResourceSlice": "Cluster",
    "DeviceClass": "Cluster",
}


def a_definition(kind: str) -> dict[str, Any]:
    singular = kind.lower()
    plural = singular + ("es" if singular.endswith("s") else "s")
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    if kind == "ResourceClaim":
        version["subresources"] = {"status": {}}
    return {
        "metadata": {
            "name": f"{plural}.resource.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for this test"},
        },
        "spec": {
            "group": "resource.k8s.io",
            "scope": KINDS[kind],
            "names": {"kind": kind, "plural": plural, "singular": singular},
            "versions": [version],
        },
    }


async def define(world: World | GangWorld, *kinds: str) -> None:
    """Define the kinds that the server does not serve, and wait until it does."""

    async def is_served() -> bool:
        return all([await plural_of(world.client, "resource.k8s.io/v1", kind) for kind in kinds])

    for kind in kinds:
        if not await plural_of(world.client, "resource.k8s.io/v1", kind):
            await world.client.create(DEFINITIONS, a_definition(kind))
    await world.until("the kinds are served", is_served)


async def a_job(world: World, name: str, pods: int, template: str = "two-gpus") -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
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

        await define(world, "ResourceClaimTemplate", "DeviceClass", "ResourceSlice")
        request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}
        template: dict[str, Any] = {
            "metadata": {"name": "two-gpus"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }

        await world.client.create(RESOURCE_CLAIM_TEMPLATES, template, NAMESPACE)
        await world.until_admitted("fits")
        await a_job(world, "more", pods=1)
        held = await world.until_condition("more", "QuotaReserved", "False")
        assert "insufficient unused quota for gpus in flavor default, 2 more needed" in str(
            held.status.conditions
        )

    run_story(scenario, DEVICES)


PARTS = msgspec.structs.replace(
    default_configuration(),
    resources=ResourceOptions(
        device_sources={
            "gpu.example.com": (
                DeviceSource(
                    kind="counter",
                    resource="gpu.memory",
                    name="memory",
                    driver="gpu.example.com",
                    expression="device.driver == 'gpu.example.com'",
                ),
            )
        }
    ),
)


def a_partition(name: str, memory: str) -> dict[str, Any]:
    consumes = [{"counterSet": "gpu-0", "counters": {"memory": {"value": memory}}}]
    return {"name": name, "attributes": {"type": {"string": "mig"}}, "consumesCounters": consumes}


async def publish(world: World, *devices: dict[str, Any]) -> None:
    pool = {"name": "gpu-0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": devices}
    await world.client.create(RESOURCE_SLICES, {"metadata": {"name": "gpu-0"}, "spec": spec})


def test_parts_of_devices_need_quota_and_devices_that_match() -> None:
    async def scenario(world: World) -> None:
        await define(world, "ResourceClaimTemplate", "DeviceClass", "ResourceSlice")
        await world.flavor()
        amounts = {"cpu": "100", "gpu.memory": "25Gi"}
        quotas = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
        group = {"coveredResources": list(amounts), "flavors": [{"name": "default", "resources": quotas}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        await world.create(CLUSTER_QUEUES, "research", spec=spec)
        await world.local_queue()
        body: dict[str, Any] = {"metadata": {"name": "gpu.example.com"}, "spec": {}}
        await world.client.create(DEVICE_CLASSES, body)
        selectors = [{"cel": {"expression": "device.attributes['gpu.example.com'].type == 'mig'"}}]
        exactly = {"deviceClassName": "gpu.example.com", "count": 2, "selectors": selectors}
        template: dict[str, Any] = {
            "metadata": {"name": "two-gpus"},
            "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}},
        }
        await world.client.create(RESOURCE_CLAIM_TEMPLATES, template, NAMESPACE)
        await a_job(world, "first", pods=1)
        waiting = await world.until_condition("first", "QuotaReserved", "False")
        assert "0 device(s) match in the cluster but 2 requested" in str(waiting.status.conditions)
        await publish(world, a_partition("small", "5Gi"), a_partition("large", "10Gi"))
        admitted = await world.until_condition("first", "Admitted")
        assert admitted.status.admission is not None
        (assignment,) = admitted.status.admission.pod_set_assignments
        assert str(assignment.resource_usage["gpu.memory"]) == "20Gi"
        await a_job(world, "second", pods=1)
        held = await world.until_condition("second", "QuotaReserved", "False")
        assert "insufficient unused quota for gpu.memory in flavor default, 15Gi more needed" in str(
            held.status.conditions
        )

    run_story(scenario, PARTS)


def test_roles_without_slices_hold_only_claims_of_classes_with_sources() -> None:
    """An installation with roles from before ResourceSlices were read, which are then replaced."""
    roles = list(controller_roles(DEFAULT_NAMESPACE))
    older = codec.decode(list[dict[str, Any]], codec.encode(roles).replace(b',"resourceslices"', b""))
    assert older != roles
    options = ResourceOptions(
        device_classes={"gpu.example.com": "gpus"},
        device_sources={"mig.example.com": PARTS.resources.device_sources["gpu.example.com"]},
    )

    async def story() -> None:
        async with (
            running_cluster() as world,
            as_account(world.client, ACCOUNT, DEFAULT_NAMESPACE, older) as client,
        ):
            await define(world, "ResourceClaimTemplate", "DeviceClass", "ResourceSlice")
            await world.flavor()
            quotas = [{"name": name, "nominalQuota": "100Gi"} for name in ("cpu", "gpus", "gpu.memory")]
            group = {
                "coveredResources": [quota["name"] for quota in quotas],
                "flavors": [{"name": "default", "resources": quotas}],
            }
            spec = {"namespaceSelector": {}, "resourceGroups": [group]}
            await world.create(CLUSTER_QUEUES, "research", spec=spec)
            await world.local_queue()
            for name in ("gpu", "mig"):
                body: dict[str, Any] = {"metadata": {"name": f"{name}.example.com"}, "spec": {}}
                await world.client.create(DEVICE_CLASSES, body)
                selectors = [{"cel": {"expression": f"device.attributes['{DRIVER}'].type == '{name}'"}}]
                exactly = {"deviceClassName": f"{name}.example.com", "count": 1, "selectors": selectors}
                template: dict[str, Any] = {
                    "metadata": {"name": name},
                    "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}},
                }
                await world.client.create(RESOURCE_CLAIM_TEMPLATES, template, NAMESPACE)
                await a_job(world, name, pods=1, template=name)
            await publish(world, a_partition("small", "5Gi"))
            configuration = msgspec.structs.replace(default_configuration(), resources=options)
            async with running_controllers(client, configuration):
                await world.until_condition("gpu", "QuotaReserved")
                waiting = await world.until_condition("mig", "QuotaReserved", "False")
                text = str(waiting.status.conditions)
                assert "its devices are not known: resourceslices cannot be read (Forbidden)" in text
                state = State(configuration)
                await load_model(client, state, 0.0)
                entry = state.ledger.entries[waiting.metadata.key]
                assert "cannot be read (Forbidden)" in str(entry.shape.uncounted_devices), "explain knows it"
                role = roles[0]
                kind = untyped("rbac.authorization.k8s.io", "v1", "clusterroles", role["kind"], False)
                await world.client.patch(kind, Key("", role["metadata"]["name"]), {"rules": role["rules"]})
                await world.until_condition("mig", "QuotaReserved")

    shared_clusters.run(story())


SYSTEM = scheduler.NAMESPACE
DRIVER = "gpu.example.com"
GPUS: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}


async def offer_gpus(world: GangWorld, node: str, number: int, generation: int = 1) -> None:
    """Publish devices of a node, as its driver does."""
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
        "devices": [{"name": f"gpu-{at}"} for at in range(number)],
    }
    body = {"metadata": {"name": f"{node}-{generation}"}, "spec": spec}
    await world.client.create(RESOURCE_SLICES, body)


async def make_claims(world: GangWorld, group: str) -> None:
    """Create the claims of pods from their template, as the controller of claims does."""
    request = {
        "name": "gpu",
        "exactly": {"deviceClassName": "gpu", "count": 1, "allocationMode": "ExactCount"},
    }
    for pod in await world.members(group):
        name = f"{pod.metadata.name}-gpu"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
        metadata = {"name": name, "ownerReferences": [owner | {"controller": True}]}
        body = {"metadata": metadata, "spec": {"devices": {"requests": [request]}}}
        await world.client.create(RESOURCE_CLAIMS, body, NAMESPACE)
        status = {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": name}]}}
        await world.client.patch(PLACEABLE_PODS, pod.metadata.key, status, subresource="status")


async def live_with_devices(world: GangWorld) -> None:
    """A gang on two nodes waits for its claims, then for devices, and is bound when all have them."""
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    await world.client.create(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
    await offer_gpus(world, "node-1", 2)
    await world.group("train", 3)
    await world.pods("train", 3, **GPUS)
    await world.until_waits("train", "NotEnoughResources", 'create the claim "gpu" of the pod')
    await make_claims(world, "train")
    await world.until_waits("train", "NotEnoughResources", "request gpu needs 1 of class gpu")
    await offer_gpus(world, "node-2", 1)
    await world.until_bound(train=3)
    given = set()
    for pod in await world.members("train"):
        claim = await world.client.get(RESOURCE_CLAIMS, Key(NAMESPACE, f"{pod.metadata.name}-gpu"))
        assert claim.status.allocation is not None
        assert [each.uid for each in claim.status.reserved_for] == [pod.metadata.uid]
        assert "resource.kubernetes.io/delete-protection" in claim.metadata.finalizers
        (device,) = claim.status.allocation.devices.results
        assert (device.driver, device.pool) == (DRIVER, pod.node_name)
        given.add((device.pool, device.device))
    assert len(given) == 3


def test_a_gang_gets_all_its_devices_or_none_of_its_pods_is_bound() -> None:
    """As the account of the scheduler: its roles suffice."""

    async def story() -> None:
        async with (
            running_gang_cluster(NodePool(2, cpu="8")) as world,
            as_account(world.client, scheduler.ACCOUNT, SYSTEM, scheduler.roles(SYSTEM)) as client,
        ):
            await define(world, *KINDS)
            async with running_scheduler(world, client, Options()):
                await live_with_devices(world)
            assert client.forbidden == []

    shared_clusters.run(story())
