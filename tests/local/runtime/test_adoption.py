"""A kubelet takes over what an earlier one started, and ends what has no pod any more."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from quorate.local.runtime.containers.processes import marked_processes
from quorate.local.runtime.supervisor import DIRECTORY
from tests.e2e.commands import quorate
from tests.local.runtime.streaming.test_streams import messages, of_channel, session
from tests.local.runtime.world import (
    DEADLINE_S,
    Json,
    World,
    one_container,
    run_story,
    running_world,
    runs_processes,
    state_of,
)

pytestmark = [runs_processes, pytest.mark.slow]

UNTIL_FILE = "echo started; while [ ! -e /exchange/end ]; do sleep 0.05; done; exit 7"


def kubelet_of(world: World) -> int:
    """Return the process id of the kubelet."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"quorate.local.runtime" in words and str(world.state).encode() in b" ".join(words):
                return int(entry.name)
    raise AssertionError("no kubelet runs")


async def kill_kubelet(world: World) -> None:
    os.kill(kubelet_of(world), signal.SIGKILL)


def waiting_for_file(exchange: Path) -> dict[str, object]:
    exchange.mkdir(exist_ok=True)
    return {
        **one_container(UNTIL_FILE, volumeMounts=[{"name": "exchange", "mountPath": "/exchange"}]),
        "volumes": [{"name": "exchange", "hostPath": {"path": str(exchange)}}],
    }


def test_a_kubelet_that_was_killed_leaves_its_pods_to_the_next(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("p", waiting_for_file(tmp_path / "exchange"))
        await world.running("p")
        before = world.processes()
        await kill_kubelet(world)
        (tmp_path / "exchange/end").touch()
        pod = await world.ended("p")
        assert state_of(pod)["terminated"]["exitCode"] == 7
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        assert len(before) == 1

    run_story(tmp_path / "cluster", story)


def test_a_container_keeps_its_stdin_when_its_kubelet_was_killed(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("p", one_container("read -r a; read -r b; echo $a $b", stdin=True))
        await world.running("p")
        async with session(world) as http:
            for word in ("one", "two"):
                async with asyncio.timeout(DEADLINE_S):
                    while not await typed(http, f"{word}\n"):  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                if word == "one":
                    await kill_kubelet(world)
        await world.ended("p")
        assert await world.log("p") == "one two\n"

    run_story(tmp_path, story)


async def typed(http: aiohttp.ClientSession, text: str) -> bool:
    """Write to the stdin of the container; return False if no kubelet accepted it."""
    path = "/api/v1/namespaces/default/pods/p/attach?stdin=1&stdout=1"
    try:
        async with http.ws_connect(path, protocols=["v5.channel.k8s.io"]) as websocket:
            await websocket.receive()
            await websocket.send_bytes(b"\0" + text.encode())
            await websocket.send_bytes(b"\xff\0")  # the end of the input, and of this client
            status = json.loads(of_channel(await messages(websocket), 3))
            return bool(status["status"] == "Success")
    except aiohttp.WSServerHandshakeError:
        return False


def status_of(pod: Json) -> Json:
    return dict(pod["status"]["containerStatuses"][0])


def kill_a_cluster_with_a_pod(directory: Path) -> None:
    command = [sys.executable, "-c", ONE_POD, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout is not None
        assert cluster.stdout.readline() == "running\n"
        cluster.kill()
    assert marked_processes(directory / DIRECTORY)


def test_down_ends_the_containers_of_a_cluster_that_was_killed(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    kill_a_cluster_with_a_pod(directory)
    down = quorate("local", "down", "--delete", "--data-dir", str(directory))
    assert "ended 1 container of a cluster that was killed" in down.stdout
    assert not marked_processes(directory / DIRECTORY)
    assert not directory.exists()


def test_a_cluster_that_was_killed_goes_on_with_its_containers(tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    kill_a_cluster_with_a_pod(directory)

    async def story() -> None:
        async with running_world(directory) as world:
            await world.until("kept", lambda pod: pod["status"]["phase"] == "Running")
            assert len(world.processes()) == 1

    asyncio.run(story())
    assert not marked_processes(directory / DIRECTORY)


def test_a_stop_ends_pods_as_a_shutdown_of_their_node(tmp_path: Path) -> None:
    async def before() -> None:
        async with running_world(tmp_path) as world:
            await world.run_pod("once", one_container("sleep 1000"))
            await world.running("once")  # it has an address, which ``always`` gets at the next start
            await world.run_pod("always", one_container("sleep 1000", restart_policy="Always"))
            await world.running("always")

    async def after() -> None:
        async with running_world(tmp_path) as world:
            once = await world.ended("once")
            assert (once["status"]["phase"], once["status"]["reason"]) == ("Failed", "Terminated")
            assert "DisruptionTarget" in {c["type"] for c in once["status"]["conditions"]}
            assert state_of(once)["terminated"]["exitCode"] == 143
            always = await world.until(
                "always", lambda pod: pod["status"]["containerStatuses"][0]["restartCount"]
            )
            assert always["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 143
            assert always["status"]["podIPs"] == [{"ip": always["status"]["podIP"]}]

    asyncio.run(before())
    assert not marked_processes(tmp_path / DIRECTORY)
    asyncio.run(after())


ONE_POD = """
import asyncio, sys
from pathlib import Path
from tests.e2e.commands import quorate
from tests.local.runtime.world import one_container, running_world

async def run():
    async with running_world(Path(sys.argv[1])) as world:
        await world.run_pod("kept", one_container("sleep 1000"))
        await world.running("kept")
        print("running", flush=True)
        await asyncio.Event().wait()

asyncio.run(run())
"""
