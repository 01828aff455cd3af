"""Running a controller: each key it is given is brought to its decided state, several keys at a time.

The contract of the ``reconcile`` function: it is given a name, looks at the world as it is now, decides
once and writes; it returns the moment (epoch seconds) to look again, or None when the next change is soon
enough.  It is never run twice at once for one key.

What ``kube.errors`` names is the outside's doing: the key is tried again after a backoff of its own, until
a run succeeds.  Any other exception is ours: it is logged with its traceback,
and tried again in the same way, so that one object cannot stop the work on all the others.
"""

import asyncio
from collections.abc import Awaitable, Callable

from quorate.api.meta import Key
from quorate.kube.clock import Clock, Timer
from quorate.kube.errors import ApiError, Conflict, Unreachable, Unreadable
from quorate.kube.flowcontrol import Backoff
from quorate.kube.log import logger
from quorate.kube.work_queue import WorkQueue

RETRY = Backoff(first_s=0.01, cap_s=60.0)


class Reconciler:
    def __init__(
        self, name: str, reconcile: Callable[[Key], Awaitable[float | None]], clock: Clock, workers: int = 4
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._steady = clock.steady
        self._queue = WorkQueue()  # its moments are those of the steady clock
        self._failures: dict[Key, int] = {}  # runs in a row that raised, for keys whose last run did
        self._busy = 0  # runs under way, at most _workers
        self._stopping = False
        self._news = asyncio.Event()  # set when the queue may have something to start or to wait for
        self._timer = Timer(clock.steady, self._news)
        self._idle = asyncio.Event()  # set while nothing runs and nothing is ready
        self._idle.set()
        self._log = logger(__name__).bind(controller=name)

    def enqueue(self, key: Key) -> None:
        self._queue.add(key)
        self._idle.clear()
        self._news.set()

    def enqueue_at(self, key: Key, moment: float) -> None:
        """Run at ``moment`` (epoch seconds): after the time that is left until then, come what may."""
        self.enqueue_in(key, moment - self._clock.now())

    def enqueue_in(self, key: Key, delay_s: float) -> None:
        self._queue.add_at(key, self._steady.now() + delay_s)
        self._news.set()

    def stop(self) -> None:
        """Start no more runs; ``run`` returns when those under way have ended."""
        self._stopping = True
        self._news.set()

    async def drained(self) -> None:
        """Return once nothing runs and nothing is ready; keys delayed to a later moment do not count."""
        await self._idle.wait()

    async def run(self) -> None:
        """Work until ``stop`` or cancellation; a cancelled run leaves its object for the next start."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while not self._stopping:
                    self._news.clear()
                    self._start_runs(tasks)
                    if self._busy < self._workers:
                        self._timer.reset(self._queue.next_due())
                    await self._news.wait()
        finally:
            self._timer.reset(None)

    def _start_runs(self, tasks: asyncio.TaskGroup) -> None:
        while self._busy < self._workers:
            key = self._queue.get(self._steady.now())
            if key is None:
                break
            self._busy += 1
            self._idle.clear()
            tasks.create_task(self._run_once(key))

    async def _run_once(self, key: Key) -> None:
        again_in_s: float | None
        try:
            again_at = await self._reconcile(key)
        except (ApiError, Unreachable, Unreadable) as error:
            again_in_s = self._after_failure(key)
            if not isinstance(error, Conflict):  # a conflict is everyday life: somebody else wrote first
                self._log.warning("retrying", key=key, problem=str(error), again_in_s=again_in_s)
        except Exception as error:
            again_in_s = self._after_failure(key)
            self._log.fault("reconcile raised", error, key=key, again_in_s=again_in_s)
        else:
            again_in_s = None if again_at is None else again_at - self._clock.now()
            self._failures.pop(key, None)
        finally:
            self._busy -= 1
            self._queue.done(key)
            self._news.set()
            if self._queue.idle:
                self._idle.set()
        if again_in_s is not None:
            self._queue.add_at(key, self._steady.now() + again_in_s)

    def _after_failure(self, key: Key) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return RETRY.delay_s(failures)
