"""Simulate the jobs of workloads: a job ends after its runtime, and stops at once when evicted.

The writes are those of the job framework: one for the end of a run and one that releases the quota of an
evicted workload, each for the observed version.  A conflicting write is repeated at the next change.
"""

import asyncio
from typing import Final, NamedTuple

from bench.admission.objects import RUNS_MS
from quorate.api.configuration.feature_gates import DEFAULT_GATES
from quorate.api.kueue import Workload, WorkloadStatus
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import Conflict, NotFound, Unreachable
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import send, status_patch
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.statuses import finish_status, release_status

PAUSE_S: Final = 1.0


class _Run(NamedTuple):
    until_s: float  # on the clock of the event loop
    timer: asyncio.TimerHandle


class Jobs:
    def __init__(self, client: Client, clock: Clock, workloads: Informer[Workload]) -> None:
        self._client = client
        self._clock = clock
        self._workloads = workloads
        self._runs: dict[Key, _Run] = {}  # of workloads that are admitted and not evicted
        self._writes: asyncio.TaskGroup | None = None  # while running

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as self._writes:
            await asyncio.Event().wait()

    def workload_changed(self, change: Change[Workload]) -> None:
        workload, key, clock = change.new, change.key, asyncio.get_running_loop().time
        if workload is None or c.is_finished(workload) or not c.has_quota_reservation(workload):
            self._stop(key)
        elif c.is_evicted(workload):
            self._stop(key)
            self._write(workload, release_status(workload, self._clock.now(), DEFAULT_GATES))
        elif c.is_admitted(workload) and key not in self._runs:
            runs_s = int(workload.metadata.labels[RUNS_MS]) / 1000
            timer = asyncio.get_running_loop().call_later(runs_s, self._finish, key)
            self._runs[key] = _Run(clock() + runs_s, timer)
        elif key in self._runs and self._runs[key].until_s <= clock():
            self._finish(key)  # the observed version was not the newest

    def _stop(self, key: Key) -> None:
        run = self._runs.pop(key, None)
        if run is not None:
            run.timer.cancel()

    def _finish(self, key: Key) -> None:
        workload = self._workloads.get(key)
        if workload is not None:
            status = finish_status(workload, "Succeeded", "Job finished successfully", self._clock.now())
            self._write(workload, status)

    def _write(self, workload: Workload, status: WorkloadStatus | None) -> None:
        assert self._writes is not None, "workloads change before the job simulator runs"
        self._writes.create_task(self._send(workload, status))

    async def _send(self, workload: Workload, status: WorkloadStatus | None) -> None:
        while True:
            try:
                await send(self._client, status_patch(WORKLOADS, workload, status))
            except (Conflict, NotFound):
                return  # the watch will deliver a newer version
            except Unreachable:
                await asyncio.sleep(PAUSE_S)  # if the write succeeded, the next attempt is a conflict
            else:
                return
