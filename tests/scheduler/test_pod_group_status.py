"""When the status of a pod group is written: admissions at once, the rest with lower priority than binds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.meta import Key, Uid
from quorate.api.volcano import PodGroup
from quorate.gang.cache.model import Model
from quorate.gang.cache.task import TaskStatus
from quorate.gang.outcome import Bind, Counts, GangStatus
from quorate.kube.informer import Informer
from quorate.kube.resources import POD_GROUPS
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.limits import MAX_STATUS_DELAY_S, STATUS_DELAY_S
from quorate.scheduler.pod_group_status import PodGroupStatusWriter
from tests.gang import objects
from tests.kube.fake_server import Answer, FakeServer, Request, Stream
from tests.kube.virtual_clock import VirtualClock, settle

WITHIN_S = 30.0
BOUND, WAITING = Key("research", "bound"), Key("research", "waiting")


class Harness:
    """A running status writer and two pod groups that are Pending."""

    def __init__(
        self,
        server: FakeServer,
        writer: PodGroupStatusWriter,
        clock: VirtualClock,
        gate: BindGate,
        model: Model,
    ) -> None:
        self.gate = gate
        self.model = model
        self._clock = clock
        self._writer = writer
        self._server = server

    def decide(self, group: Key, phase: str, *, being_bound: bool = False) -> None:
        self._writer.write([status(group, phase)], {group} if being_bound else ())

    async def pass_s(self, seconds: float) -> None:
        await settle()
        await self._clock.advance_to(self._clock.now() + seconds)

    async def written(self, count: int) -> list[str]:
        """Return the first ``count`` writes, in order."""
        async with asyncio.timeout(WITHIN_S):
            while len(self._patches()) < count:  # noqa: ASYNC110  the server signals nothing
                await asyncio.sleep(0.001)
        return self._patches()

    def _patches(self) -> list[str]:
        return [
            f"{request.path.rpartition('/')[2]} {request.body['status']['phase']}"
            for request in self._server.requests
            if request.method == "PATCH"
        ]


def status(group: Key, phase: str) -> GangStatus:
    return GangStatus(group, Uid(f"uid-{group.name}"), phase, (), Counts(0, 0, 0))


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


def play(story: Callable[[Harness], Awaitable[None]]) -> None:
    async def run() -> None:
        async with FakeServer(script) as server, server.client() as client:
            groups, clock, gate = Informer(client, POD_GROUPS), VirtualClock(), BindGate()
            model = Model(("volcano",))
            writer = PodGroupStatusWriter(client, clock, groups, model, gate, subresource="")
            work = [asyncio.create_task(part) for part in (groups.run(), writer.run())]
            try:
                await groups.synced.wait()
                await story(Harness(server, writer, clock, gate, model))
            finally:
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.slow
def test_one_write_admits_a_group_and_reports_it_running_while_binds_are_queued() -> None:
    async def story(harness: Harness) -> None:
        harness.gate.close()
        harness.decide(BOUND, "Inqueue", being_bound=True)
        harness.decide(WAITING, "Inqueue")
        assert await harness.written(1) == ["waiting Inqueue"]
        harness.decide(BOUND, "Running")
        harness.gate.open()
        assert await harness.written(2) == ["waiting Inqueue", "bound Running"]

    play(story)


@pytest.mark.slow
def test_a_running_group_is_reported_a_second_after_the_last_bind_was_sent() -> None:
    async def story(harness: Harness) -> None:
        harness.gate.close()
        harness.decide(BOUND, "Running")
        await harness.pass_s(2 * STATUS_DELAY_S)
        harness.decide(WAITING, "Inqueue")
        assert await harness.written(1) == ["waiting Inqueue"]
        harness.gate.open()
        await harness.pass_s(STATUS_DELAY_S)
        assert await harness.written(2) == ["waiting Inqueue", "bound Running"]

    play(story)


@pytest.mark.slow
def test_a_running_group_is_reported_although_binds_never_cease() -> None:
    async def story(harness: Harness) -> None:
        harness.gate.close()
        harness.decide(BOUND, "Running")
        await harness.pass_s(MAX_STATUS_DELAY_S)
        assert await harness.written(1) == ["bound Running"]

    play(story)


@pytest.mark.slow
def test_a_delayed_admission_is_written_as_soon_as_no_binds_are_queued() -> None:
    async def story(harness: Harness) -> None:
        harness.gate.close()
        harness.decide(BOUND, "Inqueue", being_bound=True)
        harness.gate.open()
        assert await harness.written(1) == ["bound Inqueue"]

    play(story)


@pytest.mark.slow
def test_the_delay_of_an_admission_is_bounded() -> None:
    async def story(harness: Harness) -> None:
        harness.gate.close()
        harness.decide(BOUND, "Inqueue", being_bound=True)
        await harness.pass_s(MAX_STATUS_DELAY_S)
        assert await harness.written(1) == ["bound Inqueue"]

    play(story)


@pytest.mark.slow
def test_an_admission_is_written_at_once_if_no_binds_are_queued() -> None:
    async def story(harness: Harness) -> None:
        harness.decide(BOUND, "Inqueue", being_bound=True)
        assert await harness.written(1) == ["bound Inqueue"]

    play(story)


@pytest.mark.slow
@pytest.mark.parametrize("refused", [False, True])
def test_a_group_is_not_withdrawn_while_a_member_is_being_bound(refused: bool) -> None:
    """The bind of the replacement of a member may be sent later: the pod group is read before."""

    async def story(harness: Harness) -> None:
        model, pod = harness.model, Key("research", "pod-0")
        model.set_node(objects.node({"name": "n1", "cpu": 4}))
        model.set_group(codec.convert(PodGroup, group(BOUND)))
        (member,) = objects.pods({"name": "pod", "namespace": "research", "count": 1, "group": "bound"}, {})
        model.set_pod(member)
        task = model.gangs[BOUND].tasks[pod]
        bind = Bind(pod, task.uid, BOUND, "n1", 0.0)
        model.set_task_status(task, TaskStatus.ALLOCATED, bind.node)
        model.assumed.bind(task)
        harness.decide(BOUND, "Pending", being_bound=True)
        await harness.pass_s(3 * STATUS_DELAY_S)
        harness.decide(WAITING, "Inqueue")
        assert await harness.written(1) == ["waiting Inqueue"]
        if refused:
            model.assumed.bind_failed(bind)
        else:
            harness.decide(BOUND, "Running")
        await harness.pass_s(STATUS_DELAY_S)
        assert await harness.written(2) == [
            "waiting Inqueue",
            "bound Pending" if refused else "bound Running",
        ]

    play(story)
