"""Members that are added to a running gang are bound under the spec of its pod group that is stored."""

import asyncio

import pytest

from quorate.api import codec
from quorate.api.meta import Key, Uid
from quorate.gang.cache.model import Model
from quorate.gang.outcome import Bind
from quorate.kube.events import EventRecorder
from quorate.kube.resources import NATIVE_POD_GROUPS
from quorate.scheduler.bind_gate import BindGate
from quorate.scheduler.binder import Binder, FurtherMembers
from quorate.scheduler.limits import CONFLICT_S
from tests.gang import objects
from tests.kube.fake_server import Answer, FakeServer, Request, refusal
from tests.kube.virtual_clock import VirtualClock

GANG = Key("default", "g")
BIND = Bind(Key("default", "g-1"), Uid("default/g-1"), GANG, "n1", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("runs", [True, False])
@pytest.mark.parametrize("stored", [2, 3, None])
def test_further_members_are_bound_only_if_the_pod_group_is_unchanged(runs: bool, stored: int | None) -> None:
    async def story() -> None:
        model, group = Model(("volcano",)), objects.pod_group({"name": "g", "minMember": 2})
        model.set_node(objects.node({"name": "n1", "cpu": 4}))
        model.set_group(group)
        for pod in objects.pods({"name": "g", "count": 2, "group": "g", "node": "n1" if runs else ""}, {}):
            model.set_pod(pod)

        def answer(request: Request) -> Answer:
            if request.method == "POST":
                return Answer(201)
            if stored is None:
                return Answer(404, refusal(404, "NotFound"))
            return Answer(200, codec.to_builtins(objects.pod_group({"name": "g", "minMember": stored})))

        async with (
            FakeServer(answer) as server,
            server.client() as client,
            asyncio.TaskGroup() as tasks,
        ):
            clock, done = VirtualClock(), asyncio.Event()
            refused: list[Bind] = []

            async def pre_bind(_: Bind) -> bool:
                return True

            async def release(_: Bind) -> None:
                pass

            binder = Binder(
                client, clock, EventRecorder(client, clock, "quorate"), lambda _: done.set(),
                refused.append, pre_bind, release, BindGate(), workers=1,
            )  # fmt: skip
            members = FurtherMembers(client, clock, model, lambda: NATIVE_POD_GROUPS, binder, refused.append)
            members.start(tasks, (BIND,))
            if not runs or stored == 2:
                await asyncio.wait_for(done.wait(), 30)
                assert [request.method for request in server.requests] == ["GET"] * runs + ["POST"]
                return
            async with asyncio.timeout(30):
                while not refused:
                    await clock.advance_to(clock.now() + CONFLICT_S)
            assert refused == [BIND]
            assert [request.method for request in server.requests] == ["GET"]

    asyncio.run(story())
