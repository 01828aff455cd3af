"""The log of a container, from files in the CRI format.

A line is ``2026-11-28T16:37:47.123456789Z stdout F text``; the tag P instead of F means that the text goes on
in the next line of the stream.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

CHUNK_BYTES: Final = 64 * 1024
POLL_S: Final = 0.1
MAX_SINCE_S: Final = 10**9  # before which no container wrote a log
PARTIAL: Final = b"P"


class InvalidLogOption(ValueError):
    """A query parameter of a log has an invalid value."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """PodLogOptions, as their names."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: str = ""  # RFC 3339 in UTC with nine digits of fraction, as in the file; empty: from the start
    stream: str = ""  # stdout or stderr; empty: both


def read_options(query: Mapping[str, str], now: datetime) -> LogOptions:
    """Read the query parameters of a request for a log.  Raises ``InvalidLogOption``."""
    seconds = _number(query, "sinceSeconds", 1)
    since = query.get("sinceTime", "")
    if seconds is not None and since:
        raise InvalidLogOption("at most one of `sinceTime` or `sinceSeconds` may be specified")
    if seconds is not None:
        since = time_stamp(now.timestamp() - min(seconds, MAX_SINCE_S))
    elif since:
        try:
            since = time_stamp(datetime.fromisoformat(since).timestamp())
        except ValueError as error:
            raise InvalidLogOption(f"sinceTime: {error}") from error
    stream = query.get("stream", "All").lower()
    return LogOptions(
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail_lines=_number(query, "tailLines", 0),
        limit_bytes=_number(query, "limitBytes", 1),
        since=since,
        stream="" if stream == "all" else stream,
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "false").lower() not in ("false", "0", "")


def _number(query: Mapping[str, str], name: str, least: int) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        number = int(text)
    except ValueError as error:
        raise InvalidLogOption(f"{name}: {text!r} is not a number") from error
    if number < least:
        raise InvalidLogOption(f"{name}: must be greater than or equal to {least}")
    return number


def time_stamp(seconds: float) -> str:
    """Return an epoch time as a log has it, in UTC with nine digits of fraction."""
    moment = datetime.fromtimestamp(int(seconds), UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{int(seconds % 1 * 1e9):09}Z"


async def log_chunks(path: Path, options: LogOptions, may_grow: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Yield the log as a client sees it.

    ``may_grow``: whether the container still runs; with ``follow`` the log goes on until it has ended.
    """
    with await asyncio.to_thread(path.open, "rb") as file:
        await asyncio.to_thread(_seek, file, options.tail_lines)
        formatter = _Formatter(options)
        while True:
            # Before reading: what is written until the container ends is then still read.
            grows = options.follow and may_grow()
            content = await asyncio.to_thread(file.read, CHUNK_BYTES)
            chunk = formatter.feed(content) if content or grows else formatter.flush()
            if chunk:
                yield chunk
            if formatter.is_full or not (content or grows):
                return
            if not content:
                await asyncio.sleep(POLL_S)


def one_line(written_at: datetime, text: str, options: LogOptions) -> bytes:
    """Return the log of a container that has written one line to stdout, as a client sees it."""
    if options.tail_lines == 0:
        return b""
    return _Formatter(options).feed(f"{time_stamp(written_at.timestamp())} stdout F {text}\n".encode())


def _seek(file: BinaryIO, tail_lines: int | None) -> None:
    """Move to the start of the last ``tail_lines`` lines."""
    if tail_lines is None:
        return
    position = file.seek(0, os.SEEK_END)
    if not position or not tail_lines:
        return
    file.seek(position - 1)
    wanted = tail_lines + (file.read(1) == b"\n")  # the end of the last line begins no further line
    while position > 0:
        size = min(CHUNK_BYTES, position)
        position -= size
        file.seek(position)
        block = file.read(size)
        place = len(block)
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            wanted -= 1
            if wanted == 0:
                file.seek(position + place + 1)
                return
    file.seek(0)


class _Formatter:
    """Turns lines of the log file into lines of the served log."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._since = options.since.encode()
        self._stream = options.stream.encode()
        self._rest = b""
        self._continues = False  # the last line was partial: the next one has no timestamp
        self._left = options.limit_bytes

    @property
    def is_full(self) -> bool:
        return self._left == 0

    def feed(self, content: bytes) -> bytes:
        *lines, self._rest = (self._rest + content).split(b"\n")
        return self._limited(b"".join(self._format(line) for line in lines))

    def flush(self) -> bytes:
        """Return the line without an end, which a crash may have left."""
        line, self._rest = self._rest, b""
        return self._limited(self._format(line)) if line else b""

    def _format(self, line: bytes) -> bytes:
        stamp, _, rest = line.partition(b" ")
        stream, _, rest = rest.partition(b" ")
        tag, separator, text = rest.partition(b" ")
        if not separator and not tag:
            return b""  # damaged by a crash
        if (self._since and stamp < self._since) or (self._stream and stream != self._stream):
            return b""
        prefix = stamp + b" " if self._options.timestamps and not self._continues else b""
        self._continues = tag.split(b":")[0] == PARTIAL
        return prefix + text + (b"" if self._continues else b"\n")

    def _limited(self, chunk: bytes) -> bytes:
        if self._left is None:
            return chunk
        chunk = chunk[: self._left]
        self._left -= len(chunk)
        return chunk
