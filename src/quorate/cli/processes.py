"""What every process of ours has: an identity, and an end that signals ask for."""

import asyncio
import signal
import uuid
from collections.abc import Callable, Coroutine
from typing import Final, TypeVar

T = TypeVar("T")
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


def new_uid() -> str:
    return str(uuid.uuid4())  # noqa: TID251  the one source of identity of the processes we compose


async def until_stopped(announce: Callable[[], None]) -> None:
    """Return at SIGINT or SIGTERM; ``announce`` is called once they are listened for."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _STOPPING:
        loop.add_signal_handler(number, stopped.set)
    announce()
    await stopped.wait()


async def stopped_by_signals(work: Coroutine[None, None, T]) -> T:
    """What ``work`` returns; SIGINT and SIGTERM end it in order, by cancelling it, at whatever moment."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in _STOPPING:
        loop.add_signal_handler(number, task.cancel)
    return await task
