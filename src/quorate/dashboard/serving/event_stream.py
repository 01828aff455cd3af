"""The stream of change notices, as server-sent events (HTML standard, section 9.2).

A client that reads slowly is sent nothing while its buffers are full; the feed merges its notices meanwhile
and in the end tells it to read everything again.  One that reads nothing is disconnected (see ``server``).
A browser that connects again names the last event that it has, and is told to read everything again: it may
have missed notices.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Final

from aiohttp import web

from quorate.api import codec
from quorate.api.meta import at_epoch
from quorate.dashboard.limits import HEARTBEAT_S, MOST_STREAMS, SessionLimits
from quorate.dashboard.login.sessions import Caller
from quorate.dashboard.model.changes import EVERYTHING
from quorate.dashboard.queries import Viewer
from quorate.dashboard.responses import Refused
from quorate.dashboard.schema import ChangeNotice
from quorate.kube.clock import Clock
from quorate.kube.errors import RequestFailed

# Sets the event that a browser names when it connects again, and how soon it does.
_PROLOGUE: Final = b"id: 1\nretry: 2000\n\n"

_HEADERS: Final = {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}

SendBytes = Callable[[bytes], Awaitable[None]]
Subscribe = Callable[[Viewer], AsyncIterator[ChangeNotice]]
Recheck = Callable[[Caller], Awaitable[Caller | None]]


class EventStreams:
    """``recheck`` returns the caller with its rights of now; None: its session has ended."""

    def __init__(self, subscribe: Subscribe, recheck: Recheck, clock: Clock, limits: SessionLimits) -> None:
        self._subscribe = subscribe
        self._recheck = recheck
        self._clock = clock
        self._limits = limits
        self._open = 0

    async def stream_events(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        if caller.session.streams >= self._limits.streams or self._open >= MOST_STREAMS:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                "TooManyRequests",
                f"too many event streams are open: at most {self._limits.streams} of a session and "
                f"{MOST_STREAMS} in all; read the lists again from time to time instead",
            )
        response = web.StreamResponse(headers=_HEADERS)

        async def send(event: bytes) -> None:
            if not response.prepared:
                await response.prepare(request)
            await response.write(event)

        try:
            await self.run(caller, send, connects_again="last-event-id" in request.headers)
        except RequestFailed:  # the browser connects again
            await send(b"")
        return response

    async def run(self, caller: Caller, send: SendBytes, *, connects_again: bool) -> None:
        """Send events until the session of the caller ends."""
        session, current = caller.session, caller
        self._open += 1
        session.streams += 1
        first = _PROLOGUE + (self._everything() if connects_again else b"")
        try:
            while (following := await self._follow(current, first, send)) is not None:
                current, first = following, self._everything()
        finally:
            self._open -= 1
            session.streams -= 1

    def _everything(self) -> bytes:
        return _event(ChangeNotice(at=at_epoch(self._clock.now()), topics=(EVERYTHING,)))

    async def _follow(self, caller: Caller, first: bytes, send: SendBytes) -> Caller | None:
        """Send ``first``, then notices until the caller's rights change; return it with the new ones."""
        notices = self._subscribe(caller.viewer)
        upcoming = asyncio.ensure_future(anext(notices))
        await asyncio.sleep(0)  # it is subscribed before the client knows that the stream is open
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        check_at = sent_at + self._limits.check_s
        try:
            await send(first)
            while True:
                await asyncio.wait({upcoming}, timeout=max(0.0, check_at - loop.time()))
                if upcoming.done():
                    await send(_event(upcoming.result()))
                    sent_at = loop.time()
                    upcoming = asyncio.ensure_future(anext(notices))
                if loop.time() >= check_at:
                    check_at = loop.time() + self._limits.check_s
                    current = await self._recheck(caller)
                    if current is None or current.viewer != caller.viewer:
                        return current
                if loop.time() >= sent_at + HEARTBEAT_S:
                    await send(b": heartbeat\n\n")
                    sent_at = loop.time()
        finally:
            upcoming.cancel()
            await asyncio.wait({upcoming})


def _event(notice: ChangeNotice) -> bytes:
    return b"event: change\ndata: " + codec.encode(notice) + b"\n\n"
