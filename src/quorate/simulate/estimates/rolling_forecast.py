"""A forecast that is refreshed while a cluster changes, with a bounded amount of work in each refresh.

A refresh plays the current world a few times, as often as its budget allows, and keeps the latest runs.  With
few waiting workloads every refresh replaces all runs.  With thousands, a run takes seconds, and the quantiles
come from runs of the last refreshes; starts that were expected before now and did not come are left out.
While nothing has changed, and no start was expected in the meantime, nothing is played.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from quorate.api.configuration import Configuration, default_configuration
from quorate.api.explanation import FEWEST_RUNS, StartAnswer, StartQuestion
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid, at_epoch
from quorate.kube.resources import WORKLOADS, Resource
from quorate.queueing.conditions import is_finished
from quorate.queueing.planning.work_kinds import kind_of
from quorate.simulate.estimates.exchange import Answer, LearnedBound, Refresh, WaitingStart
from quorate.simulate.estimates.expected_arrivals import ArrivalStore, can_be_played
from quorate.simulate.estimates.forecast import (
    confidence_of,
    forecast_one,
    play_waiting,
    quantile,
    waiting_workloads,
)
from quorate.simulate.estimates.run_time_store import RunTimeStore
from quorate.simulate.estimates.snapshot import RunTimes, run_times, snapshot_world, with_expected
from quorate.simulate.inputs.world import World
from quorate.simulate.limits import ASSUMED_RUN_S, LONGEST_KEPT_S, PLAYS, QUESTION_PLAYS, REPEATED

_ORDER_S: Final = 1.0  # between submissions that are named in one question: the precision of the API


class _Run(NamedTuple):
    at: float
    starts: dict[Uid, float]  # by uid, epoch seconds


class RollingForecast:
    """Holds the objects of a cluster, what their past teaches, and the latest runs."""

    def __init__(
        self, processor_s: Callable[[], float], after_run: Callable[[], object] = lambda: None
    ) -> None:
        """``processor_s`` returns the processor time of this process; ``after_run`` is called after each run.

        The model of a run refers to itself, so that only a garbage collection frees it.
        """
        self._processor_s = processor_s
        self._after_run = after_run
        self._reported_s = processor_s()
        self._configuration = default_configuration()
        self._objects: dict[Resource[Any], dict[Key, Any]] = {}
        self._run_times = RunTimeStore()
        self._arrivals = ArrivalStore()
        self._runs: deque[_Run] = deque(maxlen=PLAYS)
        self._seed = 0
        self._has_changed = True  # since the last refresh

    def configure(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._has_changed = True
        self._runs.clear()

    def put(self, resource: Resource[Any], obj: Any) -> None:
        """Store an object, and learn from a Workload; a change of other kinds makes earlier runs invalid."""
        self._has_changed = True
        if resource is WORKLOADS:
            self._arrivals.learn(obj)
            self._run_times.learn(obj)
        else:
            self._runs.clear()
        if resource is WORKLOADS and (is_finished(obj) or not can_be_played(obj)):
            self.remove(resource, obj.metadata.key)
        else:
            self._objects.setdefault(resource, {})[obj.metadata.key] = obj

    def remove(self, resource: Resource[Any], key: Key) -> None:
        self._has_changed = True
        self._objects.get(resource, {}).pop(key, None)
        if resource is not WORKLOADS:
            self._runs.clear()

    def refresh(self, now: float, budget_s: float) -> Refresh:
        """Play the world, with at most ``budget_s`` of processor time, and a quarter of it for repeated runs.

        A run that takes longer ends there.  Of the only run of a refresh it counts what has started by then.
        Further runs are left to the next refreshes, which begin the sooner: the share of a core is the same.
        """
        began_s = self._processor_s()

        def used_s() -> float:
            return self._processor_s() - began_s

        world, waiting, times = self._world(self._objects.get(WORKLOADS, {}), now)
        is_current = len(self._runs) == PLAYS and not self._has_changed and self._none_is_due(now)
        self._has_changed = False
        played = 0 if is_current or not waiting else self._play(world, waiting, now, budget_s, used_s)
        while self._runs and self._runs[0].at < now - LONGEST_KEPT_S:
            self._runs.popleft()
        quantiles = self._quantiles(waiting.values(), now, times)
        bounds = tuple(LearnedBound(kind, seconds) for kind, seconds in self._run_times.bounds())
        return Refresh(now, quantiles, played, self._unreported_s(), bounds)

    def _unreported_s(self) -> float:
        """Return the processor time since the last refresh or answer."""
        before_s, self._reported_s = self._reported_s, self._processor_s()
        return self._reported_s - before_s

    def _world(
        self, workloads: Mapping[Key, Workload], now: float
    ) -> tuple[World, dict[int, Workload], list[RunTimes]]:
        """Return the world at ``now`` with ``workloads``, those that wait by number, and all run times."""
        times = list(run_times(workloads.values(), ASSUMED_RUN_S, self._run_times))
        stored = self._objects | {WORKLOADS: dict(workloads)}
        objects = {resource: by_key.values() for resource, by_key in stored.items()}
        snapshot = snapshot_world(objects, times, now, self._configuration)
        waiting = waiting_workloads(snapshot)
        expected = self._arrivals.expected(self._run_times, now, ASSUMED_RUN_S, len(waiting))
        return with_expected(snapshot, expected), waiting, times

    def would_start(self, question: StartQuestion, now: float, budget_s: float) -> Answer:
        """Return when the workload of a question would start if it were submitted now.

        If a workload with its key is stored, return when the stored workload starts.  At most
        ``QUESTION_PLAYS`` runs are played, with ``budget_s`` of processor time.
        """
        began_s, workload = self._processor_s(), question.workload
        key = workload.metadata.key

        def is_over() -> bool:
            return self._processor_s() > began_s + budget_s

        workloads = dict(self._objects.get(WORKLOADS, {}))
        stored = workloads.get(key)
        if stored is None and not can_be_played(workload):
            answer = StartAnswer(starts="Unknown", reason="a pod template cannot be decoded")
            return Answer(answer, self._unreported_s())
        for number, submitted in enumerate((*question.ahead, workload)):
            if submitted.metadata.key not in workloads and can_be_played(submitted):
                created = at_epoch(now - (len(question.ahead) - number) * _ORDER_S)
                metadata = msgspec.structs.replace(
                    submitted.metadata, creation_timestamp=created, uid=Uid(submitted.metadata.name)
                )
                workloads[submitted.metadata.key] = Workload(metadata=metadata, spec=submitted.spec)
        world, waiting, _ = self._world(workloads, now)
        if all(waits.metadata.key != key for waits in waiting.values()):
            answer = StartAnswer(starts="Within", p50_seconds=0.0, p90_seconds=0.0)
            return Answer(answer, self._unreported_s())
        answer = forecast_one(world, key, QUESTION_PLAYS, is_over)
        self._after_run()
        return Answer(answer, self._unreported_s())

    def _none_is_due(self, now: float) -> bool:
        """Return True if no run has a start after its own moment that was to come before now."""
        return not any(run.at < start < now for run in self._runs for start in run.starts.values())

    def _play(
        self,
        world: World,
        waiting: Mapping[int, Workload],
        now: float,
        budget_s: float,
        used_s: Callable[[], float],
    ) -> int:
        """Add runs as long as ``used_s`` stays within the budget; return how many runs were added."""
        played, run_s = 0, 0.0
        while played < PLAYS and not (played and used_s() + run_s > budget_s * REPEATED):
            run = play_waiting(world, waiting, self._seed, lambda: used_s() > budget_s)
            self._after_run()
            is_cut = used_s() > budget_s
            if is_cut and played:
                break
            starts = {
                waiting[number].metadata.uid: now + seconds
                for number, seconds in run.starts_s.items()
                if not is_cut or math.isfinite(seconds)
            }
            self._runs.append(_Run(now, starts))
            self._seed += 1
            played += 1
            run_s = used_s() / played
        return played

    def _quantiles(
        self, waiting: Iterable[Workload], now: float, times: Iterable[RunTimes]
    ) -> tuple[WaitingStart, ...]:
        origins = {learned.kind: learned.origin for learned in times}
        waiting_starts = []
        for workload in waiting:
            uid, kind = workload.metadata.uid, kind_of(workload)
            starts = [
                start for run in self._runs if (start := run.starts.get(uid)) is not None and start >= now
            ]
            if not starts:
                continue  # nothing is known of it: each run was cut before
            best = self._run_times.best_kind(kind) or kind._replace(owner="", pattern="")
            declared = workload.spec.maximum_execution_time_seconds
            samples = len(self._run_times.times_of(best))
            origin = origins.get(best) or f"{best}: it declares at most {declared} s"
            waiting_starts.append(
                WaitingStart(
                    namespace=workload.metadata.namespace,
                    name=workload.metadata.name,
                    p50=quantile(starts, 0.5),
                    p90=quantile(starts, 0.9) if len(starts) >= FEWEST_RUNS else None,
                    runs=len(starts),
                    run_times=origin,
                    samples=samples,
                    confidence=confidence_of(len(starts), samples, is_own_kind=best == kind),
                )
            )
        return tuple(sorted(waiting_starts, key=lambda start: start.key))
