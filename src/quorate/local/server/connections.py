"""Limits on connections: their number, and the time for sending a request."""

import asyncio
import resource
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from quorate.kube.limits import MAX_VALUES, SERVER_LOG_INTERVAL_S
from quorate.kube.log import logger
from quorate.kube.serving.json_values import exceeds_values
from quorate.kube.serving.malformed_requests import http_logger
from quorate.local.objects.errors import JSON_PARSE_LIMIT, request_timeout, too_many_values

log = logger(__name__)

HEADER_TIMEOUT_S: Final = 90.0
"""Until the headers of a request are complete, and of an idle connection: kube-apiserver's idle timeout."""
BODY_TIMEOUT_S: Final = 60.0
"""Until the body of a request is complete: kube-apiserver's request timeout."""
MAX_LINE_BYTES: Final = 64 * 1024
"""The largest request line and header: selectors with many values are part of the URL."""
RESERVED_FILES: Final = 300
"""Open files besides connections: database, log, and the client ends of the controllers."""


class BoundedServer(web.Server):
    """An HTTP server that closes connections beyond a number, and those without a request in time.

    For a connection too many the oldest idle one is closed, so that idle clients cannot keep others out.
    """

    def __init__(
        self, handler: Any, max_connections: int, header_timeout_s: float = HEADER_TIMEOUT_S
    ) -> None:
        # With handler cancellation a watch ends as soon as its client disconnects, not at the next event.
        super().__init__(
            handler,
            request_factory=_make_request,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=header_timeout_s,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
            logger=http_logger(),
        )
        self._max_connections = max_connections
        self._closed = 0  # connections beyond the limit
        self._log_from = 0.0

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self._connections) <= self._max_connections:
            return
        idle = (other for other in self._connections if other is not handler and is_idle(other))
        closed = next(idle, handler)  # they are in the order of their beginning
        self._connections.pop(closed).abort()
        self._closed += 1
        now = asyncio.get_running_loop().time()
        if now >= self._log_from:
            self._log_from = now + SERVER_LOG_INTERVAL_S
            problem = "too many requests in progress" if closed is handler else "too many idle connections"
            log.warning("connections closed", problem=problem, most=self._max_connections, total=self._closed)


def is_idle(handler: RequestHandler) -> bool:
    """Return True if no request of the connection is being answered."""
    return handler._current_request is None


def _make_request(*parts: Any) -> web.BaseRequest:
    message, payload, protocol, writer, task = parts
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=JSON_PARSE_LIMIT)


MAX_FILES: Final = 10_240  # the most that macOS allows
MIN_FILES: Final = 640
"""Both ends of the connections of controllers are in one process: a cluster has about 400 files."""


class FileLimitTooLow(Exception):
    """The process may not open as many files as a cluster needs."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        remedy = f"ulimit -n {MIN_FILES} allows them"
        return f"a cluster needs {MIN_FILES} open files, and {self.limit} are allowed ({remedy})"


def raise_file_limit() -> int:
    """Raise the limit on open files as far as allowed; return the number of connections that it allows.

    Raises ``FileLimitTooLow``.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if soft != resource.RLIM_INFINITY and wanted < MIN_FILES:
        raise FileLimitTooLow(wanted)
    return wanted - RESERVED_FILES


async def read_body(request: web.BaseRequest, timeout_s: float = BODY_TIMEOUT_S) -> bytes:
    """Return the body of a request.

    Raises StatusError: 504 if it does not arrive in time, 413 if decoding would stop the event loop for long.
    Raises HTTPRequestEntityTooLarge if it has too many bytes.
    """
    content = request.content
    if (
        content.is_eof() and content.total_bytes <= JSON_PARSE_LIMIT
    ):  # a wait costs a tenth of a small request
        body = content.read_nowait()
    else:
        try:
            async with asyncio.timeout(timeout_s):
                body = await request.read()
        except TimeoutError as error:
            raise request_timeout() from error
    if len(body) > MAX_VALUES and await asyncio.to_thread(exceeds_values, body):
        raise too_many_values(MAX_VALUES)
    return body
