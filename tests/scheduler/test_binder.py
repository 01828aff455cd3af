"""What becomes of a bind that the API refuses, and of those behind it."""

import asyncio

import pytest

from quorate.api.meta import Key, Uid
from quorate.gang.outcome import Bind
from quorate.kube.events import EventRecorder
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.binder import ECHO_S, REFUSED_S, Binder
from quorate.scheduler.observer import Bound
from tests.kube.fake_server import Answer, FakeServer, Request, refusal
from tests.kube.virtual_clock import VirtualClock, settle


def a_bind(name: str) -> Bind:
    return Bind(Key("research", name), Uid(f"uid-{name}"), Key("research", "gang"), "node-1", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason", "undone_in_s"),
    [
        pytest.param(403, "Forbidden", REFUSED_S, id="one that is forbidden is not asked for at once"),
        pytest.param(409, "Conflict", ECHO_S, id="of one in conflict the watch is to tell first"),
        pytest.param(404, "NotFound", 0.0, id="a pod that is gone is not waited for"),
    ],
)
def test_a_refused_bind_is_undone_in_time_and_keeps_nobody_waiting(
    code: int, reason: str, undone_in_s: float
) -> None:
    def script(request: Request) -> Answer:
        return Answer(code, refusal(code, reason)) if "/first/" in request.path else Answer(201)

    async def story() -> None:
        async with FakeServer(script) as server, server.client() as client, asyncio.TaskGroup() as tasks:
            clock, through = VirtualClock(), asyncio.Event()
            undone: list[Bind] = []

            def bound(one: Bound) -> None:
                assert one.bind == a_bind("second")
                through.set()

            async def prepared(_: Bind) -> bool:
                return True

            binder = Binder(
                client, clock, EventRecorder(client, clock, "quorate"), bound, undone.append, prepared,
                BindGate(), at_once=1,
            )  # fmt: skip
            binder.start(tasks, (a_bind("first"), a_bind("second")))
            await asyncio.wait_for(through.wait(), 30)
            await settle()
            assert undone == ([] if undone_in_s else [a_bind("first")])
            await clock.advance_to(clock.now() + undone_in_s)
            assert undone == [a_bind("first")]

    asyncio.run(story())
