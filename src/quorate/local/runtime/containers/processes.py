"""Processes of containers, found again by any later kubelet.

Each process of a container has an environment variable that names the kubelet's state directory, the pod,
the container and the attempt. Processes are therefore found without a record that a crash could lose, from
the moment in which they start. The outermost of an attempt (bubblewrap) writes its status to a file: first
the process id of the init process in the container, at last the exit code.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

MARKER: Final = "QUORATE_CONTAINER"
FIRST_POLL_S: Final = 0.002
LONGEST_POLL_S: Final = 0.05
END_POLL_S: Final = 0.02
END_TRIES: Final = 250
STATUS: Final = "status.json"
_children: dict[int, "subprocess.Popen[bytes]"] = {}  # kept until they are reaped


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start of a container; its files are in ``directory``."""

    state: Path  # the kubelet's directory
    pod_uid: str
    container: str
    number: int

    @property
    def directory(self) -> Path:
        return self.state / "pods" / self.pod_uid / "containers" / self.container

    @property
    def marker(self) -> str:
        return f"{self.state}|{self.pod_uid}|{self.container}|{self.number}"

    @property
    def status_file(self) -> Path:
        return self.directory / f"{self.number}.{STATUS}"

    @property
    def log(self) -> Path:
        return self.directory / f"{self.number}.log"

    def has_started(self) -> bool:
        """Return True if the init process of the container has been there."""
        return read_status(self).init_pid is not None

    def ended_at(self) -> float | None:
        """Return when the last status was written, or None if none was."""
        try:
            return self.status_file.stat().st_mtime
        except OSError:
            return None

    def pipe(self, stream: str) -> Path:
        return self.directory / f"{self.number}.{stream}"


class ProcessStatus(msgspec.Struct, frozen=True, rename="kebab"):
    """What bubblewrap writes about the process of a container."""

    init_pid: int | None = msgspec.field(default=None, name="child-pid")  # None: not started yet
    exit_code: int | None = None  # None: it runs, or its end was not recorded


def read_status(attempt: Attempt) -> ProcessStatus:
    """Return what bubblewrap has written so far, in one or two lines."""
    written = ProcessStatus()
    try:
        lines = attempt.status_file.read_bytes().splitlines()
    except FileNotFoundError:
        lines = []
    for line in lines:
        try:
            status = msgspec.json.decode(line, type=ProcessStatus)
        except msgspec.DecodeError:
            continue  # it is being written
        written = ProcessStatus(
            status.init_pid or written.init_pid,
            written.exit_code if status.exit_code is None else status.exit_code,
        )
    return written


def tool_path(name: str) -> str:
    """Return the path of a tool of this machine, on the PATH of the kubelet."""
    return shutil.which(name) or name


def start(
    attempt: Attempt,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    streams: Sequence[int],
    inherited: Sequence[int] = (),
) -> int:
    """Start the process of an attempt and return its id.

    ``streams``: its stdin, stdout and stderr; ``inherited``: other files open in it.  Raises OSError.
    """
    stdin, stdout, stderr = streams
    process = subprocess.Popen(
        arguments,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env={**environment, MARKER: attempt.marker},
        pass_fds=inherited,
        start_new_session=True,  # a Ctrl-C of the terminal is for the kubelet
        cwd="/",
    )
    _children[process.pid] = process
    return process.pid


def marked_processes(state: Path) -> dict[tuple[str, str, int], list[int]]:
    """Return the processes of containers by pod uid, container and attempt; the outermost comes first."""
    by_attempt: dict[tuple[str, str, int], list[int]] = {}
    parents: dict[int, int] = {}
    for pid, marker in _markers():
        directory, _, rest = marker.partition("|")
        parts = rest.split("|")
        if directory == str(state) and len(parts) == 3 and parts[2].isdecimal():
            by_attempt.setdefault((parts[0], parts[1], int(parts[2])), []).append(pid)
            parents[pid] = _parent(pid)
    for pids in by_attempt.values():
        members = set(pids)
        pids.sort(key=lambda pid: (parents[pid] in members, pid))
    return by_attempt


def _markers() -> Iterator[tuple[int, str]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal() and (marker := _marker(int(entry.name))):
            yield int(entry.name), marker


def _marker(pid: int) -> str:
    """Return the marker of a process of a container, or an empty string."""
    prefix = f"{MARKER}=".encode()
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""  # it has ended, or belongs to another user
    marker = next((variable for variable in variables if variable.startswith(prefix)), prefix)
    return marker.removeprefix(prefix).decode(errors="replace")


def _parent(pid: int) -> int:
    fields = stat_fields(pid)
    return int(fields[1]) if fields else 0


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name of a process; empty if the process has ended."""
    try:
        # The name, in brackets, may contain spaces.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def children_of(pid: int) -> list[int]:
    """Return the child processes of a process, the oldest first."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def send_signal(attempt: Attempt, process: int, number: signal.Signals) -> None:
    """Send a signal to the command of a container, SIGKILL to all its processes."""
    init_pid = read_status(attempt).init_pid
    if number == signal.SIGKILL:
        targets = [process] if init_pid is None else [init_pid, *children_of(init_pid)]
    elif init_pid is None:
        return  # the command does not run yet; SIGKILL follows
    else:
        targets = children_of(init_pid)[:1]
    signal_processes(targets, number)


def signal_processes(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to the processes that have not ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


async def wait_for_command(attempt: Attempt, process: int, launches: Container[bytes]) -> bool:
    """Return True once the command of a container runs, False if its process has ended before.

    ``launches``: the command lines of the programs that the init process runs as its child until then.
    """
    delay_s = FIRST_POLL_S
    while is_running(process):
        init_pid = read_status(attempt).init_pid
        if init_pid is not None:
            for child in children_of(init_pid)[:1]:
                with suppress(OSError):
                    words = _words(child)  # none: it has ended
                    if words and words != _words(init_pid) and words not in launches:  # it is not only forked
                        return True
        await asyncio.sleep(delay_s)
        delay_s = min(delay_s * 1.5, LONGEST_POLL_S)
    return False


def _words(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def is_running(process: int) -> bool:
    """Return True unless a process has ended; a child that has ended is reaped."""
    child = _children.get(process)
    if child is not None:
        if child.poll() is None:
            return True
        del _children[process]
        return False
    fields = stat_fields(process)
    return bool(fields) and fields[0] not in "ZX"


async def wait_for_end(process: int) -> None:
    """Return once a process has ended, be it a child of this process or not."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        is_running(process)
        return
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(descriptor, ended.cancel)  # the end of the wait, not of this task
    try:
        await asyncio.wait([ended])
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    is_running(process)  # reaps a child


@asynccontextmanager
async def killed_at_the_end(process: asyncio.subprocess.Process) -> AsyncIterator[None]:
    """Kill a process and its session when the block ends, unless the process has ended.

    ``nsenter`` alone would leave its child, the command, in the container.
    """
    try:
        yield
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def end_init(attempt: Attempt) -> None:
    """Kill the init process of a container after the end of its command, and so all of its PID namespace.

    The init process of bubblewrap ends after all other processes there.
    """
    init_pid = read_status(attempt).init_pid
    if init_pid is not None and _marker(init_pid) == attempt.marker:
        signal_processes([init_pid], signal.SIGKILL)


def end_attempt(attempt: Attempt) -> None:
    """Kill the processes that an attempt left in a PID namespace which goes on."""
    by_attempt = marked_processes(attempt.state)
    signal_processes(by_attempt.get((attempt.pod_uid, attempt.container, attempt.number), ()), signal.SIGKILL)


def end_processes(state: Path) -> int:
    """Kill all processes of containers of a state directory; return how many attempts had any."""
    ended: set[tuple[str, str, int]] = set()
    for _ in range(END_TRIES):
        by_attempt = marked_processes(state)
        if not by_attempt:
            break
        ended |= set(by_attempt)
        for pids in by_attempt.values():
            signal_processes(pids, signal.SIGKILL)
        time.sleep(END_POLL_S)
    return len(ended)
