"""Pod groups and queues of kube-batch's API versions, placed with ``--legacy-apis``."""

import asyncio
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.install import scheduler
from quorate.kube.errors import NotFound
from quorate.kube.resources import LEGACY_POD_GROUPS, LEGACY_QUEUES, POD_GROUPS, QUEUES, Resource
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import install_definitions
from quorate.scheduler.scheduler import Options
from tests.e2e.gangs import GangWorld, running_gang_cluster, settings
from tests.e2e.minimal_definitions import UNAPPROVED
from tests.e2e.service_accounts import as_account
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow

WITHOUT_SHARES = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}]
"""
SYSTEM = scheduler.NAMESPACE
INCUBATOR_GROUPS, SIGS_GROUPS = LEGACY_POD_GROUPS
_, SIGS_QUEUES = LEGACY_QUEUES


def definition(resource: Resource[Any]) -> dict[str, Any]:
    """Return the CRDs of older API versions, which have no schema."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": resource.plural, "kind": resource.kind}
    version = {"name": resource.version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}", "annotations": UNAPPROVED},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": anything}}],
        },
    }


def test_a_gang_of_an_older_version_is_placed_and_is_deleted_with_its_object() -> None:
    async def story() -> None:
        roles = [*scheduler.roles(SYSTEM), *scheduler.legacy_roles(SYSTEM)]
        async with (
            running_gang_cluster(NodePool(1, cpu="4")) as world,
            as_account(world.client, scheduler.ACCOUNT, SYSTEM, roles) as client,
        ):
            world.scheduler_client = client
            # Queues of v1alpha1 are not served: few clusters have both versions.
            served: tuple[Resource[Any], ...] = (INCUBATOR_GROUPS, SIGS_GROUPS, SIGS_QUEUES)
            await install_definitions(world.client, map(definition, served))
            await world.client.create(SIGS_QUEUES, {"metadata": {"name": "batch"}, "spec": {"weight": 3}})
            for resource, name in ((INCUBATOR_GROUPS, "old"), (SIGS_GROUPS, "older")):
                spec = {"minMember": 2, "queue": "batch", "minResources": {"cpu": "2"}, "unknown": 1}
                await world.client.create(resource, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)
            await world.group("newer", 1)
            await world.client.create(
                SIGS_GROUPS, {"metadata": {"name": "newer"}, "spec": {"minMember": 7}}, NAMESPACE
            )
            await world.start_scheduler(settings(WITHOUT_SHARES), Options(legacy_apis=True))

            for name in ("old", "older"):
                await world.until(f"group {name}", there(world, name))
                await world.until_phase(name, "Inqueue")
                await world.pods(name, 2)
            await world.until_bound(old=2, older=2)
            assert (await world.client.get(QUEUES, Key("", "batch"))).spec.weight == 3

            more = {"spec": {"minMember": 1}}
            await world.client.patch(SIGS_GROUPS, Key(NAMESPACE, "older"), more)
            await world.until("the change is copied", has_min_member(world, "older", 1))
            assert (await world.get_group("newer")).spec.min_member == 1, "the newer version takes precedence"

            await world.client.delete(INCUBATOR_GROUPS, Key(NAMESPACE, "old"), propagation="Background")
            await world.until("its group is deleted", is_deleted(world, "old"))
            assert client.forbidden == []

    asyncio.run(story())


def there(world: GangWorld, name: str) -> Any:
    async def find() -> bool:
        return name in {each.metadata.name for each in (await world.client.list(POD_GROUPS)).items}

    return find


def has_min_member(world: GangWorld, name: str, members: int) -> Any:
    async def find() -> bool:
        return (await world.get_group(name)).spec.min_member == members

    return find


def is_deleted(world: GangWorld, name: str) -> Any:
    async def find() -> bool:
        try:
            await world.get_group(name)
        except NotFound:
            return True
        return False

    return find
