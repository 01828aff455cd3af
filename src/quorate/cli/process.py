"""What every process of ours has: a way to its cluster, an identity, and an end that signals ask for."""

import asyncio
import gc
import platform
import signal
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer

from quorate.kube.log import Format

T = TypeVar("T")

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="How to reach the cluster. Default: $KUBECONFIG, ~/.kube/config, or the pod's own account.",
    ),
]
Context = Annotated[
    str, typer.Option(metavar="NAME", help="The kubeconfig's context, if not the current one.")
]
LogFormat = Annotated[
    Format, typer.Option(help="Lines for people, or JSON for machines; both on standard error.")
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Log every step.")]
_STOPPING: Final = (signal.SIGINT, signal.SIGTERM)
_GARBAGE_AFTER: Final = (50_000, 20, 20)


def tune_garbage_collection() -> None:
    """Have Python look for circles of objects after 50,000 new ones, not after 700.

    For who keeps a large cluster in memory and is sent thousands of objects a second, none of which is ever
    part of a circle: looking for some took a seventh of their time.
    """
    gc.set_threshold(*_GARBAGE_AFTER)


def new_identity() -> str:
    """By which replicas on whatever machine tell each other apart."""
    return f"{platform.node()}_{new_uid()}"


def new_uid() -> str:
    return str(uuid.uuid4())  # noqa: TID251  the one source of identity of the processes we compose


async def wait_for_signal(announce: Callable[[], None]) -> None:
    """Return at SIGINT or SIGTERM; ``announce`` is called once they are listened for."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _STOPPING:
        loop.add_signal_handler(number, stopped.set)
    announce()
    await stopped.wait()


async def run_until_signal(work: Coroutine[None, None, T]) -> T:
    """What ``work`` returns; SIGINT and SIGTERM end it in order, by cancelling it, at whatever moment."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in _STOPPING:
        loop.add_signal_handler(number, task.cancel)
    return await task
