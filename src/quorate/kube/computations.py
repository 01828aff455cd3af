"""Computations on large objects, which run in a thread so that they do not block the event loop."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from quorate.api import codec
from quorate.api.limits import LARGE_BYTES
from quorate.kube.limits import SWITCH_INTERVAL_S

T = TypeVar("T")


def size_of(obj: object) -> int:
    """Return the bytes of an object as JSON, which takes a few milliseconds for the largest one."""
    return len(codec.encode(obj))


class Computations:
    """Runs pure functions; functions on many bytes run in a thread, one at a time.

    The event loop does other work meanwhile.  Only one thread executes Python code at any time, so it
    competes with one computation, not with as many as there are large objects.
    """

    def __init__(self) -> None:
        self._thread = asyncio.Lock()

    async def run(self, size: int, function: Callable[..., T], *arguments: Any) -> T:
        if size < LARGE_BYTES:
            return function(*arguments)
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        async with self._thread:
            return await asyncio.to_thread(function, *arguments)
