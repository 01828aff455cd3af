"""Work in network namespaces: threads enter them, so that the process stays in its own.

A socket belongs for its whole life to the namespace of the thread that created it, and a child process starts
in the namespace of the thread that started it.  The standard library has setns and unshare from Python 3.12
on.
"""

import asyncio
import ctypes
import os
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

CLONE_NEWNET: Final = 0x40000000
MS_BIND: Final = 4096
MNT_DETACH: Final = 2
THREADS: Final = 4  # more would only wait for each other in the kernel, which serializes changes of links
OWN_NAMESPACE: Final = Path("/proc/thread-self/ns/net")
PORT_START: Final = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")

T = TypeVar("T")
_libc = ctypes.CDLL(None, use_errno=True)


class NetworkThreads:
    """Runs functions in network namespaces."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="network-namespace")

    async def run(self, namespace: Path, function: Callable[[], T]) -> T:
        """Run a blocking function in a namespace.  Raises OSError if there is none at the path."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, _enter_and_run, namespace, function)

    def close(self) -> None:
        """Wait for the running calls, and drop the waiting calls."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _enter_and_run(namespace: Path, function: Callable[[], T]) -> T:
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(descriptor, CLONE_NEWNET), namespace)
    finally:
        os.close(descriptor)
    return function()


def create_namespace(path: Path) -> None:
    """Create a network namespace that lasts as long as its mount at ``path``; the thread stays in it."""
    _check(_libc.unshare(CLONE_NEWNET), path)
    path.touch(mode=0o600)
    source, target = os.fsencode(OWN_NAMESPACE), os.fsencode(path)
    _check(_libc.mount(source, target, None, MS_BIND, None), path)
    PORT_START.write_text("0")  # as container runtimes do: processes of a pod may listen on any port


def is_namespace(path: Path) -> bool:
    """Return True if a network namespace is mounted at ``path``, in the mount namespace of this process."""
    try:
        return path.stat().st_dev == OWN_NAMESPACE.stat().st_dev
    except OSError:
        return False


def remove_namespace(path: Path) -> None:
    """Remove the mount of a namespace; the namespace ends with the last process in it."""
    if is_namespace(path):
        _check(_libc.umount2(os.fsencode(path), MNT_DETACH), path)
    path.unlink(missing_ok=True)


def _check(result: int, path: Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))


class IpCommandFailed(Exception):
    """The ``ip`` command has rejected a change; the message is its own."""


def ip(*commands: str) -> None:
    """Run commands of iproute2 in the namespace of this thread.  Raises ``IpCommandFailed``."""
    try:
        subprocess.run(
            ["ip", "-batch", "-"],
            input="\n".join(commands) + "\n",
            capture_output=True,
            text=True,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise IpCommandFailed(error.stderr.strip()) from error
