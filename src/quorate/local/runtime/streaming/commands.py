"""Commands in containers, and their own standard streams, with the streams of a client."""

import asyncio
import contextlib
import fcntl
import os
import struct
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from quorate.api.codec import Json
from quorate.kube.cancellation import end_tasks
from quorate.local.connections import Inbox
from quorate.local.runtime.containers.console import Console, set_size
from quorate.local.runtime.containers.processes import killed_at_the_end
from quorate.local.runtime.containers.running import RunningContainer, exec_arguments

Read = Callable[[int], Awaitable[bytes]]
"""Returns at most so many bytes, and empty bytes at the end."""

CHUNK_BYTES: Final = 32 * 1024
DRAIN_S: Final = 2.0
"""How long output is awaited after the end of a command; a process that it left behind may hold it open."""
TIOCSPTLCK: Final = 0x40045431
TIOCGPTPEER: Final = 0x5441
NON_ZERO_EXIT: Final = "NonZeroExitCode"


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """PodExecOptions and PodAttachOptions, as their names."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    command: Sequence[str] = ()


class TerminalSizes:
    """The size of the client's terminal, which may arrive before the command has one."""

    def __init__(self) -> None:
        self._size: tuple[int, int] | None = None  # columns and rows
        self._on_size: Callable[[int, int], None] | None = None

    def set(self, columns: int, rows: int) -> None:
        self._size = (columns, rows)
        if self._on_size is not None:
            self._on_size(columns, rows)

    def follow(self, on_size: Callable[[int, int], None] | None) -> None:
        """Call ``on_size`` with the size, if it is known, and with each later one; None ends that."""
        self._on_size = on_size
        if on_size is not None and self._size is not None:
            on_size(*self._size)


class ClientStreams(Protocol):
    """The streams of a client, whatever the protocol."""

    stdin: Inbox
    sizes: TerminalSizes

    async def write(self, stream: str, content: bytes) -> None:
        """Send to stdout or stderr.  Raises OSError if the client has disconnected."""

    async def finish(self, status: Json) -> None:
        """Send the status of the command, and end the streams."""


async def run_command(container: RunningContainer, options: CommandOptions, client: ClientStreams) -> Json:
    """Run a command in a container until it ends, and return its status; cancelling ends the command."""
    try:
        if options.tty:
            return exit_status(await _run_with_terminal(container, options, client))
        return exit_status(await _run_with_pipes(container, options, client))
    except ConnectionError:
        raise
    except (OSError, ValueError) as error:
        return failure(f"error executing command in container: {error}")


async def attach(console: Console, options: CommandOptions, client: ClientStreams) -> Json:
    """Send what the container writes from now on, and pass input on to it, until either ends.

    The end of the input of a container with ``stdinOnce`` and no terminal is the end of the container's
    stdin; its output goes on.
    """

    async def send_output() -> None:
        async with aclosing(console.output()) as outputs:
            async for stream, content in outputs:
                if getattr(options, stream):
                    await client.write(stream, content)

    async def pass_input() -> None:
        try:
            while content := await client.stdin.get():
                await console.write(content)
        finally:
            client.stdin.discard()
            if console.stdin_ends:
                console.end_stdin()

    output = asyncio.create_task(send_output())
    tasks = [output]
    ends = [output]
    if options.stdin and console.has_stdin:
        tasks.append(asyncio.create_task(pass_input()))
        ends = [output] if console.stdin_ends else tasks
    else:
        client.stdin.discard()
    client.sizes.follow(console.resize)
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if output.done():
            output.result()
        return exit_status(0)
    finally:
        client.sizes.follow(None)
        await end_tasks(tasks)


def exit_status(code: int) -> Json:
    """Return the Status of a command, given the code that the process ended with."""
    code = 128 - code if code < 0 else code
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": NON_ZERO_EXIT,
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failure(message: str) -> Json:
    return {
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    }


async def _run_with_pipes(container: RunningContainer, options: CommandOptions, client: ClientStreams) -> int:
    def pipe(wanted: bool) -> int:
        return asyncio.subprocess.PIPE if wanted else asyncio.subprocess.DEVNULL

    process = await asyncio.create_subprocess_exec(
        *exec_arguments(container, options.command),
        stdin=pipe(options.stdin),
        stdout=pipe(options.stdout),
        stderr=pipe(options.stderr),
        env=dict(container.environment),
        start_new_session=True,
    )
    async with killed_at_the_end(process):
        outputs = {
            stream: reader.read
            for stream, reader in (("stdout", process.stdout), ("stderr", process.stderr))
            if reader is not None
        }
        copying = _copy_input(process.stdin, client) if process.stdin is not None else None
        return await _wait(process, outputs, copying, client)


async def _run_with_terminal(
    container: RunningContainer, options: CommandOptions, client: ClientStreams
) -> int:
    master, slave = _open_terminal(container)
    try:
        # setsid makes the terminal that of the session, so that Ctrl-C and sizes reach the command.
        process = await asyncio.create_subprocess_exec(
            "setsid", "--ctty", *exec_arguments(container, options.command),
            stdin=slave, stdout=slave, stderr=slave,
            env={"TERM": "xterm", **container.environment},
        )  # fmt: skip
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    os.set_blocking(master, False)

    try:
        async with killed_at_the_end(process):
            client.sizes.follow(partial(set_size, master))
            outputs = {"stdout": partial(_read_terminal, master)}
            return await _wait(process, outputs, _copy_to_terminal(master, client), client)
    finally:
        client.sizes.follow(None)
        os.close(master)


def _open_terminal(container: RunningContainer) -> tuple[int, int]:
    """Return master and slave of a new terminal, if possible of a terminal that the container sees."""
    try:
        master = os.open(f"/proc/{container.pid}/root/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return os.openpty()
    fcntl.ioctl(master, TIOCSPTLCK, struct.pack("i", 0))  # unlock
    return master, fcntl.ioctl(master, TIOCGPTPEER, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)


async def _wait(
    process: asyncio.subprocess.Process,
    outputs: Mapping[str, Read],
    stdin: Coroutine[Any, Any, None] | None,
    client: ClientStreams,
) -> int:
    """Return the exit code, once the output has been copied.

    Raises OSError if the client has disconnected.
    """
    sending: set[str] = set()  # streams with output that the client has not taken yet

    async def copy(stream: str, read: Read) -> None:
        while chunk := await read(CHUNK_BYTES):
            sending.add(stream)
            await client.write(stream, chunk)
            sending.discard(stream)

    copies = [asyncio.create_task(copy(stream, read)) for stream, read in outputs.items()]
    ended = asyncio.create_task(process.wait())
    output = asyncio.gather(*copies)
    either: list[asyncio.Future[Any]] = [ended, output]
    tasks = [*either, *copies]
    if stdin is not None:
        tasks.append(asyncio.create_task(stdin))
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if output.done():
            output.result()
            await ended
        await asyncio.wait([output], timeout=DRAIN_S)
        while sending and not output.done():
            await asyncio.wait([output], timeout=DRAIN_S)
        return ended.result()
    finally:
        await end_tasks(tasks)


async def _copy_input(writer: asyncio.StreamWriter, client: ClientStreams) -> None:
    with contextlib.suppress(OSError):  # the command has closed its input
        while chunk := await client.stdin.get():
            writer.write(chunk)
            await writer.drain()
    client.stdin.discard()
    writer.close()


async def _read_terminal(master: int, size: int) -> bytes:
    """Return output, or empty bytes when no process has the terminal any more."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return os.read(master, size)
        except BlockingIOError:
            await _ready(master, loop.add_reader, loop.remove_reader)
        except OSError:  # EIO
            return b""


async def _copy_to_terminal(master: int, client: ClientStreams) -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):  # no process has the terminal any more
        while chunk := await client.stdin.get():
            while chunk:
                try:
                    chunk = chunk[os.write(master, chunk) :]
                except BlockingIOError:
                    await _ready(master, loop.add_writer, loop.remove_writer)
    client.stdin.discard()


async def _ready(descriptor: int, add: Callable[..., None], remove: Callable[[int], Any]) -> None:
    """Wait until a descriptor is readable or writable."""
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)
