"""One run: a fresh cluster and the controllers, the manifests created, the jobs followed to the end."""

import asyncio
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quorate.api.configuration import Configuration, WaitForPodsReady
from quorate.cli.queueing_cluster import GangSchedulerSettings, run_queueing_cluster
from quorate.cli.run.apply import create_all
from quorate.cli.run.deadlock import analyse, pending_changes
from quorate.cli.run.manifest import Manifest
from quorate.cli.run.observation import ObservedCluster, observe
from quorate.cli.run.outcome import Completed, Deadlocked, Ending, Failed, Outcome, TimedOut
from quorate.cli.run.progress import job_progress, job_record, queue_progress
from quorate.cli.run.screen import Picture, Screen
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.informer import Informer
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, NODES, POD_GROUPS, PODS, WORKLOADS
from quorate.local.cluster import Settings
from quorate.local.directory import ClusterDirectory, LockedDirectory

LOOK_EVERY_S: Final = 0.2
# Longer than any verdict lags behind the event that calls for it: the scheduler and the queueing cycle answer
# within a fraction of a second, an informer whose watch broke comes back within a second or two.
SETTLED_AFTER_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Plan:
    manifests: tuple[Manifest, ...]  # in the order to create them
    configuration: Configuration
    settings: Settings
    timeout_s: float
    gang_scheduler: GangSchedulerSettings | None = None  # how a gang scheduler runs besides, if one does

    @property
    def jobs(self) -> int:
        return sum(manifest.kind == "Job" for manifest in self.manifests)


async def run(plan: Plan, screen: Screen, clock: Clock, rng: random.Random) -> Outcome:
    """Run the plan on a cluster that is made for it and leaves nothing behind.

    Raises ``InvalidFiles`` when the server refuses a manifest.
    """
    with temporary_directory(clock.now()) as directory:
        cluster = run_queueing_cluster(
            directory, plan.settings, plan.configuration, clock, rng, plan.gang_scheduler
        )
        async with cluster as client, asyncio.TaskGroup() as tasks:
            sights = ClusterObserver(client)
            watching = tasks.create_task(sights.run())
            await create_all(client, plan.manifests)
            outcome = await follow(plan, sights, screen, clock)
            watching.cancel()
    return outcome


class ClusterObserver:
    """Copies in memory of everything a run shows and is judged by."""

    def __init__(self, client: Client) -> None:
        self._jobs = Informer(client, JOBS)
        self._workloads = Informer(client, WORKLOADS)
        self._pods = Informer(client, PODS)
        self._nodes = Informer(client, NODES)
        self._cluster_queues = Informer(client, CLUSTER_QUEUES)
        self._groups = Informer(client, POD_GROUPS)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._jobs.run())
            tasks.create_task(self._workloads.run())
            tasks.create_task(self._pods.run())
            tasks.create_task(self._nodes.run())
            tasks.create_task(self._cluster_queues.run())
            tasks.create_task(self._groups.run())

    def world(self) -> ObservedCluster:
        return observe(
            self._jobs, self._workloads, self._pods, self._nodes, self._cluster_queues, self._groups
        )


class QuietPeriod:
    """For how long the world has been the same with nothing about to change it."""

    def __init__(self) -> None:
        self._world: ObservedCluster | None = None
        self._since = 0.0  # when the present stillness began

    def lasted_s(self, world: ObservedCluster, moving: bool, moment: float) -> float:
        """The stillness so far, seconds; to be told of every look at the world, in order."""
        if moving or self._world is None or world.fingerprint != self._world.fingerprint:
            self._since = moment
        self._world = world
        return moment - self._since


async def follow(plan: Plan, sights: ClusterObserver, screen: Screen, clock: Clock) -> Outcome:
    """Show the run and look for its end, a few times a second."""
    loop_time = asyncio.get_running_loop().time
    began = loop_time()
    stillness = QuietPeriod()
    readiness = plan.configuration.wait_for_pods_ready
    while True:
        world, elapsed_s = sights.world(), loop_time() - began
        moving = tuple(pending_changes(world, readiness))
        still_s = stillness.lasted_s(world, bool(moving), elapsed_s)
        note = f"nothing has moved for {still_s:.0f} s" if still_s >= 1 else ""
        screen.show(_picture(world, elapsed_s, clock.now(), note))
        # A job that was just created may not have been seen yet; a world without it is not judged.
        ending = ending_of(world, readiness, still_s) if len(world.jobs) >= plan.jobs else None
        if ending is None and elapsed_s >= plan.timeout_s:
            ending = TimedOut(plan.timeout_s, tuple(view.name for view in world.jobs if not view.finished))
        if ending is not None:
            return Outcome(ending, tuple(map(job_record, world.jobs)), elapsed_s)
        await asyncio.sleep(LOOK_EVERY_S)


def ending_of(world: ObservedCluster, readiness: WaitForPodsReady | None, still_s: float) -> Ending | None:
    """How the run has ended by itself; ``None`` while it has not."""
    if world.finished:
        return Completed() if all(view.completed for view in world.jobs) else Failed()
    return Deadlocked(analyse(world, readiness)) if still_s >= SETTLED_AFTER_S else None


@contextmanager
def temporary_directory(now: float) -> Iterator[LockedDirectory]:
    """A data directory of its own, gone afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="quorate-run-") as path,
        ClusterDirectory(Path(path)).lock(now) as directory,
    ):
        yield directory


def _picture(world: ObservedCluster, elapsed_s: float, now: float, note: str) -> Picture:
    return Picture(
        elapsed_s,
        tuple(job_progress(view, world, now) for view in world.jobs),
        tuple(map(queue_progress, world.cluster_queues)),
        note,
    )
