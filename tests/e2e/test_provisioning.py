"""The provisioning check over HTTP; the test writes the status of the autoscaler."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from quorate.api.configuration import Configuration
from quorate.api.kueue.provisioning import ProvisioningRequest
from quorate.api.meta import Key, find_condition
from quorate.controllers.jobs.unstructured import unstructured_resource
from quorate.kube.errors import NotFound
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    POD_TEMPLATES,
    PODS,
    PROVISIONING_REQUEST_CONFIGS,
    PROVISIONING_REQUESTS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
    untyped,
)
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import install_definitions
from tests.docs.walk import TASKS, File, blocks
from tests.e2e.minimal_definitions import definition
from tests.e2e.test_two_phases import event_note
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

NODES = NodePool(1, cpu="8", labels={"pool": "fresh", "tier": "spot"})
CHECK = Key("", "capacity")
REQUEST_KIND = unstructured_resource(
    "autoscaling.x-k8s.io", "v1", "provisioningrequests", "ProvisioningRequest"
)
TEMPLATES = untyped("", "v1", "podtemplates", "PodTemplate", True)


PAGE = TASKS / "ask-for-capacity.md"
KINDS: dict[str, Resource[Any]] = {
    "AdmissionCheck": ADMISSION_CHECKS,
    "ProvisioningRequestConfig": PROVISIONING_REQUEST_CONFIGS,
    "ResourceFlavor": RESOURCE_FLAVORS,
    "ClusterQueue": CLUSTER_QUEUES,
    "LocalQueue": LOCAL_QUEUES,
}
CONFIG = Key("", "queued")


async def checked_queue(world: World, **config: Any) -> None:
    """Create the queue of the documentation page in a cluster with an autoscaler; ``config`` overrides it."""
    await install_definitions(world.client, [definition(REQUEST_KIND)])
    (manifests,) = [each for each in blocks(PAGE.read_text()) if isinstance(each, File)]
    for body in yaml.safe_load_all(manifests.text):
        if body["kind"] == "ProvisioningRequestConfig":
            await until_active(world, "False", "BadParametersRef")
            body["spec"] |= config
        await world.client.create(KINDS[body["kind"]], body)
    await until_active(world, "True", "Active")


async def until_active(world: World, status: str, reason: str) -> None:
    async def find() -> bool:
        check = await world.client.get(ADMISSION_CHECKS, CHECK)
        active = find_condition(check.status.conditions, "Active")
        return active is not None and (active.status, active.reason) == (status, reason)

    await world.until(f"the check has Active={status} {reason}", find)


async def requested(world: World, attempt: int) -> ProvisioningRequest:
    async def find() -> ProvisioningRequest | None:
        for request in (await world.client.list(PROVISIONING_REQUESTS, NAMESPACE)).items:
            if request.metadata.name.endswith(f"-capacity-{attempt}"):
                return request
        return None

    return await world.until(f"a ProvisioningRequest, attempt {attempt}", find)


async def set_condition(
    world: World,
    request: ProvisioningRequest,
    condition: str,
    message: str = "",
    details: Mapping[str, str] | None = None,
) -> None:
    """Set a condition of the request as the autoscaler does."""
    now = "2026-01-01T00:00:00Z"
    true = {"type": condition, "status": "True", "reason": condition, "message": message,
            "lastTransitionTime": now}  # fmt: skip
    status = {"conditions": [true], "provisioningClassDetails": dict(details or {})}
    await world.client.patch(
        PROVISIONING_REQUESTS, request.metadata.key, {"status": status}, subresource="status"
    )


def test_a_job_starts_on_provisioned_capacity() -> None:
    async def scenario(world: World) -> None:
        await checked_queue(world)
        await world.job("train", pods=2, annotations={"provreq.kueue.x-k8s.io/maxRunDuration": "600"})
        request = await requested(world, 1)
        assert request.spec.provisioning_class_name == "queued.example.com"
        assert request.spec.parameters == {"zone": "a", "maxRunDuration": "600"}
        assert request.metadata.labels == {"kueue.x-k8s.io/managed": "true"}
        (pod_set,) = request.spec.pod_sets
        assert pod_set.count == 2
        template_key = Key(NAMESPACE, pod_set.pod_template_ref.name)
        template = await world.client.get(TEMPLATES, template_key)
        assert template["template"]["spec"]["nodeSelector"] == {"tier": "spot"}

        async def is_controlled() -> bool:
            stored = await world.client.get(POD_TEMPLATES, template_key)
            owner = stored.metadata.controller
            return owner is not None and owner.uid == request.metadata.uid

        await world.until("the request controls the template", is_controlled)
        assert (await world.get_job("train")).spec.suspend
        await set_condition(world, request, "Provisioned", "all there", {"PoolName": "fresh"})
        await world.until_finished("train")
        assert await event_note(world, "Workload", "ProvisioningRequestCreated")
        assert await event_note(world, "Workload", "AdmissionCheckUpdated") == (
            "Admission check capacity updated state from Pending to Ready with message: all there"
        )
        for pod in (await world.client.list(PODS, NAMESPACE)).items:
            assert pod.spec.node_selector == {"tier": "spot", "pool": "fresh"}
            assert pod.metadata.annotations["autoscaling.x-k8s.io/consume-provisioning-request"] == (
                request.metadata.name
            )
        await until_deleted(world, request)

    run_story(scenario, Configuration(), NODES)


def test_a_failed_request_is_retried_until_the_limit() -> None:
    async def scenario(world: World) -> None:
        await checked_queue(world, retryStrategy={"backoffLimitCount": 1, "backoffBaseSeconds": 1})
        await world.job("train")
        first = await requested(world, 1)
        await set_condition(world, first, "Failed", "no such machines")
        await world.until_condition("train", "Evicted", reason="AdmissionCheck")
        second = await requested(world, 2)
        await until_deleted(world, first)
        await set_condition(world, second, "Failed", "none at all")
        await world.until_condition("train", "Evicted", reason="DeactivatedDueToAdmissionCheck")
        assert "none at all" in await event_note(world, "Workload", "AdmissionCheckRejected")
        await until_deleted(world, second)

    run_story(scenario, Configuration(), NODES)


def test_a_provisioning_request_follows_its_configuration_and_is_deleted_with_its_job() -> None:
    async def scenario(world: World) -> None:
        await checked_queue(world)
        await world.job("train")
        before = await requested(world, 1)
        spec = {"spec": {"provisioningClassName": "other.example.com"}}
        await world.client.patch(PROVISIONING_REQUEST_CONFIGS, CONFIG, spec)

        async def replaced() -> ProvisioningRequest | None:
            request = await requested(world, 1)
            return request if request.metadata.uid != before.metadata.uid else None

        request = await world.until("another request", replaced)
        assert request.spec.provisioning_class_name == "other.example.com"
        await world.client.delete(JOBS, Key(NAMESPACE, "train"), propagation="Background")
        await until_deleted(world, request)

        async def nothing_remains() -> bool:
            templates = (await world.client.list(POD_TEMPLATES, NAMESPACE)).items
            return not templates and not (await world.client.list(WORKLOADS, NAMESPACE)).items

        await world.until("no template and no workload remains", nothing_remains)

    run_story(scenario, Configuration(), NODES)


async def until_deleted(world: World, request: ProvisioningRequest) -> None:
    async def deleted() -> bool:
        try:
            found = await world.client.get(PROVISIONING_REQUESTS, request.metadata.key)
        except NotFound:
            return True
        return found.metadata.uid != request.metadata.uid

    await world.until(f"{request.metadata.name} is deleted", deleted)
