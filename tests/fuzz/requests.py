"""Requests about one object, or about a few that belong together."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import yaml

Json = dict[str, Any]

MERGE: Final = "application/merge-patch+json"
JSON: Final = "application/json"


@dataclass(frozen=True)
class Request:
    """``target``: "api", or "webhook" for the port of the webhooks."""

    method: str
    path: str
    body: bytes = b""
    content_type: str = JSON
    target: str = "api"
    may_be_missing: bool = False
    accept: str = JSON


@dataclass(frozen=True)
class Attack:
    seed: int
    number: int
    title: str
    requests: tuple[Request, ...]

    @property
    def objects(self) -> int:
        """Return the number of objects that the attack sends."""
        return max(1, sum(request.method == "POST" for request in self.requests))

    @property
    def created(self) -> Mapping[str, int]:
        """Return the paths of the objects to delete afterwards, with the bytes sent for each."""
        sizes: dict[str, int] = {}
        for request in self.requests:
            if request.target != "api" or request.method != "POST" or "?" in request.path:
                continue  # with a query it is a dry run
            name = _decoded(request.body).get("metadata", {}).get("name")
            if name and isinstance(name, str):  # without one, the path would be that of the collection
                path = f"{request.path}/{quote(name, safe='')}"
                sizes[path] = sizes.get(path, 0) + sum(len(each.body) for each in self.requests)
        return sizes

    def describe(self, limit: int = 4000) -> str:
        """Return the requests with their objects as YAML."""
        parts = []
        for request in self.requests[:6]:
            text = request.body.decode(errors="replace")
            body = _decoded(request.body)
            if body:
                text = yaml.safe_dump(body, sort_keys=False, allow_unicode=False, width=200)
            cut = f"{text[:limit]}… ({len(text)} characters)" if len(text) > limit else text
            parts.append(f"# {request.target}: {request.method} {request.path}\n{cut}")
        more = len(self.requests) - len(parts)
        return "\n".join([*parts, *([f"# and {more} more requests"] if more else [])])


def _decoded(body: bytes) -> Json:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
