"""The plain scheduler over HTTP, on one node."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quorate.api import codec, meta
from quorate.api.core import Pod
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import WallClock
from quorate.kube.informer import Informer
from quorate.kube.resources import NODES, PODS
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.controllers.scheduler import IgnoredGroups, Scheduler
from quorate.local.nodes import NodePool
from quorate.local.nodes.fleet import register
from quorate.local.server.storage.store import Key, Store
from tests.local.clusters import api_server

pytestmark = pytest.mark.slow


def a_pod(name: str) -> dict[str, Any]:
    requests = {"memory": "1Gi"}
    containers = [{"name": "main", "image": "main", "resources": {"requests": requests}}]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": containers}}


async def scheduled_pods(
    manifests: list[dict[str, Any]],
    capacity: int,
    path: Path | str = ":memory:",
    resized: str = "",
) -> set[str]:
    """Return the scheduled pods on a node with capacity for ``capacity`` of them.

    ``resized``: a pod that has the node already, and then requests all of its memory.
    """
    async with (
        api_server(path) as server,
        Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
    ):
        await register(client, WallClock(), NodePool(1, memory=f"{capacity}Gi"), "node-1", "10.0.0.1")
        pods, nodes = Informer(client, PODS), Informer(client, NODES)
        scheduler = Scheduler(client, WallClock(), random.Random(1), pods, nodes)
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(pods.run()), tasks.create_task(nodes.run())]
            await pods.synced.wait()
            for manifest in manifests:
                await client.create(PODS, manifest)
            created = {manifest["metadata"]["name"] for manifest in manifests}
            await _until(pods, lambda: created <= {pod.metadata.name for pod in pods})
            if resized:
                resources = {"requests": {"memory": f"{capacity}Gi"}}
                patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
                key = meta.Key("default", resized)
                version = (
                    await client.patch(PODS, key, patch, subresource="resize", kind=PatchKind.STRATEGIC)
                ).metadata.resource_version
                await _until(pods, lambda: version in {pod.metadata.resource_version for pod in pods})
            running.append(tasks.create_task(scheduler.run()))  # finds all pods pending
            await _until(
                pods, lambda: all(_is_evaluated(pod) for pod in pods if pod.metadata.name in created)
            )
            for task in running:
                task.cancel()
        return {pod.metadata.name for pod in pods if pod.spec.node_name}


async def _until(pods: Informer[Pod], condition: Callable[[], bool]) -> None:
    changed = asyncio.Event()
    pods.subscribe(lambda _: changed.set())
    while not condition():
        changed.clear()
        await changed.wait()


def _is_evaluated(pod: Pod) -> bool:
    has_condition = any(condition.type == "PodScheduled" for condition in pod.status.conditions)
    return has_condition or bool(pod.spec.node_name)


def test_an_ignored_group_is_named_on_one_pod_at_a_time() -> None:
    def member(name: str, group: str = "g") -> Pod:
        spec = {"schedulingGroup": {"podGroupName": group}}
        return codec.convert(
            Pod, {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}
        )

    groups = IgnoredGroups()
    assert groups.first_seen(member("a"))
    assert not groups.first_seen(member("b"))
    assert groups.first_seen(member("c", "h"))
    groups.forget(member("b"))
    assert not groups.first_seen(member("d"))
    groups.forget(member("a"))
    assert groups.first_seen(member("d"))
    assert groups.first_seen(member("e", "")) is None


def test_pods_are_scheduled_in_order_of_creation() -> None:
    manifests = [a_pod("late-name"), a_pod("early-name"), a_pod("another")]
    assert asyncio.run(scheduled_pods(manifests, capacity=2)) == {"late-name", "early-name"}


def test_a_pod_that_is_resized_takes_more_of_its_node() -> None:
    bound = a_pod("bound")
    bound["spec"]["nodeName"] = "node-1"
    assert asyncio.run(scheduled_pods([bound, a_pod("new")], capacity=2)) == {"bound", "new"}
    assert asyncio.run(scheduled_pods([bound, a_pod("new")], capacity=2, resized="bound")) == {"bound"}


def test_a_pod_that_cannot_be_bound_holds_up_no_other(tmp_path: Path) -> None:
    """The server refuses the binding of older pods, as a webhook may: they are tried again beside others."""
    path = tmp_path / "cluster.db"

    async def store_unusable_pods() -> None:
        store = Store(path)
        await store.start()
        for number in range(3):
            name = f"bad-{number}"
            metadata = {"name": name, "namespace": "default", "uid": name}
            metadata["creationTimestamp"] = "2024-01-01T00:00:00Z"
            await store.create(Key("pods", "default", name), {"metadata": metadata})  # without spec
        await store.stop()

    async def scenario() -> set[str]:
        await store_unusable_pods()
        return await scheduled_pods([a_pod("good"), a_pod("another")], 2, path)

    assert asyncio.run(scenario()) >= {"good", "another"}
