"""Being stopped in the very moment that something else ends the work."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


async def unless_stopped(work: Coroutine[None, None, T]) -> T:
    """What ``work`` returns or raises; ``CancelledError`` if the caller was cancelled meanwhile.

    A task group that ends in an error keeps a cancellation of the same moment to itself, and (in Python
    3.11) leaves its task marked as cancelled when it was not.  So the work gets a task of its own, whose
    groups cannot mark the caller's, and whoever handles an error and begins anew can still be stopped.
    """
    caller = asyncio.current_task()
    assert caller is not None, "awaited outside of a task"
    before = caller.cancelling()
    try:
        return await asyncio.create_task(work)
    except BaseException:
        if caller.cancelling() > before:
            raise asyncio.CancelledError from None
        raise
