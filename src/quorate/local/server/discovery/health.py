"""The health endpoints /livez, /readyz and /healthz, with the texts of kube-apiserver."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

from multidict import MultiMapping

from quorate.local.server.requests.responses import ApiResponse

PATHS: Final = ("healthz", "livez", "readyz")
TEXT: Final = "text/plain; charset=utf-8"

Check = Callable[[], bool]


class HealthChecks:
    """The checks of a server by name: those of its life, and those without which it is not ready."""

    def __init__(self, living: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        self._checks = {"livez": living, "healthz": living, "readyz": {**living, **ready}}

    def names(self, path: str) -> tuple[str, ...]:
        return tuple(self._checks[path])

    def respond(self, path: str, query: MultiMapping[str]) -> ApiResponse:
        """Return the response of all checks; parameters are ``verbose`` and ``exclude``."""
        excluded = query.getall("exclude", [])
        lines, healthy = [], True
        for name, check in self._checks[path].items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif check():
                lines.append(f"[+]{name} ok")
            else:
                healthy = False
                lines.append(f"[-]{name} failed: reason withheld")
        if unknown := sorted({name for name in excluded if name not in self._checks[path]}):
            quoted = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        lines.append(f"{path} check {'passed' if healthy else 'failed'}")
        text = "ok" if healthy and "verbose" not in query else "".join(f"{line}\n" for line in lines)
        code = HTTPStatus.OK if healthy else HTTPStatus.INTERNAL_SERVER_ERROR
        return ApiResponse(code, text.encode(), TEXT)

    def respond_single(self, path: str, name: str) -> ApiResponse | None:
        """Return the response for a check by its name; None if no check has the name."""
        check = self._checks[path].get(name)
        if check is None:
            return None
        if check():
            return ApiResponse(HTTPStatus.OK, b"ok", TEXT)
        text = f"internal server error: {name} failed\n"
        return ApiResponse(HTTPStatus.INTERNAL_SERVER_ERROR, text.encode(), TEXT)
