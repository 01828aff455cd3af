"""``python -m bench.admission.writes``: what one request of each type costs an API server.

Each case sends the same number of requests of one type.  The CPU time that the server and etcd use meanwhile,
less what they use when idle, is divided by that number.  Both must run on this machine.  The cases take turns
in several rounds, of which the median counts: the server collects its garbage in bursts.  The bytes that a
kube-apiserver allocates for a request nearly determine its CPU time, and do not depend on what else runs.
"""

import asyncio
import random
import re
import secrets
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Annotated, Final, NamedTuple

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from bench.admission.processes import API_SERVER, UsageSampler, serving_pids
from bench.admission.run import DELETION_S, require_kinds
from bench.admission.server import local_server
from bench.admission.write_cases import Case, Cases, Request, send
from bench.limits import number_table
from quorate.api import codec
from quorate.kube.client import Client
from quorate.kube.resources import WORKLOADS, untyped
from quorate.kube.rest.config import load_rest_config
from quorate.processes.process_setup import run_until_signal

CONCURRENCY: Final = 8
WARM_UP: Final = 50  # requests at most
IDLE_S: Final = 5.0  # for how long to measure an idle server
ETCD: Final = "etcd"
_ALLOCATED: Final = re.compile(r"^go_memstats_alloc_bytes_total (\S+)$", re.MULTILINE)
ANY_WORKLOADS: Final = untyped(WORKLOADS.group, WORKLOADS.version, WORKLOADS.plural, WORKLOADS.kind, True)


class Cost(NamedTuple):
    """The cost of one request."""

    server_ms: float
    etcd_ms: float
    allocated_bytes: float  # by the server, by its own count; 0 without such a count
    sent_bytes: float
    received_bytes: float


class Meter:
    """Measures the processes of a server; ``idle`` is what they use of a second when idle."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._samplers = {name: UsageSampler(pid) for name, pid in pids.items()}
        self._idle: Mapping[str, float] = dict.fromkeys(pids, 0.0)
        self._began = 0.0

    async def measure_idle(self) -> None:
        self.begin()
        await asyncio.sleep(IDLE_S)
        used = self.cpu_s()
        self._idle = {name: cpu_s / IDLE_S for name, cpu_s in used.items()}

    def begin(self) -> None:
        for sampler in self._samplers.values():
            sampler.begin()
        self._began = asyncio.get_running_loop().time()

    def cpu_s(self) -> dict[str, float]:
        """Return the CPU time since ``begin``, without that of an idle server."""
        elapsed_s = asyncio.get_running_loop().time() - self._began
        for sampler in self._samplers.values():
            sampler.sample()
        return {
            name: sampler.usage.cpu_s - elapsed_s * self._idle[name]
            for name, sampler in self._samplers.items()
        }


async def measure(
    kubeconfig: Path | None, server_pid: int | None, count: int, rounds: int, watches: int, only: str
) -> dict[str, Cost]:
    """Return the cost of a request by the name of its case."""
    async with AsyncExitStack() as stack:
        if kubeconfig is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quorate-bench-")))
            kubeconfig = await stack.enter_async_context(local_server(directory))
        config = await load_rest_config(kubeconfig)
        client = await stack.enter_async_context(
            Client(config, random.Random(), concurrency=CONCURRENCY + watches, deadline_s=DELETION_S)
        )
        pids = serving_pids(config.server, server_pid)
        if not pids:
            raise LookupError(f"{config.server}: its process is not on this machine (name it: --server-pid)")
        await require_kinds(client)
        namespace = f"bench-{secrets.token_hex(2)}"
        cases = Cases(client, namespace)
        await cases.create_queues()
        stack.push_async_callback(cases.delete_all)
        tasks = [asyncio.create_task(_watch(client, namespace)) for _ in range(watches)]
        stack.callback(lambda: [task.cancel() for task in tasks])
        chosen = [case for case in cases.all() if only in case.name]
        for number, case in enumerate(chosen):
            await _cost(client, Meter({}), case, f"warm-{number}", min(WARM_UP, count))
        meter = Meter(pids)
        await meter.measure_idle()
        found: dict[str, list[Cost]] = {case.name: [] for case in chosen}
        for number in range(rounds):
            for place, case in enumerate(chosen):
                found[case.name].append(await _cost(client, meter, case, f"case-{number}-{place}", count))
        return {name: Cost(*map(median, zip(*costs, strict=True))) for name, costs in found.items()}


async def _cost(client: Client, meter: Meter, case: Case, prefix: str, count: int) -> Cost:
    slots = asyncio.Semaphore(CONCURRENCY)

    async def prepare(number: int) -> Request:
        async with slots:
            return await case.prepare(f"{prefix}-{number}")

    async def answer_size(request: Request) -> int:
        async with slots:
            return len(await send(client, request))

    requests = await asyncio.gather(*map(prepare, range(count)))
    first, before = await _allocated_bytes(client), await _allocated_bytes(client)
    meter.begin()
    sizes = await asyncio.gather(*map(answer_size, requests))
    used = meter.cpu_s()
    allocated = await _allocated_bytes(client) - before - (before - first)  # without the read itself
    return Cost(
        server_ms=used.get(API_SERVER, 0.0) / count * 1000,
        etcd_ms=used.get(ETCD, 0.0) / count * 1000,
        allocated_bytes=max(0.0, allocated) / count,
        sent_bytes=sum(len(codec.encode(request.body)) for request in requests) / count,
        received_bytes=sum(sizes) / count,
    )


async def _allocated_bytes(client: Client) -> float:
    """Return what the server has allocated since its start; 0 if it does not count."""
    counted = _ALLOCATED.search((await client.request("GET", "/metrics")).decode())
    return 0.0 if counted is None else float(counted[1])


async def _watch(client: Client, namespace: str) -> None:
    """Receive all changes of workloads, as controllers do."""
    version = (await client.list(ANY_WORKLOADS, namespace)).resource_version
    while True:
        async for _ in client.watch(ANY_WORKLOADS, version, namespace):
            pass


def table(costs: Mapping[str, Cost]) -> Table:
    result = number_table("server", "etcd", "allocated", "sent", "received", first="request")
    for name, cost in costs.items():
        result.add_row(
            name,
            f"{cost.server_ms:.2f} ms",
            f"{cost.etcd_ms:.2f} ms",
            f"{cost.allocated_bytes / 1e6:.2f} MB",
            f"{cost.sent_bytes:,.0f} B",
            f"{cost.received_bytes:,.0f} B",
        )
    return result


def main(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The cluster; without this option, a local API server."),
    ] = None,
    server_pid: Annotated[
        int | None, typer.Option(metavar="PID", help="The API server, if it is not found by its port.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Requests of each case in a round.")] = 300,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, of which the median counts.")] = 3,
    watches: Annotated[int, typer.Option(min=0, help="Watches of the workloads meanwhile.")] = 2,
    only: Annotated[str, typer.Option(metavar="TEXT", help="Only cases with this text in the name.")] = "",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the costs to this file as JSON.")
    ] = None,
) -> None:
    """Measure the CPU time of an API server for one request of each type."""
    console = Console()
    try:
        costs = uvloop.run(run_until_signal(measure(kubeconfig, server_pid, count, rounds, watches, only)))
    except LookupError as error:
        console.print(f"[red]error[/]: {error}")
        sys.exit(2)
    console.print(table(costs))
    if output is not None:
        output.write_bytes(msgspec.json.format(msgspec.json.encode(costs)))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
