"""One process in one cluster, measured in a process of its own, because its memory and CPU count."""

import asyncio
import ctypes
import gc
import os
import random
import resource
from collections.abc import Callable, Coroutine
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from time import monotonic, process_time
from typing import Any, Final, NamedTuple

import uvloop

from bench.admission.processes import UsageSampler
from bench.scale.objects import (
    GANG_PODS,
    Size,
    changed_pod,
    controllers_series,
    cordoned_node,
    scheduler_series,
)
from bench.scale.synthetic_client import SyntheticClient
from quorate.api.configuration import default_configuration
from quorate.api.configuration.process import EstimateRules
from quorate.api.scheduler_configuration import default_scheduler_configuration
from quorate.controllers.process import follow, run_queueing
from quorate.kube import resources
from quorate.kube.clock import WallClock
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import (
    PLACEABLE_NODES,
    PLACEABLE_PODS,
    POD_GROUPS,
    WORKLOADS,
    Resource,
)
from quorate.observe.replica import Replica
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.estimation.supervisor import run_estimation
from quorate.processes.process_setup import tune_garbage_collection
from quorate.scheduler.observer import SchedulerStatus
from quorate.scheduler.process import run_scheduler
from quorate.scheduler.scheduler import Options

CHANGES: Final = 20_000  # of pods
NODE_CHANGES: Final = 200
DECISIONS: Final = 2_000
CALM_S: Final = 0.05  # of CPU in a second: the process has no work left
QUIET_S: Final = 2
SETTLE_WITHIN_S: Final = 120.0
WITHIN_S: Final = 3600.0
POLL_S: Final = 0.2


class Usage(NamedTuple):
    """Of the process under test, without the generation of objects."""

    cpu_s: float
    resident_bytes: float


class Costs(NamedTuple):
    """What one process took in one cluster; None: it does not do that."""

    first_s: float  # from the start to the first decision, of wall time, with the generation of objects
    first_cpu_s: float
    resident_bytes: float  # after the first decision
    peak_bytes: float  # of the process, until its end
    pending_bytes: float | None = None  # of all pending workloads, or of all pods of pending gangs
    pending_cpu_s: float | None = None
    pod_change_cpu_s: float | None = None  # of one change
    node_change_cpu_s: float | None = None
    decisions_per_s: float | None = None  # of CPU
    longest_pause_s: float | None = None  # of the event loop


def measured(name: str, size: Size) -> Costs:
    """Return the costs of a process, run in a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (name, size))


def _measure(name: str, size: Size) -> Costs:
    tune_garbage_collection()
    return uvloop.run(PROCESSES[name](size))


class _Run:
    """The process under test in one event loop, and what is measured of it."""

    def __init__(self, client: SyntheticClient) -> None:
        self.client = client
        self.began_s = monotonic()
        self.longest_pause_s = 0.0

    def usage(self) -> Usage:
        cpu_s = process_time() - self.client.own_cpu_s
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        return Usage(cpu_s, _resident_bytes("self") - self.client.written_bytes)

    async def settled(self) -> None:
        """Return once the process has had no work for some seconds, or after ``SETTLE_WITHIN_S``."""
        quiet = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_WITHIN_S):
                while quiet < QUIET_S:
                    before = process_time()
                    await asyncio.sleep(1.0)
                    quiet = quiet + 1 if process_time() - before < CALM_S else 0

    async def watch_pauses(self) -> None:
        """Measure until cancelled how long the event loop does one thing."""
        while True:
            before = monotonic()
            await asyncio.sleep(0.01)
            self.longest_pause_s = max(self.longest_pause_s, monotonic() - before - 0.01)

    async def cost_of(self, work: Coroutine[Any, Any, None]) -> Usage:
        """Return the CPU and the memory that ``work`` took, with all that follows from it."""
        before = self.usage()
        resumed = process_time() - self.client.own_cpu_s
        await work
        await self.settled()
        cpu_s = process_time() - self.client.own_cpu_s - resumed
        return Usage(cpu_s, self.usage().resident_bytes - before.resident_bytes)


class _Decided:
    """Counts decisions, and waits for them."""

    def __init__(self) -> None:
        self.count = 0
        self._event = asyncio.Event()

    def note(self) -> None:
        self.count += 1
        self._event.set()

    async def until(self, total: int) -> None:
        while self.count < total:
            self._event.clear()
            await asyncio.wait_for(self._event.wait(), WITHIN_S)


def _served() -> list[Resource[Any]]:
    unserved = {"resourceclaims", "deviceclasses", "resourceslices", "resourceclaimtemplates", "hypernodes"}
    return [
        resource
        for resource in vars(resources).values()
        if isinstance(resource, Resource) and resource.plural not in unserved
    ]


async def _controllers(size: Size) -> Costs:
    decided = _Decided()

    def on_write(path: str, method: str, content: Any) -> None:
        if path.endswith("/status") and "/workloads/" in path:
            status = content.get("status") or {}
            if status.get("admission"):
                decided.note()

    client = SyntheticClient(controllers_series(size), _served(), on_write)
    run, clock = _Run(client), WallClock()
    replica = Replica("standalone")
    configured = DynamicConfiguration(default_configuration())
    process = run_queueing(client, clock, configured, random.Random(1), replica)
    work = _Work(
        pending=lambda: client.add(WORKLOADS, "large", range(size.pending)),
        decide=lambda: client.add(WORKLOADS, "fits", range(DECISIONS)),
        decisions=DECISIONS,
        changed=changed_pod(size, of_workload=True),
    )
    return await _measured(run, size, process, decided, work)


async def _scheduler(size: Size) -> Costs:
    decided = _Decided()

    def on_write(path: str, method: str, content: Any) -> None:
        if path.endswith("/binding"):
            decided.note()

    client = SyntheticClient(scheduler_series(size), _served(), on_write)
    run, clock = _Run(client), WallClock()
    configured = DynamicConfiguration(default_scheduler_configuration())
    process = run_scheduler(client, clock, Options(), configured, SchedulerStatus(), None)

    async def create(prefix: str, pods: int) -> None:
        await client.add(POD_GROUPS, prefix, range(pods // GANG_PODS))
        await client.add(PLACEABLE_PODS, f"{prefix}-pod", range(pods))

    work = _Work(
        pending=lambda: create("large", size.pending),
        decide=lambda: create("fits", DECISIONS),
        decisions=DECISIONS,
        changed=changed_pod(size, of_workload=False),
    )
    return await _measured(run, size, process, decided, work)


class _Work(NamedTuple):
    pending: Callable[[], Coroutine[Any, Any, None]]
    decide: Callable[[], Coroutine[Any, Any, None]]
    decisions: int
    changed: Callable[[int, int], bytes]


async def _measured(
    run: _Run, size: Size, process: Coroutine[Any, Any, None], decided: _Decided, work: _Work
) -> Costs:
    client = run.client
    async with asyncio.TaskGroup() as tasks:
        parts = [tasks.create_task(process), tasks.create_task(run.watch_pauses())]
        await decided.until(1)
        costs = Costs(monotonic() - run.began_s, process_time() - client.own_cpu_s, 0, 0)
        await run.settled()
        costs = costs._replace(resident_bytes=run.usage().resident_bytes, longest_pause_s=run.longest_pause_s)
        if size.pending:
            pending = await run.cost_of(work.pending())
            costs = costs._replace(pending_bytes=pending.resident_bytes, pending_cpu_s=pending.cpu_s)
        if size.pods:
            numbers = random.Random(1).choices(range(size.pods), k=CHANGES)
            pods = await run.cost_of(client.modify(PLACEABLE_PODS, work.changed, numbers))
            numbers = random.Random(1).choices(range(size.nodes), k=NODE_CHANGES)
            nodes = await run.cost_of(client.modify(PLACEABLE_NODES, cordoned_node, numbers))
            costs = costs._replace(
                pod_change_cpu_s=pods.cpu_s / CHANGES, node_change_cpu_s=nodes.cpu_s / NODE_CHANGES
            )
            before, resumed = decided.count, process_time() - client.own_cpu_s
            await work.decide()
            await decided.until(before + work.decisions)
            taken_s = process_time() - client.own_cpu_s - resumed
            costs = costs._replace(decisions_per_s=work.decisions / taken_s)
        for part in parts:
            part.cancel()
    return costs._replace(peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


async def _estimates(size: Size) -> Costs:
    """Measure the process of the estimates beside a replica that follows."""
    client = SyntheticClient(controllers_series(size), _served(), lambda path, method, content: None)
    clock, replica = WallClock(), Replica("follower")
    configured = DynamicConfiguration(default_configuration())
    in_force = ConfigurationInForce(None, "", configured.current)
    began_s = monotonic()
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow(client, clock, configured, replica))
        await replica.ready.wait()
        await client.add(WORKLOADS, "large", range(size.pending))
        estimating = tasks.create_task(run_estimation(replica, in_force, clock, EstimateRules()))
        while replica.estimates.processor_s == 0:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(POLL_S)
        first_s, pid = monotonic() - began_s, _only_child()
        sampler = UsageSampler(int(pid))
        sampler.sample()
        usage = sampler.usage
        costs = Costs(first_s, usage.own_cpu_s, _resident_bytes(pid), usage.own_peak_bytes)
        following.cancel()
        estimating.cancel()
    return costs


PROCESSES: Final[dict[str, Callable[[Size], Coroutine[Any, Any, Costs]]]] = {
    "controllers": _controllers,
    "scheduler": _scheduler,
    "estimates": _estimates,
}


def _resident_bytes(pid: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _only_child() -> str:
    """Return the id of the only child of this process."""
    (pid,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return pid
