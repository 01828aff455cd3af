"""Quota and nodes together: three pods of 6 cpu on two nodes of 8 cpu, with the plain scheduler beside."""

import msgspec
import pytest

from quorate.api.configuration import default_configuration
from quorate.api.configuration.queueing import NodeFit
from quorate.api.meta import Key, find_condition, is_true
from quorate.kube.resources import (
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PLACEABLE_NODES,
    PODS,
    WORKLOADS,
)
from quorate.local.nodes import NodePool
from tests.e2e.topologies import places_of
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

REQUIRING = msgspec.structs.replace(default_configuration(), node_fit=NodeFit(mode="Require"))
NODES = NodePool(2, cpu="8")
SHORTAGE = "1 of 3 pods fits no node: cpu: need 6, have 2 on the best of 2 nodes"
NODE_FIT = "quorate.dev/NodeFit"


async def nodes_are_ready(world: World) -> bool:
    """Return True if all nodes are ready and accept pods."""
    nodes = (await world.client.list(PLACEABLE_NODES)).items
    ready = [each for each in nodes if is_true(each.status.conditions, "Ready") and not each.spec.taints]
    return len(ready) == NODES.count


def test_a_pod_without_a_node_is_reported_until_it_has_one() -> None:
    async def story(world: World) -> None:
        await world.until("the nodes are ready", lambda: nodes_are_ready(world))
        await world.queues(cpu="99")
        await world.job("train", pods=3, cpu="6", runs="2s", suspend=True)
        workload = await world.until_condition("train", NODE_FIT, "False", "InsufficientNodes")
        condition = find_condition(workload.status.conditions, NODE_FIT)
        assert condition is not None
        assert condition.message == f"admitted by quota, but {SHORTAGE}"

        async def cleared() -> bool:
            now = await world.client.get(WORKLOADS, workload.metadata.key)
            return find_condition(now.status.conditions, NODE_FIT) is None

        await world.until("all pods have run", cleared)
        await world.until_finished("train")

    run_story(story, default_configuration(), NODES)


def test_pods_wait_for_nodes_and_hold_them_where_they_are_required() -> None:
    async def story(world: World) -> None:
        await world.until("the nodes are ready", lambda: nodes_are_ready(world))
        await world.queues(cpu="99")
        await world.job("large", pods=3, cpu="6", suspend=True)
        waiting = await world.until_condition("large", "QuotaReserved", "False", "WaitingForQuota")
        condition = find_condition(waiting.status.conditions, "QuotaReserved")
        assert condition is not None
        assert condition.message == f"couldn't assign flavors to pod set main: {SHORTAGE}"

        await world.job("small", pods=2, cpu="6", runs="forever", suspend=True)
        await world.until_admitted("small")
        assert await places_of(world, "small") == {"node-1": 1, "node-2": 1}
        await world.job("next", cpu="6", runs="1s", suspend=True)
        await world.until_condition("next", "QuotaReserved", "False", "WaitingForQuota")

        async def running() -> set[str]:
            pods = (await world.client.list(PODS, NAMESPACE, "job-name=small")).items
            nodes = {pod.spec.node_name for pod in pods if pod.status.phase == "Running"}
            return nodes if len(nodes) == 2 else set()

        assert await world.until("both pods run", running) == {"node-1", "node-2"}
        await world.client.delete(JOBS, Key(NAMESPACE, "small"))
        for pod in (await world.client.list(PODS, NAMESPACE, "job-name=small")).items:
            await world.client.delete(PODS, pod.metadata.key)  # until then their nodes are not free
        await world.until_finished("next")
        await a_claim_leads_to_the_node_of_its_volume(world)
        await a_place_that_is_taken_leads_to_another(world)

    run_story(story, REQUIRING, NODES)


async def a_claim_leads_to_the_node_of_its_volume(world: World) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    await world.job("reader", cpu="2", runs="forever", suspend=True, volumes=[volume])
    message = (
        "couldn't assign flavors to pod set main: 1 of 1 pods fits no node: "
        'persistentvolumeclaim "data" not found'
    )
    await world.until_condition("reader", "QuotaReserved", "False", "WaitingForQuota", message)
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    disk = {
        **common,
        "capacity": {"storage": "1Gi"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        "local": {"path": "/data"},
    }
    await world.client.create(PERSISTENT_VOLUMES, {"metadata": {"name": "disk"}, "spec": disk})
    claim = {
        "metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "disk"},
    }
    await world.client.create(PERSISTENT_VOLUME_CLAIMS, claim, NAMESPACE)
    await world.until_admitted("reader")
    assert await places_of(world, "reader") == {"node-2": 1}


async def a_place_that_is_taken_leads_to_another(world: World) -> None:
    """Let a plain pod take the place of a pod that is not bound yet; both nodes have room for it."""
    hold = {"name": "example.dev/hold"}
    await world.job("late", cpu="6", runs="forever", suspend=True, schedulingGates=[hold])
    await world.until_admitted("late")
    (host,) = await places_of(world, "late")
    (other,) = {"node-1", "node-2"} - {host}

    async def pinned() -> str:
        pods = (await world.client.list(PODS, NAMESPACE, "job-name=late")).items
        names = [
            pod.metadata.name for pod in pods if pod.spec.node_selector and pod.status.phase == "Pending"
        ]
        return names[0] if names else ""

    first = await world.until("the pod has its node", pinned)
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "3"}}}
    spec = {"nodeSelector": {"kubernetes.io/hostname": host}, "containers": [container]}
    await world.client.create(PODS, {"metadata": {"name": "plain"}, "spec": spec}, NAMESPACE)

    async def is_bound() -> bool:
        return bool((await world.client.get(PODS, Key(NAMESPACE, "plain"))).spec.node_name)

    await world.until("a plain pod has the room", is_bound)
    without_gates = {"spec": {"schedulingGates": None}}
    await world.client.patch(PODS, Key(NAMESPACE, first), without_gates)

    async def has_moved() -> bool:
        return await places_of(world, "late") == {other: 1}

    await world.until("the job has another node", has_moved)

    async def runs() -> bool:
        name = await pinned()
        if name and name != first:
            await world.client.patch(PODS, Key(NAMESPACE, name), without_gates)
        pods = (await world.client.list(PODS, NAMESPACE, "job-name=late")).items
        return any(pod.status.phase == "Running" and pod.spec.node_name == other for pod in pods)

    await world.until("its new pod runs there", runs)
