"""Stories about gangs that ask more of their nodes than room, over HTTP."""

from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from quorate.local.nodes import Fleet
from tests.e2e.gangs import GangWorld, play_gangs, settings
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


async def nodes_of(world: GangWorld, group: str) -> set[str]:
    return {pod.spec.node_name for pod in await world.members(group)}


def test_a_gang_waits_for_its_claim_and_goes_where_the_volume_is() -> None:
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

    play_gangs(story, Fleet(3, cpu="4"), SETTINGS)


def test_terms_look_into_namespaces_by_their_labels() -> None:
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
        assert await nodes_of(world, "a") == {database.spec.node_name}

    play_gangs(story, Fleet(3, cpu="4"), SETTINGS)
