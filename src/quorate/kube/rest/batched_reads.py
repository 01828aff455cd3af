"""Reading of a watch in few pieces while changes arrive fast.

A change that arrives by itself costs about three times what it costs among others: the process is woken for
it, and reads, decrypts, decodes and delivers it with cold caches.
"""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

import aiohttp

from quorate.kube.flowcontrol import TokenBucketRateLimiter
from quorate.kube.limits import BATCH_BYTES, PROMPT_READS, READS_PER_SECOND


async def batched_chunks(
    response: aiohttp.ClientResponse, *, prompt: int = PROMPT_READS, per_second: float = READS_PER_SECOND
) -> AsyncIterator[bytes]:
    """Yield what the connection of ``response`` receives, each piece as soon as it arrives while few do.

    After ``prompt`` pieces the kernel reports bytes ``per_second`` times a second, or once it has
    ``BATCH_BYTES``, or when the connection ends: reading never pauses, so no server waits for it.
    """
    transport = None if response.connection is None else response.connection.transport
    limiter = TokenBucketRateLimiter(per_second, prompt)
    timer: asyncio.TimerHandle | None = None

    def report_at_once() -> None:
        nonlocal timer
        timer = None
        _report_from(1, transport)

    limiter.reserve_s()  # the first piece
    try:
        async for chunk in response.content.iter_any():
            if timer is None and (wait_s := limiter.reserve_s()) > 0:
                _report_from(BATCH_BYTES, transport)
                timer = asyncio.get_running_loop().call_later(wait_s, report_at_once)
            yield chunk
    finally:
        if timer is not None:
            timer.cancel()
            report_at_once()  # the next request of this connection


def _report_from(least_bytes: int, transport: asyncio.Transport | None) -> None:
    """Let the kernel report received bytes once there are ``least_bytes``, also those that have arrived."""
    # Other systems do not report what has arrived when the limit falls; Linux does since 4.18.
    if sys.platform != "linux" or transport is None or transport.is_closing():
        return
    if (connection := transport.get_extra_info("socket")) is not None:
        with suppress(OSError):  # it has ended
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least_bytes)
