"""A run of several clusters: a manager with quota, and workers that run its jobs, in one virtual time.

A job that gets quota in the manager is dispatched: its workload is copied to the clusters that a dispatcher
of the controllers nominates, the first cluster that admits the copy runs the job, and the other copies are
removed.  Each cluster is a ``Player`` with its own queues and nodes.  Requests take no time, and if two
clusters admit a job in the same instant, the first one of the configured order gets it.  The manager evicts
nothing.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from quorate.api.meta import Key
from quorate.controllers.multikueue.dispatch.cluster_starts import ClusterStart
from quorate.controllers.multikueue.dispatch.dispatchers import Dispatcher, NominationInput
from quorate.simulate.engine.player import Player
from quorate.simulate.engine.recorder import Run
from quorate.simulate.engine.simulated_job import SimulatedJob
from quorate.simulate.inputs.submissions import submissions
from quorate.simulate.inputs.world import World


class Dispatched(msgspec.Struct):
    """A job with quota in the manager that runs in no cluster yet."""

    job: SimulatedJob  # of the manager
    copies: dict[str, SimulatedJob] = {}  # by nominated cluster
    round_started: float | None = None  # when the nominated clusters last changed, epoch seconds


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
            name: Player(world, on_started=partial(self._started, name), on_ended=partial(self._ended, name))
            for name, world in workers.items()
        }
        self.on_copied: Callable[[str, SimulatedJob], object] = lambda cluster, job: None
        self.on_ended: Callable[[str, SimulatedJob], object] = lambda cluster, job: None
        self._dispatched: dict[Key, Dispatched] = {}
        self._running: dict[Key, SimulatedJob] = {}  # jobs of the manager that a worker runs
        self._due: list[Key] = []  # to be nominated in this instant
        self._wakes_ms: dict[Key, int] = {}  # when dispatched jobs are to be nominated again
        self._unsettled: set[str] = set()
        self._started_in: dict[Key, str] = {}
        self._copies = self._moved = 0

    def run(self, dispatcher: Dispatcher, starts_of: StartsOf = lambda job: {}) -> ClustersRun:
        """Play to the end: nothing happens any more in any cluster."""
        arrivals = submissions(self._world.scenario, self._world.directory)
        following = next(arrivals, None)
        manager, players = self._manager, (self._manager, *self.workers.values())
        while True:
            due = [manager.next_ms(None if following is None else following.at_ms)]
            due += [player.next_ms() for player in self.workers.values()]
            due.append(min(self._wakes_ms.values(), default=None))
            now_ms = min((ms for ms in due if ms is not None), default=None)
            if now_ms is None:
                break
            for player in players:
                player.advance(now_ms)
            self._unsettled.update(self.workers)
            while following is not None and following.at_ms == now_ms:
                manager.submit(following)
                following = next(arrivals, None)
            self._due += sorted(key for key, at_ms in self._wakes_ms.items() if at_ms <= now_ms)
            self._settle(dispatcher, starts_of)
        ended_ms = manager.clock.ms
        return ClustersRun(
            manager.outcome(ended_ms),
            {name: player.outcome(ended_ms) for name, player in self.workers.items()},
            self._started_in,
            self._copies,
            self._moved,
        )

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
        for name in [name for name in dispatched.copies if name not in nomination.clusters]:
            self._withdraw(name, dispatched.copies.pop(name))
            self._moved += 1
        for name in nomination.clusters:
            if name not in dispatched.copies:
                copy = self.workers[name].submit(job.submission)
                assert copy.key == job.key, "a copy has the name of its workload"
                dispatched.copies[name] = copy
                self._copies += 1
                self._unsettled.add(name)
                self.on_copied(name, copy)

    def _withdraw(self, name: str, copy: SimulatedJob) -> None:
        self.workers[name].withdraw(copy)
        self._unsettled.add(name)

    def _reserved(self, job: SimulatedJob) -> None:
        """Dispatch a job that got quota in the manager."""
        assert job.key not in self._running, f"the manager evicted {job.key}"
        self._dispatched[job.key] = Dispatched(job)
        self._due.append(job.key)

    def _started(self, name: str, copy: SimulatedJob) -> None:
        """Let the cluster that admitted a job run it, and remove the other copies."""
        dispatched = self._dispatched.pop(copy.key, None)
        if dispatched is None:
            return  # it was evicted by the worker, and runs again there
        self._wakes_ms.pop(copy.key, None)
        for other, waiting in dispatched.copies.items():
            if other != name:
                self._withdraw(other, waiting)
        self._manager.started(dispatched.job)
        self._running[copy.key] = dispatched.job
        self._started_in[copy.key] = name

    def _ended(self, name: str, copy: SimulatedJob) -> None:
        self._manager.end(self._running.pop(copy.key))
        self.on_ended(name, copy)
