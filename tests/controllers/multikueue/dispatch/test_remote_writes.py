"""What is remembered of jobs in worker clusters: nothing, once they and their clusters are gone."""

import asyncio
import random
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import Informers
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.multikueue.dispatch.job_adapter import JobRef, LocalJob, Member, Presence, Synced
from quorate.controllers.multikueue.dispatch.plan import (
    ReadEnd,
    RemoteAction,
    RemoteState,
    RemoveCopy,
    SyncJob,
)
from quorate.controllers.multikueue.dispatch.remote_writes import RemoteWrites
from quorate.controllers.multikueue.workers import Worker
from quorate.controllers.multikueue.workload_copy import WORKLOAD_COPIES
from quorate.kube.client import Client
from quorate.kube.errors import Unreachable
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Informer
from quorate.kube.rest.config import RestConfig
from tests.controllers.multikueue.dispatch.dispatch_objects import local
from tests.kube.virtual_clock import VirtualClock
from tests.search import examples

LOST_S: Final = Configuration().multikueue.worker_lost_timeout_s
CLUSTERS: Final = ("a", "b")
JOB: Final = JobRef(
    "batch/v1, Kind=Job", Key("default", "train"), local().metadata.key, (Member("train", Uid("1")),)
)


class Jobs:
    """The jobs of worker clusters, which a test changes; requests to them fail or are late."""

    def __init__(self) -> None:
        self.state: Presence = "absent"
        self.is_down = False
        self.waits = asyncio.Event()
        self.waits.set()

    def job_of(self, workload: Workload) -> JobRef:
        return JOB

    async def local_job(self, job: JobRef) -> LocalJob:
        return LocalJob()

    def components(self, workload: Workload, job: JobRef, workloads: int) -> None:
        return None

    def presence(self, worker: Worker, job: JobRef) -> Presence:
        return self.state

    async def sync(
        self, worker: Worker, job: JobRef, workload: Workload, copied: tuple[int, ...] | None
    ) -> Synced:
        await self._answer()
        self.state = "present"
        return Synced(copied=(7,))

    async def delete(self, worker: Worker, job: JobRef, *, may_exist: bool, waits_for_pods: bool) -> None:
        await self._answer()
        self.state = "ending" if waits_for_pods and self.state != "absent" else "absent"

    async def end(self, worker: Worker, job: JobRef) -> Outcome | None:
        await self._answer()
        return Outcome(True, "done") if self.state == "removed" else None

    async def lost(self, job: JobRef) -> None: ...

    async def _answer(self) -> None:
        await self.waits.wait()
        if self.is_down:
            raise Unreachable("GET /", "http://127.0.0.1:1", "it is down")


class World:
    def __init__(self, client: Client) -> None:
        self.clock, self.jobs = VirtualClock(), Jobs()
        recorder = EventRecorder(client, self.clock, "quorate")
        context = ControllerContext(
            client, self.clock, recorder, Configuration(), Informers(client), random.Random(1),
            record=lambda *_: None, forget=lambda _: None,
        )  # fmt: skip
        self.ended = asyncio.Event()  # a write has ended
        self.writes = RemoteWrites(context, self.jobs, lambda key: self.ended.set())
        self.workers = {name: Worker(name, client, Informer(client, WORKLOAD_COPIES)) for name in CLUSTERS}
        self.workloads = [_named(name) for name in ("train", "other")]

    def state(self, cluster: str, workload: Workload) -> RemoteState:
        return self.writes.state(self.workers[cluster], workload.metadata.key, JOB)

    def start(self, cluster: str, workload: Workload, action: RemoteAction) -> None:
        if not self.state(cluster, workload).is_busy:
            self.writes.start(self.workers[cluster], action, workload, JOB)

    async def step(self, kind: str, cluster: str, number: int) -> None:
        workload = self.workloads[number]
        match kind:
            case "sync":
                self.start(cluster, workload, SyncJob(cluster))
            case "read":
                self.start(cluster, workload, ReadEnd(cluster))
            case "removed":
                self.jobs.state = "removed"
            case "remove":
                self.start(cluster, workload, RemoveCopy(cluster))
            case "lose":
                self.writes.reconnected(cluster)
            case "change":
                self.writes.job_changed(workload.metadata.key)
            case "look":
                self.state(cluster, workload)
            case "wait":
                self.clock.pass_time(LOST_S if number else 3.0)
            case "gone" | "ending":
                self.jobs.state = "absent" if kind == "gone" else "ending"
            case "down":
                self.jobs.is_down = not self.jobs.is_down
            case "late":
                self.jobs.waits.clear()
            case "answer":
                self.jobs.waits.set()
        await asyncio.sleep(0)

    async def end(self) -> None:
        """Let all requests end, then forget the workloads and the clusters."""
        self.jobs.waits.set()
        for _ in range(20):
            await asyncio.sleep(0)
        for workload in self.workloads:
            self.writes.forget(workload.metadata.key)
        for cluster in CLUSTERS:
            self.writes.reconnected(cluster)


def _named(name: str) -> Workload:
    workload = local()
    return replace(workload, metadata=replace(workload.metadata, name=name))


def kept(writes: RemoteWrites) -> dict[str, Any]:
    return {name: value for name, value in vars(writes).items() if isinstance(value, dict) and value}


async def play(steps: list[tuple[str, str, int]]) -> World:
    async with Client(RestConfig("http://127.0.0.1:1"), random.Random(1)) as client:
        world = World(client)
        running = asyncio.create_task(world.writes.run())
        await asyncio.sleep(0)
        for step in steps:
            await world.step(*step)
        await world.end()
        running.cancel()
        return world


KINDS: Final = (
    *("sync", "remove", "look", "answer") * 2,
    "lose",
    "read",
    "removed",
    "change",
    "wait",
    "gone",
    "ending",
    "down",
    "late",
)


@examples(150)
@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(CLUSTERS), st.integers(0, 1)), max_size=25))
def test_nothing_is_kept_of_what_is_gone(steps: list[tuple[str, str, int]]) -> None:
    assert kept(asyncio.run(play(steps)).writes) == {}


def test_a_job_with_pods_may_run_until_they_are_gone_or_the_timeout_has_passed() -> None:
    async def story() -> None:
        async with Client(RestConfig("http://127.0.0.1:1"), random.Random(1)) as client:
            world = World(client)
            running = asyncio.create_task(world.writes.run())
            await asyncio.sleep(0)
            (workload, _) = world.workloads

            async def write(kind: str, cluster: str) -> None:
                world.ended.clear()
                await world.step(kind, cluster, 0)
                async with asyncio.timeout(10):
                    await world.ended.wait()

            for kind in ("sync", "remove"):
                await write(kind, "a")
            state = world.state("a", workload)
            assert (state.may_run, state.is_ending, state.is_busy) == (True, True, False)
            ends_until = world.clock.now() + LOST_S
            world.clock.pass_time(10.0)
            assert world.writes.busy_until(workload.metadata.key) == ends_until
            world.clock.pass_time(LOST_S)
            assert not world.state("a", workload).may_run

            await write("sync", "b")
            await world.step("remove", "b", 0)
            world.jobs.state = "absent"
            assert not world.state("b", workload).may_run
            running.cancel()

    asyncio.run(story())
