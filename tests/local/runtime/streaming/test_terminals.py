"""kubectl run -it and attach from a pseudo terminal: containers with stdin and a terminal."""

import asyncio
import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.local.runtime.streaming.test_streams import (
    SPDY,
    WEBSOCKETS,
    kubectl,
    messages,
    needs_kubectl,
    of_channel,
    session,
)
from tests.local.runtime.world import World, one_container, run_story, runs_processes, state_of

pytestmark = [runs_processes, pytest.mark.slow, pytest.mark.usefixtures("one_cluster")]
DEADLINE_S = 30.0
protocols = pytest.mark.parametrize("environment", [WEBSOCKETS, SPDY], ids=["websockets", "spdy"])
PROMPT = "If you don't see a command prompt, try pressing enter.\r\n"


class Terminal:
    """A person at a terminal: what kubectl shows, and what is typed."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self.process = process
        self._master = master
        self._shown = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    async def until(self, text: str) -> None:
        """Read until ``text`` is shown, and forget what was shown before its end."""
        async with asyncio.timeout(DEADLINE_S):
            while text not in self._shown:
                try:
                    self._shown += os.read(self._master, 4096).decode(errors="replace")
                except BlockingIOError:
                    await asyncio.sleep(0.02)
                except OSError:
                    raise AssertionError(f"{text!r} is not in {self._shown!r}") from None
        self._shown = self._shown.partition(text)[2]

    async def ended(self) -> int:
        async with asyncio.timeout(DEADLINE_S):
            while self.process.returncode is None:
                with suppress(OSError):
                    self._shown += os.read(self._master, 4096).decode(errors="replace")
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await self.process.wait()
        return self.process.returncode


@asynccontextmanager
async def terminal(world: World, *arguments: str, environment: Mapping[str, str]) -> AsyncIterator[Terminal]:
    """Run kubectl in a terminal of 90 columns and 30 rows."""
    master, slave = os.openpty()
    os.set_blocking(master, False)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    process = await asyncio.create_subprocess_exec(
        "kubectl", *arguments,
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        env=os.environ | {"KUBECONFIG": str(world.directory / "kubeconfig"), **environment},
    )  # fmt: skip
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(master)


@needs_kubectl
@protocols
def test_kubectl_run_gives_a_shell_with_a_terminal(tmp_path: Path, environment: Mapping[str, str]) -> None:
    async def story(world: World) -> None:
        run = ("run", "-it", "shell", "--image=busybox", "--restart=Never", "--rm", "--", "sh")
        async with terminal(world, *run, environment=environment) as screen:
            await screen.until(PROMPT)
            screen.type("\n")
            await screen.until("# ")
            screen.type("test -t 0 && test -t 2 && echo is-a-$TERM && stty size\n")
            await screen.until("is-a-xterm\r\n30 90\r\n")
            screen.resize(101, 31)
            screen.type("until stty size | grep '31 101'; do sleep 0.1; done\n")
            await screen.until("31 101\r\n")
            screen.type("sleep 1000\n")
            await screen.until("sleep 1000\r\n")
            screen.type("\x03")
            await screen.until("^C")
            screen.type("echo code $?\n")
            await screen.until("code 130\r\n")
            screen.type("exit 3\n")
            assert await screen.ended() == 3, "the exit code of the shell"
        async with asyncio.timeout(DEADLINE_S):
            while (await kubectl(world, "get", "pod", "shell"))[0] == 0:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    run_story(tmp_path, story)


@needs_kubectl
@protocols
def test_kubectl_attaches_to_a_terminal_again_and_again(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    async def story(world: World) -> None:
        text = "stty -echo; while read -r line; do echo got $line; done"
        await world.run_pod("loop", one_container(text, stdin=True, tty=True))
        await world.running("loop")
        async with terminal(world, "attach", "-it", "loop", environment=environment) as screen:
            await screen.until(PROMPT)
            screen.type("word1\n")
            await screen.until("got word1\r\n")
        async with terminal(world, "attach", "-it", "loop", environment=environment) as screen:
            await screen.until(PROMPT)
            screen.type("word2\n")
            await screen.until("got word2\r\n")
            screen.type("\x04")  # passed on, since kubectl has made its terminal raw by now
            assert await screen.ended() == 0
        assert state_of(await world.ended("loop"))["terminated"]["exitCode"] == 0
        code, output, _ = await kubectl(world, "logs", "loop")
        assert (code, output.split()) == (0, ["got", "word1", "got", "word2"])

    run_story(tmp_path, story)


@needs_kubectl
@protocols
def test_the_input_of_kubectl_run_reaches_the_container_and_ends(
    tmp_path: Path, environment: Mapping[str, str]
) -> None:
    async def story(world: World) -> None:
        large = os.urandom(300_000).hex().encode() + b"\n"
        run = ("run", "-i", "count", "--image=host", "--restart=Never", "--rm", "--quiet", "--", "sh", "-c",
               "cat; echo error >&2; exit 4")  # fmt: skip
        code, output, errors = await kubectl(world, *run, stdin=large, environment=environment)
        assert (code, output.encode() == large, "error\n" in errors) == (4, True, True)

    run_story(tmp_path, story)


def test_a_client_that_disconnects_ends_the_input_only_where_it_may_be_used_once(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        count = "wc -c; echo counted"
        await world.run_pod("once", one_container(count, stdin=True, stdinOnce=True))
        await world.run_pod("kept", one_container("head -c 8; sleep 0.1", stdin=True))
        await world.run_pod("none", one_container("cat; echo ended"))
        async with session(world) as http:
            for pod in ("once", "kept"):
                await world.running(pod)
                path = f"/api/v1/namespaces/default/pods/{pod}/attach?stdin=1&stdout=1"
                async with http.ws_connect(path, protocols=["v4.channel.k8s.io"]) as websocket:
                    await websocket.send_bytes(b"\x00four")
                    await until_read(world, pod)
            await world.ended("none")
            assert (await world.log("none")).split() == ["ended"], "stdin is empty without the field"
            await world.ended("once")
            assert (await world.log("once")).split() == ["4", "counted"]
            path = "/api/v1/namespaces/default/pods/kept/attach?stdin=1&stdout=1"
            async with http.ws_connect(path, protocols=["v5.channel.k8s.io"]) as websocket:
                await websocket.send_bytes(b"\x00more")
                assert of_channel(await messages(websocket), 1) in (b"fourmore", b"more")
        await world.ended("kept")
        assert await world.log("kept") == "fourmore\n"

    run_story(tmp_path, story)


async def until_read(world: World, pod: str) -> None:
    """Wait until the container has read its stdin."""
    uid = (await world.pod(pod))["metadata"]["uid"]
    pipe = os.open(world.state / "pods" / uid / "containers" / "main" / "0.stdin", os.O_RDWR | os.O_NONBLOCK)
    try:
        async with asyncio.timeout(DEADLINE_S):
            while int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little"):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
    finally:
        os.close(pipe)


def test_a_client_that_reads_slowly_loses_nothing(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        text = "read -r x; head -c 5000000 /dev/zero; echo; sleep 1000"
        await world.run_pod("loud", one_container(text, stdin=True, stdinOnce=True))
        await world.running("loud")
        path = "/api/v1/namespaces/default/pods/loud/attach?stdin=1&stdout=1"
        async with (
            session(world) as http,
            http.ws_connect(path, protocols=["v4.channel.k8s.io"], max_msg_size=0) as websocket,
            asyncio.timeout(DEADLINE_S),
        ):
            await websocket.send_bytes(b"\x00go\n")
            size = 0
            while size < 5_000_001:
                size += len(await websocket.receive_bytes()) - 1
        assert (await world.log("loud")).count("\0") == 5_000_000

    run_story(tmp_path, story)
