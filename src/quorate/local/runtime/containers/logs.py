"""Log files of containers, in CRI format."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from quorate.api.meta import at_epoch
from quorate.kube.clock import Clock
from quorate.local.runtime.containers.processes import Attempt

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
        prefix = f"{_timestamp(self._clock.now())} {stream} ".encode()
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
        """End a last line that has no newline."""
        for stream, partial in self._partial.items():
            if partial:
                self.append(stream, b"\n")

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
