"""The HTTP server of the webhooks.

A body that is not a review gets 400, one of too many bytes or values 413.  If a response needs the API server
and that does not answer, the status is 500, and the webhook's failurePolicy decides.

Decoding holds the interpreter lock, so a thread would not help the event loop: large bodies are therefore
processed one at a time, with pauses in which the loop does its other work.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final

import msgspec
from aiohttp import web

from quorate.api import codec
from quorate.api.kueue.conversion import TooLarge, UnknownVersion, convert_in_place
from quorate.api.limits import LARGE_BYTES
from quorate.api.meta import Struct
from quorate.kube.errors import RequestFailed
from quorate.kube.limits import MAX_VALUES
from quorate.kube.log import logger
from quorate.kube.serving.bounded_server import read_body
from quorate.kube.serving.json_values import exceeds_values
from quorate.webhooks.admission_review import (
    AdmissionWebhook,
    Handler,
    InvalidReview,
    encode_response,
    for_writes,
    read_review,
)
from quorate.webhooks.limits import MAX_CONVERSION_BYTES, MAX_REVIEW_BYTES, MAX_REVIEW_VALUES, PAUSE_RATIO
from quorate.webhooks.routes import CONVERT_PATH, Route

API_VERSION: Final = "apiextensions.k8s.io/v1"


class ConversionRequest(Struct):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: list[dict[str, Any]] = msgspec.field(default_factory=list)


class ConversionReview(Struct):
    api_version: str
    kind: str
    request: ConversionRequest


# Numbers with a fraction keep their text, at a tenth of the cost of the codec's numbers.
_REVIEWS: Final = msgspec.json.Decoder(ConversionReview, float_hook=msgspec.Raw)


def read_conversion(body: bytes) -> ConversionRequest:
    """Decode a ConversionReview.  Raises ``InvalidReview``."""
    try:
        review = _REVIEWS.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidReview(f"the body is not a ConversionReview: {error}") from error
    if (review.api_version, review.kind) != (API_VERSION, "ConversionReview"):
        kind = f"{review.kind} of {review.api_version}"
        raise InvalidReview(f"the body is {kind}, must be ConversionReview of {API_VERSION}")
    return review.request


def convert_objects(request: ConversionRequest) -> bytes:
    """Return the ConversionReview with the response: all objects are converted, or none.

    Changes the objects of the request.
    """
    response: dict[str, Any] = {"uid": request.uid, "result": {"status": "Success"}}
    try:
        for document in request.objects:
            convert_in_place(document, request.desired_api_version)
        response["convertedObjects"] = request.objects
    except (TooLarge, UnknownVersion) as error:
        response["result"] = {"status": "Failure", "message": str(error)}
    except (
        AttributeError,
        LookupError,
        OverflowError,
        TypeError,
        ValueError,
    ) as error:  # conversion does not validate
        problem = f"an object does not have the structure of its kind: {error!r}"
        response["result"] = {"status": "Failure", "message": problem}
    return codec.encode({"apiVersion": API_VERSION, "kind": "ConversionReview", "response": response})


HttpHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def webhook_server(
    routes: Mapping[Route, AdmissionWebhook | None],
    handlers: Mapping[str, Handler] = MappingProxyType({}),
    *,
    verify_clients: bool = False,
) -> web.Application:
    """Return a server for ``routes``, and for ``handlers`` by path.

    All requests about a kind without a webhook are allowed: it is not queued here.  The handlers get requests
    of every operation.  ``verify_clients``: admission reviews are refused on connections without a client
    certificate, which TLS has verified.  Conversions are not: an API server has no certificate for them.
    """
    app = web.Application()
    if verify_clients:
        app.middlewares.append(_refuse_without_certificate)
    turns = LoopShare()
    app.router.add_post(CONVERT_PATH, _conversion(turns))
    for route, webhook in routes.items():
        mutate, validate = (None, None) if webhook is None else (webhook.mutate, webhook.validate)
        app.router.add_post(route.path("mutate"), _review(for_writes(mutate), turns))
        app.router.add_post(route.path("validate"), _review(for_writes(validate), turns))
    for path, handler in handlers.items():
        app.router.add_post(path, _review(handler, turns))
    return app


class LoopShare:
    """Lets large bodies be processed one at a time, with a pause of ``PAUSE_RATIO`` times the duration."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._free_at = 0.0  # loop time

    @asynccontextmanager
    async def turn(self, size_bytes: int) -> AsyncIterator[None]:
        if size_bytes <= LARGE_BYTES:
            yield
            return
        clock = asyncio.get_running_loop().time
        async with self._lock:
            await asyncio.sleep(self._free_at - clock())
            began = clock()
            try:
                yield
            finally:
                ended = clock()
                self._free_at = ended + PAUSE_RATIO * (ended - began)


@web.middleware
async def _refuse_without_certificate(request: web.Request, handler: HttpHandler) -> web.StreamResponse:
    if request.path != CONVERT_PATH and not request.get_extra_info("peercert"):
        return _problem(403, "a client certificate is required (see webhook.clientCAFile)")
    return await handler(request)


def _review(handler: Handler, turns: LoopShare) -> HttpHandler:
    log = logger(__name__)

    async def handle(http: web.Request) -> web.Response:
        body = await read_body(http, MAX_REVIEW_BYTES)
        if await _too_many_values(body, MAX_REVIEW_VALUES):
            return _problem(413, _TOO_MANY_VALUES.format(len(body), MAX_REVIEW_VALUES))
        async with turns.turn(len(body)):
            return await respond(body)

    async def respond(body: bytes) -> web.Response:
        try:
            request = read_review(body).request
        except InvalidReview as error:
            return _problem(400, str(error))
        for document in (request.object, request.old_object):
            if await _too_many_values(bytes(document), MAX_VALUES):
                return _problem(413, _TOO_MANY_VALUES.format(len(document), MAX_VALUES))
        try:
            response = await handler(request)
        except RequestFailed as error:
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


def _conversion(turns: LoopShare) -> HttpHandler:
    async def handle(http: web.Request) -> web.Response:
        body = await read_body(http, MAX_CONVERSION_BYTES)
        if await _too_many_values(body, MAX_VALUES):
            return _problem(413, _TOO_MANY_VALUES.format(len(body), MAX_VALUES))
        async with turns.turn(len(body)):
            try:
                request = read_conversion(body)
            except InvalidReview as error:
                return _problem(400, str(error))
            await asyncio.sleep(0)  # between two calls that hold the event loop
            return _json(convert_objects(request))

    return handle


_TOO_MANY_VALUES: Final = "the body of {} bytes has more than {} values, which are not decoded"


async def _too_many_values(body: bytes, most: int) -> bool:
    return len(body) > most and await asyncio.to_thread(exceeds_values, body, most)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _problem(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=f"{text}\n")
