"""A run of several clusters: a manager with quota, and workers that run its jobs, in one virtual time.

A job that gets quota in the manager is dispatched: its workload is copied to the clusters that a dispatcher
of the controllers nominates, the first cluster that admits the copy runs the job, and the other copies are
removed.  Each cluster is a ``Player`` with its own queues and nodes.  Requests take no time, and if two
clusters admit a job in the same instant, the first one of the configured order gets it.  The manager evicts
nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from quorate.api.meta import Key
from quorate.controllers.multikueue.dispatch.dispatchers import ClusterStart, Dispatcher, NominationInput
from quorate.simulate.engine.player import Player
from quorate.simulate.engine.recorder import Run, Unended
from quorate.simulate.engine.records import Outcome
from quorate.simulate.engine.simulated_job import SimulatedJob
from quorate.simulate.inputs.submissions import MS, submissions
from quorate.simulate.inputs.world import World
from quorate.simulate.limits import MAX_IDLE_ROUNDS, MAX_SHOWN


class Dispatched(msgspec.Struct):
    """A job with quota in the manager that runs in no cluster yet."""

    job: SimulatedJob  # of the manager
    copies: dict[str, SimulatedJob] = {}  # by nominated cluster
    round_started: float | None = None  # when the nominated clusters last changed, epoch seconds
    explanation: str = ""  # of the last nomination


# Gets a job of the manager; returns when clusters would start it, as far as the dispatcher needs it.
StartsOf = Callable[[SimulatedJob], Mapping[str, ClusterStart]]


class ClustersRun(NamedTuple):
    """What happened to the jobs, by the records of the manager, and what was created in workers."""

    manager: Run  # a job is admitted when a cluster starts it
    workers: dict[str, Run]
    started_in: dict[Key, str]
    copies: int  # workloads created in workers; a job is created only where it starts
    moved: int  # copies that were removed before any cluster admitted the job


class Clusters:
    """The clusters of a run; a dispatcher reads ``workers``."""

    def __init__(self, manager: World, workers: Mapping[str, World]) -> None:
        """``workers`` are in the configured order, and have the classes of jobs of the manager."""
        self._world = manager
        # A reservation in the manager is no admission: it does not wait for pods to be ready.
        configuration = replace(manager.configuration, wait_for_pods_ready=None)
        manager = replace(manager, configuration=configuration)
        self._manager = Player(manager, runs_elsewhere=True, on_started=self._reserved)
        self.workers = {
            name: Player(
                world, on_started=partial(self._started, name), on_ended=partial(self._finished, name)
            )
            for name, world in workers.items()
        }
        self.on_copied: Callable[[str, SimulatedJob], object] = lambda cluster, job: None
        self.on_ended: Callable[[str, SimulatedJob], object] = lambda cluster, job: None
        self._dispatched: dict[Key, Dispatched] = {}
        self._running: dict[Key, SimulatedJob] = {}  # jobs of the manager that a worker runs
        self._due: list[Key] = []  # to be nominated in this instant
        self._wakes_ms: dict[Key, int] = {}  # when dispatched jobs are to be nominated again
        self._unsettled: set[str] = set()
        self.changes = dict.fromkeys(workers, 0)  # counts what happened in a worker; equal: nothing did
        self._started_in: dict[Key, str] = {}
        self._copies = self._moved = 0
        self._ended = 0
        self._idle = 0  # instants since a job was submitted, started or ended

    def run(
        self,
        dispatcher: Dispatcher,
        starts_of: StartsOf = lambda job: {},
        on_progress: Callable[[int], object] = lambda ended: None,
    ) -> ClustersRun:
        """Play to ``until`` of the scenario, or until nothing happens any more in any cluster.

        ``on_progress`` gets the number of ended jobs from time to time.
        """
        until_s = self._world.scenario.until_s
        until_ms = None if until_s is None else round(until_s * MS)
        arrivals = submissions(self._world.scenario, self._world.directory)
        following = next(arrivals, None)
        manager, players = self._manager, (self._manager, *self.workers.values())
        while True:
            due_in = {name: player.next_ms() for name, player in self.workers.items()}
            due = [manager.next_ms(None if following is None else following.at_ms), *due_in.values()]
            due.append(min(self._wakes_ms.values(), default=None))
            now_ms = min((ms for ms in due if ms is not None), default=None)
            if now_ms is None or (until_ms is not None and now_ms > until_ms):
                break
            if following is None and self._idle >= MAX_IDLE_ROUNDS and not self._any_works():
                break
            self._idle += 1
            for player in players:
                player.advance(now_ms)
            for name, due_ms in due_in.items():
                self._unsettled.add(name)
                self.changes[name] += due_ms == now_ms
            while following is not None and following.at_ms == now_ms:
                manager.submit(following)
                following = next(arrivals, None)
                self._idle = 0
            self._due += sorted(key for key, at_ms in self._wakes_ms.items() if at_ms <= now_ms)
            self._settle(dispatcher, starts_of)
            on_progress(self._ended)
        ended_ms = manager.clock.ms if until_ms is None else until_ms
        workers = {name: player.outcome(ended_ms) for name, player in self.workers.items()}
        run = manager.outcome(ended_ms)
        for key, job in self._running.items():
            name = self._started_in[key]
            copy = self.workers[name].jobs[key]
            run.jobs.outcome[job.number] = workers[name].jobs.outcome[copy.number]
        run.waiting = tuple(islice((*run.waiting, *self._unended(run, workers)), MAX_SHOWN))
        return ClustersRun(run, workers, self._started_in, self._copies, self._moved)

    def _any_works(self) -> bool:
        """Return True if a job will end.  If none does, nominations may repeat for ever."""
        self._idle = 0
        return any(player.any_works() for player in self.workers.values())

    def _unended(self, manager: Run, workers: Mapping[str, Run]) -> Iterator[Unended]:
        """Yield the jobs that run in no cluster, with the reasons of the clusters that have copies."""
        clusters: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)  # by job and reason
        for cluster, run in workers.items():
            for unended in run.waiting:
                clusters[unended.name].setdefault(unended.reason, []).append(cluster)
        nowhere = {
            key: (dispatched.job, dispatched.explanation) for key, dispatched in self._dispatched.items()
        }
        nowhere |= {key: (job, "") for key, job in self._running.items()}
        listed = {unended.name for unended in manager.waiting}
        for key, (job, explanation) in nowhere.items():
            if manager.jobs.outcome[job.number] != Outcome.RUNNING and key.name not in listed:
                class_name = self._world.classes[job.submission.class_index].name
                reasons = clusters[key.name].items()
                text = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons)
                yield Unended(key.name, class_name, job.workload.spec.queue_name, text or explanation)

    def _settle(self, dispatcher: Dispatcher, starts_of: StartsOf) -> None:
        """Dispatch, and let all clusters decide, until nothing more is decided at this instant."""
        self._manager.settle()
        while self._due or self._unsettled:
            due, self._due = self._due, []
            for key in due:
                dispatched = self._dispatched.get(key)
                if dispatched is not None:
                    self._nominate(dispatched, dispatcher, starts_of)
            for name, player in self.workers.items():
                if name in self._unsettled:
                    self._unsettled.discard(name)
                    player.settle()
            self._manager.settle()

    def _nominate(self, dispatched: Dispatched, dispatcher: Dispatcher, starts_of: StartsOf) -> None:
        job, clock = dispatched.job, self._manager.clock
        nomination = dispatcher(
            NominationInput(
                workload=job.workload,
                clusters=tuple(self.workers),
                connected=frozenset(self.workers),
                nominated=tuple(dispatched.copies),
                round_started=dispatched.round_started,
                now=clock.now,
                estimates=starts_of(job),
            )
        )
        self._wakes_ms.pop(job.key, None)
        if nomination.wake_at is not None:
            self._wakes_ms[job.key] = clock.later_ms(nomination.wake_at)
        if set(nomination.clusters) != set(dispatched.copies):
            dispatched.round_started = clock.now
        dispatched.explanation = nomination.explanation or dispatched.explanation
        for name in [name for name in dispatched.copies if name not in nomination.clusters]:
            self._withdraw(name, dispatched.copies.pop(name))
            self._moved += 1
        for name in nomination.clusters:
            if name not in dispatched.copies:
                copy = self.workers[name].submit(job.submission)
                assert copy.key == job.key, "a copy has the name of its workload"
                dispatched.copies[name] = copy
                self._copies += 1
                self._changed(name)
                self.on_copied(name, copy)

    def _withdraw(self, name: str, copy: SimulatedJob) -> None:
        self.workers[name].withdraw(copy)
        self._changed(name)

    def _changed(self, name: str) -> None:
        self._unsettled.add(name)
        self.changes[name] += 1

    def _reserved(self, job: SimulatedJob) -> None:
        """Dispatch a job that got quota in the manager."""
        assert job.key not in self._running, f"the manager evicted {job.key}"
        self._dispatched[job.key] = Dispatched(job)
        self._due.append(job.key)

    def _started(self, name: str, copy: SimulatedJob) -> None:
        """Let the cluster that admitted a job run it, and remove the other copies."""
        dispatched = self._dispatched.pop(copy.key, None)
        if dispatched is None:
            return  # it was evicted by the worker, and runs again there, or it is the worker's own
        self._idle = 0
        self._wakes_ms.pop(copy.key, None)
        for other, waiting in dispatched.copies.items():
            if other != name:
                self._withdraw(other, waiting)
        self._manager.started(dispatched.job)
        self._running[copy.key] = dispatched.job
        self._started_in[copy.key] = name

    def _finished(self, name: str, copy: SimulatedJob) -> None:
        self._idle = 0
        job = self._running.pop(copy.key, None)  # None: a job of the worker itself
        if job is not None:
            self._manager.end(job)
            self._ended += 1
        self.on_ended(name, copy)
