"""The namespaces of the node: one process holds them, so that they survive the kubelet.

Mounts and the network of the pods belong to them. The kubelet joins the mount namespace (for an ordinary user
the user namespace too), but stays in the network of the host, like pods with ``hostNetwork``.

Work in the network of a pod is done by threads that enter it, so that the process stays in its own network: a
socket belongs for its whole life to the namespace of the thread that created it, and a child process starts
in the namespace of the thread that started it.  The standard library has setns and unshare from Python 3.12
on.
"""

import asyncio
import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from quorate.api.meta import Struct

RECORD: Final = "namespaces.json"
ATTEMPTS: Final[tuple[tuple[str, ...], ...]] = ((), ("--user", "--map-root-user"))
"""Options of unshare: root needs no user namespace, except in a container that may not make mounts."""
HOLD: Final = "echo $$; exec sleep infinity >/dev/null 2>&1"
TOOLS: Final = ("setsid", "unshare", "nsenter")


class NamespacesUnavailable(Exception):
    """The kernel, or a missing tool, does not permit namespaces; the message says which."""


class NodeNamespaces(Struct):
    """Namespaces that a process holds.

    The start time of the process distinguishes it from a later process with the same id.
    """

    pid: int
    start_time: int
    user_namespace: bool

    @property
    def network(self) -> Path:
        """Return the network namespace, in which the bridge of the pods is."""
        return Path(f"/proc/{self.pid}/ns/net")

    def arguments(self) -> list[str]:
        """Return the arguments that start a kubelet in these namespaces if they precede its own arguments."""
        user = ["--user", "--preserve-credentials"] if self.user_namespace else []
        return ["nsenter", f"--target={self.pid}", *user, "--mount", f"--wdns={os.getcwd()}", "--"]


def enter(state: Path, kubelet: Sequence[str]) -> str:
    """Continue as the process ``kubelet`` (its arguments) in the namespaces of the node.

    Return an empty string if this process is in them already. If there can be no namespaces, return why.
    """
    try:
        namespaces = join_or_create(state)
    except NamespacesUnavailable as error:
        return str(error)
    if not is_inside(namespaces):
        os.execvp("nsenter", [*namespaces.arguments(), *kubelet])
    return ""


def is_inside(namespaces: NodeNamespaces) -> bool:
    """Return True if this process is in the mount namespace of the node."""
    return Path("/proc/self/ns/mnt").samefile(f"/proc/{namespaces.pid}/ns/mnt")


def join_or_create(state: Path) -> NodeNamespaces:
    """Return the namespaces of the node with this state directory, created if there are none.

    Raises ``NamespacesUnavailable``.
    """
    held = read_namespaces(state)
    if held is not None:
        return held
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise NamespacesUnavailable(f"{' and '.join(missing)} not installed (package util-linux)")
    reasons = []
    for options in ATTEMPTS if os.geteuid() == 0 else ATTEMPTS[1:]:
        try:
            held = _start_holder(options)
        except NamespacesUnavailable as error:
            reasons.append(str(error))
            continue
        state.mkdir(mode=0o755, parents=True, exist_ok=True)
        (state / RECORD).write_bytes(msgspec.json.encode(held))
        return held
    raise NamespacesUnavailable("; ".join(reasons))


def read_namespaces(state: Path) -> NodeNamespaces | None:
    """Return the namespaces of a state directory, or None if no process holds them."""
    try:
        held = msgspec.json.decode((state / RECORD).read_bytes(), type=NodeNamespaces)
    except (OSError, msgspec.MsgspecError):
        return None
    return held if start_time(held.pid) == held.start_time else None


def end_namespaces(state: Path) -> None:
    """End the namespaces of a node on which no container runs any more."""
    held = read_namespaces(state)
    if held is not None:
        os.kill(held.pid, signal.SIGKILL)
    (state / RECORD).unlink(missing_ok=True)


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks after the boot; None if it does not run."""
    try:
        content = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = content.rpartition(")")[2].split()  # the name, in brackets, may contain spaces
    return None if fields[0] in "ZX" else int(fields[19])


def _start_holder(options: tuple[str, ...]) -> NodeNamespaces:
    """Start a process in new namespaces, not as a child, in a session that no terminal interrupts."""
    done = subprocess.run(
        ["setsid", "--fork", "unshare", *options, "--mount", "--net", "sh", "-c", HOLD],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    pid = int(done.stdout) if done.stdout.strip().isdecimal() else 0
    started = start_time(pid)
    if started is None:
        raise NamespacesUnavailable(done.stderr.strip() or "unshare failed")
    return NodeNamespaces(pid=pid, start_time=started, user_namespace=bool(options))


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
        """Run a blocking function in a namespace.  Raises OSError without a namespace at the path."""
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
