"""One run of gangs: the gang scheduler behind the proxy, dying at its binds and everywhere else."""

import asyncio
import itertools
import random
import traceback
from functools import partial
from typing import Final

from quorate.api.scheduler_configuration import load_scheduler_configuration
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import NODES, POD_GROUPS, PODS
from quorate.kube.rest.config import RestConfig
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import run_scheduler
from quorate.scheduler.scheduler import Options
from tests.e2e.gangs import GangWorld, a_gang_world
from tests.faults.gang_promises import GangPromises
from tests.faults.gang_scene import CONFIGURATION, FLEET, Gang, Operator, gangs_unrest, invent_gangs
from tests.faults.history import History, recorded
from tests.faults.proxy import Proxy
from tests.faults.trials import Report, Trial

STORM_S: Final = 1.5  # how long after the last submission the faults go on
REST_WITHIN_S: Final = 20.0  # how soon after the last step everything must have come to its end
DEADLINE_S: Final = 0.5  # of the scheduler's requests: short, so that a lost answer costs little
DEBOUNCE_S: Final = 0.7


async def stage_gangs(trial: Trial, report: Report) -> None:
    gangs = invent_gangs(trial.seed)
    async with (
        a_gang_world(FLEET) as world,
        recorded(world.client, (POD_GROUPS, PODS)) as history,
    ):
        cluster = world.client.config
        async with Proxy(
            cluster.server, cluster.credentials.authorization(), trial.plan(), DEBOUNCE_S
        ) as proxy:
            report.suffered = proxy.suffered
            await _Play(trial, gangs, world, proxy, history, report).run()


class _Play:
    def __init__(
        self,
        trial: Trial,
        gangs: tuple[Gang, ...],
        world: GangWorld,
        proxy: Proxy,
        history: History,
        report: Report,
    ) -> None:
        self._trial = trial
        self._gangs = gangs
        self._client = world.client
        self._proxy = proxy
        self._history = history
        self._report = report

    async def run(self) -> None:
        operator = Operator(self._client, self._gangs)
        stage = [asyncio.create_task(part) for part in (self._keep_running(), operator.run())]
        try:
            await operator.submit()
            await asyncio.sleep(STORM_S)
            self._proxy.calm()
            await self._come_to_rest(stage)
            await self._history.complete(self._client)
            await self._judge()
        finally:
            for task in stage:
                task.cancel()
            await asyncio.gather(*stage, return_exceptions=True)

    async def _keep_running(self) -> None:
        """Restart the scheduler whenever it ends, as a supervisor does."""
        for incarnation in itertools.count():
            door = self._proxy.door()
            rng = random.Random(f"scheduler {self._trial.seed} {incarnation}")
            credentials = self._client.config.credentials
            try:
                async with Client(
                    RestConfig(door.url, credentials=credentials), rng, deadline_s=DEADLINE_S
                ) as client:
                    configuration = load_scheduler_configuration(CONFIGURATION).configuration
                    life = asyncio.create_task(
                        run_scheduler(
                            client,
                            WallClock(),
                            Options(),
                            DynamicConfiguration(configuration),
                            SchedulerStatus(),
                            None,
                        )
                    )
                    door.on_kill = partial(_cancel, life)
                    try:
                        (outcome,) = await asyncio.gather(life, return_exceptions=True)
                    finally:
                        life.cancel()
                        door.close()
            finally:
                door.close()
            if not isinstance(outcome, asyncio.CancelledError):
                told = "".join(traceback.format_exception(outcome)) if outcome else ""
                self._report.findings.append(f"the scheduler ended by itself: {told}")
            # A process takes longer to start than what the last one sent takes to arrive.
            await door.idle.wait()
            self._report.restarts += 1

    async def _come_to_rest(self, stage: list[asyncio.Task[None]]) -> None:
        clock = asyncio.get_running_loop().time
        known, deadline = 0, 0.0
        while lacking := await gangs_unrest(self._client, self._gangs):
            for task in stage:
                if task.done():
                    task.result()
            if len(self._history.steps) > known:  # on a busy machine it may take long, but it goes on
                known, deadline = len(self._history.steps), clock() + REST_WITHIN_S
            if clock() > deadline:
                self._report.findings += [f"no rest: {each}" for each in lacking]
                return
            await asyncio.sleep(0.05)

    async def _judge(self) -> None:
        promises = GangPromises((await self._client.list(NODES)).items, self._gangs)
        for step in self._history.in_order():
            self._report.states += 1
            self._report.findings += promises.step(step)


def _cancel(life: asyncio.Task[None]) -> None:
    life.cancel()
