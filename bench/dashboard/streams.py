"""``python -m bench.dashboard.streams``: 200 clients on the event stream, 100 changes a second.

An API server and the dashboard run as processes of their own.  Half of the clients read, the others stop
reading after the first event.  The memory of the dashboard is compared between the first and the last third.
"""

import asyncio
import os
import random
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
import uvloop
from rich.console import Console

from bench.dashboard.event_readers import CLIENTS, Reader, reading_clients
from bench.dashboard.processes import running_dashboard, started
from bench.limits import check_limits
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, RESOURCE_FLAVORS, WORKLOADS
from quorate.kube.rest.config import load_rest_config

WORKLOADS_CHANGED: Final = 500
RATE: Final = 100  # changes a second


async def measure(seconds: float) -> dict[str, float]:
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kubeconfig = directory / "cluster" / "kubeconfig"
        local_up = ("quorate", "local", "up", "--without-controllers", "--port", "0")
        command = (*local_up, "--data-dir", str(kubeconfig.parent))
        await stack.enter_async_context(started(command, "export KUBECONFIG"))
        client = await stack.enter_async_context(
            Client(await load_rest_config(kubeconfig), random.Random(1), deadline_s=120)
        )
        await _create(client)
        dashboard = await stack.enter_async_context(running_dashboard(kubeconfig, directory / "history.db"))
        token = (kubeconfig.parent / "token").read_text().strip()
        stalled = CLIENTS // 2
        readers = await stack.enter_async_context(reading_clients(dashboard.base, token, stalled))
        return await _changing(client, dashboard.pid, readers[stalled:], seconds)


async def _changing(client: Client, pid: int, reading: list[Reader], seconds: float) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    memory: list[float] = []
    begin, cpu_begin, changes = loop.time(), _cpu_s(pid), 0
    while loop.time() < begin + seconds:
        due = loop.time()
        await asyncio.gather(*(_change(client, changes + number) for number in range(RATE // 10)))
        changes += RATE // 10
        memory.append(_memory_mb(pid))
        await asyncio.sleep(max(0.0, due + 0.1 - loop.time()))
    took_s = loop.time() - begin
    third = len(memory) // 3
    return {
        "dashboard: changes a second with 200 streams": changes / took_s,
        "dashboard: memory with 200 streams, MB": max(memory),
        "dashboard: growth of memory with 200 streams, MB": max(memory[-third:]) - max(memory[:third]),
        "dashboard: notices a second to the slowest reader": min(each.notices for each in reading) / took_s,
        "dashboard: cores for 200 streams": (_cpu_s(pid) - cpu_begin) / took_s,
    }


async def _change(client: Client, number: int) -> None:
    name = number % WORKLOADS_CHANGED
    patch = {"metadata": {"labels": {"change": str(number)}}}
    await client.patch_for_version(WORKLOADS, Key(f"team-{name % 20}", f"workload-{name}"), patch)


async def _create(client: Client) -> None:
    await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}})
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    await client.create(CLUSTER_QUEUES, {"metadata": {"name": "shared"}, "spec": spec})
    for number in range(20):
        name = f"team-{number}"
        await client.create(NAMESPACES, {"metadata": {"name": name}})
        metadata = {"name": "queue", "namespace": name}
        await client.create(LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": "shared"}})
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    pod_set = {"name": "main", "count": 1, "template": template}
    for number in range(WORKLOADS_CHANGED):
        metadata = {"name": f"workload-{number}", "namespace": f"team-{number % 20}"}
        await client.create(
            WORKLOADS, {"metadata": metadata, "spec": {"queueName": "queue", "podSets": [pod_set]}}
        )


def _memory_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(
    seconds: Annotated[float, typer.Option(min=6, help="How long changes are made.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the measures only.")] = False,
) -> None:
    measured = uvloop.run(measure(seconds))
    if as_json:
        typer.echo(msgspec.json.encode(measured))
        return
    sys.exit(check_limits({name: [value] for name, value in measured.items()}, Console()))


if __name__ == "__main__":
    typer.run(main)
