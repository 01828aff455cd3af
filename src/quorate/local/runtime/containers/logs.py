"""Logs of containers in CRI format: the kubelet copies lines from pipes to a file."""

import asyncio
import os
import stat
from pathlib import Path
from typing import Final

from quorate.api.meta import at_epoch
from quorate.kube.clock import Clock
from quorate.local.runtime.containers.processes import Attempt

STREAMS: Final = ("stdout", "stderr")
READ_BYTES: Final = 65536
LONGEST_LINE_BYTES: Final = 16384  # longer lines are written in parts, as container runtimes do
FALLBACK_LINES: Final = 80
FALLBACK_BYTES: Final = 2048


def make_pipes(attempt: Attempt) -> None:
    """Create the pipes of an attempt unless they exist."""
    for stream in STREAMS:
        path = attempt.pipe(stream)
        if not (path.exists() and stat.S_ISFIFO(path.stat().st_mode)):
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)


class LogWriter:
    """Copies both streams of a container to its log, until their writers have ended."""

    def __init__(self, attempt: Attempt, clock: Clock) -> None:
        """Open the pipes for reading; that needs no writer."""
        self._attempt = attempt
        self._clock = clock
        self._log = os.open(attempt.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        self._pipes = {
            stream: os.open(attempt.pipe(stream), os.O_RDONLY | os.O_NONBLOCK) for stream in STREAMS
        }
        self._partial: dict[str, bytes] = dict.fromkeys(STREAMS, b"")
        self._loop = asyncio.get_running_loop()
        for stream, pipe in self._pipes.items():
            self._loop.add_reader(pipe, self._on_readable, stream)

    def _on_readable(self, stream: str) -> None:
        """Copy what one read returns, so that one container does not hold up others."""
        try:
            content = os.read(self._pipes[stream], READ_BYTES)
        except BlockingIOError:
            return
        if content:
            self._append(stream, content)
        else:
            # No writer: the container has ended, or has not started. ``finish`` reads what is left.
            self._loop.remove_reader(self._pipes[stream])

    def _append(self, stream: str, content: bytes) -> None:
        *lines, rest = (self._partial[stream] + content).split(b"\n")
        prefix = f"{_timestamp(self._clock.now())} {stream} ".encode()
        parts = []
        for line in lines:
            parts += _line(prefix, line)
        while len(rest) >= LONGEST_LINE_BYTES:
            parts.append(prefix + b"P " + rest[:LONGEST_LINE_BYTES] + b"\n")
            rest = rest[LONGEST_LINE_BYTES:]
        self._partial[stream] = rest
        if parts:
            _write(self._log, b"".join(parts))

    def copy(self) -> None:
        """Copy what the pipes hold."""
        for stream, pipe in self._pipes.items():
            while content := _read(pipe):
                self._append(stream, content)
            if self._partial[stream]:
                self._append(stream, b"\n")

    def finish(self) -> None:
        """Copy what the pipes still hold after the container has ended, and close the log."""
        self.copy()
        self.close()
        for stream in STREAMS:
            self._attempt.pipe(stream).unlink(missing_ok=True)

    def close(self) -> None:
        """Stop reading; the container runs on."""
        for pipe in self._pipes.values():
            self._loop.remove_reader(pipe)
            os.close(pipe)
        self._pipes = {}
        if self._log >= 0:
            os.close(self._log)
            self._log = -1


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, READ_BYTES)
    except BlockingIOError:
        return b""  # a process that left the container still holds the pipe


def _write(log: int, content: bytes) -> None:
    try:
        os.write(log, content)
    except OSError:
        return  # a full disk: the lines are lost, the container runs on


def _line(prefix: bytes, line: bytes) -> list[bytes]:
    parts = [
        line[start : start + LONGEST_LINE_BYTES] for start in range(0, len(line), LONGEST_LINE_BYTES)
    ] or [b""]
    return [prefix + (b"P " if part is not parts[-1] else b"F ") + part + b"\n" for part in parts]


def _timestamp(now: float) -> str:
    nanoseconds = int(now * 1e9) % 1_000_000_000
    return f"{at_epoch(float(int(now))):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z"


def last_lines(log: Path) -> str:
    """Return the end of a log as a termination message: at most 80 lines and 2048 bytes."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4 * FALLBACK_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return ""
    texts = [line.split(b" ", 3)[-1] for line in lines if line.count(b" ") >= 3]
    joined = b"\n".join(texts[-FALLBACK_LINES:])
    return (joined + b"\n" if joined else b"")[-FALLBACK_BYTES:].decode(errors="replace")
