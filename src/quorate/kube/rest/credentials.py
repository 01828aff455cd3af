"""Credentials for the Authorization header; client certificates are in the TLS context (see ``config``)."""

import base64
import ssl
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path


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

    Each request costs one ``stat``; the file is read when it has changed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._modified_ns = -1
        self._header = ""
        self.authorization()  # a missing file fails here, not at the first request

    def authorization(self) -> str:
        modified_ns = self._path.stat().st_mtime_ns
        if modified_ns != self._modified_ns:
            self._header = f"Bearer {self._path.read_text().strip()}"
            self._modified_ns = modified_ns
        return self._header

    async def refresh(self, refused: str) -> bool:
        return self.authorization() != refused

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"
