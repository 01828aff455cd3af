"""``python -m bench.pods``: see the package."""

import asyncio
import random
import sys
import tempfile
import uuid
from pathlib import Path
from statistics import median
from typing import Any, Final

import uvloop
from rich.console import Console

from bench.limits import load
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import untyped
from quorate.kube.rest.config import load_rest_config
from quorate.local.cluster import Settings, run_cluster
from quorate.local.directory import ClusterDirectory
from quorate.local.runtime.supervisor import ProcessRuntime
from quorate.local.server.apiserver import NO_CONVERTERS

NODE: Final = "this-machine"
SINGLE: Final = 20
AT_ONCE: Final = 200
POLL_S: Final = 0.02
DEADLINE_S: Final = 300.0
PODS: Final = untyped("", "v1", "pods", "Pod", True)
NODES: Final = untyped("", "v1", "nodes", "Node", False)


def pod(name: str, command: str) -> dict[str, Any]:
    container = {"name": "main", "image": "host", "command": ["sh", "-c", command]}
    return {
        "metadata": {"name": name},
        "spec": {"nodeName": NODE, "restartPolicy": "Never", "containers": [container]},
    }


async def start_latency_s(client: Client, directory: Path, number: int) -> float:
    """Return the seconds from the creation of a pod to the first output of its program."""
    began = WallClock().now()
    created = await client.create(PODS, pod(f"single-{number}", "date +%s.%N"), "default")
    await ended(client, 1, f"single-{number}")
    log = directory / "runtime/pods" / created["metadata"]["uid"] / "containers/main/0.log"
    return float(log.read_text().split()[3]) - began


async def ended(client: Client, count: int, prefix: str) -> None:
    """Wait until pods have succeeded.  Raises RuntimeError if one has failed."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            items = (await client.list(PODS, "default")).items
            phases = [
                each["status"]["phase"] for each in items if each["metadata"]["name"].startswith(prefix)
            ]
            if "Failed" in phases:
                raise RuntimeError("a pod has failed")
            if phases.count("Succeeded") == count:
                return
            await asyncio.sleep(POLL_S)


async def registered(client: Client) -> None:
    """Wait until the node is there."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if (await client.list(NODES)).items:
                return
            await asyncio.sleep(POLL_S)


async def measure(directory: Path) -> dict[str, float]:
    clock, rng = WallClock(), random.Random(1)
    settings = Settings((), plain_scheduler=False, runtime=ProcessRuntime(NODE))
    with ClusterDirectory(directory).lock(clock.now()) as locked:
        cluster = run_cluster(
            locked, settings, clock, rng, lambda: str(uuid.UUID(int=rng.getrandbits(128))), NO_CONVERTERS
        )
        async with cluster, Client(await load_rest_config(locked.kubeconfig), rng) as client:
            await registered(client)
            await start_latency_s(client, directory, 0)  # the kubelet has synced then
            latencies = [await start_latency_s(client, directory, number) for number in range(1, SINGLE + 1)]
            began = clock.now()
            many = (pod(f"many-{number}", "sleep 1") for number in range(AT_ONCE))
            await asyncio.gather(*(client.create(PODS, each, "default") for each in many))
            await ended(client, AT_ONCE, "many-")
            elapsed_s = clock.now() - began
    return {"pods: start latency, ms": median(latencies) * 1000, "pods: 200 at once, s": elapsed_s}


def main() -> None:
    console, limits = Console(), load()
    with tempfile.TemporaryDirectory(prefix="quorate-bench-") as directory:
        found = uvloop.run(measure(Path(directory)))
    for name, value in found.items():
        console.print(f"  {name}: {value:,.4g} ({limits.measures[name]})", highlight=False)
    for name in (broken := limits.broken(found)):
        console.print(f"[red]broken[/]: {name}: {limits.measures[name].reason}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
