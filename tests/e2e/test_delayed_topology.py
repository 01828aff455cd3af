"""A job in a topology of which a ProvisioningRequest brings the nodes; the test is the autoscaler."""

import pytest

from quorate.api.configuration import default_configuration
from quorate.api.kueue import PodSetAssignment
from quorate.api.meta import find_condition
from quorate.kube.resources import ADMISSION_CHECKS, PODS, PROVISIONING_REQUEST_CONFIGS, TOPOLOGIES
from quorate.processes.local.apply import install_definitions
from tests.e2e.minimal_definitions import definition
from tests.e2e.test_provisioning import CHECK, REQUEST_KIND, requested, set_condition, until_active
from tests.e2e.test_two_phases import event_note
from tests.e2e.topologies import HOST, LEVELS, RACK, create_host, create_job_in, places_of
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

CONFIG = {
    "provisioningClassName": "queued.example.com",
    "podSetUpdates": {
        "nodeSelector": [{"key": "example.com/request", "valueFromProvisioningClassDetail": "Request"}]
    },
}


async def create_queues(world: World) -> None:
    """Create a topology flavor and its queue with the check of an autoscaler."""
    await install_definitions(world.client, [definition(REQUEST_KIND)])
    await world.create(PROVISIONING_REQUEST_CONFIGS, "queued", spec=CONFIG)
    config = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "queued"}
    controller = "kueue.x-k8s.io/provisioning-request"
    spec = {"controllerName": controller, "parameters": config}
    await world.create(ADMISSION_CHECKS, CHECK.name, spec=spec)
    await until_active(world, "True", "Active")
    await world.create(TOPOLOGIES, "tree", spec=LEVELS)
    await world.flavor("tas", nodeLabels={"pool": "tas"}, topologyName="tree")
    checks = {"admissionChecks": [{"name": CHECK.name}]}
    await world.cluster_queue("8", "placing", flavor="tas", admissionChecksStrategy=checks)
    await world.local_queue("tas", "placing")


async def assigned(world: World) -> PodSetAssignment | None:
    workload = await world.workload("train")
    if workload is None or workload.status.admission is None:
        return None
    (pods,) = workload.status.admission.pod_set_assignments
    return pods


async def waits_for_places(world: World) -> bool:
    workload = await world.workload("train")
    assert workload is not None
    admitted = find_condition(workload.status.conditions, "Admitted")
    return admitted is not None and admitted.reason == "PendingDelayedTopologyRequests"


def test_a_job_gets_its_places_once_the_provisioned_nodes_are_there() -> None:
    async def story(world: World) -> None:
        await create_queues(world)
        await create_host(world, "old", "r1", cpu="8")  # has room, and is not of the request
        await create_job_in(world, "train", RACK, pods=3)
        request = await requested(world, 1)
        before = await assigned(world)
        assert before is not None
        assert (before.topology_assignment, before.delayed_topology_request) == (None, "Pending")

        await set_condition(world, request, "Provisioned", details={"Request": "train"})
        await world.until("the workload waits for places", lambda: waits_for_places(world))
        failure = await event_note(world, "Workload", "SecondPassFailed")
        assert "doesn't allow to fit any of 3 pod(s). Total nodes: 1; excluded: nodeSelector: 1" in failure
        assert (await world.get_job("train")).spec.suspend

        await create_host(world, "x1", "r2", cpu="1", labels={"example.com/request": "train"})
        await create_host(world, "x2", "r3", cpu="2", labels={"example.com/request": "train"})
        await create_host(world, "x3", "r3", cpu="1", labels={"example.com/request": "train"})
        await world.until_condition("train", "Admitted", reason="Admitted")
        after = await assigned(world)
        assert after is not None
        assert after.delayed_topology_request == "Ready"
        assert await places_of(world, "train") == {"x2": 2, "x3": 1}

        async def are_ungated() -> bool:
            pods = (await world.client.list(PODS, NAMESPACE, "job-name=train")).items
            hosts = [pod.spec.node_selector.get(HOST) for pod in pods if not pod.spec.scheduling_gates]
            return sorted(filter(None, hosts)) == ["x2", "x2", "x3"]

        await world.until("the pods are ungated for their hosts", are_ungated)

    run_story(story, default_configuration())
