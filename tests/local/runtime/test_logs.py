"""Logs have CRI format, whatever a container writes, in whatever pieces it arrives."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.kube.clock import WallClock
from quorate.local.runtime.containers.console import (
    LONGEST_LINE_BYTES,
    PIPE_BYTES,
    READ_BYTES,
    ROTATED_BYTES,
    Console,
    last_lines,
)
from quorate.local.runtime.containers.processes import Attempt
from quorate.local.runtime.pod_types import Container


def log_of(directory: Path, pieces: list[bytes]) -> list[list[bytes]]:
    """Return the fields of each line that is written for these pieces of standard output."""
    attempt = Attempt(directory, "uid", "main", 0)
    attempt.directory.mkdir(parents=True, exist_ok=True)
    attempt.log.unlink(missing_ok=True)

    async def write() -> None:
        console = Console.adopt(attempt, Container(name="main"), WallClock())
        descriptor = os.open(attempt.pipe("stdout"), os.O_WRONLY)
        for piece in pieces:
            os.write(descriptor, piece)
            console.copy_stream("stdout")
        os.close(descriptor)
        console.finish()

    asyncio.run(write())
    return [line.split(b" ", 3) for line in attempt.log.read_bytes().splitlines()]


@given(
    pieces=st.lists(
        st.one_of(st.binary(max_size=20), st.integers(1, 3).map(lambda n: b"x" * (n * 7000))), max_size=6
    )
)
def test_a_log_has_every_byte_in_order(tmp_path_factory: object, pieces: list[bytes]) -> None:
    pieces = [piece.replace(b"\r", b"") for piece in pieces]
    lines = log_of(tmp_path_factory.getbasetemp() / "log", pieces)  # type: ignore[attr-defined]
    text = b"".join(
        (fields[3] if len(fields) == 4 else b"") + (b"\n" if fields[2] == b"F" else b"") for fields in lines
    )
    assert text == b"".join(pieces)
    assert all(len(fields[3]) <= LONGEST_LINE_BYTES for fields in lines if len(fields) == 4)
    assert {fields[1] for fields in lines} <= {b"stdout"}


@pytest.mark.parametrize("text", [b"one\ntwo words\n", b"one\ntwo words", b"one", b""])
def test_the_end_of_a_log_is_a_message(tmp_path: Path, text: bytes) -> None:
    log_of(tmp_path, [text[:8], text[8:]])
    assert last_lines(Attempt(tmp_path, "uid", "main", 0).log) == text.decode()


def test_a_log_that_cannot_be_rotated_grows_on(tmp_path: Path) -> None:
    log = Attempt(tmp_path, "uid", "main", 0).log
    (log.parent / f"{log.name}.old").mkdir(parents=True)
    lines = log_of(tmp_path, [b"x" * 9_999 + b"\n"] * (ROTATED_BYTES // 10_000 + 2) + [b"last\n"])
    assert len(lines) == ROTATED_BYTES // 10_000 + 3
    assert lines[-1][3] == b"last"


class RefillingClock(WallClock):
    """A clock that, each time it is read, lets a process write to the standard output of a container."""

    descriptor = -1
    refills = 0

    def now(self) -> float:
        if self.descriptor >= 0:
            self.refills += 1
            assert self.refills <= PIPE_BYTES // READ_BYTES, "it reads what is written meanwhile"
            os.write(self.descriptor, b"y\n" * (READ_BYTES // 2))
        return super().now()


def test_a_process_that_writes_without_end_does_not_hold_up_the_kubelet(tmp_path: Path) -> None:
    attempt, clock = Attempt(tmp_path, "uid", "main", 0), RefillingClock()
    attempt.directory.mkdir(parents=True)

    async def finish() -> None:
        console = Console.adopt(attempt, Container(name="main"), clock)
        clock.descriptor = os.open(attempt.pipe("stdout"), os.O_WRONLY)
        os.write(clock.descriptor, b"y\n")
        console.finish()
        os.close(clock.descriptor)

    asyncio.run(finish())
