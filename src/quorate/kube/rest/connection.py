"""One HTTP/1.1 connection of a client: llhttp parses the responses, and what a server may send is bounded.

A connection has at most one request in flight.  It can be used again if the response was complete, nothing
followed it, and the whole request was sent before.
"""

import asyncio
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from quorate.kube.errors import AnswerTooLarge
from quorate.kube.limits import MAX_HEAD_BYTES, MAX_UNREAD_BYTES

_PARSED_HEADERS: Final = frozenset((b"content-length", b"transfer-encoding", b"retry-after"))
_WITHOUT_BODY: Final = (204, 304)


class TransportFailed(Exception):
    """No complete response arrived.  ``sent`` is False if the request certainly did not reach the server."""

    def __init__(self, problem: str, *, sent: bool = True) -> None:
        super().__init__(problem)
        self.sent = sent


class Connection(asyncio.Protocol):
    """Send one request at a time and read its response.

    The owner calls ``abort`` when it is not reusable, such as after a cancelled ``read``.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()  # once the connection is closed
        self.transport: asyncio.Transport | None = None
        self.status = 0  # of the latest response; 0 until its headers are complete
        self._parser = HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []  # of the body, received and not read
        self._unread = 0  # bytes of ``_parts``
        self._announced = 0  # Content-Length
        self._unframed = 0  # bytes received since the latest part of a body
        self._in_flight = False  # a request without a complete response
        self._ends_with_connection = False  # the body has neither a length nor chunks
        self._keeps_alive = True
        self._failure: TransportFailed | None = None
        self._wakes_at: float = 0  # bytes of the body after which the reader continues
        self._waiter: asyncio.Future[None] | None = None
        self._is_paused = False

    @property
    def is_open(self) -> bool:
        return self.transport is not None and not self.transport.is_closing()

    @property
    def is_reusable(self) -> bool:
        transport = self.transport
        if transport is None or self._in_flight or not self._keeps_alive or transport.is_closing():
            return False
        # A server that did not wait for the whole request may not read the rest of it.
        return transport.get_write_buffer_size() == 0

    @property
    def retry_after_s(self) -> float | None:
        """Return Retry-After in seconds, as API servers send it; None for a date, as proxies may send it."""
        value = self._headers.get(b"retry-after", b"")
        return float(value) if value.isdigit() else None

    def send(self, request: bytes) -> None:
        """Send a whole request; its response is read next."""
        assert self.transport is not None
        self.status, self._headers, self._parts, self._unread = 0, {}, [], 0
        self._announced = self._unframed = 0
        self._in_flight, self._ends_with_connection = True, False
        self.transport.write(request)

    async def read(self, request: str, limit: int, deadline: float) -> bytes:
        """Return the whole rest of the body, if it has arrived until ``deadline``, a loop time.

        Raises ``AnswerTooLarge`` of ``request`` beyond ``limit`` bytes, and ``TransportFailed``.
        """
        self._wakes_at = limit + 1
        if self._is_paused:
            self._pause(False)
        if self._in_flight and self._failure is None and max(self._unread, self._announced) <= limit:
            await self._wait_until(deadline)
        if max(self._unread, self._announced) > limit:
            raise AnswerTooLarge(request, limit)
        self._raise_failure()
        parts, self._parts = self._parts, []  # an idle connection keeps no body
        return b"".join(parts)

    async def head(self, deadline: float) -> None:
        """Return once the headers are complete.  Raises ``TransportFailed``, also at ``deadline``."""
        self._wakes_at = 0
        if self._in_flight and not self.status and self._failure is None:
            await self._wait_until(deadline)
        if not self.status:
            self._raise_failure()

    async def piece(self, silence_s: float | None) -> bytes:
        """Return what has arrived of the body, once there is any; empty at its end.

        Raises ``TransportFailed`` if the connection ends before the body, or after ``silence_s`` without a
        byte.
        """
        self._wakes_at = 1
        if not self._parts and self._in_flight and self._failure is None:
            if silence_s is None:
                await self._wait()
            else:
                await self._wait_until(self._loop.time() + silence_s, f"no byte for {silence_s:.0f} s")
        if self._parts:
            piece = b"".join(self._parts)
            self._parts, self._unread = [], 0
            if self._is_paused:
                self._pause(False)
            return piece
        self._raise_failure()
        return b""

    def abort(self) -> None:
        self._keeps_alive = False
        if self.transport is not None:
            self.transport.abort()

    # Calls of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if not self._in_flight or self._failure is not None:
            self.abort()  # a response without a request
            return
        self._unframed += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._fail("the server switched to another protocol")
        except HttpParserError as error:
            self._fail(f"the response is not HTTP: {error}")
        else:
            if self._unframed > MAX_HEAD_BYTES:
                self._fail(f"the headers of the response have more than {MAX_HEAD_BYTES} bytes")

    def connection_lost(self, error: Exception | None) -> None:
        self._keeps_alive = False
        if self._in_flight and self.status and self._ends_with_connection and error is None:
            self._in_flight = False
        elif self._in_flight and self._failure is None:
            within = " within the response" if self.status else ""
            self._failure = TransportFailed(str(error or f"the server closed the connection{within}"))
        self._wake()
        self.ended.set_result(None)

    # Calls of the parser

    def on_message_begin(self) -> None:
        if not self._in_flight:
            raise ValueError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _PARSED_HEADERS and not self.status:
            self._headers[name] = value

    def on_headers_complete(self) -> None:
        status, headers = self._parser.get_status_code(), self._headers
        if status < 200:
            if status < 100:
                raise ValueError("no status code of HTTP")
            headers.clear()  # the response itself follows
            return
        self.status = status
        self._announced = int(headers.get(b"content-length", 0))
        is_chunked = headers.get(b"transfer-encoding", b"").lower().endswith(b"chunked")
        has_end = is_chunked or b"content-length" in headers or status in _WITHOUT_BODY
        self._ends_with_connection = not has_end
        if self._announced >= self._wakes_at:
            self._wake()

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)
        self._unread += len(data)
        self._unframed = 0
        if self._unread >= self._wakes_at:
            self._wake()
            if self._unread > MAX_UNREAD_BYTES and not self._is_paused:
                self._pause(True)

    def on_message_complete(self) -> None:
        if self.status:
            self._in_flight = False
            self._keeps_alive = self._parser.should_keep_alive()
            self._wake()

    def _fail(self, problem: str) -> None:
        """Close the connection; its response fails unless it is complete."""
        if self._in_flight:
            self._failure = TransportFailed(problem)
            self._wake()
        self.abort()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _pause(self, pauses: bool) -> None:
        self._is_paused = pauses
        if self.transport is not None and self.is_open:
            if pauses:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    async def _wait_until(self, deadline: float, problem: str = "the deadline passed") -> None:
        # No asyncio.timeout, which costs three times as much.
        timer = self._loop.call_at(deadline, self._fail, problem)
        try:
            await self._wait()
        finally:
            timer.cancel()

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
