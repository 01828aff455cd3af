"""Credentials for the Authorization header; client certificates are in the TLS context (see ``config``)."""

import asyncio
import base64
import os
import ssl
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from quorate.api.meta import epoch
from quorate.kube.clock import WallClock
from quorate.kube.limits import UNATTENDED_S
from quorate.kube.log import logger
from quorate.kube.rest.kubeconfig import Certificate, InvalidKubeconfig, KubeconfigContext

VERSIONS: Final = tuple(f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
EXTENSION: Final = "client.authentication.k8s.io/exec"  # of a cluster: ``config`` of its plugins


class Credentials(ABC):
    tls: ssl.SSLContext | None = None  # with the newest client certificate; None: the configuration has it

    @abstractmethod
    def authorization(self) -> str:
        """Return the current value of the Authorization header; empty for none."""

    async def renew(self) -> None:  # noqa: B027  most credentials do not expire by themselves
        """Replace expired credentials before they are used."""

    async def refresh(self, refused: str) -> bool:
        """Refresh after the server refused the value ``refused``; return whether the value has changed."""
        return False


class Anonymous(Credentials):
    """No header: authentication by client certificate, or none."""

    def authorization(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Token(Credentials):
    """A static bearer token."""

    token: str = field(repr=False)

    def authorization(self) -> str:
        return f"Bearer {self.token}"


@dataclass(frozen=True, slots=True)
class BasicAuth(Credentials):
    username: str
    password: str = field(repr=False)

    def authorization(self) -> str:
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


class TokenFile(Credentials):
    """A bearer token in a file that is rewritten before the token expires, as kubelet does in a pod.

    Each request costs one ``stat``; the file is read when it has changed.  The last token is used as long as
    the file is empty or absent.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._modified_ns = -1
        self._header = ""
        self.authorization()  # a missing file fails here, not at the first request

    def authorization(self) -> str:
        try:
            modified_ns = self._path.stat().st_mtime_ns
            if modified_ns != self._modified_ns and (token := self._path.read_text().strip()):
                self._header, self._modified_ns = f"Bearer {token}", modified_ns
        except (OSError, UnicodeDecodeError):
            if not self._header:
                raise
        return self._header

    async def refresh(self, refused: str) -> bool:
        return self.authorization() != refused

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"


class CertificateFiles(Credentials):
    """``credentials``, and the TLS context of certificates in files that are rewritten before they expire.

    Each request costs one ``stat`` of each file; ``new_tls`` makes the context again when one has changed, as
    client-go does every 5 minutes.  The last context is used as long as ``new_tls`` raises: of a certificate
    and its key, one may not be written yet.
    """

    def __init__(
        self, credentials: Credentials, files: Sequence[Path], new_tls: Callable[[], ssl.SSLContext]
    ) -> None:
        self._credentials, self._files, self._new_tls = credentials, files, new_tls
        self._tried = self._modified()
        self.tls = new_tls()

    def authorization(self) -> str:
        return self._credentials.authorization()

    async def refresh(self, refused: str) -> bool:
        return await self._credentials.refresh(refused)

    async def renew(self) -> None:
        await self._credentials.renew()
        modified = self._modified()
        if modified == self._tried:
            return
        self._tried = modified
        try:
            self.tls = self._new_tls()
        except (InvalidKubeconfig, OSError) as error:
            logger(__name__).warning("certificates not read again", problem=str(error))

    def _modified(self) -> tuple[int, ...]:
        """Return the times in nanoseconds at which the files were written, 0 for an absent file."""
        return tuple(file.stat().st_mtime_ns if file.exists() else 0 for file in self._files)

    def __repr__(self) -> str:
        return f"CertificateFiles({self._credentials!r})"


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    kind: str = ""
    api_version: str = ""
    status: _Status | None = None


class PluginCredentials(Credentials):
    """What an exec plugin printed: a bearer token, a client certificate, or both.

    The program runs again at the first request after the expiration, and when the server refuses the token.
    ``new_tls`` makes the TLS context of a certificate.
    """

    def __init__(
        self, context: KubeconfigContext, new_tls: Callable[[Certificate | None], ssl.SSLContext | None]
    ) -> None:
        assert context.user.exec is not None
        self._context, self._new_tls, self._exec = context, new_tls, context.user.exec
        self._status = _Status()
        self._running = asyncio.Lock()

    def authorization(self) -> str:
        return f"Bearer {self._status.token}" if self._status.token else ""

    async def renew(self) -> None:
        expiration = self._status.expiration_timestamp
        if expiration is not None and WallClock().now() > epoch(expiration):
            await self._run_again(self._status)

    async def refresh(self, refused: str) -> bool:
        return self.authorization() != refused or await self._run_again(self._status)

    async def _run_again(self, old: _Status) -> bool:
        """Replace ``old`` and return True, or return False if the program fails."""
        async with self._running:  # many requests may be refused at once; one run serves all
            if self._status is old:
                try:
                    await self.run()
                except InvalidKubeconfig as error:
                    # It worked at the start, so the failure is probably temporary: the request fails with the
                    # refusal, and its caller retries.
                    logger(__name__).warning("credentials not refreshed", problem=str(error))
                    return False
            return True

    async def run(self) -> None:
        """Run the program and use its credentials; raises ``InvalidKubeconfig``."""
        interactive = self._is_interactive()
        status = self._read(await self._output(interactive, self._request(interactive)))
        data = (status.client_certificate_data, status.client_key_data)
        if not (status.token or all(data)) or any(data) != all(data):
            raise self._invalid("the plugin printed neither a token nor a certificate with its key")
        if all(data) and data != (self._status.client_certificate_data, self._status.client_key_data):
            self.tls = self._new_tls(Certificate(data[0].encode(), data[1].encode()))
        self._status = status

    def _is_interactive(self) -> bool:
        plugin, is_terminal = self._exec, sys.stdin is not None and sys.stdin.isatty()
        if not plugin.command or plugin.api_version not in VERSIONS:
            raise self._invalid(f"needs a command and an apiVersion ({' or '.join(VERSIONS)})")
        mode = plugin.interactive_mode or ("" if plugin.api_version == VERSIONS[0] else "IfAvailable")
        if mode not in ("Never", "IfAvailable", "Always"):
            raise self._invalid("needs an interactiveMode: Never, IfAvailable or Always")
        if mode == "Always" and not is_terminal:
            raise self._invalid("interactiveMode is Always, but standard input is not a terminal")
        return mode != "Never" and is_terminal

    def _request(self, interactive: bool) -> str:
        """Return the ExecCredential that the program receives, with the cluster if it asks for it."""
        spec: dict[str, Any] = {"interactive": interactive}
        if self._exec.provide_cluster_info:
            spec["cluster"] = self._context.cluster_info(EXTENSION)
        document = {"kind": "ExecCredential", "apiVersion": self._exec.api_version, "spec": spec}
        return msgspec.json.encode(document).decode()

    async def _output(self, interactive: bool, request: str) -> bytes:
        plugin, command = self._exec, self._exec.command
        if os.sep in command:
            command = str(self._context.path.parent.absolute() / command)
        variables = {variable.name: variable.value for variable in plugin.env or ()}
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *(plugin.args or ()),
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, **variables, "KUBERNETES_EXEC_INFO": request},
            )
        except (OSError, ValueError) as error:
            raise self._invalid(f"{command}: {error}\n{plugin.install_hint}".rstrip()) from error
        try:
            async with asyncio.timeout(None if interactive else UNATTENDED_S):
                output, _ = await process.communicate()
        except TimeoutError as error:
            raise self._invalid(f"{command} did not end within {UNATTENDED_S:.0f} seconds") from error
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            raise self._invalid(f"{command} failed with exit code {process.returncode}")
        return output

    def _read(self, output: bytes) -> _Status:
        try:
            credential = msgspec.json.decode(output, type=_ExecCredential)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._invalid(f"the plugin printed no ExecCredential: {error}") from error
        wanted = ("ExecCredential", self._exec.api_version)
        if (credential.kind, credential.api_version) != wanted or credential.status is None:
            raise self._invalid(f"the plugin printed no {wanted[0]} of {wanted[1]} with a status")
        return credential.status

    def _invalid(self, problem: str) -> InvalidKubeconfig:
        return InvalidKubeconfig(f"{self._context.path}: exec of the user", problem)

    def __repr__(self) -> str:
        return f"PluginCredentials({self._exec.command!r})"
