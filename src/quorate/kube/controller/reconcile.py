"""The reconciler: runs a ``reconcile`` function for the keys of a work queue, several keys concurrently.

Contract of ``reconcile``: it gets a key, reads the current state, decides once and writes.  It returns the
time (epoch seconds) of the next run, or None if the next change is early enough.  It never runs twice
concurrently for one key.  It may be a plain function that returns the time if there is nothing to write, else
an awaitable of the time: most runs then need no task of their own.

After an error of ``kube.errors`` the key is retried with a backoff of its own until a run succeeds.  Any
other exception is a bug: it is retried in the same way, so that one object cannot stop the work on all
others, and passed to ``report`` (such as ``Informer.reconcile_failed``).  Without ``report`` its traceback is
logged once for consecutive failures.
"""

import asyncio
from collections.abc import Awaitable, Callable

from quorate.api.meta import Key
from quorate.kube.clock import Clock, Timer
from quorate.kube.controller.work_queue import WorkQueue
from quorate.kube.errors import Conflict, NotFound, RequestFailed
from quorate.kube.flowcontrol import Backoff
from quorate.kube.limits import RUNS_IN_ONE_TURN
from quorate.kube.log import logger

RETRY = Backoff(first_s=0.01, cap_s=60.0)
NextRun = float | None  # epoch seconds
Reconcile = Callable[[Key], Awaitable[NextRun] | NextRun]


class Reconciler:
    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        clock: Clock,
        workers: int = 4,
        *,
        report: Callable[[Key, Exception], None] | None = None,
    ) -> None:
        self.name = name
        self._reconcile = reconcile
        self._clock = clock
        self._workers = workers
        self._report = report
        self._steady = clock.steady
        self._queue = WorkQueue()  # its moments are steady time
        self._failures: dict[Key, int] = {}  # consecutive failed runs; no key after a successful run
        self._busy = 0  # runs in progress, at most _workers
        self.is_running = False
        self._stopping = False
        self._queue_changed = asyncio.Event()  # set when a run may start or a delay may have changed
        self._timer = Timer(clock.steady, self._queue_changed)
        self._idle = asyncio.Event()  # set while nothing runs and nothing is ready
        self._idle.set()
        self._log = logger(__name__).bind(controller=name)

    def enqueue(self, key: Key, *, urgent: bool = False) -> None:
        self._queue.add(key, urgent=urgent)
        self._idle.clear()
        self._queue_changed.set()

    def enqueue_at(self, key: Key, moment: float) -> None:
        """Run at ``moment`` (epoch seconds), also if the wall clock is set meanwhile."""
        self.enqueue_in(key, moment - self._clock.now())

    def enqueue_in(self, key: Key, delay_s: float) -> None:
        if self._queue.add_at(key, self._steady.now() + delay_s):
            self._queue_changed.set()

    def forget(self, key: Key) -> None:
        """Drop the delayed run of a deleted object."""
        self._queue.forget(key)

    def stop(self) -> None:
        """Start no more runs; ``run`` returns when the current runs have ended."""
        self._stopping = True
        self._queue_changed.set()

    async def drained(self) -> None:
        """Return once no key runs or is ready; delayed keys do not count."""
        await self._idle.wait()

    async def run(self) -> None:
        """Run until ``stop`` or cancellation; a cancelled run is repeated after the next start."""
        self.is_running = True
        try:
            async with asyncio.TaskGroup() as tasks:
                while not self._stopping:
                    self._queue_changed.clear()
                    if self._start_runs(tasks) == RUNS_IN_ONE_TURN:
                        await asyncio.sleep(0)
                        continue
                    if self._busy < self._workers:
                        self._timer.reset(self._queue.next_due())
                    await self._queue_changed.wait()
        finally:
            self.is_running = False
            self._timer.reset(None)

    def _start_runs(self, tasks: asyncio.TaskGroup) -> int:
        """Start the runs of ready keys; return how many have ended, at most ``RUNS_IN_ONE_TURN``."""
        ended = 0
        while self._busy < self._workers and ended < RUNS_IN_ONE_TURN:
            key = self._queue.get(self._steady.now())
            if key is None:
                break
            self._busy += 1
            self._idle.clear()
            try:
                run = self._reconcile(key)
            except Exception as error:
                run = _failed(error)
            if run is None or isinstance(run, int | float):
                self._ended(key, self._after_success(key, run))
                ended += 1
            else:
                tasks.create_task(self._run_once(key, run))
        return ended

    def _reported(self, key: Key, error: Exception) -> bool:
        """Return False without ``report``, or if that raises, which must not end the other reconciles."""
        if self._report is None:
            return False
        try:
            self._report(key, error)
        except Exception as second:
            self._log.fault("report of an object raised", second, key=key)
            return False
        return True

    async def _run_once(self, key: Key, run: Awaitable[NextRun]) -> None:
        again_in_s = None
        try:
            again_in_s = self._after_success(key, await run)
        except RequestFailed as error:
            again_in_s = self._after_failure(key)
            is_gone = isinstance(error, NotFound) and self._failures[key] == 1
            # Normal: another client wrote, or deleted what is written, first.
            if not isinstance(error, Conflict) and not is_gone:
                self._log.warning("retrying", key=key, problem=str(error), retry_in_s=again_in_s)
        except Exception as error:
            again_in_s = self._after_failure(key)
            if not self._reported(key, error) and self._failures[key] == 1:
                self._log.fault("reconcile raised", error, key=key, retry_in_s=again_in_s)
            self._log.warning("retrying", key=key, problem=repr(error), retry_in_s=again_in_s)
        finally:
            self._queue_changed.set()
            self._ended(key, again_in_s)

    def _ended(self, key: Key, again_in_s: float | None) -> None:
        self._busy -= 1
        self._queue.done(key)
        if self._queue.idle:
            self._idle.set()
        if again_in_s is not None:
            self._queue.add_at(key, self._steady.now() + again_in_s)

    def _after_success(self, key: Key, run_at: NextRun) -> float | None:
        self._failures.pop(key, None)
        return None if run_at is None else run_at - self._clock.now()

    def _after_failure(self, key: Key) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return RETRY.delay_s(failures)


async def _failed(error: Exception) -> NextRun:
    raise error
