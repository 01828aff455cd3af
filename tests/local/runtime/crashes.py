"""Kill the cluster and the kubelet again and again under running pods: ``make crashes``.

Afterwards each pod has run once, from its start to its end, and no process is left.
"""

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from quorate.kube.client import Client
from quorate.kube.errors import Unreachable
from quorate.kube.rest.config import load_rest_config
from quorate.local.runtime.containers.processes import marked_processes
from quorate.local.runtime.supervisor import DIRECTORY
from tests.local.runtime.world import PODS, World, one_container, running_world

PROGRAM: Final = (
    "echo start >> /exchange/$(hostname); while [ ! -e /exchange/end ]; do sleep 0.2; done; "
    "echo end >> /exchange/$(hostname)"
)
READY: Final = "ready\n"
END_S: Final = 180.0


def pod(exchange: Path) -> dict[str, object]:
    return {
        **one_container(PROGRAM, volumeMounts=[{"name": "exchange", "mountPath": "/exchange"}]),
        "volumes": [{"name": "exchange", "hostPath": {"path": str(exchange)}}],
        "automountServiceAccountToken": False,
    }


@contextmanager
def cluster(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a cluster in a process of its own; it is ready when the block begins."""
    command = [sys.executable, "-m", "tests.local.runtime.crashes", "--serve", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == READY
            yield process
        finally:
            process.terminate()


def kubelets(directory: Path) -> list[int]:
    found = subprocess.run(
        ["pgrep", "-f", f"quorate.local.runtime {directory}/"], capture_output=True, text=True, check=False
    )
    return [int(pid) for pid in found.stdout.split()]


def kill(pids: list[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


async def serve(directory: Path) -> None:
    async with running_world(directory):
        sys.stdout.write(READY)
        sys.stdout.flush()
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        await stopped.wait()


async def create_missing(directory: Path, exchange: Path, pods: int) -> None:
    """Create the pods that do not exist; stop when the server is killed."""
    async with Client(
        await load_rest_config(directory / "kubeconfig"), random.Random(), deadline_s=10
    ) as client:
        world = World(client, directory)
        present = {each["metadata"]["name"] for each in (await client.list(PODS, "default")).items}
        for number in range(pods):
            if f"p{number}" not in present:
                await world.run_pod(f"p{number}", pod(exchange))


async def finish(directory: Path, exchange: Path, pods: int) -> None:
    """Let all pods end, and check that each has succeeded."""
    async with Client(await load_rest_config(directory / "kubeconfig"), random.Random()) as client:
        world = World(client, directory)
        for number in range(pods):
            await world.until(f"p{number}", lambda pod: pod["status"]["phase"] == "Running")
        (exchange / "end").touch()
        for number in range(pods):
            ended = await world.ended(f"p{number}")
            assert ended["status"]["phase"] == "Succeeded", ended["status"]
            assert ended["status"]["containerStatuses"][0]["restartCount"] == 0


def run(directory: Path, pods: int, kills: int, seed: int) -> None:
    """Kill ``kills`` times under ``pods`` pods.  Raises AssertionError if a pod is lost or a process left."""
    rng = random.Random(seed)
    exchange = directory / "exchange"
    exchange.mkdir(parents=True)
    home = directory / "cluster"
    killed = 0
    while killed < kills:
        with cluster(home) as process:
            with suppress(TimeoutError, Unreachable):
                asyncio.run(asyncio.wait_for(create_missing(home, exchange, pods), rng.uniform(0.2, 3)))
            while killed < kills and rng.random() < 0.4:  # the kubelet alone, which is started again
                kill(kubelets(home))
                killed += 1
                asyncio.run(asyncio.sleep(rng.uniform(0, 1.5)))
            victims = [process.pid] if rng.random() < 0.5 else [process.pid, *kubelets(home)]
            kill(victims)
            process.wait()
            killed += 1
    with cluster(home):
        asyncio.run(create_missing(home, exchange, pods))
        asyncio.run(finish(home, exchange, pods))
    assert not marked_processes(home / DIRECTORY), "processes are left"
    for number in range(pods):
        assert (exchange / f"p{number}").read_text() == "start\nend\n", f"p{number} has not run once"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", type=Path)
    parser.add_argument("--pods", type=int, default=50)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve))
        return
    with tempfile.TemporaryDirectory(prefix="quorate-crashes-") as directory:
        run(Path(directory), options.pods, options.kills, options.seed)


if __name__ == "__main__":
    main()
