"""Who we are to the API server: the Authorization header, however it is come by.

A client certificate is not here: it belongs to the TLS context (see ``config``).
"""

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class Credentials(Protocol):
    def authorization(self) -> str:
        """The value of the Authorization header now; empty for none."""
        ...

    async def renew(self, refused: str) -> bool:
        """The server refused the value ``refused``: whether there is another one to try."""
        ...


class Anonymous:
    """No header: a client certificate says who we are, or nothing does."""

    def authorization(self) -> str:
        return ""

    async def renew(self, refused: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token that never changes."""

    token: str = field(repr=False)

    def authorization(self) -> str:
        return f"Bearer {self.token}"

    async def renew(self, refused: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class BasicAuth:
    username: str
    password: str = field(repr=False)

    def authorization(self) -> str:
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()

    async def renew(self, refused: str) -> bool:
        return False


class TokenFile:
    """A bearer token in a file that someone else rewrites before it expires, as in a pod.

    The file is looked at (one ``stat``) for each request and read when it changed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._modified_ns = -1
        self._header = ""
        self.authorization()  # a missing file is an error now, not at the first request

    def authorization(self) -> str:
        modified_ns = self._path.stat().st_mtime_ns
        if modified_ns != self._modified_ns:
            self._header = f"Bearer {self._path.read_text().strip()}"
            self._modified_ns = modified_ns
        return self._header

    async def renew(self, refused: str) -> bool:
        return self.authorization() != refused

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"
