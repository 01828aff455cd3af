"""Restart of work that ended with an exception which nothing expected.

Faults of single objects are handled where they occur (see ``kube.object_faults``).  What remains is a bug in
a loop of its own: the state that the loop had is dropped, and the work starts over from lists.  The process
stays up, with its other parts, such as webhooks.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Final

from quorate.kube.cancellation import end_tasks, run_cancellable
from quorate.kube.clock import Clock
from quorate.kube.flowcontrol import Backoff
from quorate.kube.limits import STABLE_RUN_S
from quorate.kube.log import logger

RESTART: Final = Backoff(first_s=1.0, cap_s=60.0)


async def run_restarting(
    name: str,
    run: Callable[[], Coroutine[None, None, None]],
    clock: Clock,
    passes: tuple[type[Exception], ...] = (),
) -> None:
    """Run until the work ends or is cancelled; restart it with backoff after an exception.

    Exceptions of the types in ``passes`` are raised, alone or in a group.
    """
    steady = clock.steady
    failures = 0
    while True:
        began = steady.now()
        try:
            await run_cancellable(run())
            return
        except Exception as error:
            if _contains(error, passes):
                raise
            failures = 1 if steady.now() - began >= STABLE_RUN_S else failures + 1
            restart_in_s = RESTART.delay_s(failures)
            logger(__name__).fault("restarting", error, part=name, restart_in_s=restart_in_s)
            await steady.sleep_until(steady.now() + restart_in_s)


@asynccontextmanager
async def restarting(
    name: str, run: Callable[[], Coroutine[None, None, None]], clock: Clock
) -> AsyncIterator[None]:
    """Run ``run`` as ``run_restarting`` does, in a task that is cancelled at the end of the block."""
    task = asyncio.create_task(run_restarting(name, run, clock), name=name)
    try:
        yield
    finally:
        await end_tasks((task,))


def _contains(error: Exception, types: tuple[type[Exception], ...]) -> bool:
    if isinstance(error, ExceptionGroup):
        return error.subgroup(types) is not None if types else False
    return isinstance(error, types)
