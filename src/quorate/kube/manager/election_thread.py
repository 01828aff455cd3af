"""Leader election in a thread of its own, so that a blocked event loop of the work does not lose the lease.

The thread has an event loop and a client of its own.  It cannot run while one call into C code holds the
interpreter lock: if that lasts beyond the renew deadline, the lease is lost, and no write is sent after it.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.manager.leader_election import (
    Candidate,
    JoinElection,
    LeaderElector,
    LeaseTimings,
    WritePermit,
)


def in_own_thread(
    connect: Callable[[], Awaitable[Client]],
    clock: Clock,
    new_identity: Callable[[], str],
    permit: WritePermit,
) -> JoinElection:
    """Return how to take part in elections in a thread, with the client that ``connect`` returns there."""

    def join(lease: Key, timings: LeaseTimings) -> Candidate:
        async def hold(elected: Callable[[], None]) -> None:
            loop = asyncio.get_running_loop()
            heartbeat = _Heartbeat(loop, clock)

            async def campaign() -> None:
                async with await connect() as client:
                    elector = LeaderElector(
                        client, clock, lease, new_identity(), timings, permit, heartbeat.silent_s
                    )
                    await elector.hold(lambda: _call(loop, elected))

            await run_in_thread(campaign)

        return hold

    return join


class _Heartbeat:
    """Measures for how long an event loop has not answered."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._steady = clock.steady
        self._last = self._steady.now()

    def silent_s(self) -> float:
        """Return the seconds since the last answer, and ask for the next one; from any thread."""
        _call(self._loop, self._beat)
        return self._steady.now() - self._last

    def _beat(self) -> None:
        self._last = self._steady.now()


async def run_in_thread(work: Callable[[], Coroutine[None, None, None]]) -> None:
    """Run ``work`` to its end in an event loop of a new thread; a cancellation is passed on."""
    caller = asyncio.get_running_loop()
    ended: asyncio.Future[None] = caller.create_future()
    loop = asyncio.new_event_loop()
    cancelled = False
    task: asyncio.Task[None] | None = None

    def cancel() -> None:
        nonlocal cancelled
        cancelled = True
        if task is not None:
            task.cancel()

    async def main() -> None:
        nonlocal task
        if not cancelled:
            task = asyncio.create_task(work())
            await asyncio.wait([task])

    def finish() -> None:
        error = None if task is None or task.cancelled() else task.exception()
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def target() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())
        _call(caller, finish)

    threading.Thread(target=target, name="leader election", daemon=True).start()
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        _call(loop, cancel)
        await asyncio.wait([ended])
        ended.exception()  # retrieved, otherwise it is logged
        raise


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(callback)
