"""Run etcd and kube-apiserver from the folder in ``KUBEBUILDER_ASSETS`` for one story.

Both are started as controller-runtime's envtest starts them: on free ports of loopback, authorization by
RBAC, the default admission plugins except ServiceAccount (pods of a story have no account).
No other component of Kubernetes runs, except ``kube-scheduler`` and ``kube-controller-manager`` if they are
wanted: jobs, replica sets, garbage, namespaces and nodes are handled by the controllers of ``quorate local``,
which use the server over HTTP.
"""

import asyncio
import os
import random
import secrets
import ssl
import subprocess
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from quorate.api import codec
from quorate.api.native_groups import BETA, GROUP, VERSION
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import ApiError, Unreachable
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.kube.serving.certificates import new_authority, new_client_certificate, new_server_certificate
from quorate.local.certificates import new_signing_key
from tests.observe.listening import free_port

ASSETS: Final = "KUBEBUILDER_ASSETS"
PROGRAMS: Final = ("etcd", "kube-apiserver")
SCHEDULER: Final = "kube-scheduler"
CONTROLLERS: Final = "kube-controller-manager"
HOST: Final = "127.0.0.1"
FRONT_PROXY: Final = "front-proxy-client"
START_TIMEOUT_S: Final = 300.0  # five seconds on an idle machine
STOP_TIMEOUT_S: Final = 5.0  # a kube-apiserver waits up to a minute for abandoned requests
FIRST_WITH_GROUPS: Final = 36  # minor version of Kubernetes
LOG_TAIL_CHARS: Final = 3000  # characters of a log


def unavailable_reason(wanted: Sequence[str] = PROGRAMS) -> str:
    """Return the reason why no real server is available; empty if one is."""
    if not os.environ.get(ASSETS):
        return f"{ASSETS} is not set (name a folder with {', '.join(PROGRAMS)}, as setup-envtest makes it)"
    folder = assets()
    missing = [name for name in wanted if not os.access(folder / name, os.X_OK)]
    return f"{ASSETS}={folder}: no program {', '.join(missing)} there" if missing else ""


def assets() -> Path:
    return Path(os.environ[ASSETS])


def minor_version(folder: Path) -> int:
    """Return 36 for a kube-apiserver of Kubernetes 1.36."""
    told = subprocess.run(
        [folder / "kube-apiserver", "--version"], capture_output=True, text=True, check=True
    )
    return int(told.stdout.split(".")[1])


def native_gates(minor: int) -> str:
    """Return the flag of all processes that turns the pod groups of Kubernetes on."""
    gates = [
        "GenericWorkload",
        "TopologyAwareWorkloadScheduling",
        "WorkloadWithJob",
        "DRAWorkloadResourceClaims",
    ]
    if minor == FIRST_WITH_GROUPS:
        gates.append("GangScheduling")  # part of GenericWorkload since
    return "--feature-gates=" + ",".join(f"{gate}=true" for gate in gates)


def native_options(minor: int) -> tuple[str, ...]:
    """Return the flags of kube-apiserver that serve pod groups; none before Kubernetes 1.36."""
    if minor < FIRST_WITH_GROUPS:
        return ()
    version = VERSION if minor == FIRST_WITH_GROUPS else BETA
    return native_gates(minor), f"--runtime-config={GROUP}/{version}=true"


async def kill_and_restart(name: str) -> None:
    """Kill a process of the control plane, such as ``kube-scheduler``, and start it again."""
    await _RUNNING[name].kill()
    await _RUNNING[name].start()


@asynccontextmanager
async def control_plane(folder: Path, *options: str) -> AsyncIterator[RestConfig]:
    """Run a server with an empty store; yield the administrator's configuration.

    ``options``: further flags of kube-apiserver.
    """
    with tempfile.TemporaryDirectory(prefix="quorate-real-") as name:
        directory = Path(name)
        async with (
            _etcd(folder, directory) as etcd,
            _kube_apiserver(folder, directory, etcd, options) as cluster,
        ):
            yield cluster


@asynccontextmanager
async def _etcd(folder: Path, directory: Path) -> AsyncIterator[str]:
    url = f"http://{HOST}:{free_port()}"
    arguments = (
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://{HOST}:{free_port()}",
        "--unsafe-no-fsync=true",
    )

    async def is_healthy() -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async with _running(folder / "etcd", arguments, directory / "etcd.log", is_healthy):
        yield url


@asynccontextmanager
async def _kube_apiserver(
    folder: Path, directory: Path, etcd: str, options: Sequence[str]
) -> AsyncIterator[RestConfig]:
    port, token = free_port(), secrets.token_urlsafe()
    files = _Files(directory, token)
    arguments = (
        f"--etcd-servers={etcd}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        "--endpoint-reconciler-type=none",  # else 1.37 refuses an address of loopback
        f"--secure-port={port}",
        f"--cert-dir={directory}",
        f"--tls-cert-file={files.certificate}",
        f"--tls-private-key-file={files.key}",
        f"--token-auth-file={files.tokens}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--service-account-issuer=https://{HOST}:{port}/",
        f"--service-account-key-file={files.account_public_key}",
        f"--service-account-signing-key-file={files.account_signing_key}",
        # The front proxy of aggregated APIs.
        f"--requestheader-client-ca-file={files.front_proxy_authority}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={files.front_proxy_certificate}",
        f"--proxy-client-key-file={files.front_proxy_key}",
        *options,
    )
    tls = ssl.create_default_context(cadata=files.authority.decode())
    cluster = RestConfig(f"https://{HOST}:{port}", tls, Token(token))

    async def is_ready() -> bool:
        async with Client(cluster, random.Random(1), deadline_s=2.0) as client:
            try:
                await client.request("GET", "/readyz")
            except (ApiError, Unreachable):
                return False
        return True

    async with _running(folder / "kube-apiserver", arguments, directory / "kube-apiserver.log", is_ready):
        yield cluster


@asynccontextmanager
async def kube_scheduler(folder: Path, cluster: RestConfig, *options: str) -> AsyncIterator[None]:
    """Run the scheduler of Kubernetes for a cluster of ``control_plane``; ``options``: further flags."""
    async with _component(folder / SCHEDULER, cluster, *options):
        yield


@asynccontextmanager
async def kube_controller_manager(folder: Path, cluster: RestConfig, *options: str) -> AsyncIterator[None]:
    """Run the controllers of Kubernetes for a cluster of ``control_plane``; ``options``: further flags."""
    async with _component(folder / CONTROLLERS, cluster, *options):
        yield


@asynccontextmanager
async def _component(program: Path, cluster: RestConfig, *options: str) -> AsyncIterator[None]:
    assert isinstance(cluster.credentials, Token), "the administrator has a token"

    async def is_up() -> bool:  # pods and jobs wait for it as long as necessary
        return True

    with tempfile.TemporaryDirectory(prefix="quorate-real-") as name:
        kubeconfig = kubeconfig_of(cluster.server, cluster.credentials.token)
        file = _written(Path(name) / "kubeconfig", codec.encode(kubeconfig))
        arguments = (f"--kubeconfig={file}", "--leader-elect=false", "--secure-port=0", *options)
        async with _running(program, arguments, Path(name) / f"{program.name}.log", is_up):
            yield


def kubeconfig_of(server: str, token: str) -> dict[str, Any]:
    """Return a kubeconfig for a server on loopback, the certificate of which is not verified."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        "clusters": [{"name": "real", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "admin", "user": {"token": token}}],
    }


class _Files:
    """The files that a kube-apiserver reads when it starts."""

    def __init__(self, directory: Path, token: str) -> None:
        now = WallClock().now()
        authority = new_authority("quorate-real-ca", now)
        server = new_server_certificate(authority, "kube-apiserver", ("localhost", HOST), now)
        signing = new_signing_key()
        # A private key would do for both flags, but not in the elliptic curve format of new_signing_key.
        verifying = load_pem_private_key(signing, password=None).public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )  # fmt: skip
        self.authority = authority.certificate
        self.certificate = _written(directory / "apiserver.crt", server.certificate)
        self.key = _written(directory / "apiserver.key", server.key)
        self.account_signing_key = _written(directory / "sa-signer.key", signing)
        self.account_public_key = _written(directory / "sa-signer.pub", verifying)
        front_proxy = new_authority("quorate-real-front-proxy-ca", now)
        proxy_client = new_client_certificate(front_proxy, FRONT_PROXY, now)
        self.front_proxy_authority = _written(directory / "front-proxy-ca.crt", front_proxy.certificate)
        self.front_proxy_certificate = _written(directory / "front-proxy.crt", proxy_client.certificate)
        self.front_proxy_key = _written(directory / "front-proxy.key", proxy_client.key)
        self.tokens = _written(directory / "tokens.csv", f'{token},admin,admin,"system:masters"\n'.encode())


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    path.chmod(0o600)
    return path


@asynccontextmanager
async def _running(
    program: Path, arguments: Sequence[str], log: Path, is_up: Callable[[], Awaitable[bool]]
) -> AsyncIterator[None]:
    """Run the process for the duration of the block, which begins when it is up."""
    started = _RUNNING[program.name] = _Program(program, arguments, log, is_up)
    try:
        await started.start()
        yield
    finally:
        await started.stop()
        _RUNNING.pop(program.name, None)


class _Program:
    """One process, which may be started several times."""

    def __init__(
        self, path: Path, arguments: Sequence[str], log: Path, is_up: Callable[[], Awaitable[bool]]
    ) -> None:
        self._path, self._arguments, self._log, self._is_up = path, arguments, log, is_up
        self._process: Process | None = None

    async def start(self) -> None:
        """Start the process and wait until it is up."""
        with self._log.open("ab") as output:
            process = self._process = await asyncio.create_subprocess_exec(
                self._path, *self._arguments, stdin=DEVNULL, stdout=output, stderr=output
            )
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                while not await self._is_up():
                    if process.returncode is not None:
                        what = f"ended with {process.returncode}"
                        raise AssertionError(f"{self._path} {what}: {_log_tail(self._log)}")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            what = f"{self._path} is not up within {START_TIMEOUT_S:g} s: {_log_tail(self._log)}"
            raise AssertionError(what) from None

    async def kill(self) -> None:
        """Give the process no time for anything."""
        assert self._process is not None, "it was started"
        self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
            except TimeoutError:
                await self.kill()


def _log_tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL_CHARS:]


_RUNNING: Final[dict[str, _Program]] = {}  # by name; the latest of several servers
