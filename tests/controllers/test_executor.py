"""The execution of plans: order of writes, deferral, dependencies, stale caches and events."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.controllers.context import ControllerContext
from quorate.controllers.executor import Plan, PlanExecutor, normal_event
from quorate.controllers.informers import Informers
from quorate.controllers.limits import PLAN_DEFER_S
from quorate.kube.controller.expectations import versions
from quorate.kube.errors import Conflict, Invalid
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Informer
from quorate.kube.resources import RESOURCE_FLAVORS, WORKLOADS, reference_to
from quorate.kube.writes import Patch
from tests.controllers.objects import a_workload
from tests.kube.fake_server import Answer, FakeServer, Hangup, Request, refusal
from tests.kube.virtual_clock import VirtualClock

WORKLOAD = a_workload()
KEY = WORKLOAD.metadata.key
STARTED = normal_event(reference_to(WORKLOADS, WORKLOAD.metadata), "Started", "it started")

Story = Callable[[PlanExecutor, VirtualClock, FakeServer], Awaitable[None]]


def patch(name: str, version: str = "9") -> Patch:
    return Patch(WORKLOADS, Key("default", name), version, {"spec": {"active": False}})


def next_version(request: Request) -> Answer:
    name = request.path.rpartition("/")[2]
    return Answer(200, {"metadata": {"name": name, "namespace": "default", "resourceVersion": "10"}})


def play(
    story: Story,
    script: Callable[[Request], Answer | Hangup] = next_version,
    enqueued: list[Key] | None = None,
) -> None:
    async def run() -> None:
        clock = VirtualClock()
        async with FakeServer(script) as server, server.client() as client:
            context = ControllerContext(
                client,
                clock,
                EventRecorder(client, clock, "quorate"),
                Configuration(),
                Informers(client),
                random.Random(1),
                record=lambda *_: None,
                forget=lambda _: None,
            )
            enqueue = ([] if enqueued is None else enqueued).append
            await story(PlanExecutor(context, WORKLOADS, enqueue), clock, server)

    asyncio.run(run())


def patched(server: FakeServer) -> list[str]:
    return [request.path.rpartition("/")[2] for request in server.requests]


@pytest.mark.slow
def test_concurrent_writes_precede_ordered_ones_and_the_last_produced_objects_are_passed_on() -> None:
    produced: list[Any] = []

    async def story(executor: PlanExecutor, clock: VirtualClock, server: FakeServer) -> None:
        plan = Plan(
            concurrent=((patch("a"),), (patch("b"),)), writes=(patch("c"), patch("d")), wake_at=1_500.0
        )
        assert await executor.execute(KEY, plan, produced.extend) == 1_500.0
        assert sorted(patched(server)[:2]) == ["a", "b"]
        assert patched(server)[2:] == ["c", "d"]

    play(story)
    assert [workload.metadata.name for workload in produced] == ["c", "d"]


@pytest.mark.slow
def test_a_deferrable_plan_is_executed_after_the_delay() -> None:
    async def story(executor: PlanExecutor, clock: VirtualClock, server: FakeServer) -> None:
        plan = Plan(writes=(patch("a"),), deferrable=True)
        assert await executor.execute(KEY, plan) == clock.now() + PLAN_DEFER_S
        assert patched(server) == []
        await clock.advance_to(clock.now() + PLAN_DEFER_S)
        assert await executor.execute(KEY, plan) is None
        assert patched(server) == ["a"]

    play(story)


@pytest.mark.slow
def test_nothing_is_decided_before_the_watch_delivers_our_own_write() -> None:
    async def story(executor: PlanExecutor, clock: VirtualClock, server: FakeServer) -> None:
        seen = versions(WORKLOADS, (WORKLOAD,))
        await executor.execute(KEY, Plan(writes=(patch("a"),)))
        assert executor.pending_until(KEY, seen) is not None
        newer = msgspec.structs.replace(WORKLOAD.metadata, resource_version="10")
        assert executor.pending_until(KEY, versions(WORKLOADS, (Workload(metadata=newer),))) is None

    play(story)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "reason", "error", "stale"),
    [
        pytest.param(409, "Conflict", Conflict, True, id="a conflict: the cached object may be stale"),
        pytest.param(422, "Invalid", Invalid, False, id="an invalid object is not stored"),
    ],
)
def test_after_a_failed_write_no_event_is_recorded(
    status: int, reason: str, error: type[Exception], stale: bool
) -> None:
    async def story(executor: PlanExecutor, clock: VirtualClock, server: FakeServer) -> None:
        with pytest.raises(error):
            await executor.execute(KEY, Plan(writes=(patch("a"),), events=(STARTED,)))
        assert executor.is_stale(KEY, versions(WORKLOADS, (WORKLOAD,))) is stale
        assert executor.pending_until(KEY, versions(WORKLOADS, (WORKLOAD,))) is None
        assert patched(server) == ["a"]

    play(story, lambda request: Answer(status, refusal(status, reason)))


@pytest.mark.slow
def test_a_key_with_a_missing_dependency_is_retried_until_the_dependency_exists() -> None:
    enqueued: list[Key] = []

    async def story(executor: PlanExecutor, clock: VirtualClock, server: FakeServer) -> None:
        async with server.client() as client:
            missing = Plan(missing_dependency="ResourceFlavor spot doesn't exist")
            for plan in (missing, Plan()):
                await executor.execute(KEY, plan)
                flavors = Informer(client, RESOURCE_FLAVORS)
                executor.retry_on(flavors)
                await sync(flavors)

    play(story, one_flavor, enqueued)
    assert enqueued == [KEY]


async def sync(informer: Informer[Any]) -> None:
    running = asyncio.create_task(informer.run())
    await informer.synced.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def one_flavor(request: Request) -> Answer | Hangup:
    if "watch" in request.query:
        return Hangup()
    flavor = {"metadata": {"name": "spot", "uid": "u", "resourceVersion": "1"}}
    return Answer(200, {"metadata": {"resourceVersion": "1"}, "items": [flavor]})
