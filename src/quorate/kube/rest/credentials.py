"""Credentials for the Authorization header; client certificates are in the TLS context (see ``config``)."""

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class Credentials(Protocol):
    def authorization(self) -> str:
        """Return the current value of the Authorization header; empty for none."""
        ...

    async def refresh(self, refused: str) -> bool:
        """Refresh after the server refused the value ``refused``; return whether the value has changed."""
        ...


class Anonymous:
    """No header: authentication by client certificate, or none."""

    def authorization(self) -> str:
        return ""

    async def refresh(self, refused: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Token:
    """A static bearer token."""

    token: str = field(repr=False)

    def authorization(self) -> str:
        return f"Bearer {self.token}"

    async def refresh(self, refused: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class BasicAuth:
    username: str
    password: str = field(repr=False)

    def authorization(self) -> str:
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()

    async def refresh(self, refused: str) -> bool:
        return False


class TokenFile:
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
