"""The leader of two replicas is killed under load: how long until the other one leads, and decides."""

import asyncio
import itertools
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from quorate.api.meta import Key
from quorate.kube.errors import NotFound
from quorate.kube.resources import CLUSTER_QUEUES, COHORTS, JOBS, LEASES
from tests.e2e.world import NAMESPACE, World, running_cluster
from tests.faults.at_size import load
from tests.faults.at_size.controllers import Controllers, Running
from tests.faults.at_size.outcome import Outcome, Show
from tests.faults.history import History, recorded
from tests.faults.promises import Promises

LEASE: Final = Key(NAMESPACE, "quorate")
WITHIN_S: Final = 180.0
MARGIN_S: Final = 1.0  # a takeover lasts at most this much longer than the lease
DECISIONS: Final = 10  # of each leader before it is killed


@dataclass(frozen=True)
class Scale:
    kills: int = 5
    lease_s: int = 15
    unfinished: int = 20  # jobs at a time
    limit_s: float | None = None  # of a takeover; None: the lease and a second

    def configuration(self) -> load.Json:
        # The defaults of client-go are a lease of 15 s, renewed within 10 s, retried every 2 s.
        return {
            "leaderElection": {
                "leaderElect": True,
                "resourceName": LEASE.name,
                "resourceNamespace": LEASE.namespace,
                "leaseDuration": f"{self.lease_s}s",
                "renewDeadline": f"{self.lease_s * 2 / 3:.1f}s",
                "retryPeriod": f"{self.lease_s * 2 / 15:.2f}s",
            }
        }


@dataclass(frozen=True)
class _Takeover:
    elected_s: float  # from the kill until the lease has another holder
    decided_s: float  # from the kill until the next stored reservation


async def run(scale: Scale, seed: int, show: Show) -> Outcome:
    async with running_cluster(load.FLEET) as world, recorded(world.client) as history:
        with TemporaryDirectory() as directory:
            return await _Run(scale, seed, world, history, Path(directory)).run(show)


class _Run:
    def __init__(self, scale: Scale, seed: int, world: World, history: History, directory: Path) -> None:
        self._scale = scale
        self._seed = seed
        self._world = world
        self._history = history
        self._progress = load.Progress(history)
        cluster = world.client.config
        token = cluster.credentials.authorization().removeprefix("Bearer ")
        self._controllers = Controllers(directory, cluster.server, token, scale.configuration())
        self._submitted = 0
        self._enough = asyncio.Event()

    async def run(self, show: Show) -> Outcome:
        await load.create_objects(self._world.client, preempting=False)
        submitting = asyncio.create_task(self._submit())
        takeovers: list[_Takeover] = []
        try:
            async with AsyncExitStack() as stack:
                replicas = [await stack.enter_async_context(self._controllers.running()) for _ in range(2)]
                for number in range(self._scale.kills):
                    takeovers.append(await self._kill_leader(replicas))
                    show(number + 1)
                    replicas.append(await stack.enter_async_context(self._controllers.running()))
                self._enough.set()
                await submitting
                await self._world.until("all jobs end", self._all_ended, within_s=WITHIN_S)
        finally:
            submitting.cancel()
            await asyncio.gather(submitting, return_exceptions=True)
        await self._history.complete(self._world.client)
        return await self._outcome(takeovers)

    async def _submit(self) -> None:
        for number in itertools.count():
            while self._submitted - len(self._progress.ended) >= self._scale.unfinished:
                await asyncio.sleep(0.05)
                self._progress.update()
            if self._enough.is_set():
                return
            body = load.generate_job(self._seed, number)
            body["metadata"]["name"] = load.name_of(self._submitted)
            if load.is_stuck(self._seed, number) or body["spec"]["parallelism"] > 2:
                continue  # only jobs that need no second reservation
            await self._world.client.create(JOBS, body, NAMESPACE)
            self._submitted += 1

    async def _all_ended(self) -> bool:
        self._progress.update()
        return len(self._progress.ended) >= self._submitted

    async def _kill_leader(self, replicas: list[Running]) -> _Takeover:
        clock = asyncio.get_running_loop().time
        holder, leader = await self._world.until("a leader", lambda: self._leader(replicas), WITHIN_S)
        decided = self._decisions()
        await self._until_decisions(decided + DECISIONS)
        await self._world.until("the others follow", lambda: self._others_follow(replicas, leader), WITHIN_S)
        if await self._holder() != holder:
            return await self._kill_leader(replicas)  # the leader changed by itself
        replicas.remove(leader)
        await leader.kill()
        killed, decided = clock(), self._decisions()

        async def another() -> bool:
            return await self._holder() not in ("", holder)

        await self._world.until("another leader", another, WITHIN_S)
        elected_s = clock() - killed
        await self._until_decisions(decided + 1)
        return _Takeover(elected_s, clock() - killed)

    async def _leader(self, replicas: list[Running]) -> tuple[str, Running] | None:
        holder = await self._holder()
        if not holder:
            return None
        for replica in replicas:
            replica.must_run()
            if replica.logged(holder):
                return holder, replica
        return None

    async def _others_follow(self, replicas: list[Running], leader: Running) -> bool:
        """Return True once all other replicas have seen the lease: they measure its age from then on."""
        return all(each.logged('"message":"ready"') for each in replicas if each is not leader)

    async def _holder(self) -> str:
        try:
            return (await self._world.client.get(LEASES, LEASE)).spec.holder_identity
        except NotFound:
            return ""

    def _decisions(self) -> int:
        self._progress.update()
        return self._progress.reservations.total()

    async def _until_decisions(self, count: int) -> None:
        async def decided() -> bool:
            return self._decisions() >= count

        await self._world.until(f"{count} reservations", decided, WITHIN_S)

    async def _outcome(self, takeovers: list[_Takeover]) -> Outcome:
        outcome = Outcome("takeover")
        client = self._world.client
        promises = Promises((await client.list(CLUSTER_QUEUES)).items, (await client.list(COHORTS)).items)
        for step in self._history.in_order():
            outcome.findings += promises.step(step)
        twice = [uid for uid, count in self._progress.reservations.items() if count > 1]
        if twice:
            outcome.findings.append(f"{len(twice)} workloads got a reservation more than once")
        given = self._scale.limit_s
        limit_s = given if given is not None else self._scale.lease_s + MARGIN_S
        outcome.findings += [
            f"a takeover lasted {each.elected_s:.1f} s, more than {limit_s:g} s"
            for each in takeovers
            if each.elected_s > limit_s
        ]
        outcome.findings += self._controllers.findings()
        elected = sorted(each.elected_s for each in takeovers)
        decided = sorted(each.decided_s for each in takeovers)
        outcome.measures |= {
            "leaders killed": str(len(takeovers)),
            "lease": f"{self._scale.lease_s} s",
            "from the kill to another leader": f"{elected[0]:.1f} to {elected[-1]:.1f} s",
            "from the kill to its first reservation": f"{decided[0]:.1f} to {decided[-1]:.1f} s",
            "workloads admitted": f"{len(self._progress.reservations):,}, twice: {len(twice)}",
            "stored states checked": f"{len(self._history.steps):,}",
        }
        return outcome
