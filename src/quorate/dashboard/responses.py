"""Responses of the dashboard's API: values as JSON, and refusals as ``Problem``."""

from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from quorate.api import codec
from quorate.dashboard.limits import BODY_BYTES
from quorate.dashboard.schema import Answer, Problem
from quorate.kube.errors import ApiError, RequestFailed, Unauthorized
from quorate.kube.serving.bounded_server import read_body as read_bounded_body

T = TypeVar("T", bound=Answer)

JSON: Final = "application/json"


class Refused(Exception):
    """A request that is refused with a ``Problem``."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(status, reason, message)
        self.status, self.reason, self.message = status, reason, message


def not_found(what: str) -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, "NotFound", f"{what} is not there, or you may not read it")


def bad_request(message: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def forbidden(message: str) -> Refused:
    return Refused(HTTPStatus.FORBIDDEN, "Forbidden", message)


def answer(value: Any, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(body=codec.encode(value), status=status, content_type=JSON)


def plain_text(text: str, status: HTTPStatus) -> web.Response:
    return web.Response(text=text, status=status)


def problem(refused: Refused) -> web.Response:
    return answer(
        Problem(status=refused.status, reason=refused.reason, message=refused.message), refused.status
    )


def refusal_of(error: RequestFailed) -> Refused:
    """Return what the API server said to a request that was sent for the user."""
    match error:
        case Unauthorized():
            return Refused(
                HTTPStatus.UNAUTHORIZED, "Unauthorized", "log in again: the token is not valid any more"
            )
        case ApiError() if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
            return Refused(error.status_code, error.reason or "Refused", error.message)
        case _:
            return Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "the API server did not answer; try again in some seconds",
            )


async def read_body(request: web.Request, type_: type[T], limit: int = BODY_BYTES) -> T:
    """Return the body of a request, decoded.

    Raises ``Refused`` if it is not JSON, not of the type, or larger than ``limit`` bytes.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != JSON:  # a form of another site cannot send this type
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", f"the body must be of type {JSON}"
        )
    try:
        body = await read_bounded_body(request, limit)
    except web.HTTPRequestEntityTooLarge as error:
        raise Refused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "RequestEntityTooLarge", (error.text or "").rstrip()
        ) from error
    try:
        return codec.decode(type_, body)
    except msgspec.DecodeError as error:
        raise bad_request(f"the body cannot be read: {error}") from error
