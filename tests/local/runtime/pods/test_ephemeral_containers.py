"""kubectl debug and shareProcessNamespace: containers of a pod that see each other's processes."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from quorate.api.meta import Key
from quorate.kube.client import PatchKind
from tests.local.runtime.streaming.test_streams import SPDY, kubectl, needs_kubectl
from tests.local.runtime.streaming.test_terminals import terminal
from tests.local.runtime.test_adoption import kill_kubelet
from tests.local.runtime.world import (
    DEADLINE_S,
    PODS,
    Json,
    World,
    one_container,
    run_story,
    runs_in_namespaces,
    script,
    state_of,
)

pytestmark = [runs_in_namespaces, pytest.mark.slow, pytest.mark.usefixtures("one_cluster")]

SERVER: Final = "exec python3 -u -m http.server 8080 --directory /usr/share"
FETCH: Final = """
until python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:8080")' 2>/dev/null
do sleep 0.2; done
"""


async def add(world: World, pod: str, *containers: Json) -> Json:
    """Add ephemeral containers to a pod."""
    patch = {"spec": {"ephemeralContainers": list(containers)}}
    return await world.client.patch(
        PODS, Key("default", pod), patch, subresource="ephemeralcontainers", kind=PatchKind.STRATEGIC
    )


def ephemeral_state(pod: Json, name: str) -> Json:
    statuses = pod["status"].get("ephemeralContainerStatuses", [])
    return next((dict(status["state"]) for status in statuses if status["name"] == name), {})


def test_an_ephemeral_container_runs_once_in_the_network_of_its_pod(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("web", one_container(SERVER, restart_policy="Always"))
        await world.running("web")
        await add(world, "web", script(f"{FETCH}echo fetched; exit 3", name="debug"))
        pod = await world.until("web", lambda pod: "terminated" in ephemeral_state(pod, "debug"))
        assert ephemeral_state(pod, "debug")["terminated"]["exitCode"] == 3
        assert await world.log("web", "debug") == "fetched\n"
        await add(world, "web", script("exec sleep 1000", name="second"))
        pod = await world.until("web", lambda pod: "running" in ephemeral_state(pod, "second"))
        assert "terminated" in ephemeral_state(pod, "debug"), "it does not start again"
        assert (pod["status"]["phase"], "running" in state_of(pod)) == ("Running", True)

    run_story(tmp_path, story)


def test_an_ephemeral_container_ends_with_the_pod(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        text = "until [ -e /exchange/end ]; do sleep 0.1; done"
        spec = one_container(text, volumeMounts=[{"name": "exchange", "mountPath": "/exchange"}])
        volume = {"name": "exchange", "hostPath": {"path": str(tmp_path)}}
        await world.run_pod("p", spec | {"volumes": [volume], "terminationGracePeriodSeconds": 1})
        await world.running("p")
        await add(world, "p", script("exec sleep 1000", name="debug"))
        await world.until("p", lambda pod: "running" in ephemeral_state(pod, "debug"))
        (tmp_path / "end").touch()
        pod = await world.ended("p")
        assert pod["status"]["phase"] == "Succeeded"
        assert "terminated" in ephemeral_state(pod, "debug")

    run_story(tmp_path / "cluster", story)


def test_an_ephemeral_container_sees_the_processes_of_its_target(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("p", one_container("exec sleep 4711", restart_policy="Always"))
        await world.running("p")
        command = "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls -d /proc/[0-9]* | wc -l; exec sleep 1000"
        await add(
            world,
            "p",
            script(command, name="debug") | {"targetContainerName": "main"},
        )
        await world.until("p", lambda pod: "running" in ephemeral_state(pod, "debug"))
        log = ""
        while log.count("\n") < 1:
            log = await world.log("p", "debug")
        assert "sleep 4711" in log
        assert int(log.split()[-1]) < 10, "it does not see the processes of this machine"
        first = ("cat", "/proc/1/cmdline")
        seen = [await kubectl(world, "exec", "p", "-c", name, "--", *first) for name in ("main", "debug")]
        assert seen[0] == seen[1]
        assert seen[0][0] == 0

    run_story(tmp_path, story)


@needs_kubectl
def test_kubectl_debug_gives_a_shell_beside_the_target(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.run_pod("p", one_container("exec sleep 4711", restart_policy="Always"))
        await world.running("p")
        debug = ("debug", "-it", "p", "--image=busybox", "--target=main", "--", "sh")
        async with terminal(world, *debug, environment=SPDY) as screen:
            await screen.until("try pressing enter.\r\n")
            screen.type("\n")
            await screen.until("# ")
            screen.type("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done\n")
            await screen.until("sleep 4711")
            screen.type("exit 5\n")
            assert await screen.ended() == 0
        pod = await world.until("p", lambda pod: pod["status"].get("ephemeralContainerStatuses"))
        (status,) = (await world.until("p", _has_ended))["status"]["ephemeralContainerStatuses"]
        assert status["state"]["terminated"]["exitCode"] == 5
        assert "running" in state_of(pod)

    run_story(tmp_path, story)


def _has_ended(pod: Json) -> bool:
    return any("terminated" in status["state"] for status in pod["status"]["ephemeralContainerStatuses"])


def test_containers_share_their_processes(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        left = "(trap '' TERM; exec sleep 4713) & sleep 0.2; exit 3"
        look = """
            until cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q 'sleep 4711'; do sleep 0.1; done
            echo $$$$
        """
        spec = {
            "shareProcessNamespace": True,
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 1,
            "containers": [
                script("exec sleep 4711"),
                script(look, name="looking"),
                script(left, name="failing"),
            ],
        }
        await world.run_pod("p", spec)
        await world.until("p", lambda pod: "terminated" in state_of(pod, "looking"))
        assert int(await world.log("p", "looking")) > 1, "the first process is that of the pod"
        failing = await world.until("p", lambda pod: _restarts(pod, "failing") == 1)
        last = next(s for s in failing["status"]["containerStatuses"] if s["name"] == "failing")["lastState"]
        assert last["terminated"]["exitCode"] == 3
        await world.until("p", lambda pod: "waiting" in state_of(pod, "failing"))
        assert "sleep 4713" not in world.programs(), "processes of a container end with it"
        await kill_kubelet(world)
        await world.client.delete(PODS, Key("default", "p"), grace_period_s=1)
        async with asyncio.timeout(DEADLINE_S):
            while world.processes():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    run_story(tmp_path, story)


def _restarts(pod: Json, name: str) -> int:
    statuses = pod["status"].get("containerStatuses", [])
    return next((int(status["restartCount"]) for status in statuses if status["name"] == name), 0)
