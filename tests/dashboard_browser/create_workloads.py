"""Create many workloads: ``python -m tests.dashboard_browser.create_workloads KUBECONFIG COUNT``."""

import asyncio
import random
import sys
from pathlib import Path
from typing import Any

from quorate.kube.client import Client
from quorate.kube.resources import WORKLOADS
from quorate.kube.rest.config import load_rest_config

AT_ONCE = 30


def workload(at: int) -> dict[str, Any]:
    container = {"name": "main", "image": "example.com/train:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": f"work-{at:05}", "labels": {"part": str(at % 10)}},
        "spec": {"queueName": "user-queue", "podSets": [{"name": "main", "count": 1, "template": template}]},
    }


async def create(kubeconfig: Path, count: int) -> None:
    config = await load_rest_config(kubeconfig)
    async with Client(config, random.Random(1), concurrency=AT_ONCE) as client:
        for first in range(0, count, 500):
            numbers = range(first, min(count, first + 500))
            await asyncio.gather(*(client.create(WORKLOADS, workload(at), "default") for at in numbers))


if __name__ == "__main__":
    asyncio.run(create(Path(sys.argv[1]), int(sys.argv[2])))
