"""One run: start a fresh cluster with the controllers, create the manifests, follow the jobs to the end."""

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.configuration.pods_ready import WaitForPodsReady
from quorate.cli.run.report import Completed, Deadlocked, Ending, Failed, Outcome, TimedOut
from quorate.cli.run.screen import Screen, Snapshot
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.informer import Informer
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, NODES, POD_GROUPS, PODS, WORKLOADS
from quorate.local.cluster import Settings
from quorate.local.directory import ClusterDirectory, LockedDirectory
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.local.apply import create_manifests
from quorate.processes.local.deadlock import diagnose_deadlock, pending_changes
from quorate.processes.local.manifests import Manifest
from quorate.processes.local.observation import ObservedCluster, observe
from quorate.processes.local.progress import job_progress, job_record, queue_progress
from quorate.processes.local.queueing_cluster import GangSchedulerSettings, run_queueing_cluster

LONGEST_PAUSE_S: Final = 0.2  # between two observations, without changes
SHARE_OF_TIME: Final = 0.1  # for evaluating and showing them, as long as that permits no longer pause
# Longer than any component takes to react to an event: the scheduler and the queueing cycle react within a
# fraction of a second, an informer with a broken watch within a second or two.
SETTLED_AFTER_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Plan:
    manifests: tuple[Manifest, ...]  # in the order to create them
    in_force: ConfigurationInForce  # of the queueing controllers
    settings: Settings
    timeout_s: float
    gang_scheduler: GangSchedulerSettings | None = None  # None: no gang scheduler runs

    @property
    def configuration(self) -> Configuration:
        """Return the Configuration that the queueing controllers use."""
        return self.in_force.configured.current

    @property
    def jobs(self) -> int:
        return sum(manifest.kind == "Job" for manifest in self.manifests)


OnObserved = Callable[[Client, ObservedCluster], Awaitable[None]]


async def ignore(client: Client, cluster: ObservedCluster) -> None:
    pass


async def run(
    plan: Plan, screen: Screen, clock: Clock, rng: random.Random, on_observed: OnObserved = ignore
) -> Outcome:
    """Run the plan on a temporary cluster and return its outcome.

    ``on_observed`` is called with each observation.  Raises ``InvalidFiles`` when the server refuses a
    manifest.
    """
    with temporary_directory(clock.now()) as directory:
        cluster = run_queueing_cluster(
            directory, plan.settings, plan.in_force, clock, rng, plan.gang_scheduler
        )
        async with cluster as client, asyncio.TaskGroup() as tasks:
            observer = ClusterObserver(client)
            watching = tasks.create_task(observer.run())
            await create_manifests(client, plan.manifests)
            outcome = await follow(plan, observer, screen, clock, partial(on_observed, client))
            watching.cancel()
    return outcome


class ClusterObserver:
    """Informers for all kinds that a run shows or that decide how it ends."""

    def __init__(self, client: Client) -> None:
        self._jobs = Informer(client, JOBS)
        self._workloads = Informer(client, WORKLOADS)
        self._pods = Informer(client, PODS)
        self._nodes = Informer(client, NODES)
        self._cluster_queues = Informer(client, CLUSTER_QUEUES)
        self._groups = Informer(client, POD_GROUPS)
        self._changed = asyncio.Event()  # set by each change since the last observation
        for informer in (self._jobs, self._workloads, self._pods, self._groups):
            informer.subscribe(lambda _: self._changed.set())

    async def changed(self, pause_s: float) -> None:
        """Return after ``pause_s`` and the next change, at the latest after ``LONGEST_PAUSE_S`` more."""
        await asyncio.sleep(pause_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_PAUSE_S):
                await self._changed.wait()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._jobs.run())
            tasks.create_task(self._workloads.run())
            tasks.create_task(self._pods.run())
            tasks.create_task(self._nodes.run())
            tasks.create_task(self._cluster_queues.run())
            tasks.create_task(self._groups.run())

    def cluster(self) -> ObservedCluster:
        self._changed.clear()
        return observe(
            self._jobs, self._workloads, self._pods, self._nodes, self._cluster_queues, self._groups
        )


class QuietPeriod:
    """Measures for how long the cluster has been unchanged and without pending changes."""

    def __init__(self) -> None:
        self._world: ObservedCluster | None = None
        self._since = 0.0  # the moment of the last change

    def duration_s(self, cluster: ObservedCluster, changes_pending: bool, moment: float) -> float:
        """Return the seconds without a change; must be called with every observation, in order."""
        if changes_pending or self._world is None or cluster.fingerprint != self._world.fingerprint:
            self._since = moment
        self._world = cluster
        return moment - self._since


async def follow(
    plan: Plan,
    observer: ClusterObserver,
    screen: Screen,
    clock: Clock,
    on_observed: Callable[[ObservedCluster], Awaitable[None]],
) -> Outcome:
    """Show the run and check for its end after each change: a state may last for a moment only."""
    loop_time = asyncio.get_running_loop().time
    began = loop_time()
    quiet_period = QuietPeriod()
    readiness = plan.configuration.wait_for_pods_ready
    while True:
        cluster, elapsed_s = observer.cluster(), loop_time() - began
        await on_observed(cluster)
        started = loop_time()
        changes_pending = tuple(pending_changes(cluster, readiness))
        quiet_s = quiet_period.duration_s(cluster, bool(changes_pending), elapsed_s)
        note = f"no change for {quiet_s:.0f} s" if quiet_s >= 1 else ""
        screen.show(_snapshot(cluster, elapsed_s, clock.now(), note))
        # The informers may not have delivered a new job yet; without all jobs the run cannot have ended.
        ending = ending_of(cluster, readiness, quiet_s) if len(cluster.jobs) >= plan.jobs else None
        if ending is None and elapsed_s >= plan.timeout_s:
            ending = TimedOut(
                plan.timeout_s, tuple(observed.name for observed in cluster.jobs if not observed.finished)
            )
        if ending is not None:
            return Outcome(ending, tuple(map(job_record, cluster.jobs)))
        await observer.changed(min((loop_time() - started) / SHARE_OF_TIME, LONGEST_PAUSE_S))


def ending_of(cluster: ObservedCluster, readiness: WaitForPodsReady | None, quiet_s: float) -> Ending | None:
    """Return how the run ended; None while it goes on."""
    if cluster.finished:
        return Completed() if all(observed.completed for observed in cluster.jobs) else Failed()
    return Deadlocked(diagnose_deadlock(cluster, readiness)) if quiet_s >= SETTLED_AFTER_S else None


@contextmanager
def temporary_directory(now: float) -> Iterator[LockedDirectory]:
    """Create and lock a temporary data directory; delete it at the end of the block."""
    with (
        tempfile.TemporaryDirectory(prefix="quorate-run-") as path,
        ClusterDirectory(Path(path)).lock(now) as directory,
    ):
        yield directory


def _snapshot(cluster: ObservedCluster, elapsed_s: float, now: float, note: str) -> Snapshot:
    return Snapshot(
        elapsed_s,
        tuple(job_progress(observed, cluster, now) for observed in cluster.jobs),
        tuple(map(queue_progress, cluster.cluster_queues)),
        note,
    )
