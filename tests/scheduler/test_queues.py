"""``status.allocated`` of queues: only differences are written, and not after every session."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.volcano import PodGroup, Queue
from quorate.gang.cache.model import Model
from quorate.kube.client import Client
from quorate.kube.informer import Informer
from quorate.kube.patches import merged
from quorate.kube.resources import QUEUES
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.limits import STATUS_DELAY_S
from quorate.scheduler.queues import QueueStatusWriter
from tests.kube.fake_server import Answer, FakeServer, Request, Stream
from tests.kube.virtual_clock import VirtualClock, settle

pytestmark = pytest.mark.slow

Json = dict[str, Any]
WITHIN_S = 30.0
REQUESTS: Final = {"cpu": "1500m", "memory": "1Gi"}  # of the pod in each queue
HELD: Final = {**REQUESTS, "pods": "1"}


class Harness:
    """A running status writer and queues with one pod each."""

    def __init__(
        self, server: FakeServer, client: Client, writer: QueueStatusWriter, clock: VirtualClock
    ) -> None:
        self.writer = writer
        self._client = client
        self._clock = clock
        self._server = server

    async def pass_s(self, seconds: float) -> None:
        await settle()
        await self._clock.advance_to(self._clock.now() + seconds)

    async def round_trip(self) -> None:
        """Make one request, so that a write that was sent before is answered."""
        await self._client.list(QUEUES)

    async def written(self, count: int) -> dict[str, Json]:
        """Return the only ``count`` writes, by queue."""
        async with asyncio.timeout(WITHIN_S):
            while len(self._patches()) < count:  # noqa: ASYNC110  the server signals nothing
                await asyncio.sleep(0.001)
        patches = self._patches()
        assert len(patches) == count, patches
        return dict(patches)

    def _patches(self) -> list[tuple[str, Json]]:
        return [
            (request.path.removesuffix("/status").rpartition("/")[2], request.body)
            for request in self._server.requests
            if request.method == "PATCH"
        ]


def queue(name: str, allocated: Mapping[str, Any]) -> Json:
    return {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "status": {"allocated": allocated},
    }


def with_a_pod_in_each(queues: list[Json]) -> Model:
    model = Model(("quorate",))
    model.set_node(codec.convert(Node, {"metadata": {"name": "n1"}}))
    for each in queues:
        name = each["metadata"]["name"]
        metadata = {"name": name, "namespace": "team", "uid": f"of-{name}"}
        annotations = {"scheduling.k8s.io/group-name": name}
        container = {"name": "main", "resources": {"requests": REQUESTS}}
        spec = {"schedulerName": "quorate", "nodeName": "n1", "containers": [container]}
        pod = {
            "metadata": {**metadata, "annotations": annotations},
            "spec": spec,
            "status": {"phase": "Running"},
        }
        model.set_queue(codec.convert(Queue, each))
        model.set_group(codec.convert(PodGroup, {"metadata": metadata, "spec": {"queue": name}}))
        model.set_pod(codec.convert(Pod, pod))
    return model


def play(
    stored: Mapping[str, Mapping[str, Any]],
    story: Callable[[Harness], Awaitable[None]],
    *,
    keeps: bool = True,
) -> None:
    """``keeps``: whether the server stores the field."""
    queues = [queue(name, allocated) for name, allocated in stored.items()]

    def script(request: Request) -> Answer | Stream:
        if request.method == "PATCH":
            (before,) = (each for each in queues if each["metadata"]["name"] == request.path.split("/")[-2])
            return Answer(body=merged(before, request.body if keeps else {}))
        if "watch" in request.query:
            return Stream((), hold=asyncio.Event())
        return Answer(body={"metadata": {"resourceVersion": "1"}, "items": queues})

    async def run() -> None:
        async with FakeServer(script) as server, server.client() as client:
            informer, clock = Informer(client, QUEUES), VirtualClock()
            writer = QueueStatusWriter(client, clock, informer, with_a_pod_in_each(queues), BindGate())
            work = [asyncio.create_task(part) for part in (informer.run(), writer.run())]
            try:
                await informer.synced.wait()
                await story(Harness(server, client, writer, clock))
            finally:
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)

    asyncio.run(run())


def test_only_differences_are_written() -> None:
    async def story(harness: Harness) -> None:
        harness.writer.session_ended()
        await harness.pass_s(STATUS_DELAY_S)
        patches = await harness.written(3)
        assert {name: patch["status"]["allocated"] for name, patch in patches.items()} == {
            "new": HELD,
            "grown": {"cpu": "1500m"},
            "shrunk": {"nvidia.com/gpu": None},
        }
        assert all(patch.keys() == {"status"} for patch in patches.values()), (
            "the controllers write the counts"
        )

    stored: dict[str, Json] = {
        "new": {},
        "unchanged": HELD,
        "other notation": {"cpu": "1.5", "memory": 1 << 30, "pods": 1},
        "grown": HELD | {"cpu": "1"},
        "shrunk": HELD | {"nvidia.com/gpu": "2"},
    }
    play(stored, story)


def test_one_delayed_write_covers_several_sessions() -> None:
    async def story(harness: Harness) -> None:
        for _ in range(5):
            harness.writer.session_ended()
            await harness.pass_s(STATUS_DELAY_S / 10)
        assert await harness.written(0) == {}
        await harness.pass_s(STATUS_DELAY_S / 2)
        assert await harness.written(1) == {"a": {"status": {"allocated": HELD}}}

    play({"a": {}}, story)


def test_an_overwritten_amount_is_corrected_without_a_session() -> None:
    async def story(harness: Harness) -> None:
        await harness.pass_s(STATUS_DELAY_S)
        assert await harness.written(1) == {"a": {"status": {"allocated": {"cpu": "1500m"}}}}

    play({"a": HELD | {"cpu": "64"}}, story)


def test_a_field_that_the_server_drops_is_not_written_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story(harness: Harness) -> None:
        harness.writer.session_ended()
        await harness.pass_s(STATUS_DELAY_S)
        await harness.written(1)
        async with asyncio.timeout(WITHIN_S):
            while "no field status.allocated" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        for _ in range(3):
            harness.writer.session_ended()
            await harness.pass_s(STATUS_DELAY_S)
        await harness.round_trip()
        assert len(await harness.written(1)) == 1

    caplog.set_level(logging.INFO)
    play({"a": {}}, story, keeps=False)
