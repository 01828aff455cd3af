"""When the status of a queue is reconciled, and on which version it is written."""

import asyncio
import random

import pytest

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.controllers.context import ControllerContext
from quorate.controllers.core.queues import QueueController, QueuePace
from quorate.controllers.feeds import queueing_feeds
from quorate.controllers.informers import Informers
from quorate.kube.events import EventRecorder
from quorate.kube.limits import OWN_WRITE_TIMEOUT_S
from quorate.queueing.state import State
from tests.kube.fake_server import Answer, FakeServer, Request, Stream
from tests.kube.virtual_clock import VirtualClock


@pytest.mark.parametrize(
    ("writes", "intervals"),
    [
        pytest.param([True, False], [1, 1], id="one change is followed by a reconcile a second later"),
        pytest.param([True] * 6, [1, 1, 4, 12, 12, 12], id="the interval grows while there is a difference"),
        pytest.param([True] * 4 + [False, True], [1, 1, 4, 12, 1, 1], id="no difference resets the interval"),
    ],
)
def test_the_interval_of_a_queue_grows_while_its_status_differs(
    writes: list[bool], intervals: list[float]
) -> None:
    pace, found = QueuePace(), []
    for wrote in writes:
        pace = pace.then(100.0, writes=wrote)
        found.append(pace.next_at(queues=60, write_s=0.01) - 100.0)
    assert found == pytest.approx(intervals)


@pytest.mark.parametrize(
    ("queues", "write_s", "interval"),
    [
        pytest.param(1, 0.01, 5, id="few queues"),
        pytest.param(60, 0.005, 6, id="a fast server"),
        pytest.param(60, 0.02, 24, id="a busy server"),
        pytest.param(2_000, 0.005, 30, id="many queues"),
    ],
)
def test_the_longest_interval_grows_with_the_queues_and_with_the_time_of_a_write(
    queues: int, write_s: float, interval: float
) -> None:
    pace = QueuePace()
    for _ in range(20):
        pace = pace.then(100.0, writes=True)
    assert pace.next_at(queues, write_s) - 100.0 == pytest.approx(interval)


@pytest.mark.slow
def test_a_status_is_not_decided_on_a_copy_that_an_own_write_has_replaced() -> None:
    queue = {"metadata": {"name": "research", "uid": "u", "resourceVersion": "1"}, "spec": {}}
    written: list[dict[str, dict[str, str]]] = []

    def script(request: Request) -> Answer | Stream:
        if request.method == "PATCH":
            written.append(
                queue | {"metadata": queue["metadata"] | {"resourceVersion": str(len(written) + 2)}}
            )
            return Answer(200, written[-1])
        if "watch" in request.query:
            return Stream((), hold=asyncio.Event())  # never delivers the write
        return Answer(200, {"metadata": {"resourceVersion": "1"}, "items": [queue]})

    def patches(server: FakeServer) -> list[str]:
        return [
            request.body["metadata"]["resourceVersion"]
            for request in server.requests
            if request.method == "PATCH" and request.path.endswith("/status")
        ]

    async def story() -> None:
        clock, state = VirtualClock(), State(Configuration())
        async with FakeServer(script) as server, server.client() as client:
            informers = Informers(client)
            events = EventRecorder(client, clock, "quorate")
            context = ControllerContext(
                client, clock, events, Configuration(), informers, random.Random(1),
                record=lambda *_: None, forget=lambda _: None,
            )  # fmt: skip
            for feed in queueing_feeds(state, clock.now):
                feed.subscribe(informers.of(feed.resource))
            controller = QueueController(context, state)
            watching = asyncio.create_task(informers.cluster_queues.run())
            await asyncio.wait_for(informers.cluster_queues.synced.wait(), 30)
            key = Key("", "research")
            assert await controller.reconcile(key) is None
            first = patches(server)
            assert len(first) == 1
            assert await controller.reconcile(key) == clock.now() + OWN_WRITE_TIMEOUT_S
            assert patches(server) == first
            await clock.advance_to(clock.now() + OWN_WRITE_TIMEOUT_S)
            assert await controller.reconcile(key) is None  # a lost write is repeated
            assert len(patches(server)) == 2
            watching.cancel()
            await asyncio.wait([watching])

    asyncio.run(story())
