"""Stories use one cluster after another, and meet nothing of the stories before."""

from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.kube.resources import (
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
    untyped,
)
from quorate.local.nodes import NodePool
from tests.e2e import shared_clusters, world

pytestmark = pytest.mark.slow

FLEET = NodePool(1, cpu="8")
CLUSTER_ROLES = untyped("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
SHIPPED = Key("", "system:discovery")


def test_a_story_meets_nothing_of_the_one_before_unless_that_failed() -> None:
    shared_clusters.end_all()
    servers: list[str] = []

    async def leaves_objects(story: world.World) -> None:
        servers.append(story.client.config.server)
        await story.queues("8")
        await story.job("a", runs="forever")
        await story.until_admitted("a")
        await story.client.patch(
            NAMESPACES, Key("", world.NAMESPACE), {"metadata": {"labels": {"left": "here"}}}
        )
        await story.client.delete(CLUSTER_ROLES, SHIPPED)

    async def is_new(story: world.World) -> None:
        servers.append(story.client.config.server)
        kinds: tuple[Resource[Any], ...] = (JOBS, PODS, WORKLOADS, RESOURCE_FLAVORS, NODES)
        for kind in kinds:
            assert not (await story.client.list(kind)).items, kind.plural
        assert "left" not in (await story.client.get(NAMESPACES, Key("", world.NAMESPACE))).metadata.labels
        assert (await story.client.get(CLUSTER_ROLES, SHIPPED))["rules"]

    async def fails(story: world.World) -> None:
        raise AssertionError("as expected")

    world.run_story(leaves_objects, Configuration(), FLEET)
    world.run_story(is_new)
    with pytest.raises(AssertionError, match="as expected"):
        world.run_story(fails)
    world.run_story(is_new)
    first, second, third = servers
    assert first == second != third
