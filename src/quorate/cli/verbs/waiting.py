"""Reads of commands that wait for a job: they outlast a restart of the API server."""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Final, TypeVar

import typer

from quorate.kube.errors import PASSING

T = TypeVar("T")

PAUSE_S: Final = 2.0  # between two attempts
LONGEST_S: Final = 300.0  # a control plane is upgraded in less


async def until_answered(
    read: Callable[[], Awaitable[T]], *, pause_s: float = PAUSE_S, longest_s: float = LONGEST_S
) -> T:
    """Return the result of ``read``, which is repeated while the API server does not answer.

    The first problem is printed on standard error.  After ``longest_s`` without an answer it is raised.
    """
    until: float | None = None
    while True:
        try:
            return await read()
        except PASSING as error:
            if until is None:
                until = monotonic() + longest_s
                typer.echo(f"waiting for the API server: {error}", err=True)
            elif monotonic() >= until:
                raise
        await asyncio.sleep(pause_s)
