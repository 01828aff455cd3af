"""One run of gangs: the gang scheduler behind the proxy, killed at binds and at other requests."""

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
from tests.e2e.gangs import GangWorld, running_gang_cluster
from tests.faults.gang_promises import GangPromises
from tests.faults.gang_scene import CONFIGURATION, FLEET, Gang, Operator, generate_gangs, unfinished_gangs
from tests.faults.history import History, recorded
from tests.faults.proxy import Proxy
from tests.faults.trials import Report, Trial

FAULTS_S: Final = 1.5  # duration of the faults after the last submission
SETTLE_TIMEOUT_S: Final = 20.0  # the longest time without a stored change before all gangs complete
DEADLINE_S: Final = 0.5  # of the scheduler's requests: short, so that a lost response costs little
DEBOUNCE_S: Final = 0.7


async def run_gangs(trial: Trial, report: Report) -> None:
    gangs = generate_gangs(trial.seed)
    async with (
        running_gang_cluster(FLEET) as world,
        recorded(world.client, (POD_GROUPS, PODS)) as history,
        Proxy(world.client.config, trial.plan(), DEBOUNCE_S) as proxy,
    ):
        report.injected = proxy.injected
        await _Run(trial, gangs, world, proxy, history, report).run()


class _Run:
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
        tasks = [asyncio.create_task(part) for part in (self._keep_running(), operator.run())]
        try:
            await operator.submit()
            await asyncio.sleep(FAULTS_S)  # sleeps: a storm of faults lasts for a time
            self._proxy.stop_faults()
            await self._until_settled(tasks)
            await self._history.complete(self._client)
            await self._check_history()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_running(self) -> None:
        """Restart the scheduler whenever it ends, as a supervisor does."""
        for incarnation in itertools.count():
            endpoint = self._proxy.endpoint()
            rng = random.Random(f"scheduler {self._trial.seed} {incarnation}")
            credentials = self._client.config.credentials
            try:
                async with Client(
                    RestConfig(endpoint.url, credentials=credentials), rng, deadline_s=DEADLINE_S
                ) as client:
                    configuration = load_scheduler_configuration(CONFIGURATION).configuration
                    running = asyncio.create_task(
                        run_scheduler(
                            client,
                            WallClock(),
                            Options(),
                            DynamicConfiguration(configuration),
                            SchedulerStatus(),
                            None,
                        )
                    )
                    endpoint.on_kill = partial(_cancel, running)
                    try:
                        (outcome,) = await asyncio.gather(running, return_exceptions=True)
                    finally:
                        running.cancel()
                        endpoint.close()
            finally:
                endpoint.close()
            if not isinstance(outcome, asyncio.CancelledError):
                error = "".join(traceback.format_exception(outcome)) if outcome else ""
                self._report.findings.append(f"the scheduler ended by itself: {error}")
            # A process takes longer to start than the last requests of the previous one take to arrive.
            await endpoint.idle.wait()
            self._report.restarts += 1

    async def _until_settled(self, tasks: list[asyncio.Task[None]]) -> None:
        clock = asyncio.get_running_loop().time
        known, deadline = 0, 0.0
        while findings := await unfinished_gangs(self._client, self._gangs):
            for task in tasks:
                if task.done():
                    task.result()
            if len(self._history.steps) > known:  # progress, even if slow on a busy machine
                known, deadline = len(self._history.steps), clock() + SETTLE_TIMEOUT_S
            if clock() > deadline:
                self._report.findings += [f"not settled: {each}" for each in findings]
                return
            await asyncio.sleep(0.05)

    async def _check_history(self) -> None:
        promises = GangPromises((await self._client.list(NODES)).items, self._gangs)
        for step in self._history.in_order():
            self._report.states += 1
            self._report.findings += promises.step(step)


def _cancel(running: asyncio.Task[None]) -> None:
    running.cancel()
