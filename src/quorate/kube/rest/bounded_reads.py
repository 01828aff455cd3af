"""Responses of bounded size: a server that sends without end must not take the memory of its clients."""

from collections.abc import AsyncIterator, Iterator

import aiohttp

from quorate.kube.errors import AnswerTooLarge
from quorate.kube.limits import MAX_LINE_BYTES
from quorate.kube.rest.batched_reads import batched_chunks


async def read_bounded(response: aiohttp.ClientResponse, request: str, limit: int) -> bytes:
    """Return the body of ``response``.  Raises ``AnswerTooLarge`` if it has more than ``limit`` bytes."""
    parts, size = [], 0
    announced = response.content_length or 0
    async for piece in pieces(response):
        size += len(piece)
        if max(size, announced) > limit:
            response.close()  # the rest is not read
            raise AnswerTooLarge(request, limit)
        parts.append(piece)
    return b"".join(parts)


async def pieces(response: aiohttp.ClientResponse, *, batched: bool = False) -> AsyncIterator[bytes]:
    """Yield the pieces of a body.  Raises ``aiohttp.ClientError`` if the connection ends before the body."""
    try:
        async for piece in batched_chunks(response) if batched else response.content.iter_any():
            yield piece
    except RuntimeError as error:  # of aiohttp, if the connection had ended when it was to be read
        raise aiohttp.ClientPayloadError(str(error)) from error


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
