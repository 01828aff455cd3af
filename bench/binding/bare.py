"""``python -m bench.binding.bare AT_ONCE NODES``: bind the pods named on standard input.

It is a process of its own, like a scheduler: it opens its connections and shares the machine.
"""

import asyncio
import random
import sys
from time import process_time
from typing import Final

import uvloop

from quorate.api import codec
from quorate.kube.client import Client
from quorate.kube.resources import PLACEABLE_PODS
from quorate.kube.rest.config import load_rest_config

NAMESPACE: Final = "default"


async def bind_all(names: list[str], nodes: int, at_once: int) -> None:
    """Bind the pods to the nodes in turn, ``at_once`` at a time."""
    waiting = enumerate(names)
    async with Client(await load_rest_config(None, ""), random.Random(), concurrency=at_once) as client:

        async def do() -> None:
            for number, name in waiting:
                await _bind(client, name, f"node-{number % nodes:05}")

        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(do())


async def _bind(client: Client, pod: str, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, "namespace": NAMESPACE},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    await client.request("POST", PLACEABLE_PODS.path(NAMESPACE, pod, "binding"), body=codec.encode(body))


if __name__ == "__main__":
    started_cpu_s = process_time()
    uvloop.run(bind_all(sys.stdin.read().split(), int(sys.argv[2]), int(sys.argv[1])))
    print(process_time() - started_cpu_s)  # noqa: T201  the parent process reads it
