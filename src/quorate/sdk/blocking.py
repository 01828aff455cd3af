"""Run asynchronous code from synchronous code, also where an event loop runs already, as in a notebook."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``work()`` to its end in an event loop of its own and return its result.

    A loop that runs in this thread stands still meanwhile.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_running = False
    else:
        is_running = True
    if not is_running:
        return _run(work)  # outside of the handler, so that its errors have no other context
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_run, work).result()


def _run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    # With a factory, the runner leaves the current event loop of the thread as it is.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work())
