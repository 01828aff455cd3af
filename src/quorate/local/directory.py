"""The data directory of a one-machine cluster: its lock, and persistent files.

running.json   locked while a cluster runs here; contains its process id and address
    cluster.db     the objects
    cluster.revision   the latest stored revision
    ca.crt, ca.key, server.crt, server.key, token
    tokens.key   signs service account tokens
    front-proxy-ca.crt, front-proxy-ca.key   authenticate the API server to aggregated APIs
    cluster.yaml   the nodes of the last start
    cluster.log    the output of a cluster in the background
    merged-kubeconfig   the path of a user's kubeconfig that has the context of the cluster
    kubeconfig     for users and for our own controllers: server, authority, administrator's token
    worker-1, worker-2, ...   the data directories of the worker clusters of this cluster

The lock belongs to the open file, so it ends with the process in any case; a stale record is recognized by
the missing lock. Only the owner can read the files, because the token grants administrator rights.
"""

import base64
import fcntl
import os
import secrets
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

import msgspec
import yaml

from quorate.api.meta import Struct
from quorate.kube.serving.tls import KeyPair
from quorate.local.certificates import (
    ServerKeys,
    check_certificate,
    check_key,
    expires_soon,
    names_server,
    new_authority,
    new_server_certificate,
    new_signing_key,
)

CONTEXT: Final = "quorate-local"
_WORKER: Final = "worker-"

_RUNNING: Final = "running.json"
_DATABASE: Final = "cluster.db"
HISTORY: Final = "dashboard.db"  # of a dashboard that is served beside the cluster
DESCRIPTION: Final = "cluster.yaml"
MERGED: Final = "merged-kubeconfig"
_LOG: Final = "cluster.log"
_FILES: Final = (
    _RUNNING, DESCRIPTION, _LOG, MERGED, "kubeconfig", "token", "ca.crt", "ca.key", "server.crt",
    "server.key", "tokens.key", "front-proxy-ca.crt", "front-proxy-ca.key",
    _DATABASE, f"{_DATABASE}-wal", f"{_DATABASE}-shm", "cluster.revision",
    HISTORY, f"{HISTORY}-wal", f"{HISTORY}-shm",
)  # fmt: skip


class RunningCluster(Struct):
    """The process that runs a directory's cluster; ``server`` is empty until it listens."""

    pid: int
    server: str = ""
    since: float = 0.0
    is_ready: bool = False  # all that the options ask for is served
    in_background: bool = False  # its output is in the log of the directory


class DirectoryInUse(Exception):
    """Another process runs a cluster in this directory."""

    def __init__(self, path: Path, running: RunningCluster) -> None:
        super().__init__(path, running)
        self.path, self.running = path, running

    def __str__(self) -> str:
        where = f" at {self.running.server}" if self.running.server else ""
        return f"{self.path}: process {self.running.pid} already runs a cluster here{where}"


class DirectoryUnusable(Exception):
    """The path cannot be used as a data directory."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The server's TLS credentials and its administrator's token."""

    authority: bytes
    tls: ssl.SSLContext
    token: str


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    """Raise ``DirectoryUnusable`` for an OSError of the block, which uses ``path``."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DirectoryUnusable(path, f"{reason} (choose another with --data-dir)") from error


class _Directory:
    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    def worker(self, number: int) -> "ClusterDirectory":
        """Return the directory of the worker cluster with this number, from 1."""
        return ClusterDirectory(self.path / f"{_WORKER}{number}")

    @property
    def workers(self) -> tuple["ClusterDirectory", ...]:
        """Return the directories of the worker clusters, by number."""
        names = (path.name.removeprefix(_WORKER) for path in self.path.glob(f"{_WORKER}*") if path.is_dir())
        return tuple(map(self.worker, sorted(int(name) for name in names if name.isdecimal())))

    def _kubeconfig(self, server: str, authority: bytes, token: str) -> bytes:
        """Return the kubeconfig of this cluster, with a context of each worker cluster that has one."""
        own = _entries(server, authority, token)
        for worker in self.workers:
            if worker.kubeconfig.exists():
                _add_entries(own, f"quorate-{worker.path.name}", worker.kubeconfig.read_text())
        return yaml.safe_dump(own, sort_keys=False).encode()

    def write(self, name: str, content: bytes) -> None:
        """Replace a file atomically: a reader sees the old content or the new.

        Raises ``DirectoryUnusable``.
        """
        partial = self.path / f".{name}.partial"
        with _usable(self.path / name):
            with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(content)
            partial.replace(self.path / name)

    def _read(self, name: str, check: Callable[[bytes], object]) -> bytes:
        """Return the content of a file that ``check`` accepts.  Raises ``DirectoryUnusable``."""
        path = self.path / name
        try:
            with _usable(path):
                content = path.read_bytes()
            check(content)
        except ValueError as error:
            problem = str(error).partition(". ")[0]
            raise DirectoryUnusable(
                path, f"it is damaged: {problem} (delete it: a new one is made)"
            ) from error
        return content


class ClusterDirectory(_Directory):
    """A data directory that this process has not locked."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.expanduser().absolute())

    @property
    def log(self) -> Path:
        return self.path / _LOG

    def open_log(self) -> IO[bytes]:
        """Create the directory if necessary, and open an empty log.  Raises ``DirectoryUnusable``."""
        with _usable(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.fdopen(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")

    def running(self) -> RunningCluster | None:
        """Return the process that runs a cluster here, or None."""
        with _usable(self.path):
            try:
                file = (self.path / _RUNNING).open("rb")
            except FileNotFoundError:
                return None
        with file:
            return None if _try_lock(file, fcntl.LOCK_SH) else _read_record(file)

    @property
    def last_port(self) -> int:
        """Return the port of the last start, by the kubeconfig; 0 if there was none."""
        try:
            entries = yaml.safe_load(self.kubeconfig.read_text())
            return urlsplit(entries["clusters"][0]["cluster"]["server"]).port or 0
        except (OSError, ValueError, yaml.YAMLError, KeyError, IndexError, TypeError):
            return 0

    def restore_kubeconfig(self, server: str) -> None:
        """Write the kubeconfig of the cluster that runs here again if it was deleted or changed.

        Raises ``DirectoryUnusable``.
        """
        authority, token = self._read("ca.crt", check_certificate), self._read("token", _check_token)
        content = self._kubeconfig(server, authority, token.decode())
        if not self.kubeconfig.exists() or self.kubeconfig.read_bytes() != content:
            self.write("kubeconfig", content)

    @contextmanager
    def lock(self, since: float, *, in_background: bool = False) -> Iterator["LockedDirectory"]:
        """Create the directory if necessary, and lock it until the block ends.

        Raises ``DirectoryInUse`` or ``DirectoryUnusable``.
        """
        with _usable(self.path):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            record = os.fdopen(os.open(self.path / _RUNNING, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        with record:
            if not _try_lock(record, fcntl.LOCK_EX):
                raise DirectoryInUse(self.path, _read_record(record))
            running = RunningCluster(pid=os.getpid(), since=since, in_background=in_background)
            locked = LockedDirectory(self.path, record, running)
            try:
                yield locked
            finally:
                record.truncate(0)

    def remove(self, since: float) -> tuple[Path, ...]:
        """Delete the known files, and the directory if it is empty then; return the deleted files.

        Other files are kept. Raises ``DirectoryInUse`` while a cluster runs.
        """
        if not self.path.is_dir():
            return ()
        with self.lock(since):
            files = tuple(self.path / name for name in _FILES)
            present = tuple(path for path in files if path.exists())
            for path in present:
                path.unlink()
        if not any(self.path.iterdir()):
            self.path.rmdir()
        return present


class LockedDirectory(_Directory):
    """A data directory that this process has locked."""

    def __init__(self, path: Path, record: IO[bytes], running: RunningCluster) -> None:
        super().__init__(path)
        self._record = record
        self._running = running
        self._write_record()

    @property
    def database(self) -> Path:
        """Return the database file; SQLite creates its other files with the same permissions."""
        path = self.path / _DATABASE
        with _usable(path):
            path.touch(mode=0o600)
        return path

    def credentials(self, now: float) -> Credentials:
        """Return the directory's certificates and token, created at first use.

        The server certificate is replaced when it expires soon or lacks a name, the authority only when it
        expires soon itself, so that a distributed kubeconfig stays valid for years.
        """
        authority = self._pair("ca")
        if authority is None or expires_soon(authority.certificate, now):
            authority = self._store_pair("ca", new_authority(now))
            server = None
        else:
            server = self._pair("server")
        is_valid = server is not None and names_server(authority, server)
        if server is None or not is_valid or expires_soon(server.certificate, now):
            self._store_pair("server", new_server_certificate(authority, now))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.path / "server.crt", self.path / "server.key")
        return Credentials(authority.certificate, tls, self._token())

    def publish_address(self, server: str, credentials: Credentials) -> None:
        """Write the server's address to the record and to a kubeconfig."""
        self._running = msgspec.structs.replace(self._running, server=server)
        self._write_record()
        self.write("kubeconfig", self._kubeconfig(server, credentials.authority, credentials.token))

    def publish_ready(self) -> None:
        """Write to the record that the cluster is ready."""
        self._running = msgspec.structs.replace(self._running, is_ready=True)
        self._write_record()

    def server_keys(self, now: float) -> ServerKeys:
        """Return the API server's signing keys, created at first use."""
        path = self.path / "tokens.key"
        if not path.exists():
            self.write(path.name, new_signing_key())
        authority = self._pair("front-proxy-ca")
        if authority is None or expires_soon(authority.certificate, now):
            authority = self._store_pair("front-proxy-ca", new_authority(now))
        return ServerKeys(self._read(path.name, check_key), authority)

    def _token(self) -> str:
        if not (self.path / "token").exists():
            self.write("token", secrets.token_urlsafe(32).encode())
        return self._read("token", _check_token).decode()

    def _pair(self, name: str) -> KeyPair | None:
        certificate, key = self.path / f"{name}.crt", self.path / f"{name}.key"
        if not (certificate.exists() and key.exists()):
            return None
        return KeyPair(self._read(certificate.name, check_certificate), self._read(key.name, check_key))

    def _store_pair(self, name: str, pair: KeyPair) -> KeyPair:
        self.write(f"{name}.key", pair.key)
        self.write(f"{name}.crt", pair.certificate)
        return pair

    def _write_record(self) -> None:
        # In place, not replaced: the lock is on this very file.
        with _usable(self.path / _RUNNING):
            self._record.seek(0)
            self._record.write(msgspec.json.encode(self._running))
            self._record.truncate()
            self._record.flush()


def _check_token(content: bytes) -> None:
    if not content.strip().isascii() or not content.strip():
        raise ValueError("it has no token")


def _try_lock(file: IO[bytes], kind: int) -> bool:
    """Return True if the lock was acquired; closing ``file`` releases it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_record(file: IO[bytes]) -> RunningCluster:
    content = file.read()
    try:
        return msgspec.json.decode(content, type=RunningCluster)
    except msgspec.DecodeError:  # empty between locking and writing the record, or another program wrote it
        return RunningCluster(pid=0)


def _entries(server: str, authority: bytes, token: str) -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": CONTEXT, "user": {"token": token}}],
        "contexts": [
            {"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT, "namespace": "default"}}
        ],
        "current-context": CONTEXT,
    }


def _add_entries(kubeconfig: dict[str, Any], name: str, other: str) -> None:
    """Add the cluster, the user and the context of another local cluster under ``name``."""
    try:
        entries = yaml.safe_load(other)
        cluster, user = entries["clusters"][0]["cluster"], entries["users"][0]["user"]
    except (yaml.YAMLError, KeyError, IndexError, TypeError):  # changed by its user
        return
    kubeconfig["clusters"].append({"name": name, "cluster": cluster})
    kubeconfig["users"].append({"name": name, "user": user})
    context = {"cluster": name, "user": name, "namespace": "default"}
    kubeconfig["contexts"].append({"name": name, "context": context})
