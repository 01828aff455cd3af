"""Commands of slow clients, and terminal sizes that clients may not send."""

import asyncio
import os

import pytest

from quorate.api.codec import Json
from quorate.local.connections import Inbox
from quorate.local.runtime.containers.running import RunningContainer
from quorate.local.runtime.streaming.commands import DRAIN_S, CommandOptions, TerminalSizes, run_command
from quorate.local.runtime.streaming.remote_command import resize


class SlowClient:
    """Takes a second for each chunk of output."""

    def __init__(self) -> None:
        self.stdin = Inbox()
        self.sizes = TerminalSizes()
        self.received = 0

    async def write(self, stream: str, content: bytes) -> None:
        await asyncio.sleep(1)  # sleeps: a client that reads slowly
        self.received += len(content)

    async def finish(self, status: Json) -> None:
        pass


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="enters the namespaces of this process, which needs root")
def test_a_slow_client_receives_the_whole_output_of_a_command_that_has_ended() -> None:
    here = RunningContainer(os.getpid(), {}, "/")
    client = SlowClient()
    size = 150_000  # fits into the buffers, so that the command ends at once
    command = ("head", "-c", str(size), "/dev/zero")
    status = asyncio.run(run_command(here, CommandOptions(stdout=True, command=command), client))
    assert (status["status"], client.received) == ("Success", size)
    assert size / 2**15 > DRAIN_S, "the client needs longer than output is awaited"


@pytest.mark.parametrize(
    "content", [b'{"Width":-1,"Height":24}', b'{"Width":80,"Height":65536}', b'{"Width":80}', b"[]", b"\xff"]
)
def test_a_size_that_no_terminal_has_changes_nothing(content: bytes) -> None:
    sizes, followed = TerminalSizes(), []
    sizes.follow(lambda columns, rows: followed.append((columns, rows)))
    resize(sizes, content)
    assert not followed
    resize(sizes, b'{"Width":80,"Height":24}')
    assert followed == [(80, 24)]
