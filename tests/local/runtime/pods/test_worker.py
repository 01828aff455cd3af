"""The worker of a pod with a container that an earlier kubelet started, in virtual time."""

import asyncio
import random
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.resources import reference, untyped
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.controllers.controller import CORE_EVENTS, EventRecorder
from quorate.local.runtime.containers.cgroups import Cgroups
from quorate.local.runtime.containers.files import RECORD, ContainerRecord, PodFiles
from quorate.local.runtime.containers.sandbox import Tools
from quorate.local.runtime.network.setup import HostNetwork
from quorate.local.runtime.node import DevicePool, NodeServices
from quorate.local.runtime.objects import ApiObjects
from quorate.local.runtime.pod_types import PODS, Pod
from quorate.local.runtime.pods.worker import PodWorker
from tests.kube.virtual_clock import VirtualClock
from tests.local.clusters import api_server

DEADLINE_S = 20.0
NODE = "this-machine"
SERVICE_ACCOUNTS = untyped("", "v1", "serviceaccounts", "ServiceAccount", True)
TOKEN_LIFETIME_S = 600
TOKEN_SOURCE = {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_LIFETIME_S}}
MANIFEST: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {
        "nodeName": NODE,
        "automountServiceAccountToken": False,
        "containers": [{"name": "main", "image": "host", "command": ["sleep", "1000"]}],
        "volumes": [{"name": "token", "projected": {"sources": [TOKEN_SOURCE]}}],
    },
}


class World:
    def __init__(self, services: NodeServices, clock: VirtualClock, worker: PodWorker, attempt: int) -> None:
        self.services = services
        self.client = services.client
        self.clock = clock
        self.worker = worker
        self.process = subprocess.Popen(["sleep", "1000"])  # the outermost process of the container
        self.attempt = worker.files.attempt("main", attempt)

    def token(self) -> str:
        path = self.worker.files.volumes / "token/token"
        return path.read_text() if path.exists() else ""

    async def pod(self) -> Pod:
        return await self.client.get(PODS, Key("default", "p"))

    async def event_reasons(self) -> set[str]:
        return {event["reason"] for event in (await self.client.list(CORE_EVENTS, "default")).items}

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                if await holds():
                    return
                await asyncio.sleep(0)


def run_story(
    state: Path,
    story: Callable[[World], Awaitable[None]],
    *,
    restart_policy: str = "Never",
    record: ContainerRecord = ContainerRecord(),  # noqa: B008
) -> None:
    """Run a story with the worker of a pod with a container that an earlier kubelet started."""

    async def run() -> None:
        clock, rng = VirtualClock(1_800_000_000.0), random.Random(1)
        async with api_server() as server, _client(server.url, server.token) as client:
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "default"}}, "default")
            spec = {**MANIFEST["spec"], "restartPolicy": restart_policy}
            await client.create(PODS, {**MANIFEST, "spec": spec}, "default")
            pod = await client.get(PODS, Key("default", "p"))
            started = replace(record, started_at=clock.now())
            PodFiles(state, pod.metadata.uid).save("main", started)
            services = _services(state, client, clock, rng)
            worker = PodWorker(services, pod)
            world = World(services, clock, worker, started.attempt)
            working = asyncio.create_task(worker.run({("main", started.attempt): world.process.pid}))
            try:
                await story(world)
            finally:
                world.process.kill()
                world.process.wait()
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)

    asyncio.run(run())


def _client(url: str, token: str) -> Client:
    return Client(RestConfig(url, credentials=Token(token)), random.Random(1), field_manager="kubelet")


def _services(state: Path, client: Client, clock: VirtualClock, rng: random.Random) -> NodeServices:
    return NodeServices(
        name=NODE,
        client=client,
        clock=clock,
        rng=rng,
        state=state,
        network=HostNetwork(state / "network", "a test"),
        tools=Tools("bwrap", own_proc=False),
        images={},
        objects=ApiObjects(client, clock, b"authority"),
        recorder=EventRecorder(client, clock, rng, "kubelet"),
        allocatable={},
        home="/",
        cgroups=Cgroups(None, {}),
        devices=DevicePool(0),
        is_root=False,
    )


def test_the_token_of_a_running_pod_is_replaced_before_it_expires(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        async def has_token() -> bool:
            return bool(world.token())

        await world.until(has_token)
        first = world.token()
        world.clock.pass_time(0.9 * TOKEN_LIFETIME_S)
        world.worker.wake()

        async def has_another() -> bool:
            return world.token() != first

        await world.until(has_another)

    run_story(tmp_path, story)


def test_a_pod_that_is_taken_over_keeps_its_network(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        async def is_reported() -> bool:
            return bool((await world.pod()).status.pod_ip)

        await world.until(is_reported)
        conditions = {c.type: c.status for c in (await world.pod()).status.conditions}
        assert conditions["PodReadyToStartContainers"] == "True"
        assert conditions["Ready"] == "True"

    run_story(tmp_path, story)


def test_the_end_of_a_container_is_reported_although_its_record_cannot_be_written(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        async def is_running() -> bool:
            return (await world.pod()).status.phase == "Running"

        async def has_succeeded() -> bool:
            return (await world.pod()).status.phase == "Succeeded"

        await world.until(is_running)
        (world.attempt.directory / f".{RECORD}").mkdir()  # as a full disk, it cannot be written
        world.attempt.status_file.write_text('{"exit-code": 0}\n')
        world.process.kill()
        await world.until(has_succeeded)

    run_story(tmp_path, story)


def test_a_worker_has_settled_once_the_shutdown_of_its_node_is_in_the_status(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        world.services.is_stopping, world.services.stop_grace_s = True, 0.0
        world.worker.wake()

        async def has_settled() -> bool:
            return world.worker.is_settled

        await world.until(has_settled)
        status = (await world.pod()).status
        assert (status.phase, status.reason) == ("Failed", "Terminated")

    run_story(tmp_path, story)


def test_a_container_that_has_succeeded_after_a_restart_does_not_back_off(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        recording = asyncio.create_task(world.services.recorder.run())

        async def has_succeeded() -> bool:
            return (await world.pod()).status.phase == "Succeeded"

        async def is_recorded() -> bool:
            return "Last" in await world.event_reasons()

        world.attempt.status_file.write_text('{"exit-code": 0}\n')
        world.process.kill()
        await world.until(has_succeeded)
        regarding = reference(PODS, Key("default", "p"), (await world.pod()).metadata.uid)
        world.services.recorder.event(regarding, "Normal", "Last", "after all others")
        await world.until(is_recorded)
        recording.cancel()
        assert await world.event_reasons() == {"Last"}

    record = ContainerRecord(attempt=1, backoff_s=10.0)
    run_story(tmp_path, story, restart_policy="OnFailure", record=record)
