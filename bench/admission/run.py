"""One run: a server, controllers, a scenario and the outcome."""

import asyncio
import os
import random
import secrets
import shlex
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bench.admission.generator import Generator
from bench.admission.jobs import Jobs
from bench.admission.processes import ProcessUsage, UsageSampler, running, serving_pids
from bench.admission.recorder import Record, Recorder
from bench.admission.requests import CountingClient, RequestKind, ServerCounts, admission_writes, read_counts
from bench.admission.server import local_server
from bench.worlds import World
from quorate.api.kueue import Workload
from quorate.install.crds import queueing_definitions
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import WORKLOADS
from quorate.kube.rest.config import load_rest_config
from quorate.processes.local.apply import install_definitions

T = TypeVar("T")

RECONCILE_TIMEOUT_S: Final = 300.0  # a thousand queues on a busy machine
CONCURRENCY: Final = 50  # of the generator and the job simulator together; each uses a connection
DELETION_S: Final = 600.0  # deadline of a request: the deletion of a collection takes milliseconds an object
LOG: Final = "controllers.log"
CONTROLLERS: Final = "controllers"  # the name of their process


@dataclass(frozen=True, slots=True)
class Plan:
    world: World
    kubeconfig: Path | None  # None: run a local server
    controllers: str  # the command, run with KUBECONFIG; "": they run already
    pid: int | None  # of controllers that run already
    within_s: float
    directory: Path  # for the local server's state and the controllers' log
    server_pid: int | None = None  # None: found by its port, if it is on this machine
    leave: bool = False  # do not delete the created objects


class Outcome(msgspec.Struct):
    """The measurements of one run; requests exclude those of the generator and the job simulator."""

    record: Record
    processes: dict[str, ProcessUsage]  # the controllers from their start, others during the run
    server_cpu_s: float  # by its own account, also if it is not on this machine
    own_cpu_s: float  # of this process: generator, job simulator, recorder
    requests: dict[str, int]  # successful, such as "PATCH workloads/status"
    refused: dict[str, int]
    lost_races: int = 0  # refused writes of the job simulator: the workload was preempted at the same time

    @property
    def controllers(self) -> ProcessUsage | None:
        """Return the usage of the controllers; None without a process to measure."""
        return self.processes.get(CONTROLLERS)

    @property
    def writes_per_admission(self) -> float:
        return self._writes / self.record.admissions

    @property
    def _writes(self) -> int:
        return admission_writes(
            Counter({RequestKind(*name.split(" ")): n for name, n in self.requests.items()})
        )


class NotDone(Exception):
    """The run did not finish."""


async def run(plan: Plan, on_progress: Callable[[Record], None]) -> Outcome:
    """Execute a run or raise ``NotDone``; by default delete the created objects from a foreign server."""
    async with AsyncExitStack() as stack:
        kubeconfig = plan.kubeconfig
        if kubeconfig is None:
            kubeconfig = await stack.enter_async_context(local_server(plan.directory))
        config = await load_rest_config(kubeconfig)
        client = CountingClient(config, random.Random(), concurrency=CONCURRENCY, deadline_s=DELETION_S)
        await stack.enter_async_context(client)
        await require_kinds(client)
        process = None
        if plan.controllers:
            log = plan.directory / LOG
            process = await stack.enter_async_context(running(shlex.split(plan.controllers), kubeconfig, log))
        generator = Generator(client, plan.world, secrets.token_hex(2))
        if plan.kubeconfig is not None and not plan.leave:
            stack.push_async_callback(generator.delete_all)
        await generator.create_queues()
        measured = {
            name: UsageSampler(pid)
            for name, pid in serving_pids(client.config.server, plan.server_pid).items()
        }
        pid = process.pid if process is not None else plan.pid
        if pid is not None:
            measured[CONTROLLERS] = UsageSampler(pid)
        return await _measure(plan, client, generator, process, measured, on_progress)


async def _measure(
    plan: Plan,
    client: CountingClient,
    generator: Generator,
    process: Process | None,
    measured: Mapping[str, UsageSampler],
    on_progress: Callable[[Record], None],
) -> Outcome:
    recorder = Recorder(plan.world)
    workloads = Informer(client, WORKLOADS)
    jobs = Jobs(client, WallClock(), workloads)
    ours = frozenset(generator.queues)

    def workload_changed(change: Change[Workload]) -> None:
        if change.key.namespace in ours:
            jobs.workload_changed(change)
            recorder.workload_changed(change)

    workloads.subscribe(workload_changed)
    async with asyncio.TaskGroup() as tasks:
        parts = [tasks.create_task(part) for part in (workloads.run(), jobs.run())]
        if process is not None:
            parts.append(tasks.create_task(_fail_on_exit(process)))
        parts += [tasks.create_task(sampler.follow()) for sampler in measured.values()]
        await within(RECONCILE_TIMEOUT_S, "no controllers reconcile the queues", generator.until_active())
        await workloads.synced.wait()
        ours_before, refused_before = Counter(client.succeeded), Counter(client.refused)
        before, cpu_s = await read_counts(client), _own_cpu_s()
        for name, sampler in measured.items():
            if name != CONTROLLERS or process is None:
                sampler.begin()
        recorder.begin()
        parts.append(tasks.create_task(generator.create_workloads()))
        parts.append(tasks.create_task(recorder.sample(on_progress)))
        await within(plan.within_s, "not all workloads finished", recorder.done.wait())
        for sampler in measured.values():
            sampler.sample()
        counts = (await read_counts(client)).since(before)
        own_cpu_s = _own_cpu_s() - cpu_s
        for part in parts:
            part.cancel()
    return Outcome(
        record=recorder.record,
        processes={name: sampler.usage for name, sampler in measured.items()},
        server_cpu_s=counts.cpu_s,
        own_cpu_s=own_cpu_s,
        requests=_other_requests(counts, client.succeeded - ours_before),
        refused=_named(counts.refused - (client.refused - refused_before)),
        lost_races=(client.refused - refused_before).total(),
    )


def _other_requests(counts: ServerCounts, ours: Counter[RequestKind]) -> dict[str, int]:
    metrics = Counter(
        {request: n for request, n in counts.succeeded.items() if request.resource != "metrics"}
    )
    return _named(metrics - ours)


def _named(counts: Mapping[RequestKind, int]) -> dict[str, int]:
    return {f"{request.verb} {request.resource}": count for request, count in sorted(counts.items())}


async def require_kinds(client: Client) -> None:
    """Install the shipped definitions unless the cluster has some."""
    try:
        await client.request("GET", f"/apis/{WORKLOADS.group}/{WORKLOADS.version}")
    except NotFound:
        await install_definitions(client, queueing_definitions())


async def _fail_on_exit(process: Process) -> None:
    """Run until cancelled; raise ``NotDone`` when the process ends."""
    code = await process.wait()
    raise NotDone(f"the controllers ended by themselves, with status {code}: see {LOG}")


async def within(seconds: float, otherwise: str, work: Awaitable[T]) -> T:
    """Return the result of ``work``; after so many seconds raise ``NotDone`` with the text ``otherwise``."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise NotDone(f"{otherwise} within {seconds:g} s") from None


def _own_cpu_s() -> float:
    times = os.times()
    return times.user + times.system
