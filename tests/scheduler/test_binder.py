"""A refused bind is undone after a delay and does not hold up the binds behind it."""

import asyncio

import pytest

from quorate.api.meta import Key, Uid
from quorate.gang.outcome import Bind
from quorate.kube.events import EventRecorder
from quorate.kube.object_faults import ObjectFault
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.binder import Binder
from quorate.scheduler.limits import CONFLICT_S, REFUSED_S
from quorate.scheduler.observer import Bound
from tests.kube.fake_server import Answer, FakeServer, Request, refusal
from tests.kube.virtual_clock import VirtualClock, settle


async def release(bind: Bind) -> None:
    """Give nothing back: the binds take nothing."""


def a_bind(name: str) -> Bind:
    return Bind(Key("research", name), Uid(f"uid-{name}"), Key("research", "gang"), "node-1", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason", "undone_in_s"),
    [
        pytest.param(403, "Forbidden", REFUSED_S, id="a forbidden bind is not retried at once"),
        pytest.param(409, "Conflict", CONFLICT_S, id="a conflict leaves the watch time to deliver its cause"),
        pytest.param(404, "NotFound", 0.0, id="a deleted pod needs no delay"),
    ],
)
def test_a_refused_bind_is_undone_after_its_delay_and_does_not_block_the_next(
    code: int, reason: str, undone_in_s: float
) -> None:
    def script(request: Request) -> Answer:
        return Answer(code, refusal(code, reason)) if "/first/" in request.path else Answer(201)

    async def story() -> None:
        async with FakeServer(script) as server, server.client() as client, asyncio.TaskGroup() as tasks:
            clock, second_bound = VirtualClock(), asyncio.Event()
            undone: list[Bind] = []

            def on_bound(bound: Bound) -> None:
                assert bound.bind == a_bind("second")
                second_bound.set()

            async def pre_bind(_: Bind) -> bool:
                return True

            binder = Binder(
                client, clock, EventRecorder(client, clock, "quorate"), on_bound, undone.append, pre_bind,
                release, BindGate(), workers=1,
            )  # fmt: skip
            binder.start(tasks, (a_bind("first"), a_bind("second")))
            await asyncio.wait_for(second_bound.wait(), 30)
            await settle()
            assert undone == ([] if undone_in_s else [a_bind("first")])
            await clock.advance_to(clock.now() + undone_in_s)
            assert undone == [a_bind("first")]

    asyncio.run(story())


def test_a_bug_in_one_bind_undoes_it_and_is_reported_with_its_pod() -> None:
    async def story() -> None:
        async with (
            FakeServer(lambda _: Answer(201)) as server,
            server.client() as client,
            asyncio.TaskGroup() as tasks,
        ):
            clock, second_bound = VirtualClock(), asyncio.Event()
            undone: list[Bind] = []
            faults: list[ObjectFault] = []

            async def pre_bind(bind: Bind) -> bool:
                if bind == a_bind("first"):
                    raise LookupError("no such volume")
                return True

            binder = Binder(
                client, clock, EventRecorder(client, clock, "quorate"), lambda _: second_bound.set(),
                undone.append, pre_bind, release, BindGate(), workers=1,
            )  # fmt: skip
            with client.faults.subscribed(faults.append):
                binder.start(tasks, (a_bind("first"), a_bind("second")))
                await asyncio.wait_for(second_bound.wait(), 30)
            (fault,) = faults
            assert (fault.resource.plural, fault.key, fault.stage) == ("pods", a_bind("first").task, "decide")
            assert "LookupError: no such volume" in fault.problem
            assert [request.path for request in server.requests if request.method == "POST"] == [
                "/api/v1/namespaces/research/pods/second/binding"
            ]
            await settle()
            assert undone == []
            await clock.advance_to(clock.now() + REFUSED_S)
            assert undone == [a_bind("first")]

    asyncio.run(story())
