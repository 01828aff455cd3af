"""Deletion of pods that no kubelet deletes."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.informer import Informer
from quorate.kube.resources import NODES, PODS, Json, untyped
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.controllers.controller import ControllerContext
from quorate.local.controllers.pod_deletion import (
    QUARANTINE_S,
    PodGarbageCollector,
    oldest_finished,
)
from tests.kube.virtual_clock import VirtualClock
from tests.local.clusters import api_server

PODS_JSON = untyped("", "v1", "pods", "Pod", True)


def a_pod(name: str, node: str = "", **spec: Any) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}], **({"nodeName": node} if node else {}), **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def live(story: Callable[[Client, VirtualClock], Awaitable[None]]) -> None:
    """Run a story with the collector and no kubelet; ``node-1`` exists."""

    async def run() -> None:
        clock = VirtualClock()
        async with (
            api_server() as server,
            Client(RestConfig(server.url, credentials=Token(server.token)), random.Random(1)) as client,
        ):
            await client.create(NODES, {"metadata": {"name": "node-1"}})
            pods, nodes = Informer(client, PODS), Informer(client, NODES)
            context = ControllerContext(client, clock, random.Random(2))
            collector = PodGarbageCollector(context, pods, nodes)
            async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(part.run()) for part in (pods, nodes, collector)]
                await pods.synced.wait()
                await story(client, clock)
                for task in running:
                    task.cancel()

    asyncio.run(run())


async def until(find: Callable[[], Awaitable[Json | None]]) -> Json:
    """Return the first result; ``live`` has the deadline."""
    while True:
        found = await find()
        if found is not None:
            return found
        await asyncio.sleep(0.01)


async def until_pods_are(client: Client, *names: str) -> None:
    async def match() -> Json | None:
        pods = (await client.list(PODS_JSON, "default")).items
        return {} if [pod["metadata"]["name"] for pod in pods] == list(names) else None

    await until(match)


@pytest.mark.slow
def test_pods_of_a_removed_node_are_deleted_after_the_quarantine() -> None:
    async def story(client: Client, clock: VirtualClock) -> None:
        for name, node in (("kept", "node-1"), ("lost", "node-2"), ("pending", "")):
            await client.create(PODS_JSON, a_pod(name, node))
        await clock.slept.wait()
        await clock.advance_to(clock.now() + QUARANTINE_S - 1)
        await until_pods_are(client, "kept", "lost", "pending")
        await clock.advance_to(clock.now() + 2)
        await until_pods_are(client, "kept", "pending")

    live(story)


@pytest.mark.slow
def test_the_quarantine_ends_when_the_node_appears() -> None:
    async def story(client: Client, clock: VirtualClock) -> None:
        await client.create(PODS_JSON, a_pod("early", "node-2"))
        await clock.slept.wait()
        await client.create(NODES, {"metadata": {"name": "node-2"}})
        await clock.advance_to(clock.now() + 2 * QUARANTINE_S)
        await until_pods_are(client, "early")

    live(story)


@pytest.mark.slow
def test_a_lost_pod_is_disrupted_before_it_is_deleted() -> None:
    async def story(client: Client, clock: VirtualClock) -> None:
        body = a_pod("lost", "node-2")
        body["metadata"]["finalizers"] = ["example.com/keep"]
        await client.create(PODS_JSON, body)
        await clock.slept.wait()
        await clock.advance_to(clock.now() + QUARANTINE_S + 1)

        async def terminating() -> Json | None:
            pod: Json = await client.get(PODS_JSON, Key("default", "lost"))
            return pod if "deletionTimestamp" in pod["metadata"] else None

        pod = await until(terminating)
        (condition,) = [each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"]
        assert pod["status"]["phase"] == "Failed"
        assert (condition["reason"], condition["message"]) == (
            "DeletionByPodGC",
            "PodGC: node no longer exists",
        )

    live(story)


@pytest.mark.slow
def test_a_pod_that_terminates_before_it_is_bound_has_failed() -> None:
    async def story(client: Client, clock: VirtualClock) -> None:
        body = a_pod("unbound", "")
        body["metadata"]["finalizers"] = ["example.com/keep"]
        await client.create(PODS_JSON, body)
        await client.delete(PODS, Key("default", "unbound"))

        async def failed() -> Json | None:
            status: Json = (await client.get(PODS_JSON, Key("default", "unbound")))["status"]
            return status if status["phase"] == "Failed" else None

        assert "conditions" not in await until(failed), "nothing disrupts it"

    live(story)


@pytest.mark.slow
def test_terminating_pods_of_a_node_out_of_service_are_deleted() -> None:
    async def story(client: Client, clock: VirtualClock) -> None:
        for name in ("running", "stuck"):
            await client.create(PODS_JSON, a_pod(name, "node-1"))
        await client.delete(PODS, Key("default", "stuck"))
        taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
        await client.patch(NODES, Key("", "node-1"), {"spec": {"taints": [taint]}})
        await until_pods_are(client, "running")

    live(story)


def test_the_oldest_finished_pods_beyond_the_threshold() -> None:
    pods = [
        codec.convert(
            Pod,
            {
                "metadata": {"name": f"p{day}", "creationTimestamp": f"2026-01-0{day}T00:00:00Z"},
                "status": {"phase": phase},
            },
        )
        for day, phase in ((3, "Failed"), (1, "Succeeded"), (2, "Succeeded"), (4, "Running"))
    ]
    assert [pod.metadata.name for pod in oldest_finished(pods, 1)] == ["p1", "p2"]
    assert oldest_finished(pods, 3) == []
