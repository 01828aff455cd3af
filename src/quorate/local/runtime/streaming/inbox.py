"""Bytes that arrive for one stream, with a limit that holds up the connection."""

import asyncio
from collections import deque
from typing import Final

MAX_BYTES: Final = 1 << 20


class Inbox:
    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._changed = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Return True if nothing will be read any more."""
        return self._ended and not self._chunks

    async def put(self, chunk: bytes) -> None:
        """Add bytes; wait while more than ``MAX_BYTES`` are unread."""
        while self._size > MAX_BYTES and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        if chunk and not self._ended:
            self._chunks.append(chunk)
            self._size += len(chunk)
            self._changed.set()

    def end(self) -> None:
        """Let ``get`` return empty bytes after what has arrived; nothing is added any more."""
        self._ended = True
        self._changed.set()

    def discard(self) -> None:
        """Drop the unread bytes and all bytes that still arrive: nothing reads the stream any more."""
        self._chunks.clear()
        self._size = 0
        self.end()

    async def get(self) -> bytes:
        """Return the next bytes, or empty bytes at the end."""
        while not self._chunks and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        if not self._chunks:
            return b""
        chunk = self._chunks.popleft()
        self._size -= len(chunk)
        self._changed.set()
        return chunk
