"""The standard streams of a container: pipes or a terminal, which the kubelet copies to a log and to clients.

The pipes have names, so that the next kubelet finds them. A terminal hangs up when its kubelet is killed.
Logs are in CRI format.
"""

import asyncio
import fcntl
import os
import stat
import struct
import termios
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from quorate.kube.clock import Clock
from quorate.local.container_logs import time_stamp
from quorate.local.runtime.containers.processes import Attempt
from quorate.local.runtime.pod_types import Container

LONGEST_LINE_BYTES: Final = 16384  # longer lines are written in parts, as container runtimes do
ROTATED_BYTES: Final = 10 * 2**20  # of a log, as a kubelet
FALLBACK_LINES: Final = 80
FALLBACK_BYTES: Final = 2048


class LogWriter:
    """Writes lines of both streams of a container to its log."""

    def __init__(self, attempt: Attempt, clock: Clock) -> None:
        self._attempt = attempt
        self._clock = clock
        self._log = _open(attempt.log)
        self._partial: dict[str, bytes] = {}

    def append(self, stream: str, content: bytes) -> None:
        complete, newline, rest = (self._partial.get(stream, b"") + content).rpartition(b"\n")
        prefix = f"{time_stamp(self._clock.now())} {stream} ".encode()
        parts = [_lines(prefix, complete)] if newline else []
        while len(rest) >= LONGEST_LINE_BYTES:
            parts.append(prefix + b"P " + rest[:LONGEST_LINE_BYTES] + b"\n")
            rest = rest[LONGEST_LINE_BYTES:]
        self._partial[stream] = rest
        if parts:
            _write(self._log, b"".join(parts))
            if os.fstat(self._log).st_size > ROTATED_BYTES:
                self._rotate()

    def _rotate(self) -> None:
        """Begin a new log file, and keep the log file so far."""
        log = self._attempt.log
        try:
            if log.exists():
                log.replace(log.with_suffix(".log.old"))
            new = _open(log)
        except OSError:
            return  # such as a full disk: the open file is used until the next try
        os.close(self._log)
        self._log = new

    def end_lines(self) -> None:
        """Write a last line that has no newline."""
        for stream, partial in self._partial.items():
            if partial:
                prefix = f"{time_stamp(self._clock.now())} {stream} ".encode()
                _write(self._log, prefix + b"P " + partial + b"\n")
        self._partial.clear()

    def close(self) -> None:
        if self._log >= 0:
            os.close(self._log)
            self._log = -1


def _open(log: Path) -> int:
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)


def _write(log: int, content: bytes) -> None:
    with suppress(OSError):  # a full disk: the lines are lost, the container runs on
        os.write(log, content)


def _lines(prefix: bytes, complete: bytes) -> bytes:
    """Return the lines of ``complete``, which lacks the last newline, each with the prefix."""
    full = prefix + b"F "
    if len(complete) <= LONGEST_LINE_BYTES:
        return full + complete.replace(b"\n", b"\n" + full) + b"\n"  # fast, for containers that write a lot
    return b"".join(_line(prefix, line) for line in complete.split(b"\n"))


def _line(prefix: bytes, line: bytes) -> bytes:
    starts = range(0, len(line), LONGEST_LINE_BYTES) or (0,)
    parts = [line[start : start + LONGEST_LINE_BYTES] for start in starts]
    return b"".join(prefix + b"P " + part + b"\n" for part in parts[:-1]) + prefix + b"F " + parts[-1] + b"\n"


def last_lines(log: Path) -> str:
    """Return the end of a log as a termination message: at most 80 lines and 2048 bytes."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4 * FALLBACK_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return ""
    parts = [line.split(b" ", 3) for line in lines if line.count(b" ") >= 3]
    texts = [text if tag == b"P" else text + b"\n" for _, _, tag, text in parts[-FALLBACK_LINES:]]
    return b"".join(texts)[-FALLBACK_BYTES:].decode(errors="replace")


OUTPUTS: Final = ("stdout", "stderr")
STREAMS: Final = ("stdin", *OUTPUTS)
READ_BYTES: Final = 8192
PIPE_BYTES: Final = 1 << 20  # the most that a pipe holds, if its owner has no privileges
MAX_UNREAD: Final = 128
"""How many reads a client may have waiting; then the container is held up, as a kubelet does."""

Output = tuple[str, bytes]
"""A stream, and what the container has written to it."""


class Console:
    """The kubelet's side of the streams."""

    def __init__(
        self, attempt: Attempt, container: Container, outputs: Mapping[str, int], clock: Clock
    ) -> None:
        """``outputs``: the descriptors to read from, by stream."""
        self.is_terminal = container.tty
        self.stdin_ends = container.stdin_once and not container.tty  # with the first client
        self._attempt = attempt
        self._outputs = dict(outputs)
        self._stdin: int | None = None
        self._log = LogWriter(attempt, clock)
        self._clients: set[asyncio.Queue[Output | None]] = set()
        self._held: set[str] = set()  # streams that wait for a slow client
        self._writing = asyncio.Lock()
        self._writable = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for stream in outputs:
            self._watch(stream)

    @classmethod
    def create(cls, attempt: Attempt, container: Container, clock: Clock) -> tuple["Console", list[int]]:
        """Return the streams of a new attempt, and the descriptors for its process, which the caller closes.

        The process also holds its outputs open for reading: without a kubelet it is not ended by SIGPIPE.
        """
        if container.tty:
            master, slave = os.openpty()
            os.set_blocking(master, False)
            console = cls(attempt, container, {"stdout": master}, clock)
            console._stdin = master if container.stdin else None
            return console, [slave] * 3
        if container.stdin:
            _make_pipe(attempt.pipe("stdin"))
            # As long as the process could write to its own stdin, that would not end.
            own = os.O_RDONLY | os.O_NONBLOCK if container.stdin_once else os.O_RDWR
            stdin = os.open(attempt.pipe("stdin"), own)
            os.set_blocking(stdin, True)
        else:
            stdin = os.open(os.devnull, os.O_RDONLY)
        console = cls.adopt(attempt, container, clock)
        return console, [stdin, *(os.open(attempt.pipe(stream), os.O_RDWR) for stream in OUTPUTS)]

    @classmethod
    def adopt(cls, attempt: Attempt, container: Container, clock: Clock) -> "Console":
        """Return the streams of an attempt without a terminal, or with a terminal that has hung up."""
        for stream in OUTPUTS:
            _make_pipe(attempt.pipe(stream))
        outputs = {stream: os.open(attempt.pipe(stream), os.O_RDONLY | os.O_NONBLOCK) for stream in OUTPUTS}
        console = cls(attempt, container, outputs, clock)
        with suppress(OSError):  # it has no stdin
            console._stdin = os.open(attempt.pipe("stdin"), os.O_WRONLY | os.O_NONBLOCK)
        return console

    @property
    def has_stdin(self) -> bool:
        return self._stdin is not None

    async def output(self) -> AsyncGenerator[Output, None]:
        """Yield what the container writes from now on, until it has ended."""
        if not self._outputs:
            return
        queue: asyncio.Queue[Output | None] = asyncio.Queue()
        self._clients.add(queue)
        try:
            while (output := await queue.get()) is not None:
                yield output
                self._resume()
        finally:
            self._clients.discard(queue)
            self._resume()

    async def write(self, content: bytes) -> None:
        """Write to the stdin of the container, if that is still open, as fast as the container reads it."""
        async with self._writing:
            while content and self._stdin is not None:
                try:
                    content = content[os.write(self._stdin, content) :]
                except BlockingIOError:
                    self._writable.clear()
                    self._loop.add_writer(self._stdin, self._writable.set)
                    await self._writable.wait()
                except OSError:  # the container has closed it
                    return
                finally:
                    if self._stdin is not None:
                        self._loop.remove_writer(self._stdin)

    def end_stdin(self) -> None:
        if self._stdin is not None:
            self._loop.remove_writer(self._stdin)
            if not self.is_terminal:
                os.close(self._stdin)
            self._stdin = None
            self._writable.set()

    def resize(self, columns: int, rows: int) -> None:
        if self.is_terminal and "stdout" in self._outputs:
            set_size(self._outputs["stdout"], columns, rows)

    def copy_stream(self, stream: str) -> None:
        """Copy the content of a stream to the log and the clients, without what is written meanwhile.

        A process that the container left in a shared PID namespace may write as fast as this reads.
        """
        for _ in range(PIPE_BYTES // READ_BYTES):
            if not (content := _read(self._outputs[stream])):
                return
            self._put(stream, content)

    def copy(self) -> None:
        """Copy the content of all streams; end a last line that has no newline."""
        for stream in self._outputs:
            self.copy_stream(stream)
        self._log.end_lines()

    def finish(self) -> None:
        """Copy what is left after the container has ended, and close the streams."""
        self.copy()
        self.close()
        for stream in STREAMS:
            self._attempt.pipe(stream).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the streams; a container without a terminal runs on."""
        self.end_stdin()
        for descriptor in self._outputs.values():
            self._loop.remove_reader(descriptor)
            os.close(descriptor)
        self._outputs.clear()
        self._log.close()
        for queue in self._clients:
            queue.put_nowait(None)

    def _watch(self, stream: str) -> None:
        self._loop.add_reader(self._outputs[stream], self._on_readable, stream)

    def _on_readable(self, stream: str) -> None:
        """Read once and copy what the container wrote to the stream; the loop calls again if there is more.

        A container that writes without pause does not block the event loop.
        """
        if any(queue.qsize() >= MAX_UNREAD for queue in self._clients):
            self._loop.remove_reader(self._outputs[stream])
            self._held.add(stream)
            return
        content = _read(self._outputs[stream])
        if content:
            self._put(stream, content)
        elif content is not None:
            # No writer: the container has ended, or has not started. ``finish`` reads what is left.
            self._loop.remove_reader(self._outputs[stream])

    def _resume(self) -> None:
        """Read streams again that were held up for a client."""
        for stream in self._held & self._outputs.keys():
            self._watch(stream)
        self._held.clear()

    def _put(self, stream: str, content: bytes) -> None:
        self._log.append(stream, content)
        for queue in self._clients:
            queue.put_nowait((stream, content))


def set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _make_pipe(path: Path) -> None:
    """Create a named pipe unless it exists."""
    if not (path.exists() and stat.S_ISFIFO(path.stat().st_mode)):
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)


def _read(descriptor: int) -> bytes | None:
    """Return what is there, empty bytes at the end, or None if there may be more later."""
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return None  # a process that left the container may still hold the pipe
    except OSError:
        return b""  # no process has the terminal any more
