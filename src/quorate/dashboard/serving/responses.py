"""Responses of the dashboard's API: values as JSON, and refusals as ``Problem``."""

import asyncio
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from quorate.api import codec
from quorate.dashboard.schema import Answer, Problem
from quorate.kube.errors import ApiError, Unauthorized, Unreachable

T = TypeVar("T", bound=Answer)

JSON: Final = "application/json"
BODY_BYTES: Final = 64 * 1024
BODY_S: Final = 10.0


class Refused(Exception):
    """A request that is refused with a ``Problem``."""

    def __init__(self, status: HTTPStatus, reason: str, message: str) -> None:
        super().__init__(status, reason, message)
        self.status, self.reason, self.message = status, reason, message


def not_found(what: str) -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, "NotFound", f"{what} is not there, or you may not read it")


def bad_request(message: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def forbidden(message: str) -> Refused:
    return Refused(HTTPStatus.FORBIDDEN, "Forbidden", message)


def answer(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(codec.encode(value), status, media_type=JSON)


def problem(refused: Refused) -> Response:
    return answer(
        Problem(status=refused.status, reason=refused.reason, message=refused.message), refused.status
    )


def refusal_of(error: ApiError | Unreachable) -> Refused:
    """Return what the API server said to a request that was sent for the user."""
    match error:
        case Unauthorized():
            return Refused(
                HTTPStatus.UNAUTHORIZED, "Unauthorized", "log in again: the token is not valid any more"
            )
        case ApiError() if error.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
            return Refused(HTTPStatus(error.status_code), error.reason or "Refused", error.message)
        case _:
            return Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "the API server did not answer; try again in some seconds",
            )


async def read_body(request: Request, type_: type[T], limit: int = BODY_BYTES) -> T:
    """Return the body of a request, decoded.

    Raises ``Refused`` if it is not JSON, not of the type, larger than ``limit`` bytes or too slow.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != JSON:  # a form of another site cannot send this type
        raise Refused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", f"the body must be of type {JSON}"
        )
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise Refused(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        "RequestEntityTooLarge",
                        f"the body is too large: at most {limit} bytes are read",
                    )
    except TimeoutError as error:
        raise Refused(
            HTTPStatus.REQUEST_TIMEOUT, "Timeout", f"the body did not arrive within {BODY_S:g} s"
        ) from error
    except ClientDisconnect as error:
        raise bad_request("the body ended early") from error
    try:
        return codec.decode(type_, bytes(body))
    except msgspec.DecodeError as error:
        raise bad_request(f"the body cannot be read: {error}") from error
