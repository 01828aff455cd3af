"""The measured processes: their CPU, memory and bytes from /proc, and the local ones that serve a cluster."""

import asyncio
import os
import re
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

API_SERVER: Final = "API server"
_PROC: Final = Path("/proc")
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_SAMPLE_EVERY_S: Final = 0.2
_LISTEN: Final = "0A"
_ETCD_SERVERS: Final = re.compile(r"^--?etcd-servers[= ](?P<url>[^,]+)")


@asynccontextmanager
async def running(command: Sequence[str], kubeconfig: Path, log: Path) -> AsyncIterator[Process]:
    """Run ``command`` for the cluster of ``kubeconfig``; terminate it at the end of the block."""
    environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
    # Installed packages have byte code; to compile the modules of both processes takes up to 3 s of CPU.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=output, stderr=output, env=environment
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


class ProcessUsage(msgspec.Struct, frozen=True):
    """Usage of a process and its children; the bytes are those of all their reads and writes."""

    cpu_s: float
    own_cpu_s: float  # own: without its children
    peak_bytes: int
    own_peak_bytes: int
    read_bytes: int
    written_bytes: int


class UsageSampler:
    """Samples the usage of a process while ``follow`` runs, including that of children that have ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._totals: dict[int, _Totals] = {}
        self._initial: dict[int, _Totals] = {}
        self._peak_bytes = 0  # total resident memory
        self._own_peak_bytes = 0

    @property
    def usage(self) -> ProcessUsage:
        """Return the usage since ``begin``, or since the start of a later process."""
        found = {pid: totals.since(self._initial.get(pid, _NOTHING)) for pid, totals in self._totals.items()}
        differences = found.values()
        return ProcessUsage(
            cpu_s=sum(each.ticks for each in differences) * _TICK_S,
            own_cpu_s=found.get(self._pid, _NOTHING).ticks * _TICK_S,
            peak_bytes=self._peak_bytes,
            own_peak_bytes=self._own_peak_bytes,
            read_bytes=sum(each.read_bytes for each in differences),
            written_bytes=sum(each.written_bytes for each in differences),
        )

    def begin(self) -> None:
        """Count only from now on, for processes that ran before the benchmark."""
        self.sample()
        self._initial = dict(self._totals)

    async def follow(self) -> None:
        """Until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(_SAMPLE_EVERY_S)

    async def settled(self, seconds: float, cores: float) -> None:
        """Return once the process has used less than ``cores`` for ``seconds``, while ``follow`` runs."""
        while True:
            before_s = self.usage.cpu_s
            await asyncio.sleep(seconds)
            if before_s and self.usage.cpu_s - before_s < cores * seconds:
                return

    def sample(self) -> None:
        resident = 0
        for pid in _process_tree(self._pid):
            try:
                self._totals[pid] = _totals(pid)
                status = (_PROC / str(pid) / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # the process has ended
            peak = _peak_bytes(status)
            resident += peak
            if pid == self._pid:
                self._own_peak_bytes = max(self._own_peak_bytes, peak)
        self._peak_bytes = max(self._peak_bytes, resident)


class _Totals(msgspec.Struct, frozen=True):
    ticks: int
    read_bytes: int
    written_bytes: int

    def since(self, before: "_Totals") -> "_Totals":
        return _Totals(
            self.ticks - before.ticks,
            self.read_bytes - before.read_bytes,
            self.written_bytes - before.written_bytes,
        )


_NOTHING: Final = _Totals(0, 0, 0)


def _totals(pid: int) -> _Totals:
    user, system = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[11:13]
    io = dict(line.split(": ") for line in (_PROC / str(pid) / "io").read_text().splitlines())
    return _Totals(int(user) + int(system), int(io["rchar"]), int(io["wchar"]))


def _peak_bytes(status: str) -> int:
    """Return the largest resident memory of a process; 0 if it is ending."""
    return 1024 * sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def _process_tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield from _process_tree(int(child))


def serving_pids(server: str, server_pid: int | None = None) -> dict[str, int]:
    """Return the local processes behind the URL ``server``: the API server, and the etcd that it names.

    Without ``server_pid``, the API server is the process that listens on a loopback address of the URL.
    """
    url = urlsplit(server)
    if server_pid is None and _is_loopback(url.hostname):
        server_pid = listening_pid(url.port or 443)
    if server_pid is None:
        return {}
    found = {API_SERVER: server_pid}
    for argument in (_PROC / str(server_pid) / "cmdline").read_text().split("\0"):
        named = _ETCD_SERVERS.match(argument)
        etcd = urlsplit(named["url"]) if named is not None else None
        if etcd is not None and _is_loopback(etcd.hostname):
            etcd_pid = listening_pid(etcd.port or 2379)
            if etcd_pid is not None:
                found["etcd"] = etcd_pid
    return found


def _is_loopback(host: str | None) -> bool:
    try:
        return host is not None and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        return False


def listening_pid(port: int) -> int | None:
    """Return a process of this machine that listens on the TCP port and that we may inspect."""
    sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _listening_inodes(table, port)}
    for directory in _PROC.iterdir():
        if directory.name.isdecimal() and sockets:
            try:
                if any(os.readlink(each) in sockets for each in (directory / "fd").iterdir()):
                    return int(directory.name)
            except OSError:
                continue  # ended, or another user's
    return None


def _listening_inodes(table: str, port: int) -> Iterator[str]:
    try:
        lines = (_PROC / "net" / table).read_text().splitlines()[1:]
    except FileNotFoundError:
        return
    for line in lines:
        fields = line.split()
        if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
            yield fields[9]
