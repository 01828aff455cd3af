"""The controllers follow nodes, and pods without places, once a flavor has a topology."""

import pytest

from quorate.api.configuration import default_configuration
from quorate.api.meta import Key, find_condition
from quorate.kube.errors import Invalid
from quorate.kube.resources import CLUSTER_QUEUES, NODES, PODS, RESOURCE_FLAVORS, TOPOLOGIES
from tests.e2e.topologies import HOST, LEVELS, RACK, create_host, create_job_in, create_topology, places_of
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

HALL = "example.com/hall"


async def until_active(world: World, queue: str, status: str, reason: str) -> None:
    async def found() -> bool:
        stored = await world.client.get(CLUSTER_QUEUES, Key("", queue))
        active = find_condition(stored.status.conditions, "Active")
        return active is not None and (active.status, active.reason) == (status, reason)

    await world.until(f"{queue} is Active={status} {reason}", found)


def test_levels_and_node_labels_change_and_what_waits_is_tried_again() -> None:
    async def story(world: World) -> None:
        async def set_levels(*levels: str) -> None:
            body = {"spec": {"levels": [{"nodeLabel": level} for level in levels]}}
            await world.client.patch(TOPOLOGIES, Key("", "tree"), body)

        await create_host(world, "x1", "r1", cpu="4", labels={HALL: "h"})
        await create_host(world, "x2", "r2", cpu="4", labels={HALL: "h", "pool": "late"})
        await create_topology(world, cpu="100")
        await create_job_in(world, "wide", HALL, pods=2)
        await world.until_condition("wide", "QuotaReserved", "False", "NoMatchingFlavor")
        with pytest.raises(Invalid, match="can change only if"):
            await set_levels(HALL)
        await set_levels(HALL, HOST)
        await world.until_condition("wide", "QuotaReserved", "True")
        assert await places_of(world, "wide") == {"x1": 2}

        await create_job_in(world, "large", HOST, pods=4)
        await world.until_condition("large", "QuotaReserved", "False", "WaitingForQuota")
        labels = {"spec": {"nodeLabels": {"pool": "late"}}}
        await world.client.patch(RESOURCE_FLAVORS, Key("", "tas"), labels)
        await world.until_condition("large", "QuotaReserved", "True")
        assert await places_of(world, "large") == {"x2": 4}
        assert await places_of(world, "wide") == {"x1": 2}

    run_story(story, default_configuration())


def test_room_that_nodes_and_other_pods_give_is_assigned() -> None:
    async def story(world: World) -> None:
        for name, rack in (("x1", "r1"), ("x2", "r1"), ("x3", "r2")):
            await create_host(world, name, rack, cpu="4")
        container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "3"}}}
        spec = {"nodeName": "x3", "containers": [container]}
        await world.client.create(PODS, {"metadata": {"name": "web"}, "spec": spec}, NAMESPACE)
        await create_topology(world, cpu="100")
        await world.flavor("later", nodeLabels={"pool": "later"}, topologyName="later")
        await world.cluster_queue("1", "waiting", flavor="later")
        await until_active(world, "waiting", "False", "TopologyNotFound")
        await create_job_in(world, "large", RACK, pods=6)
        await world.until_condition("large", "QuotaReserved", "True")
        assert await places_of(world, "large") == {"x1": 4, "x2": 2}

        await create_job_in(world, "small", RACK, pods=3)
        waiting = await world.until_condition("small", "QuotaReserved", "False", "WaitingForQuota")
        (condition,) = (each for each in waiting.status.conditions if each.type == "QuotaReserved")
        assert 'topology "tree" allows to fit only 2 out of 3 pod(s)' in condition.message
        ended = {"status": {"phase": "Succeeded"}}
        await world.client.patch(PODS, Key(NAMESPACE, "web"), ended, subresource="status")
        await world.until_condition("small", "QuotaReserved", "True")
        assert await places_of(world, "small") == {"x3": 3}

        await create_job_in(world, "host", HOST, pods=4)
        await world.until_condition("host", "QuotaReserved", "False", "WaitingForQuota")
        await create_host(world, "x4", "r2", cpu="4")
        await world.until_condition("host", "QuotaReserved", "True")
        assert await places_of(world, "host") == {"x4": 4}

        await create_job_in(world, "late", RACK, pods=2)
        await world.until_condition("late", "QuotaReserved", "True")
        assert await places_of(world, "late") == {"x2": 2}
        await world.client.patch(NODES, Key("", "x2"), {"spec": {"unschedulable": True}})
        await create_job_in(world, "last", HOST, pods=1)
        await world.until_condition("last", "QuotaReserved", "True")
        assert await places_of(world, "last") == {"x3": 1}

        # Nothing has changed the queue since its status was written.
        await world.create(TOPOLOGIES, "later", spec=LEVELS)
        await until_active(world, "waiting", "True", "Ready")

        topology = await world.client.get(TOPOLOGIES, Key("", "tree"))
        assert topology.metadata.finalizers == ("kueue.x-k8s.io/resource-in-use",)

    run_story(story, default_configuration())
