"""Run etcd and kube-apiserver from the folder in ``KUBEBUILDER_ASSETS`` for one story.

Both are started as controller-runtime's envtest starts them: on free ports of loopback, authorization by
RBAC, the default admission plugins except ServiceAccount (pods of a story have no account).
No other component of Kubernetes runs, except ``kube-scheduler`` if it is wanted: jobs, replica sets, garbage,
namespaces and nodes are handled by the controllers of ``quorate local``, which use the server over HTTP.
"""

import asyncio
import os
import random
import secrets
import ssl
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
HOST: Final = "127.0.0.1"
FRONT_PROXY: Final = "front-proxy-client"
START_TIMEOUT_S: Final = 300.0  # five seconds on an idle machine
STOP_TIMEOUT_S: Final = 5.0  # a kube-apiserver waits up to a minute for abandoned requests
LOG_TAIL_CHARS: Final = 3000  # characters of a log


def unavailable_reason(*, with_scheduler: bool = False) -> str:
    """Return the reason why no real server is available; empty if one is."""
    if not os.environ.get(ASSETS):
        return f"{ASSETS} is not set (name a folder with {', '.join(PROGRAMS)}, as setup-envtest makes it)"
    folder = assets()
    wanted = (*PROGRAMS, SCHEDULER) if with_scheduler else PROGRAMS
    missing = [name for name in wanted if not os.access(folder / name, os.X_OK)]
    return f"{ASSETS}={folder}: no program {', '.join(missing)} there" if missing else ""


def assets() -> Path:
    return Path(os.environ[ASSETS])


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
    assert isinstance(cluster.credentials, Token), "the administrator has a token"

    async def is_up() -> bool:  # pods wait for it as long as necessary
        return True

    with tempfile.TemporaryDirectory(prefix="quorate-real-") as name:
        kubeconfig = kubeconfig_of(cluster.server, cluster.credentials.token)
        file = _written(Path(name) / "kubeconfig", codec.encode(kubeconfig))
        arguments = (f"--kubeconfig={file}", "--leader-elect=false", "--secure-port=0", *options)
        async with _running(folder / SCHEDULER, arguments, Path(name) / "kube-scheduler.log", is_up):
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
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            program, *arguments, stdin=DEVNULL, stdout=output, stderr=output
        )
    try:
        await _until_up(process, program, log, is_up)
        yield
    finally:
        await _stopped(process)


async def _until_up(process: Process, program: Path, log: Path, is_up: Callable[[], Awaitable[bool]]) -> None:
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            while not await is_up():
                if process.returncode is not None:
                    raise AssertionError(f"{program} ended with {process.returncode}: {_log_tail(log)}")
                await asyncio.sleep(0.05)
    except TimeoutError:
        what = f"{program} is not up within {START_TIMEOUT_S:g} s: {_log_tail(log)}"
        raise AssertionError(what) from None


def _log_tail(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL_CHARS:]


async def _stopped(process: Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
