"""The built page: its files are read once, so a request can name no other file.

Files below ``assets`` have a digest of their content in their names and are cached for ever; the others are
revalidated.  Each path that is no file gets the page, which shows the view of the path.
"""

import gzip
import hashlib
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

from quorate.dashboard.responses import plain_text

INDEX: Final = "index.html"
IMMUTABLE: Final = "public, max-age=31536000, immutable"
_REVALIDATED: Final = "no-cache"
_COMPRESSED: Final = ("text/", "application/javascript", "application/json", "image/svg")
_TYPES: Final = {
    ".js": "text/javascript",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    compressed: bytes | None  # None: it would not be smaller
    content_type: str
    etag: str
    cache_control: str


class StaticFiles:
    def __init__(self) -> None:
        root = files("quorate.dashboard") / "static"
        self._files = dict(_read(root, ""))
        assert INDEX in self._files, f"{root} has no {INDEX}"

    async def serve(self, request: web.Request) -> web.Response:
        """Return the file of the path, or the page; a missing asset is not found."""
        path = request.path.lstrip("/")
        file = self._files.get(path)
        if file is None:
            if path.startswith("assets/"):
                return plain_text("not found\n", HTTPStatus.NOT_FOUND)
            file = self._files[INDEX]
        headers = {"ETag": file.etag, "Cache-Control": file.cache_control, "Vary": "Accept-Encoding"}
        if request.headers.get("if-none-match") == file.etag:
            return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
        content = file.content
        if file.compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            content, headers["Content-Encoding"] = file.compressed, "gzip"
        return web.Response(body=content, headers={**headers, "Content-Type": file.content_type})


def _read(directory: Traversable, prefix: str) -> Iterator[tuple[str, _File]]:
    """Yield the files below a directory by their paths, each of which begins with ``prefix``."""
    for entry in directory.iterdir():
        if entry.is_dir():
            yield from _read(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, _file(entry, prefix)


def _file(path: Traversable, prefix: str) -> _File:
    content = path.read_bytes()
    suffix = path.name[path.name.rfind(".") :]
    media_type = _TYPES.get(suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return _File(
        content,
        _compress(content) if media_type.startswith(_COMPRESSED) else None,
        f"{media_type}; charset=utf-8" if media_type.startswith("text/") else media_type,
        f'"{hashlib.sha256(content).hexdigest()[:32]}"',
        IMMUTABLE if prefix.startswith("assets/") else _REVALIDATED,
    )


@lru_cache(maxsize=256)  # several dashboards of a process have the same files
def _compress(content: bytes) -> bytes | None:
    compressed = gzip.compress(content, mtime=0)
    return compressed if len(compressed) < len(content) else None
