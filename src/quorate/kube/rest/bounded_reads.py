"""Responses of bounded size: a server that sends without end must not take the memory of its clients.

A watch is read in few pieces while changes arrive fast: a change that arrives by itself costs about three
times what it costs among others.  The process is woken for it, and reads, decrypts, decodes and delivers it
with cold caches.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress

from quorate.kube.errors import AnswerTooLarge
from quorate.kube.flowcontrol import TokenBucketRateLimiter
from quorate.kube.limits import BATCH_BYTES, MAX_LINE_BYTES, PROMPT_READS, READS_PER_SECOND
from quorate.kube.rest.connection import Connection


async def pieces(connection: Connection, silence_s: float | None) -> AsyncGenerator[bytes, None]:
    """Yield the body that a connection receives, in pieces as they arrive (see ``Connection.piece``)."""
    while piece := await connection.piece(silence_s):
        yield piece


async def batched_pieces(
    connection: Connection,
    silence_s: float | None,
    *,
    prompt: int = PROMPT_READS,
    per_second: float = READS_PER_SECOND,
) -> AsyncGenerator[bytes, None]:
    """Yield the body that a connection receives, each piece as soon as it arrives while few do.

    After ``prompt`` pieces the kernel reports bytes ``per_second`` times a second, or once it has
    ``BATCH_BYTES``, or when the connection ends: reading never pauses, so no server waits for it.
    """
    limiter = TokenBucketRateLimiter(per_second, prompt)
    timer: asyncio.TimerHandle | None = None

    def report_at_once() -> None:
        nonlocal timer
        timer = None
        _report_from(1, connection.transport)

    limiter.reserve_s()  # the first piece
    try:
        while piece := await connection.piece(silence_s):
            if timer is None and (wait_s := limiter.reserve_s()) > 0:
                _report_from(BATCH_BYTES, connection.transport)
                timer = asyncio.get_running_loop().call_later(wait_s, report_at_once)
            yield piece
    finally:
        if timer is not None:
            timer.cancel()
            report_at_once()  # the next request of this connection


def _report_from(least_bytes: int, transport: asyncio.Transport | None) -> None:
    """Let the kernel report received bytes once there are ``least_bytes``, earlier bytes included."""
    # Other systems do not report what has arrived when the limit falls; Linux does since 4.18.
    if sys.platform != "linux" or transport is None or transport.is_closing():
        return
    if (connected := transport.get_extra_info("socket")) is not None:
        with suppress(OSError):  # it has ended
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least_bytes)


class Lines:
    """Splits a chunked stream into lines; each byte is scanned once, whatever the chunks are.

    An incomplete line of more than ``limit`` bytes raises ``AnswerTooLarge`` of ``request``.
    """

    def __init__(self, request: str, limit: int = MAX_LINE_BYTES) -> None:
        self._request, self._limit = request, limit
        self._pending: list[bytes] = []  # parts of the incomplete line, without newlines
        self._pending_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the non-empty lines that ``chunk`` completes, without line ends."""
        first, *rest = chunk.split(b"\n")
        self._pending.append(first)
        self._pending_bytes += len(first)
        if self._pending_bytes > self._limit:
            raise AnswerTooLarge(self._request, self._limit)
        if not rest:
            return
        *complete, last = rest
        whole = b"".join(self._pending)
        self._pending, self._pending_bytes = [last], len(last)
        for line in (whole, *complete):
            if line:
                yield line
