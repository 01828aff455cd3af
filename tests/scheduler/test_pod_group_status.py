"""When the status of a pod group is written: at once what operators act on, the rest when binds let it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api.meta import Key, Uid
from quorate.gang.model import Model
from quorate.gang.outcome import Counts, GangStatus
from quorate.kube.informer import Informer
from quorate.kube.resources import POD_GROUPS
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.pod_group_status import ADMISSION_WRITE_DELAY_S, WRITE_DELAY_S, PodGroupStatusWriter
from tests.kube.fake_server import Answer, FakeServer, Request, Stream
from tests.kube.virtual_clock import VirtualClock, settle

WITHIN_S = 30.0
BOUND, WAITING = Key("research", "bound"), Key("research", "waiting")


class Desk:
    """A writer of statuses at work, over two groups that are Pending."""

    def __init__(
        self, server: FakeServer, writer: PodGroupStatusWriter, clock: VirtualClock, binds: BindGate
    ) -> None:
        self.binds = binds
        self._clock = clock
        self._writer = writer
        self._server = server

    def decide(self, group: Key, phase: str, *, being_bound: bool = False) -> None:
        self._writer.write([status(group, phase)], {group} if being_bound else ())

    async def pass_s(self, seconds: float) -> None:
        await settle()
        await self._clock.advance_to(self._clock.now() + seconds)

    async def written(self, count: int) -> list[str]:
        """What the first so many writes said, in their order."""
        async with asyncio.timeout(WITHIN_S):
            while len(self._patches()) < count:  # noqa: ASYNC110  the server at the other end has no event
                await asyncio.sleep(0.001)
        return self._patches()

    def _patches(self) -> list[str]:
        return [
            f"{request.path.rpartition('/')[2]} {request.body['status']['phase']}"
            for request in self._server.requests
            if request.method == "PATCH"
        ]


def status(group: Key, phase: str) -> GangStatus:
    return GangStatus(group, Uid(f"uid-{group.name}"), phase, (), Counts(0, 0, 0), None, None, 0)


def group(key: Key) -> dict[str, Any]:
    metadata = {"name": key.name, "namespace": key.namespace, "uid": f"uid-{key.name}"}
    return {"metadata": metadata | {"resourceVersion": "1"}, "spec": {"minMember": 1}}


def script(request: Request) -> Answer | Stream:
    if request.method == "PATCH":
        key = Key("research", request.path.rpartition("/")[2])
        return Answer(body=group(key) | {"status": request.body["status"]})
    if "watch" in request.query:
        return Stream((), hold=asyncio.Event())
    return Answer(body={"metadata": {"resourceVersion": "1"}, "items": [group(BOUND), group(WAITING)]})


def play(story: Callable[[Desk], Awaitable[None]]) -> None:
    async def run() -> None:
        async with FakeServer(script) as server, server.client() as client:
            groups, clock, binds = Informer(client, POD_GROUPS), VirtualClock(), BindGate()
            writer = PodGroupStatusWriter(client, clock, groups, Model(("quorate",)), binds, subresource="")
            work = [asyncio.create_task(part) for part in (groups.run(), writer.run())]
            try:
                await groups.synced.wait()
                await story(Desk(server, writer, clock, binds))
            finally:
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.slow
def test_one_write_admits_a_group_and_tells_that_it_runs_if_its_binds_had_to_queue_up() -> None:
    async def story(desk: Desk) -> None:
        desk.binds.take()
        desk.decide(BOUND, "Inqueue", being_bound=True)
        desk.decide(WAITING, "Inqueue")
        assert await desk.written(1) == ["waiting Inqueue"]
        desk.decide(BOUND, "Running")
        await desk.pass_s(WRITE_DELAY_S)
        assert await desk.written(2) == ["waiting Inqueue", "bound Running"]

    play(story)


@pytest.mark.slow
def test_an_admission_that_made_way_is_written_as_soon_as_no_more_binds_queue_up() -> None:
    async def story(desk: Desk) -> None:
        desk.binds.take()
        desk.decide(BOUND, "Inqueue", being_bound=True)
        desk.binds.give_back()
        assert await desk.written(1) == ["bound Inqueue"]

    play(story)


@pytest.mark.slow
def test_nor_does_an_admission_make_way_for_ever() -> None:
    async def story(desk: Desk) -> None:
        desk.binds.take()
        desk.decide(BOUND, "Inqueue", being_bound=True)
        await desk.pass_s(ADMISSION_WRITE_DELAY_S)
        assert await desk.written(1) == ["bound Inqueue"]

    play(story)


@pytest.mark.slow
def test_an_admission_is_written_at_once_where_binds_do_not_queue_up() -> None:
    async def story(desk: Desk) -> None:
        desk.decide(BOUND, "Inqueue", being_bound=True)
        assert await desk.written(1) == ["bound Inqueue"]

    play(story)
