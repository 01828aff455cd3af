"""Adoption of orphaned pods by selectors, and release of pods that a selector no longer selects."""

import asyncio
from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.kube.client import PatchKind
from quorate.kube.resources import Json, Resource, untyped
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import PODS, LocalCluster, local_cluster

REPLICA_SETS = untyped("apps", "v1", "replicasets", "ReplicaSet", True)
CONTAINERS = [{"name": "c", "image": "i"}]
# An adopted pod is of no revision: a rolling update would replace it.
ON_DELETE: Json = {"updateStrategy": {"type": "OnDelete"}}
SELECTOR = {"matchLabels": {"app": "web"}}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": CONTAINERS}}
KINDS: dict[str, tuple[Resource[Any], Json, Json]] = {
    "replicasets": (untyped("apps", "v1", "replicasets", "ReplicaSet", True), {"replicas": 1}, SELECTOR),
    "replicationcontrollers": (
        untyped("", "v1", "replicationcontrollers", "ReplicationController", True),
        {"replicas": 1},
        {"app": "web"},
    ),
    "daemonsets": (untyped("apps", "v1", "daemonsets", "DaemonSet", True), ON_DELETE, SELECTOR),
    "statefulsets": (
        untyped("apps", "v1", "statefulsets", "StatefulSet", True),
        {"replicas": 1, "serviceName": "web", **ON_DELETE},
        SELECTOR,
    ),
    "jobs": (untyped("batch", "v1", "jobs", "Job", True), {"manualSelector": True}, SELECTOR),
}


async def owner_of(cluster: LocalCluster, pod: str) -> Json:
    found = await cluster.client.get(PODS, Key("default", pod))
    (owner,) = found["metadata"].get("ownerReferences") or [{}]
    return dict(owner)


async def story(cluster: LocalCluster, kind: Resource[Any], spec: Json) -> None:
    for name, app in (("web-0", "web"), ("other", "other")):
        pod = {"containers": CONTAINERS, "nodeName": "node-1"}
        body = {"metadata": {"name": name, "labels": {"app": app}}, "spec": pod}
        await cluster.client.create(PODS, body, "default")
    restart = {"restartPolicy": "Never"} if kind.kind == "Job" else {}
    template = {**TEMPLATE, "spec": {"containers": CONTAINERS, **restart}}
    owner = {"metadata": {"name": "web"}, "spec": {**spec, "template": template}}
    await cluster.client.create(kind, owner, "default")

    async def is_adopted() -> bool:
        owner = await owner_of(cluster, "web-0")
        return (owner.get("kind"), owner.get("name"), owner.get("controller")) == (kind.kind, "web", True)

    await cluster.until("the orphan has an owner", is_adopted)

    async def is_identified() -> bool:
        labels = (await cluster.client.get(PODS, Key("default", "web-0")))["metadata"]["labels"]
        return bool(labels.get("apps.kubernetes.io/pod-index") == "0")

    if kind.kind == "StatefulSet":
        await cluster.until("the pod has the labels of its ordinal", is_identified)
    assert await owner_of(cluster, "other") == {}
    change = {"metadata": {"labels": {"app": "quarantine"}}}
    await cluster.client.patch(PODS, Key("default", "web-0"), change, kind=PatchKind.STRATEGIC)

    async def is_released() -> bool:
        return await owner_of(cluster, "web-0") == {}

    await cluster.until("a pod that is no longer selected has no owner", is_released)


@pytest.mark.slow
@pytest.mark.parametrize("plural", KINDS)
def test_orphans_are_adopted_and_pods_that_leave_are_released(plural: str) -> None:
    kind, spec, selector = KINDS[plural]

    async def run() -> None:
        async with local_cluster(NodePool(1), speed=50.0) as cluster:
            await story(cluster, kind, {**spec, "selector": selector})

    asyncio.run(run())


@pytest.mark.slow
def test_a_deployment_adopts_the_replica_sets_that_it_selects() -> None:
    deployments = untyped("apps", "v1", "deployments", "Deployment", True)
    spec = {"replicas": 1, "selector": SELECTOR, "template": TEMPLATE}

    async def run() -> None:
        async with local_cluster() as cluster:
            labels = {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": spec}
            await cluster.client.create(REPLICA_SETS, labels, "default")
            await cluster.client.create(deployments, {"metadata": {"name": "web"}, "spec": spec}, "default")

            async def is_adopted() -> bool:
                (only,) = (await cluster.client.list(REPLICA_SETS, "default")).items
                return [each["kind"] for each in only["metadata"].get("ownerReferences", ())] == [
                    "Deployment"
                ]

            await cluster.until("the ReplicaSet of the same template is adopted", is_adopted)

    asyncio.run(run())
