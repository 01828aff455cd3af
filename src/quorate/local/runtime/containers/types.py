"""Containers as the servers of the kubelet see them: running containers, their logs, and how to find both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from quorate.api.meta import Key
from quorate.local.runtime.containers.console import Console
from quorate.local.runtime.containers.processes import tool_path


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container with a running process."""

    pid: int  # as the kubelet sees it: of the init process, or of the command in a joined PID namespace
    environment: Mapping[str, str]
    working_directory: str


@dataclass(frozen=True, slots=True)
class ContainerLogs:
    """The log files of a container in order of its attempts; a file of an old attempt may be deleted."""

    latest: Path | None  # None: the container has not been started
    previous: Path | None
    is_running: bool  # the latest log may still grow


class ContainerIndex(Protocol):
    """Finds the containers of the pods on this node."""

    def pod_uid(self, namespace: str, pod: str) -> str | None:
        """Return the uid of a pod on this node, or None if the node has no such pod."""

    def pod_key(self, uid: str) -> Key | None:
        """Return the namespace and the name of a pod on this node, or None if the node has no such pod."""

    def running(self, namespace: str, pod: str, container: str) -> RunningContainer | None:
        """Return a container, init and ephemeral ones included, or None unless it runs."""

    def console(self, namespace: str, pod: str, container: str) -> Console | None:
        """Return the standard streams of a container, or None unless it runs."""

    def logs(self, namespace: str, pod: str, container: str) -> ContainerLogs | None:
        """Return the logs of a container, or None if the node has no such container."""


def exec_arguments(container: RunningContainer, command: Sequence[str]) -> list[str]:
    """Return the arguments of a process that runs ``command`` in the namespaces of ``container``.

    The caller passes ``container.environment`` as its environment.
    """
    root = f"/proc/{container.pid}/root"
    return [
        tool_path("nsenter"),
        f"--target={container.pid}",
        *("--mount", "--uts", "--ipc", "--net", "--pid"),
        f"--root={root}",
        # Opened before nsenter enters the mount namespace: --wd has no other form in older versions.
        f"--wd={root}{container.working_directory}",
        "--",
        *command,
    ]
