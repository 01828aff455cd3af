"""The HTTP end of webhooks: bodies in, answers out, nothing that comes in can end the process.

What is no review is answered 400, what is too large 413.  When an answer needs the API server and that does
not answer, 500 is said: the webhook's failurePolicy then decides.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final

from aiohttp import web

from quorate.kube.errors import ApiError, Unreachable, Unreadable
from quorate.kube.log import logger
from quorate.webhooks.admission_review import (
    Handler,
    InvalidReview,
    encode_response,
    for_writes,
    read_review,
)
from quorate.webhooks.conversion_review import convert_review
from quorate.webhooks.queueing_webhooks import AdmissionWebhook
from quorate.webhooks.routes import CONVERT_PATH, Route

LARGEST_REVIEW_BYTES: Final = 7 * 1024 * 1024  # an object of etcd's size before and after, as Kueue allows
LARGEST_CONVERSION_BYTES: Final = 512 * 1024 * 1024  # whatever a client lists at once

HttpHandler = Callable[[web.Request], Awaitable[web.Response]]


def webhook_server(
    routes: Mapping[Route, AdmissionWebhook | None], answers: Mapping[str, Handler] = MappingProxyType({})
) -> web.Application:
    """All of ``routes``; a kind without a reviewer is not queued here, and let be.

    And all of ``answers``, by path, which are asked whatever the operation is.
    """
    app = web.Application(client_max_size=LARGEST_CONVERSION_BYTES)
    app.router.add_post(CONVERT_PATH, _convert)
    for route, webhook in routes.items():
        mutate, validate = (None, None) if webhook is None else (webhook.mutate, webhook.validate)
        app.router.add_post(route.path("mutate"), _review(for_writes(mutate)))
        app.router.add_post(route.path("validate"), _review(for_writes(validate)))
    for path, answer in answers.items():
        app.router.add_post(path, _review(answer))
    return app


def _review(answer: Handler) -> HttpHandler:
    log = logger(__name__)

    async def handle(http: web.Request) -> web.Response:
        body = await _body(http)
        if body is None:
            return _problem(413, f"the body is too large: at most {LARGEST_REVIEW_BYTES} bytes are read")
        try:
            request = read_review(body).request
        except InvalidReview as error:
            return _problem(400, str(error))
        try:
            given = await answer(request)
        except (ApiError, Unreachable, Unreadable) as error:
            log.warning("review not answered", kind=request.kind.kind, problem=str(error))
            return _problem(500, str(error))
        if given.findings:
            log.info(
                "refused",
                kind=request.kind.kind,
                namespace=request.namespace,
                name=request.name,
                user=request.user_info.username,
                finding=str(given.findings[0]),
            )
        return _json(encode_response(request, given))

    return handle


async def _body(http: web.Request) -> bytes | None:
    """None when it is too large; it is taken off the wire all the same, so that the answer is heard."""
    body = bytearray()
    too_large = False
    async for chunk in http.content.iter_any():
        too_large = too_large or len(body) + len(chunk) > LARGEST_REVIEW_BYTES
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
