"""Keeps the estimates of a replica up to date, with a process beside it that plays the queues.

The process starts once something has waited for a while, gets every object that changes, and is asked for a
refresh once the share of one core that it has saved covers the next one.  It has a low priority.
It ends once nothing has waited for a while; the next one learns from the finished workloads that still exist.
The event loop of the controllers only encodes the objects, in short slices.
"""

import asyncio
import time
from asyncio.subprocess import Process
from collections.abc import Mapping
from typing import Final

from quorate.api.configuration.process import EstimateRules
from quorate.api.explanation import StartEstimate
from quorate.api.meta import Key, at_epoch
from quorate.kube.clock import Clock
from quorate.kube.flowcontrol import Backoff
from quorate.kube.log import logger
from quorate.observe.estimates import Estimates, Question
from quorate.observe.replica import Replica
from quorate.observe.view import View
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.estimation.messages import Configure, Play, frame, read_reply
from quorate.processes.estimation.player_process import (
    DEADLINE_S,
    SLICE_S,
    ObjectChanges,
    answer_question,
    player_process,
)
from quorate.simulate.estimates.exchange import Refresh

FIRST_AFTER_S: Final = 10.0  # of waiting: most workloads of a cluster with room start sooner
INTERVAL_S: Final = 10.0  # between refreshes, at least
BUDGET_S: Final = 10.0  # of processor time, for one refresh: the most that is saved
FIRST_S: Final = 1.0  # of processor time that a new process may use before it has saved any
RESERVE: Final = 2.0  # times the cost of the last refresh: more may wait, or it was cut
IDLE_S: Final = 600.0  # without a waiting workload, after which the process ends and frees its memory
_POLL_S: Final = 1.0
_RESTART: Final = Backoff(first_s=5.0, cap_s=300.0)


async def run_estimation(
    replica: Replica, in_force: ConfigurationInForce, clock: Clock, rules: EstimateRules
) -> None:
    """Refresh ``replica.estimates`` until cancelled.  A failure of the process leaves them as they are."""
    failures = 0
    replica.estimates.are_computed = True
    latest: View | None = None
    while True:
        view = await _something_waits(replica, clock)
        if view is not latest:
            latest, changes = view, ObjectChanges(view.informers)
        changes.start()
        began_s = time.monotonic()
        try:
            async with player_process() as worker:
                await _refresh_while_needed(worker, view, changes, replica, in_force, clock, rules)
        except (asyncio.IncompleteReadError, BrokenPipeError, ConnectionResetError, TimeoutError):
            failures = 1 if time.monotonic() - began_s > _RESTART.cap_s else failures + 1
            logger(__name__).warning("process of the estimates ended", failures=failures)
            await clock.sleep_until(clock.now() + _RESTART.delay_s(failures))
        finally:
            changes.stop()


async def _something_waits(replica: Replica, clock: Clock) -> View:
    """Return the view once something has waited in it for ``FIRST_AFTER_S``, or a question is asked."""
    since: float | None = None
    while True:
        view = replica.view
        waits = view is not None and len(view.ledger.entries) > 0
        since = (clock.now() if since is None else since) if waits else None
        if view is not None and not replica.estimates.questions.empty():
            return view
        if view is not None and since is not None and clock.now() - since >= FIRST_AFTER_S:
            return view
        await clock.sleep_until(clock.now() + _POLL_S)


async def _refresh_while_needed(
    worker: Process,
    view: View,
    changes: ObjectChanges,
    replica: Replica,
    in_force: ConfigurationInForce,
    clock: Clock,
    rules: EstimateRules,
) -> None:
    """Refresh until the replica has another view, or until nothing has waited for ``IDLE_S``.

    The replica has another view if the role or the Configuration has changed.
    """
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(frame(Configure(in_force.text)))
    waited_at = refresh_at = clock.now()  # when something last waited, and when the next refresh is due
    share, needed_s = SavedShare(rules.cpu, clock.now()), FIRST_S
    while replica.view is view and clock.now() - waited_at < IDLE_S:
        question = await _question(replica.estimates, clock, max(refresh_at, share.is_saved_at(needed_s)))
        await changes.send(worker.stdin)  # at this moment, so that a run begins with what is there now
        if question is not None:
            processor_s = await answer_question(worker.stdin, worker.stdout, question, clock.now())
            waited_at = clock.now()
            share.use(processor_s, waited_at)
        elif view.ledger.entries:
            worker.stdin.write(frame(Play(clock.now(), share.saved_s(clock.now()))))
            async with asyncio.timeout(DEADLINE_S):
                await worker.stdin.drain()
                refresh = await read_reply(worker.stdout, Refresh)
            replica.estimates.replace(await _estimates(refresh), refresh.at, refresh.processor_s)
            view.learn({bound.kind: bound.seconds for bound in refresh.bounds})
            waited_at = clock.now()
            share.use(refresh.processor_s, waited_at)
            needed_s = min(BUDGET_S, RESERVE * refresh.processor_s)
            refresh_at = waited_at + INTERVAL_S
        else:
            refresh_at = clock.now() + INTERVAL_S


class SavedShare:
    """The processor time that a process has left: ``FIRST_S`` and its part of a core, less what it has used.

    At most ``BUDGET_S`` is saved, and a question may take what is not saved yet.
    """

    def __init__(self, cpu: float, now: float) -> None:
        self._cpu = cpu
        self._saved_s = FIRST_S
        self._at = now  # the moment of ``_saved_s``

    def saved_s(self, now: float) -> float:
        return min(BUDGET_S, self._saved_s + self._cpu * (now - self._at))

    def is_saved_at(self, needed_s: float) -> float:
        """Return the moment from which ``needed_s`` is saved, which may be in the past."""
        return self._at + (needed_s - self._saved_s) / self._cpu

    def use(self, processor_s: float, now: float) -> None:
        self._saved_s, self._at = self.saved_s(now) - processor_s, now


async def _question(estimates: Estimates, clock: Clock, until: float) -> Question | None:
    """Return the next question that still wants an answer; None if there is none ``until`` that time."""
    if clock.now() >= until and estimates.questions.empty():
        return None
    asking = asyncio.ensure_future(estimates.questions.get())
    waiting = asyncio.ensure_future(clock.sleep_until(until))
    try:
        await asyncio.wait((asking, waiting), return_when=asyncio.FIRST_COMPLETED)
        question = asking.result() if asking.done() else None
    finally:
        for task in (asking, waiting):
            task.cancel()
    return None if question is None or question.answer.done() else question


async def _estimates(refresh: Refresh) -> Mapping[Key, StartEstimate]:
    estimates: dict[Key, StartEstimate] = {}
    moment, began_s = at_epoch(refresh.at), time.monotonic()
    for start in refresh.starts:
        estimates[start.key] = StartEstimate(
            computed_at=moment,
            p50=None if start.p50 is None else at_epoch(start.p50),
            p90=None if start.p90 is None else at_epoch(start.p90),
            runs=start.runs,
            run_times=start.run_times,
            samples=start.samples,
            confidence=start.confidence,
        )
        if time.monotonic() - began_s > SLICE_S:
            await asyncio.sleep(0)
            began_s = time.monotonic()
    return estimates
