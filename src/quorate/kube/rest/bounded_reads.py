"""Responses of bounded size: a server that sends without end must not take the memory of its clients."""

from collections.abc import Iterator

import aiohttp

from quorate.kube.errors import AnswerTooLarge
from quorate.kube.limits import MAX_LINE_BYTES


async def read_bounded(response: aiohttp.ClientResponse, request: str, limit: int) -> bytes:
    """Return the body of ``response``.  Raises ``AnswerTooLarge`` if it has more than ``limit`` bytes."""
    announced = response.content_length
    if announced is not None and announced <= limit:
        return await response.read()
    pieces, size = [], announced or 0
    if announced is None:
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > limit:
                break
            pieces.append(piece)
    if size > limit:
        response.close()  # the rest is not read
        raise AnswerTooLarge(request, limit)
    return b"".join(pieces)


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
