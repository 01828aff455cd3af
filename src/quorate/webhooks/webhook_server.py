"""The HTTP server of the webhooks.

A body that is not a review gets 400, one that is too large 413.  If a response needs the API server and that
does not answer, the status is 500, and the webhook's failurePolicy decides.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from aiohttp import web

from quorate.kube.errors import ApiError, Unreachable, Unreadable
from quorate.kube.log import logger
from quorate.webhooks.admission_review import (
    AdmissionWebhook,
    Handler,
    InvalidReview,
    encode_response,
    for_writes,
    read_review,
)
from quorate.webhooks.conversion_review import convert_review
from quorate.webhooks.routes import CONVERT_PATH, Route

MAX_REVIEW_BYTES: Final = 7 * 1024 * 1024  # two objects of the largest size that etcd stores, as in Kueue
MAX_CONVERSION_BYTES: Final = 512 * 1024 * 1024  # all objects that a client lists at once

HttpHandler = Callable[[web.Request], Awaitable[web.Response]]


def webhook_server(
    routes: Mapping[Route, AdmissionWebhook | None], handlers: Mapping[str, Handler] = MappingProxyType({})
) -> web.Application:
    """Return a server for ``routes``, and for ``handlers`` by path.

    All requests about a kind without a webhook are allowed: it is not queued here.  The handlers get requests
    of every operation.
    """
    app = web.Application(client_max_size=MAX_CONVERSION_BYTES)
    app.router.add_post(CONVERT_PATH, _convert)
    for route, webhook in routes.items():
        mutate, validate = (None, None) if webhook is None else (webhook.mutate, webhook.validate)
        app.router.add_post(route.path("mutate"), _review(for_writes(mutate)))
        app.router.add_post(route.path("validate"), _review(for_writes(validate)))
    for path, handler in handlers.items():
        app.router.add_post(path, _review(handler))
    return app


def _review(handler: Handler) -> HttpHandler:
    log = logger(__name__)

    async def handle(http: web.Request) -> web.Response:
        body = await _read_body(http)
        if body is None:
            return _problem(413, f"the body is too large: at most {MAX_REVIEW_BYTES} bytes are read")
        try:
            request = read_review(body).request
        except InvalidReview as error:
            return _problem(400, str(error))
        try:
            response = await handler(request)
        except (ApiError, Unreachable, Unreadable) as error:
            log.warning("review failed", kind=request.kind.kind, error=str(error))
            return _problem(500, str(error))
        if response.findings:
            log.info(
                "refused",
                kind=request.kind.kind,
                namespace=request.namespace,
                name=request.name,
                user=request.user_info.username,
                finding=str(response.findings[0]),
            )
        return _json(encode_response(request, response))

    return handle


async def _read_body(http: web.Request) -> bytes | None:
    """Read the whole body, so that the client gets a response; None if it is too large."""
    body = bytearray()
    too_large = False
    async for chunk in http.content.iter_any():
        too_large = too_large or len(body) + len(chunk) > MAX_REVIEW_BYTES
        if not too_large:
            body += chunk
    return None if too_large else bytes(body)


async def _convert(http: web.Request) -> web.Response:
    try:
        return _json(convert_review(await http.read()))
    except InvalidReview as error:
        return _problem(400, str(error))


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _problem(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")
