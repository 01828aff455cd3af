"""Ephemeral containers and in-place resizes on simulated nodes."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from quorate.api.meta import Key
from quorate.kube.client import PatchKind
from quorate.kube.resources import Json
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import PODS, LocalCluster, local_cluster

pytestmark = pytest.mark.slow
KEY = Key("default", "web")


def live(story: Callable[[LocalCluster], Awaitable[None]]) -> None:
    async def run() -> None:
        async with local_cluster(NodePool(1, cpu="4"), speed=50.0) as cluster:
            await start(cluster, "web", "500m")
            await story(cluster)

    asyncio.run(run())


async def start(cluster: LocalCluster, name: str, cpu: str) -> None:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    await cluster.client.create(
        PODS, {"metadata": {"name": name}, "spec": {"containers": [container]}}, "default"
    )

    async def runs() -> bool:
        pod = await cluster.client.get(PODS, Key("default", name))
        return bool(pod["status"]["phase"] == "Running")

    await cluster.until(f"{name} runs", runs)


async def change(cluster: LocalCluster, subresource: str, spec: Json) -> None:
    await cluster.client.patch(PODS, KEY, {"spec": spec}, subresource=subresource, kind=PatchKind.STRATEGIC)


async def resize(cluster: LocalCluster, cpu: str) -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    await change(cluster, "resize", {"containers": [container]})


async def until_status(cluster: LocalCluster, what: str, find: Callable[[Json], object]) -> Json:
    async def match() -> Json | None:
        status: Json = (await cluster.client.get(PODS, KEY))["status"]
        return status if find(status) else None

    return await cluster.until(what, match)


def pending_reason(status: Json) -> str:
    found = [each["reason"] for each in status["conditions"] if each["type"] == "PodResizePending"]
    return found[0] if found else ""


def test_an_ephemeral_container_runs_until_the_pod_ends() -> None:
    async def story(cluster: LocalCluster) -> None:
        debugger = {"name": "debugger", "image": "busybox", "targetContainerName": "main"}
        await change(cluster, "ephemeralcontainers", {"ephemeralContainers": [debugger]})
        status = await until_status(
            cluster, "the debugger runs", lambda status: status.get("ephemeralContainerStatuses")
        )
        (found,) = status["ephemeralContainerStatuses"]
        assert (found["name"], list(found["state"])) == ("debugger", ["running"])
        assert status["phase"] == "Running"

    live(story)


def test_a_resize_is_applied_and_reported() -> None:
    async def story(cluster: LocalCluster) -> None:
        await resize(cluster, "2")
        status = await until_status(
            cluster, "the resize is reported", lambda status: status["containerStatuses"][0].get("resources")
        )
        (container,) = status["containerStatuses"]
        assert container["resources"] == {"requests": {"cpu": "2"}}
        assert container["allocatedResources"] == {"cpu": "2"}
        assert pending_reason(status) == ""

    live(story)


def test_a_resize_beyond_the_node_is_infeasible_and_one_beyond_its_room_is_deferred() -> None:
    async def story(cluster: LocalCluster) -> None:
        await start(cluster, "neighbor", "3")
        await resize(cluster, "5")
        await until_status(cluster, "infeasible", lambda status: pending_reason(status) == "Infeasible")
        await resize(cluster, "2")
        status = await until_status(cluster, "deferred", lambda status: pending_reason(status) == "Deferred")
        assert "resources" not in status["containerStatuses"][0]
        await resize(cluster, "1")
        status = await until_status(cluster, "applied", lambda status: not pending_reason(status))
        assert status["containerStatuses"][0]["allocatedResources"] == {"cpu": "1"}

    live(story)
