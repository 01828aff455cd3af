"""``python -m bench.dashboard_streams``: 200 clients on the event stream, 100 changes a second.

An API server and the dashboard run as processes of their own.  Half of the clients read, the others stop
reading after the first event.  The memory of the dashboard is compared between the first and the last third.
"""

import asyncio
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Final

import aiohttp
import msgspec
import typer
import uvloop
from rich.console import Console

from bench.limits import check_limits
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NAMESPACES, RESOURCE_FLAVORS, WORKLOADS
from quorate.kube.rest.config import load_rest_config

CLIENTS: Final = 200
STREAMS_OF_A_SESSION: Final = 10
WORKLOADS_CHANGED: Final = 500
RATE: Final = 100  # changes a second
_COOKIE: Final = "__Host-quorate-session"


class _Reader:
    """Reads one stream; ``notices`` counts events."""

    def __init__(self) -> None:
        self.notices = 0

    async def read(self, http: aiohttp.ClientSession, base: str, cookie: str, *, stalls: bool) -> None:
        headers = {"Cookie": f"{_COOKIE}={cookie}"}
        async with http.get(f"{base}/api/v1/events", headers=headers) as response:
            async for line in response.content:
                if line.startswith(b"data: "):
                    self.notices += 1
                    if stalls:
                        await asyncio.Event().wait()


async def measure(seconds: float) -> dict[str, float]:
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kubeconfig = directory / "cluster" / "kubeconfig"
        command = [
            "local",
            "up",
            "--without-controllers",
            "--port",
            "0",
            "--data-dir",
            str(kubeconfig.parent),
        ]
        await stack.enter_async_context(_started(command, "export KUBECONFIG"))
        client = await stack.enter_async_context(
            Client(await load_rest_config(kubeconfig), random.Random(1), deadline_s=120)
        )
        await _create(client)
        command = [
            "dashboard", "--kubeconfig", str(kubeconfig), "--address", "127.0.0.1:0", "--without-forecasts",
            "--history", str(directory / "history.db"),
        ]  # fmt: skip
        process, line = await stack.enter_async_context(_started(command, "http://"))
        base = line[line.index("http://") :].split("/login")[0]
        token = (kubeconfig.parent / "token").read_text().strip()
        http = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
            )
        )
        cookies = []
        for _ in range(CLIENTS // STREAMS_OF_A_SESSION):
            async with http.post(f"{base}/api/v1/session", json={"token": token}) as answer:
                cookies.append(answer.cookies[_COOKIE].value)
        readers = [_Reader() for _ in range(CLIENTS)]
        tasks = [
            asyncio.create_task(
                each.read(http, base, cookies[number // STREAMS_OF_A_SESSION], stalls=number % 2 == 0)
            )
            for number, each in enumerate(readers)
        ]
        try:
            return await _changing(client, process.pid, readers, seconds)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _changing(client: Client, pid: int, readers: list[_Reader], seconds: float) -> dict[str, float]:
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
    reading = [each.notices for each in readers[1::2]]
    return {
        "dashboard: changes a second with 200 streams": changes / took_s,
        "dashboard: memory with 200 streams, MB": max(memory),
        "dashboard: growth of memory with 200 streams, MB": max(memory[-third:]) - max(memory[:third]),
        "dashboard: notices a second to the slowest reader": min(reading) / took_s,
        "dashboard: cores for 200 streams": (_cpu_s(pid) - cpu_begin) / took_s,
    }


async def _change(client: Client, number: int) -> None:
    name = number % WORKLOADS_CHANGED
    patch = {"metadata": {"labels": {"change": str(number)}}}
    await client.patch_metadata(WORKLOADS, Key(f"team-{name % 20}", f"workload-{name}"), patch)


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


@asynccontextmanager
async def _started(command: list[str], ready: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run ``quorate`` while the block lasts; yield once it has printed a line with ``ready``."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "quorate", *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with asyncio.timeout(120):
            while ready not in (line := (await process.stdout.readline()).decode()):
                assert line, f"{' '.join(command)} ended"
        yield process, line
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


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
