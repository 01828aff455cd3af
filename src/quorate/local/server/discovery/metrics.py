"""Metrics at /metrics, with the names of kube-apiserver's metrics.

Only request counts and CPU time, so that a benchmark reads the same numbers from every API server.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from aiohttp import web

from quorate.local.server.request_info import RequestInfo
from quorate.local.server.requests.responses import ApiResponse

PATH: Final = "/metrics"
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_VERBS: Final[Mapping[str, str]] = {"create": "POST", "update": "PUT"}  # all other verbs: in capitals


class _Series(NamedTuple):
    """The labels of ``apiserver_request_total`` that are set here, in order."""

    code: str
    group: str
    resource: str
    subresource: str
    verb: str
    version: str


class RequestMetrics:
    """Counts of finished requests for the resources of this server; a watch counts when it ends."""

    def __init__(self) -> None:
        self._counts: Counter[_Series] = Counter()

    def record(self, request: web.BaseRequest, info: RequestInfo, status: int) -> None:
        verb = _VERBS.get(info.verb, info.verb.upper())
        if verb == "PATCH" and request.content_type.startswith("application/apply-patch"):
            verb = "APPLY"
        series = _Series(str(status), info.group, info.resource, info.subresource, verb, info.version)
        self._counts[series] += 1

    def to_response(self) -> ApiResponse:
        return ApiResponse(200, "".join(self._lines()).encode(), _TEXT)

    def _lines(self) -> Iterator[str]:
        yield "# HELP apiserver_request_total Requests answered.\n# TYPE apiserver_request_total counter\n"
        for series, record in sorted(self._counts.items()):
            labels = ",".join(f'{name}="{value}"' for name, value in series._asdict().items())
            yield f"apiserver_request_total{{{labels}}} {record}\n"
        yield "# HELP process_cpu_seconds_total Processor time of this process.\n"
        yield "# TYPE process_cpu_seconds_total counter\n"
        yield f"process_cpu_seconds_total {time.process_time():.2f}\n"
