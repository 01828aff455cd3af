"""While changes arrive fast, a watch is read in few pieces: nothing is lost, or later than a bounded time."""

import asyncio
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core.pod import Pod
from quorate.kube.flowcontrol import Backoff
from quorate.kube.informer import Change, Informer
from quorate.kube.limits import BATCH_BYTES, PROMPT_READS
from quorate.kube.resources import PLACEABLE_PODS
from quorate.kube.rest.bounded_reads import batched_pieces
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.connection_pool import ConnectionPool
from quorate.kube.rest.connection_pool import Request as PoolRequest
from tests.kube.fake_server import FakeServer, Request, Stream, frame, listing, pod
from tests.kube.test_informer import wait_for

pytestmark = pytest.mark.slow

NEVER: Final = 1e-6  # reads a second: the next one is later than any deadline of a test
Send = Callable[[bytes], Awaitable[None]]
only_on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads are batched on Linux only")


@asynccontextmanager
async def opened(
    per_second: float, prompt: int
) -> AsyncIterator[tuple[Send, asyncio.Event, AsyncIterator[bytes]]]:
    """Yield a function that sends bytes to a reader, the event that ends its stream, and the reader's pieces.

    ``prompt`` pieces are read at once, the first of which is read here; the next one after ``1 / per_second``
    at the latest.
    """
    bodies: asyncio.Queue[web.StreamResponse] = asyncio.Queue()
    is_over = asyncio.Event()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        body = web.StreamResponse()
        await body.prepare(request)
        bodies.put_nowait(body)
        await is_over.wait()
        return body

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        host, port = runner.addresses[0][:2]
        pool = ConnectionPool(RestConfig(f"http://{host}:{port}"), None)
        deadline = asyncio.get_running_loop().time() + 20
        async with pool.stream(PoolRequest("GET /", "GET", "/", {}), deadline) as connection:
            body = await bodies.get()
            pieces = batched_pieces(connection, None, prompt=prompt, per_second=per_second)
            await body.write(b"first")
            assert await anext(pieces) == b"first"
            yield body.write, is_over, pieces
            is_over.set()
        await pool.close()
    finally:
        await runner.cleanup()


def play(
    story: Callable[[Send, asyncio.Event, AsyncIterator[bytes]], Any], per_second: float, prompt: int = 1
) -> None:
    async def run() -> None:
        async with asyncio.timeout(20), opened(per_second, prompt) as (send, is_over, pieces):
            await story(send, is_over, pieces)

    asyncio.run(run())


def test_a_few_changes_are_read_at_once() -> None:
    async def story(send: Send, is_over: asyncio.Event, pieces: AsyncIterator[bytes]) -> None:
        for number in range(9):
            await send(b"%d" % number)
            assert await anext(pieces) == b"%d" % number

    play(story, per_second=NEVER, prompt=10)


@only_on_linux
def test_changes_that_arrive_fast_are_read_together() -> None:
    async def story(send: Send, is_over: asyncio.Event, pieces: AsyncIterator[bytes]) -> None:
        reading = asyncio.ensure_future(anext(pieces))
        for number in range(10):
            await send(b"%d" % number)
            await asyncio.sleep(0.005)  # the others arrive while the first waits
        assert await reading == b"0123456789"

    play(story, per_second=2.0)


def test_the_last_change_is_read_without_another_one() -> None:
    async def story(send: Send, is_over: asyncio.Event, pieces: AsyncIterator[bytes]) -> None:
        for number in range(10):
            await send(b"%d" % number)
            assert await anext(pieces) == b"%d" % number

    play(story, per_second=50.0)


def test_a_stream_that_falls_behind_is_read_at_once() -> None:
    async def story(send: Send, is_over: asyncio.Event, pieces: AsyncIterator[bytes]) -> None:
        sent = b"x" * (4 * BATCH_BYTES)
        sending = asyncio.ensure_future(send(sent))
        received = 0
        while received < len(sent) - BATCH_BYTES:
            received += len(await anext(pieces))
        await sending

    play(story, per_second=NEVER)


def test_the_end_of_a_stream_is_read_at_once_with_what_it_follows() -> None:
    async def story(send: Send, is_over: asyncio.Event, pieces: AsyncIterator[bytes]) -> None:
        await send(b"last")
        is_over.set()
        assert b"".join([piece async for piece in pieces]) == b"last"

    play(story, per_second=20.0)


VERSIONS: Final = 2 * PROMPT_READS


@given(st.data())
def test_however_changes_are_batched_each_object_has_the_same_events(data: st.DataObject) -> None:
    """Watches end and break after any change, and are resumed."""
    names = data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=VERSIONS))
    is_deletion = data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
    frames: list[bytes] = []
    sent: dict[str, list[str]] = defaultdict(list)
    existing: dict[str, str] = {}
    for version, (name, deletes) in enumerate(zip(names, is_deletion, strict=True), 2):
        type_ = "ADDED" if name not in existing else "DELETED" if deletes else "MODIFIED"
        frames.append(frame(type_, pod(name, version)))
        sent[name].append("" if type_ == "DELETED" else str(version))
        if type_ == "DELETED":
            del existing[name]
        else:
            existing[name] = str(version)
    ends = data.draw(st.lists(st.integers(0, len(frames)), max_size=3).map(sorted))
    are_torn = data.draw(st.lists(st.booleans(), min_size=len(ends), max_size=len(ends)))
    pieces_of = data.draw(st.sampled_from((1, 3, 100)))
    events, stored = asyncio.run(
        _followed(frames, list(zip(ends, are_torn, strict=True)), pieces_of, len(frames) + 1)
    )
    assert events == sent
    assert stored == existing


async def _followed(
    frames: list[bytes], ends: list[tuple[int, bool]], pieces_of: int, last_version: int
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the versions that a subscriber saw of each pod, "" for its deletion, and those in the cache."""
    silence = asyncio.Event()

    def answer(request: Request) -> Any:
        if "watch" not in request.query:
            return listing(1)
        begin = int(request.query["resourceVersion"]) - 1
        end, is_torn = ends.pop(0) if ends else (len(frames), False)
        sent = [
            b"".join(frames[at : min(at + pieces_of, end)]) for at in range(begin, max(begin, end), pieces_of)
        ]
        return Stream(tuple(sent), torn=is_torn, hold=None if end < len(frames) else silence)

    events: dict[str, list[str]] = defaultdict(list)

    def keep(change: Change[Pod]) -> None:
        version = "" if change.new is None else change.new.metadata.resource_version
        events[change.key.name].append(version)

    async with FakeServer(answer) as server, server.client() as client:
        informer = Informer(client, PLACEABLE_PODS, reconnect=Backoff(0.001, 0.001))
        informer.subscribe(keep)
        running = asyncio.create_task(informer.run())
        await wait_for(lambda: sum(map(len, events.values())) >= last_version - 1)
        stored = {obj.metadata.name: obj.metadata.resource_version for obj in informer}
        silence.set()
        running.cancel()
        await asyncio.wait([running])
    return events, stored
