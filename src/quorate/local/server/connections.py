"""Limits on connections: their number, and the time for sending a request."""

import asyncio
import logging
import resource
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from quorate.kube.serving.json_values import MAX_VALUES, exceeds_values
from quorate.local.server.errors import JSON_PARSE_LIMIT, request_timeout, too_many_values

log = logging.getLogger(__name__)

HEADER_TIMEOUT_S: Final = 90.0
"""Until the headers of a request are complete, and of an idle connection: kube-apiserver's idle timeout."""
BODY_TIMEOUT_S: Final = 60.0
"""Until the body of a request is complete: kube-apiserver's request timeout."""
MAX_LINE_BYTES: Final = 64 * 1024
"""The largest request line and header: selectors with many values are part of the URL."""
RESERVED_FILES: Final = 64
"""Open files that are not connections of clients: database, log, connections to webhooks."""


class BoundedServer(web.Server):
    """An HTTP server that closes connections beyond a number, and those without a request in time."""

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
        )
        self._max_connections = max_connections

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self._connections) > self._max_connections:
            log.warning("connection refused", extra={"max_connections": self._max_connections})
            transport.abort()


def _make_request(*parts: Any) -> web.BaseRequest:
    message, payload, protocol, writer, task = parts
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=JSON_PARSE_LIMIT)


MAX_FILES: Final = 10_240  # the most that macOS allows


def raise_file_limit() -> int:
    """Raise the limit on open files as far as allowed; return the number of connections that it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted - RESERVED_FILES


async def read_body(request: web.BaseRequest, timeout_s: float = BODY_TIMEOUT_S) -> bytes:
    """Return the body of a request.

    Raises StatusError: 504 if it does not arrive in time, 413 if decoding would stop the event loop for long.
    Raises HTTPRequestEntityTooLarge if it has too many bytes.
    """
    try:
        async with asyncio.timeout(timeout_s):
            body = await request.read()
    except TimeoutError as error:
        raise request_timeout() from error
    if len(body) > MAX_VALUES and await asyncio.to_thread(exceeds_values, body):
        raise too_many_values(MAX_VALUES)
    return body
