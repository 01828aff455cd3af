"""Two replicas as processes: one leads, the other takes over when the leader ends."""

import asyncio
import itertools
import json
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from quorate.api.configuration import load_configuration
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid, is_true
from quorate.controllers.process import run_replica
from quorate.kube.clock import WallClock
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import LEASES, WORKLOADS
from quorate.observe.replica import Replica
from tests.e2e import shared_clusters
from tests.e2e.commands import QUORATE
from tests.e2e.test_controllers_command import controllers, kubeconfig
from tests.e2e.test_restarts import NAMES, NODES, each_ran_once, never_over_quota, stop_watching, submit
from tests.e2e.world import NAMESPACE, World, running_cluster
from tests.elections import in_this_loop

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,  # long stories of code that other tests measure
]

LEASE = Key(NAMESPACE, "quorate")
CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "health": {"healthProbeBindAddress": "127.0.0.1:0"},
    "metrics": {"bindAddress": "127.0.0.1:0"},
    "leaderElection": {
        "leaderElect": True,
        "resourceName": LEASE.name,
        "resourceNamespace": LEASE.namespace,
        "leaseDuration": "5s",
        "renewDeadline": "4s",  # long enough for a busy machine
        "retryPeriod": "200ms",
    },
}

ADMITTED_TOTAL = (
    'kueue_admitted_workloads_total{{cluster_queue="research",priority_class="",replica_role="{}"}}'
)
RESERVING_WORKLOADS = 'kueue_reserving_active_workloads{{cluster_queue="research",replica_role="{}"}}'


@dataclass
class RunningReplica:
    process: asyncio.subprocess.Process
    health_url: str
    metrics_url: str

    async def answers(self, endpoint: str) -> int:
        async with aiohttp.ClientSession() as session, session.get(f"{self.health_url}/{endpoint}") as answer:
            return answer.status

    async def shows(self, series: str) -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"{self.metrics_url}/metrics") as answer:
            return f"{series} " in await answer.text()

    async def is_ready(self) -> bool:
        return await self.answers("readyz") == 200


@asynccontextmanager
async def a_replica(
    world: World, directory: Path, program: Sequence[str] = ()
) -> AsyncIterator[RunningReplica]:
    cluster = world.client.config
    token = cluster.credentials.authorization().removeprefix("Bearer ")
    config = directory / "configuration.yaml"
    config.write_text(json.dumps(CONFIGURATION))
    options = ("--kubeconfig", kubeconfig(directory, cluster.server, token), "--config", config)
    async with controllers(*options, "--log-format", "json", program=program) as process:
        assert process.stderr is not None
        urls: list[str] = []
        async for line in process.stderr:
            record = json.loads(line)
            if record["message"] == "listening":
                urls.append(f"http://{record['address']}")
            if len(urls) == 2:
                break
        reading = asyncio.create_task(process.stderr.read())  # a full pipe would block the process
        try:
            yield RunningReplica(process, *urls)
        finally:
            if process.returncode is None:
                process.kill()
            await reading


async def holder(world: World) -> str:
    try:
        return (await world.client.get(LEASES, LEASE)).spec.holder_identity
    except NotFound:
        return ""


class Reservations:
    """Count quota reservations by workload in a watch."""

    def __init__(self, world: World) -> None:
        self.seen: Counter[Uid] = Counter()
        self.informer = Informer(world.client, WORKLOADS)
        self.informer.subscribe(self._changed)

    def _changed(self, change: Change[Workload]) -> None:
        was, is_ = (
            each is not None and is_true(each.status.conditions, "QuotaReserved")
            for each in (change.old, change.new)
        )
        if change.new is not None and is_ and not was:
            self.seen[change.new.metadata.uid] += 1

    async def are_complete(self) -> bool:
        return len(self.seen) == len(NAMES)


def test_the_other_replica_takes_over_and_nothing_is_admitted_twice(tmp_path: Path) -> None:
    """The leader is terminated; ``tests/faults/test_at_size.py`` kills it."""

    async def story() -> None:
        async with running_cluster(NODES) as world:
            reservations = Reservations(world)
            counting = asyncio.create_task(reservations.informer.run())
            watching = asyncio.create_task(never_over_quota(world))
            async with a_replica(world, tmp_path) as first:
                first_holder = await world.until("a leader", lambda: holder(world))
                async with a_replica(world, tmp_path) as second:
                    await world.until("both are ready", lambda: both_ready(first, second))
                    await submit(world)
                    await world.until("some jobs are finished", lambda: finished(world, 5))
                    assert await holder(world) == first_holder
                    assert await first.shows(ADMITTED_TOTAL.format("leader"))
                    assert await second.shows(RESERVING_WORKLOADS.format("follower"))
                    assert not await second.shows(ADMITTED_TOTAL.format("follower"))
                    first.process.send_signal(signal.SIGTERM)
                    await first.process.wait()
                    assert await second.answers("healthz") == 200
                    await world.until(
                        "all jobs are finished", lambda: finished(world, len(NAMES)), within_s=60
                    )
                    assert await holder(world) not in ("", first_holder)
                    assert await second.shows(ADMITTED_TOTAL.format("leader"))
            await stop_watching(watching)
            await each_ran_once(world)
            await world.until("the watch has seen all reservations", reservations.are_complete)
            counting.cancel()
            assert set(reservations.seen.values()) == {1}

    shared_clusters.run(story())


def test_a_leader_that_was_suspended_beyond_its_lease_writes_nothing(tmp_path: Path) -> None:
    """Its cache still shows jobs as pending that the other leader has admitted; none is admitted twice."""

    async def story() -> None:
        async with running_cluster(NODES) as world:
            reservations = Reservations(world)
            counting = asyncio.create_task(reservations.informer.run())
            watching = asyncio.create_task(never_over_quota(world))
            async with a_replica(world, tmp_path, QUORATE) as first:
                former = await world.until("a leader", lambda: holder(world))
                async with a_replica(world, tmp_path) as second:
                    await world.until("both are ready", lambda: both_ready(first, second))
                    await submit(world)
                    first.process.send_signal(signal.SIGSTOP)
                    await world.until(
                        "the other leads", lambda: is_held_by_other_than(world, former), within_s=60
                    )
                    await world.until("some jobs are finished", lambda: finished(world, 5), within_s=60)
                    first.process.send_signal(signal.SIGCONT)
                    follows = RESERVING_WORKLOADS.format("follower")
                    await world.until("it follows", lambda: first.shows(follows), within_s=60)
                    await world.until(
                        "all jobs are finished", lambda: finished(world, len(NAMES)), within_s=60
                    )
                    assert await second.shows(ADMITTED_TOTAL.format("leader"))
            await stop_watching(watching)
            await each_ran_once(world)
            await world.until("the watch has seen all reservations", reservations.are_complete)
            counting.cancel()
            assert set(reservations.seen.values()) == {1}

    shared_clusters.run(story())


async def is_held_by_other_than(world: World, former: str) -> bool:
    return await holder(world) not in ("", former)


async def both_ready(one: RunningReplica, other: RunningReplica) -> bool:
    return await one.is_ready() and await other.is_ready()


async def finished(world: World, at_least: int) -> bool:
    workloads = (await world.client.list(WORKLOADS)).items
    return sum(is_true(each.status.conditions, "Finished") for each in workloads) >= at_least


def test_a_leader_that_cannot_renew_stops_until_it_is_elected_again() -> None:
    async def story() -> None:
        async with running_cluster() as world:
            await world.queues(cpu="2")
            configuration = load_configuration(json.dumps(CONFIGURATION)).configuration
            replica = Replica("follower")
            identities = (f"run-{number}" for number in itertools.count(1))
            client, rng = world.queueing_client, random.Random(1)
            running = asyncio.create_task(
                run_replica(
                    client,
                    WallClock(),
                    DynamicConfiguration(configuration),
                    rng,
                    replica,
                    in_this_loop(client, WallClock(), lambda: next(identities)),
                )
            )
            await world.job("before")
            await world.until_admitted("before")
            assert (replica.role, await holder(world)) == ("leader", "run-1")
            client.one_in = 1  # every write is lost
            await world.until("the replica is a follower", lambda: has_role(replica, "follower"))
            assert replica.ready.is_set()
            await world.job("meanwhile")
            client.one_in = 0
            await world.until_admitted("meanwhile")
            assert (replica.role, await holder(world)) == ("leader", "run-2")
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()
            assert await holder(world) == "", "the lease was not released"

    shared_clusters.run(story())


async def has_role(replica: Replica, role: str) -> bool:
    return replica.role == role
