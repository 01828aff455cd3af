"""The process of a running container: start it or take it over, copy its output, and read its exit code.

The servers of the kubelet see a container as a ``RunningContainer``, and find it by a ``PodIndex``.
A pod with ``shareProcessNamespace`` has one more process, which holds its PID namespace.
"""

import asyncio
import os
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from quorate.api.meta import Key
from quorate.kube.clock import Clock
from quorate.local.runtime.containers.console import Console, last_lines
from quorate.local.runtime.containers.environment import DEFAULT_PATH
from quorate.local.runtime.containers.files import Termination
from quorate.local.runtime.containers.processes import (
    FIRST_POLL_S,
    Attempt,
    children_of,
    end_init,
    is_running,
    read_status,
    send_signal,
    start,
    tool_path,
    wait_for_command,
    wait_for_end,
)
from quorate.local.runtime.containers.sandbox import Sandbox, Tools, arguments, launches, variables_file
from quorate.local.runtime.containers.unshare_launcher import REAPER_NAME
from quorate.local.runtime.pod_types import Container


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container with a running process."""

    pid: int  # as the kubelet sees it: of the init process, or of the command in a joined PID namespace
    environment: Mapping[str, str]
    working_directory: str
    user: int | None = None  # None: that of the kubelet
    group: int | None = None


@dataclass(frozen=True, slots=True)
class ContainerLogs:
    """The log files of a container in order of its attempts; a file of an old attempt may be deleted."""

    latest: Path | None  # None: the container has not been started
    previous: Path | None
    is_running: bool  # the latest log may still grow
    waiting: str  # the reason in the status of a container that has not been started


class PodOnNode(Protocol):
    """A pod on this node, with its containers of any kind."""

    @property
    def uid(self) -> str: ...

    def running(self, container: str) -> RunningContainer | None:
        """Return a running container; None if it does not run."""

    def console(self, container: str) -> Console | None:
        """Return the standard streams of a running container; None if it does not run."""

    def logs(self, container: str) -> ContainerLogs | None:
        """Return the logs of a container, or None if the pod has no such container."""


class PodIndex(Protocol):
    """Finds the pods on this node."""

    def pod(self, namespace: str, name: str) -> PodOnNode | None:
        """Return a pod on this node, or None if the node has no such pod."""

    def pod_key(self, uid: str) -> Key | None:
        """Return the namespace and the name of a pod on this node, or None if the node has no such pod."""


def exec_arguments(container: RunningContainer, command: Sequence[str]) -> list[str]:
    """Return the arguments of a process that runs ``command`` in the namespaces of ``container``.

    The caller passes ``container.environment`` as its environment.
    """
    root = f"/proc/{container.pid}/root"
    user = [] if container.user is None else [f"--setuid={container.user}"]
    group = [] if container.group is None else [f"--setgid={container.group}"]
    return [
        tool_path("nsenter"),
        f"--target={container.pid}",
        *("--mount", "--uts", "--ipc", "--net", "--pid"),
        f"--root={root}",
        # Opened before nsenter enters the mount namespace: --wd has no other form in older versions.
        f"--wd={root}{container.working_directory}",
        *user,
        *group,
        "--",
        *command,
    ]


START_FAILED: Final = 128
UNKNOWN: Final = 137
LAUNCHERS: Final = tuple(
    f"{name}: "
    for name in ("bwrap", "nsenter", "unshare", "mount", "mkdir", "ln", "setpriv", "setsid", "sh", "/bin/sh")
)
NOT_EXECUTED: Final = (None, 1, 126, 127)  # exit codes of launchers that cannot execute the command
EXECUTION: Final = re.compile(
    r"(?:bwrap: execvp|(?:nsenter|setpriv|setsid|unshare): failed to execute"
    rf"|{REAPER_NAME}: (?:exec: |line )*\d+:(?: exec:)?)"  # dash, bash, and the shell of BusyBox
    r" (.*): (No such file or directory|not found|Permission denied|Is a directory)"
)


class StartFailed(Exception):
    """The command of a container could not be run; the message is for users."""


def start_failure(code: int | None, text: str) -> str:
    """Return why a command that has ended with ``code`` and this output has not run, as a kubelet says it.

    Empty: it has run, and ``text`` is its own.
    """
    if code in NOT_EXECUTED and (failure := EXECUTION.match(text)) is not None:
        program, error = failure.groups()
        if "/" not in program:
            return f'exec: "{program}": executable file not found in $PATH'
        is_missing = error in ("No such file or directory", "not found")
        reason = f"stat {program}: no such file or directory" if is_missing else error.lower()
        return f'exec: "{program}": {reason}'
    return text if code in (None, 1) and text.startswith(LAUNCHERS) else ""


class ContainerProcess:
    def __init__(self, attempt: Attempt, process: int, console: Console, clock: Clock) -> None:
        self.attempt = attempt
        self.process = process  # bubblewrap, or the shell in its place
        self.console = console
        self.joined = False  # the PID namespace of another container, or of the pod
        self.user: int | None = None
        self.group: int | None = None
        self._clock = clock

    @classmethod
    async def start(
        cls,
        attempt: Attempt,
        container: Container,
        sandbox: Sandbox,
        environment: Mapping[str, str],
        tools: Tools,
        clock: Clock,
    ) -> "ContainerProcess":
        """Start the process, and return once the command runs.  Raises ``StartFailed`` or OSError."""
        console, streams = Console.create(attempt, container, clock)
        opened = set(streams)
        try:
            attempt.status_file.write_bytes(b"")
            attempt.status_file.chmod(0o600)
            variables = variables_file(environment) if tools.bwrap else None
            inherited = [] if variables is None else [variables]
            opened.update(inherited)
            command_line = arguments(sandbox, tools, attempt.status_file, variables)
            process = start(attempt, command_line, environment, streams, inherited)
        except BaseException:
            console.close()
            raise
        finally:
            for descriptor in opened:
                os.close(descriptor)
        running = cls(attempt, process, console, clock)
        running.joined = sandbox.pid_namespace is not None
        running.user, running.group = sandbox.user, sandbox.group
        runs = await wait_for_command(attempt, process, launches(sandbox))
        if not runs and (reason := running._start_failure()):
            console.finish()
            raise StartFailed(reason)
        return running

    @classmethod
    def adopt(cls, attempt: Attempt, container: Container, process: int, clock: Clock) -> "ContainerProcess":
        """Return a container that an earlier kubelet started."""
        return cls(attempt, process, Console.adopt(attempt, container, clock), clock)

    def _start_failure(self) -> str:
        """Return why the command has not run, or an empty string if it has, and has ended at once."""
        self.console.copy()
        return start_failure(read_status(self.attempt).exit_code, last_lines(self.attempt.log).strip())

    def describe(self, working_directory: str) -> RunningContainer | None:
        """Return what a command needs to enter the container, or None if the container has ended."""
        init_pid = read_status(self.attempt).init_pid
        if init_pid is None or not is_running(self.process):
            return None
        first = children_of(init_pid)[:1]
        # nsenter stands in the place of the init process of a container that joined another's PID namespace.
        self.joined = bool(first) and _pid_namespace(init_pid) == _pid_namespace(os.getpid())
        return RunningContainer(
            pid=first[0] if self.joined else init_pid,
            environment=_environment(init_pid),
            working_directory=working_directory,
            user=self.user,
            group=self.group,
        )

    async def ended(self, started_at: float, *, from_log: bool) -> Termination:
        """Wait until the process has ended; return its ``termination``."""
        await wait_for_end(self.process)
        end_init(self.attempt)
        self.console.finish()
        return termination(self.attempt, started_at, self._clock.now(), from_log=from_log)

    async def stop(self, grace_s: float) -> None:
        """Send SIGTERM, and SIGKILL after ``grace_s`` seconds; return once the process has ended."""
        if grace_s > 0:
            send_signal(self.attempt, self.process, signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s):
                    await wait_for_end(self.process)
                    return
        while is_running(self.process):
            send_signal(self.attempt, self.process, signal.SIGKILL)
            with suppress(TimeoutError):  # the process id of the container was not known yet
                async with asyncio.timeout(1.0):
                    await wait_for_end(self.process)

    def release(self) -> None:
        """Stop copying the log; the container runs on, for the next kubelet."""
        self.console.close()


def _pid_namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _environment(init_pid: int) -> dict[str, str]:
    """Return the environment with which the command of a container was started."""
    for child in children_of(init_pid)[:1]:
        try:
            content = Path(f"/proc/{child}/environ").read_bytes().decode(errors="surrogateescape")
        except OSError:
            continue
        return dict(variable.split("=", 1) for variable in content.split("\0") if "=" in variable)
    return {}


def termination(attempt: Attempt, started_at: float, now: float, *, from_log: bool) -> Termination:
    """Return the exit code and the reason of the end of an attempt that has ended.

    ``from_log``: the message of a failed attempt is the end of its log.
    """
    code = read_status(attempt).exit_code
    if code is None:
        message = "The container could not be located when the pod was terminated"
        return Termination(UNKNOWN, "ContainerStatusUnknown", message, started_at, now)
    message = last_lines(attempt.log) if from_log and code != 0 else ""
    return Termination(code, "Error" if code else "Completed", message, started_at, now)


PAUSE: Final = ".pause"  # in the place of the name of a container, which never begins with a dot
INIT: Final = "sleep infinity & wait"  # the shell also reaps processes without a parent


async def start_pause(state: Path, pod_uid: str) -> int:
    """Start the process that holds the PID namespace of a pod; return its id.  Raises OSError."""
    command = (tool_path("unshare"), "--pid", "--fork", "--kill-child", "--", "/bin/sh", "-c", INIT)
    null = os.open(os.devnull, os.O_RDWR)
    try:
        process = start(Attempt(state, pod_uid, PAUSE, 0), command, {"PATH": DEFAULT_PATH}, [null] * 3)
    finally:
        os.close(null)
    while not children_of(process):
        if not is_running(process):
            raise OSError("unshare cannot make a PID namespace for the pod")
        await asyncio.sleep(FIRST_POLL_S)
    return process


def namespace_of(process: int) -> Path:
    """Return the PID namespace that the process with this id holds.  Raises OSError if it has ended."""
    for child in children_of(process):
        return Path(f"/proc/{child}/ns/pid")
    raise OSError("the PID namespace of the pod has ended")
