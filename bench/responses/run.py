"""One run: a server, controllers with many pending workloads, edits of the quota, and requests meanwhile.

The quota of the cohort is used up and no two workloads request the same, so after each edit every pending
workload is evaluated, which takes seconds.  The requests are sent by a process of their own.
"""

import asyncio
import random
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import Final, NamedTuple

import aiohttp
import msgspec

from bench.admission.processes import ProcessUsage, UsageSampler, running
from bench.admission.server import local_server
from bench.responses.requests import Wait
from quorate.api.meta import Key
from quorate.install.crds import queueing_definitions
from quorate.kube.client import Client, PatchKind
from quorate.kube.errors import AlreadyExists
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Json,
)
from quorate.kube.rest.config import load_rest_config
from quorate.processes.local.apply import install_definitions

NAMESPACE: Final = "responses"
QUOTA_M: Final = 1_000_000  # millicores of each queue, which one workload uses
AT_ONCE: Final = 100
SETTLE_S: Final = 3.0  # with less than ``CALM`` of a core: the controllers have evaluated all workloads
CALM: Final = 0.1
WITHIN_S: Final = 600.0
CONFIGURATION: Final = """apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {{healthProbeBindAddress: "127.0.0.1:{health}"}}
visibilityServer: {{bindAddress: 127.0.0.1, bindPort: {visibility}}}
estimates: {{cpu: 0}}
"""


@dataclass(frozen=True, slots=True)
class Plan:
    queues: int
    workloads: int  # pending ones, in all queues
    edits: int
    every_s: float  # between edits
    directory: Path
    kubeconfig: Path | None  # of an empty cluster, or of one with this world; None: run a local server
    command: Sequence[str]  # of the controllers


class Waits(NamedTuple):
    """Seconds until the response to a request."""

    median_s: float
    p99_s: float
    longest_s: float

    @staticmethod
    def of(waits_s: Sequence[float]) -> "Waits":
        percentiles = quantiles(waits_s, n=100)
        return Waits(percentiles[49], percentiles[98], max(waits_s))


@dataclass(frozen=True, slots=True)
class Outcome:
    wall: Mapping[str, Waits]  # by what was requested
    cpu: Mapping[str, Waits]  # likewise, in CPU time of the controllers: other processes do not count
    requests: int
    usage: ProcessUsage  # of the controllers, from the first edit until all workloads are evaluated


async def run(plan: Plan) -> Outcome:
    async with AsyncExitStack() as stack:
        kubeconfig = plan.kubeconfig
        if kubeconfig is None:
            kubeconfig = await stack.enter_async_context(local_server(plan.directory))
        config = await load_rest_config(kubeconfig)
        client = await stack.enter_async_context(Client(config, random.Random(), concurrency=AT_ONCE))
        await _create(client, plan)
        return await _measure(client, plan, kubeconfig)


async def _create(client: Client, plan: Plan) -> None:
    await install_definitions(client, queueing_definitions())
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}})
    for number in range(plan.queues):
        name = f"queue-{number}"
        queue = {"metadata": {"name": name}, "spec": {"clusterQueue": name}}
        with suppress(AlreadyExists):
            await client.create(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": _spec(QUOTA_M)})
            await client.create(LOCAL_QUEUES, queue, NAMESPACE)
    bodies = _workloads(plan)

    async def create() -> None:
        for body in bodies:
            with suppress(AlreadyExists):
                await client.create(WORKLOADS, body, NAMESPACE)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(create())


def _spec(quota_m: int) -> Json:
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": f"{quota_m}m"}]}
    return {
        "cohortName": "all",
        "namespaceSelector": {},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
    }


def _workloads(plan: Plan) -> Iterator[Json]:
    for number in range(plan.queues):
        yield _workload(f"first-{number}", f"queue-{number}", QUOTA_M, priority=10)
    for number in range(plan.workloads):
        yield _workload(f"waiting-{number}", f"queue-{number % plan.queues}", 1000 + number, priority=0)


def _workload(name: str, queue: str, millicores: int, priority: int) -> Json:
    resources = {"requests": {"cpu": f"{millicores}m"}}
    container = {"name": "main", "image": "registry.example/train:1", "resources": resources}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    pod_sets = [{"name": "main", "count": 1, "template": template}]
    return {
        "metadata": {"name": name},
        "spec": {"queueName": queue, "priority": priority, "podSets": pod_sets},
    }


async def _measure(client: Client, plan: Plan, kubeconfig: Path) -> Outcome:
    health, visibility = _free_ports(2)
    file = plan.directory / "configuration.yaml"
    file.write_text(CONFIGURATION.format(health=health, visibility=visibility))
    visibility_url = f"http://127.0.0.1:{visibility}/visibility"
    urls = {
        "health": f"http://127.0.0.1:{health}/healthz",
        "explanation": f"{visibility_url}/namespaces/{NAMESPACE}/workloads/waiting-7/explanation",
        "positions": f"{visibility_url}/clusterqueues/queue-0/pendingworkloads?limit=100",
    }
    command = (*plan.command, "--config", str(file))
    async with running(command, kubeconfig, plan.directory / "controllers.log") as process:
        sampler = UsageSampler(process.pid)
        sampling = asyncio.create_task(sampler.follow())
        try:
            async with asyncio.timeout(WITHIN_S):
                await _ready(f"http://127.0.0.1:{health}/readyz")
                await sampler.settled(SETTLE_S, CALM)
            sampler.begin()
            async with _requests(process.pid, urls) as waits:
                for number in range(plan.edits):
                    await _edit(client, number)
                    await asyncio.sleep(plan.every_s)
            async with asyncio.timeout(WITHIN_S):
                await sampler.settled(SETTLE_S, CALM)
        finally:
            sampling.cancel()
    wall = {name: Waits.of([wall_s for wall_s, _ in of_url]) for name, of_url in waits.items()}
    cpu = {name: Waits.of([cpu_s for _, cpu_s in of_url]) for name, of_url in waits.items()}
    return Outcome(wall, cpu, sum(map(len, waits.values())), sampler.usage)


async def _edit(client: Client, number: int) -> None:
    """Change the quota of a queue; what is free stays less than any workload requests."""
    body = {"spec": _spec(QUOTA_M + 100 * (1 + number % 2))}
    await client.patch(CLUSTER_QUEUES, Key("", "queue-0"), body, kind=PatchKind.MERGE)


async def _ready(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        while True:
            with suppress(aiohttp.ClientError):
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.1)


@asynccontextmanager
async def _requests(pid: int, urls: Mapping[str, str]) -> AsyncIterator[dict[str, list[Wait]]]:
    """Send requests while the block lasts; their waits are in the yielded dictionary after it."""
    waits: dict[str, list[Wait]] = {}
    command = (sys.executable, "-m", "bench.responses.requests", str(pid), msgspec.json.encode(urls).decode())
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    try:
        yield waits
        output, _ = await process.communicate(b"")  # closes the input
        waits |= msgspec.json.decode(output, type=dict[str, list[Wait]])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _free_ports(count: int) -> list[int]:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports
