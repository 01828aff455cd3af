"""Cancellation of tasks that no error hides, that waits for their ends, and that starts no more tasks."""

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def run_cancellable(work: Coroutine[None, None, T]) -> T:
    """Return or raise the result of ``work``; raise ``CancelledError`` if the caller was cancelled meanwhile.

    A task group that ends with an error absorbs a cancellation of the same moment and (in Python 3.11) leaves
    its task marked as cancelled.  ``work`` therefore runs in a task of its own: its groups cannot mark the
    caller's task, so that a caller that handles the error and starts again can still be cancelled.
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


def start_task(group: asyncio.TaskGroup, work: Coroutine[None, None, T]) -> asyncio.Task[T]:
    """Run ``work`` in a group that may end meanwhile, and return its task.

    If the group is ending, ``work`` is closed and ``CancelledError`` raised: the caller will be cancelled,
    too.  ``create_task`` of the group raises ``RuntimeError`` then and (until Python 3.13) does not close it.
    """
    try:
        return group.create_task(work)
    except RuntimeError:
        work.close()
        raise asyncio.CancelledError from None


async def end_tasks(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel the tasks and wait until they have ended, with whatever result."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task after its caller was cancelled: otherwise asyncio logs it."""
    if not task.cancelled():
        task.exception()
