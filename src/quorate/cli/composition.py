"""What the processes we compose share: where identity comes from, and when to stop."""

import asyncio
import signal
import uuid
from collections.abc import Callable


def new_uid() -> str:
    return str(uuid.uuid4())  # noqa: TID251  the one source of identity of the processes we compose


async def until_stopped(announce: Callable[[], None]) -> None:
    """Return at SIGINT or SIGTERM; ``announce`` is called once they are listened for."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    announce()
    await stopped.wait()
