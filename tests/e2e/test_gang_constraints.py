"""Gangs with node constraints besides resources, over HTTP."""

from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import (
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PLACEABLE_PODS,
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
)
from quorate.local.nodes import NodePool
from tests.e2e.gangs import GangWorld, run_gang_story, settings
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

SETTINGS = settings(
    """
actions: "allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]
"""
)


def using(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


def a_claim(name: str, class_: str) -> dict[str, Any]:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": class_,
    }
    return {"metadata": {"name": name}, "spec": spec}


async def nodes_of(world: GangWorld, group: str) -> set[str]:
    return {pod.node_name for pod in await world.members(group)}


def test_a_gang_waits_for_its_claim_and_is_placed_where_the_volume_is() -> None:
    async def story(world: GangWorld) -> None:
        await world.group("a", 2)
        await world.pods("a", 2, **using("data"))
        await world.until_waits("a", "NotEnoughResources", 'persistentvolumeclaim "data" not found')
        hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-2"]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
            "local": {"path": "/data"},
        }
        await world.client.create(PERSISTENT_VOLUMES, {"metadata": {"name": "v"}, "spec": spec})
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        claim = {
            "metadata": {"name": "data", "annotations": bound},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": {"storage": "1Gi"}},
                "storageClassName": "",
                "volumeName": "v",
            },
        }
        await world.client.create(PERSISTENT_VOLUME_CLAIMS, claim, NAMESPACE)
        await world.until_bound(a=2)
        assert await nodes_of(world, "a") == {"node-2"}

    run_gang_story(story, NodePool(3, cpu="4"), SETTINGS)


def test_the_claim_of_a_placed_gang_names_the_selected_node() -> None:
    async def story(world: GangWorld) -> None:
        slow = {
            "metadata": {"name": "slow"},
            "provisioner": "disks.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await world.client.create(STORAGE_CLASSES, slow)
        await world.client.create(PERSISTENT_VOLUME_CLAIMS, a_claim("shared", "slow"), NAMESPACE)
        await world.group("a", 3)
        await world.pods("a", 3, **using("shared"))
        await world.until_bound(a=3)
        (node,) = await nodes_of(world, "a")
        claim = await world.client.get(PERSISTENT_VOLUME_CLAIMS, Key(NAMESPACE, "shared"))
        assert claim.metadata.annotations["volume.kubernetes.io/selected-node"] == node

    run_gang_story(story, NodePool(3, cpu="4"), SETTINGS)


def test_each_member_reserves_a_local_volume_on_its_node() -> None:
    async def story(world: GangWorld) -> None:
        local = {
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await world.client.create(STORAGE_CLASSES, local)
        for number in (1, 2, 3):
            await world.client.create(PERSISTENT_VOLUMES, a_disk(f"disk-{number}", f"node-{number}"))
            free = {"status": {"phase": "Available"}}
            await world.client.patch(
                PERSISTENT_VOLUMES, Key("", f"disk-{number}"), free, subresource="status"
            )
        await world.group("a", 3)
        for number in range(3):
            await world.client.create(
                PERSISTENT_VOLUME_CLAIMS, a_claim(f"claim-{number}", "local"), NAMESPACE
            )
            await world.pods("a", 1, first=number, **using(f"claim-{number}"))
        await world.until_bound(a=3)
        for pod in await world.members("a"):
            disk = pod.node_name.replace("node", "disk")
            volume = await world.client.get(PERSISTENT_VOLUMES, Key("", disk))
            assert volume.spec.claim_ref is not None
            assert volume.spec.claim_ref.name == pod.metadata.name.replace("a", "claim")

    run_gang_story(story, NodePool(3, cpu="4"), SETTINGS)


def a_disk(name: str, node: str) -> dict[str, Any]:
    """Create a volume that is accessible from one node only."""
    hostname = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hostname]}]}},
        "local": {"path": "/data"},
    }
    return {"metadata": {"name": name}, "spec": spec}


def test_affinity_terms_select_namespaces_by_label() -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": "store"}},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    async def story(world: GangWorld) -> None:
        await world.client.create(NAMESPACES, {"metadata": {"name": "store"}})
        await world.group("db", 1, namespace="store")
        await world.pods("db", 1, namespace="store")
        await world.until_bound(db=1)
        await world.group("a", 2)
        await world.pods("a", 2, affinity=affinity)
        await world.until_waits("a", "NotEnoughResources", "node(s) didn't match pod affinity rules")
        await world.client.patch(NAMESPACES, Key("", "store"), {"metadata": {"labels": {"team": "store"}}})
        await world.until_bound(a=2)
        (database,) = await world.members("db", "store")
        assert await nodes_of(world, "a") == {database.node_name}

    run_gang_story(story, NodePool(3, cpu="4"), SETTINGS)


WITHOUT_EVICTION = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: predicates}, {name: nodeorder}]
"""
WITHIN_BUDGETS = """
actions: "enqueue, allocate, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}, {name: predicates}, {name: nodeorder}]
"""  # noqa: E501


def test_disruption_budgets_count_once_the_configuration_adds_their_plugin() -> None:
    """Without the budget, ``cheap`` of the lowest priority would lose a pod."""

    async def story(world: GangWorld) -> None:
        for name, value in (("cheap", 1), ("dear", 2), ("vip", 100)):
            await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        for name in ("cheap", "dear"):
            await world.group(name, 1, priorityClassName=name)
            await world.pods(name, 2)
            await world.until_bound(**{name: 2})
        for pod in await world.members("cheap"):
            labels = {"metadata": {"labels": {"protected": "yes"}}}
            await world.client.patch(PLACEABLE_PODS, pod.metadata.key, labels)
        spec = {"minAvailable": 2, "selector": {"matchLabels": {"protected": "yes"}}}
        budget = {"metadata": {"name": "cheap"}, "spec": spec}
        await world.client.create(POD_DISRUPTION_BUDGETS, budget, NAMESPACE)
        await world.group("vip", 1, priorityClassName="vip")
        await world.pods("vip", 1)
        await world.until_waits("vip", "NotEnoughResources")
        world.configured.update(settings(WITHIN_BUDGETS))
        await world.until_bound(vip=1)
        assert [len(await world.members(name)) for name in ("cheap", "dear")] == [2, 1]

    run_gang_story(story, NodePool(1, cpu="4"), settings(WITHOUT_EVICTION))
