"""The controllers are killed again and again while hundreds of jobs run; every stored state is checked."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from quorate.kube.resources import CLUSTER_QUEUES, COHORTS, JOBS
from tests.e2e.world import World, running_cluster
from tests.faults.at_size import load
from tests.faults.at_size.controllers import Controllers, Running
from tests.faults.at_size.outcome import Outcome, Show
from tests.faults.history import History, recorded
from tests.faults.promises import Promises

STALL_S: Final = 180.0  # the longest time without a stored change
STATES_PER_JOB: Final = 14  # stored states of a job, its workload and its pods, at least
EARLY_IN_PERCENT: Final = 20  # kills of a process that may still be starting
EARLY_S: Final = 3.0


@dataclass(frozen=True)
class Scale:
    jobs: int = 500
    kills: int = 30


async def run(scale: Scale, seed: int, show: Show, keep: Path | None = None) -> Outcome:
    """Run the scenario; ``keep``: a directory for logs and, after findings, the recorded states."""
    async with running_cluster(load.FLEET) as world, recorded(world.client) as history:
        with TemporaryDirectory() as temporary:
            directory = keep or Path(temporary)
            outcome = await _Run(scale, seed, world, history, directory, show).run()
            if outcome.findings:
                history.write(directory / "history.jsonl")
            return outcome


class _Run:
    def __init__(
        self, scale: Scale, seed: int, world: World, history: History, directory: Path, show: Show
    ) -> None:
        self._scale = scale
        self._seed = seed
        self._world = world
        self._history = history
        self._progress = load.Progress(history)
        self._show = show
        cluster = world.client.config
        token = cluster.credentials.authorization().removeprefix("Bearer ")
        self._controllers = Controllers(directory, cluster.server, token, load.CONFIGURATION)
        self._kills: list[int] = []  # the newest version at each kill
        self._outcome = Outcome("restarts")

    async def run(self) -> Outcome:
        clock = asyncio.get_running_loop().time
        began = clock()
        await load.create_objects(self._world.client)
        submitting = asyncio.create_task(
            load.submit(self._world.client, self._seed, self._scale.jobs, self._progress)
        )
        try:
            await self._kill_repeatedly()
            async with self._controllers.running() as running:
                await self._until_ended(running)
                await self._until_settled(running)
            await submitting
        finally:
            submitting.cancel()
            await asyncio.gather(submitting, return_exceptions=True)
        await self._history.complete(self._world.client)
        await self._check()
        self._measure(clock() - began)
        return self._outcome

    async def _kill_repeatedly(self) -> None:
        rng = random.Random(f"kills {self._seed}")
        between = self._scale.jobs * STATES_PER_JOB // (self._scale.kills + 1)
        while len(self._kills) < self._scale.kills and not self._all_ended():
            async with self._controllers.running() as running:
                if rng.randrange(100) < EARLY_IN_PERCENT:
                    await asyncio.sleep(rng.uniform(0.0, EARLY_S))
                else:
                    await self._until_states(rng.randint(1, 2 * between), running)
            self._kills.append(max(self._history.seen.values(), default=0))

    async def _until_states(self, count: int, running: Running) -> None:
        """Return after ``count`` more stored states, or when all jobs have ended."""
        goal = len(self._history.steps) + count
        await self._wait(running, lambda: len(self._history.steps) >= goal or self._all_ended())

    async def _until_ended(self, running: Running) -> None:
        await self._wait(running, self._all_ended)

    async def _wait(self, running: Running, done: Callable[[], bool]) -> None:
        clock = asyncio.get_running_loop().time
        known, deadline = len(self._history.steps), clock() + STALL_S
        while not done():
            running.must_run()
            if len(self._history.steps) > known:
                known, deadline = len(self._history.steps), clock() + STALL_S
            if clock() > deadline:
                waiting = self._unfinished()
                raise AssertionError(
                    f"no stored change for {STALL_S:g} s; not ended: {len(waiting)} jobs, {waiting[:10]}\n"
                    f"{await self._world.describe()}"
                )
            await asyncio.sleep(0.05)

    def _all_ended(self) -> bool:
        self._progress.update()
        self._show(len(self._progress.ended))
        return len(self._progress.ended) >= self._scale.jobs

    def _unfinished(self) -> list[str]:
        names = map(load.name_of, range(self._scale.jobs))
        return [name for name in names if name not in self._progress.ended]

    async def _until_settled(self, running: Running) -> None:
        """Return once no queue reports usage or pending workloads."""

        async def is_idle() -> bool:
            running.must_run()
            queues = (await self._world.client.list(CLUSTER_QUEUES)).items
            return not any(
                each.status.pending_workloads
                or each.status.reserving_workloads
                or any(
                    resource.total.nanos
                    for flavor in each.status.flavors_reservation
                    for resource in flavor.resources
                )
                for each in queues
            )

        await self._world.until("all queues are idle", is_idle, within_s=STALL_S)

    async def _check(self) -> None:
        client = self._world.client
        promises = Promises((await client.list(CLUSTER_QUEUES)).items, (await client.list(COHORTS)).items)
        kills = list(self._kills)
        for step in self._history.in_order():
            while kills and kills[0] < step.version:
                kills.pop(0)
                promises.outside_event()
            self._outcome.findings += promises.step(step)
        for job in (await client.list(JOBS)).items:
            number = int(job.metadata.name.removeprefix("job-"))
            if not load.is_stuck(self._seed, number) and job.status.succeeded != job.spec.completions:
                self._outcome.findings.append(
                    f"{job.metadata.name}: {job.status.succeeded} of {job.spec.completions} pods succeeded"
                )
        self._outcome.findings += self._controllers.findings()
        if len(self._kills) < self._scale.kills:
            self._outcome.findings.append(
                f"all jobs ended after {len(self._kills)} of {self._scale.kills} kills"
            )

    def _measure(self, duration_s: float) -> None:
        self._progress.update()
        evictions = ", ".join(f"{reason} {count}" for reason, count in self._progress.evictions.most_common())
        self._outcome.measures |= {
            "jobs ended": f"{len(self._progress.ended)} of {self._scale.jobs}",
            "kills": str(len(self._kills)),
            "stored states checked": f"{len(self._history.steps):,}",
            "evictions": evictions or "none",
            "states with reclaimable pods": f"{self._progress.reclaimable:,}",
            "duration": f"{duration_s:.0f} s",
        }
