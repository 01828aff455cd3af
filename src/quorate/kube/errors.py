"""Errors of requests to an API server, as exceptions with attributes; all are ``RequestFailed``.

``ApiError`` and its subclasses: the server responded with a refusal.  ``Unreachable``: no complete response
arrived, so it is unknown whether the request had an effect.  ``Unreadable``: the response cannot be parsed.
"""

from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.meta import Struct


class StatusCause(Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Struct):
    """The body of a refusal, and the object of an ERROR frame of a watch."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class RequestFailed(Exception):
    """A request to an API server was refused, or got no response that can be used."""


class ApiError(RequestFailed):
    """The server refused a request.

    ``request`` is its method and path ("PATCH /api/v1/..."); ``retry_after_s`` is None without Retry-After.
    """

    def __init__(
        self,
        request: str,
        status_code: int,
        reason: str,
        message: str,
        details: StatusDetails | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(request, status_code, reason, message, details, retry_after_s)  # for pickle
        self.request, self.status_code, self.reason, self.message = request, status_code, reason, message
        self.details = details if details is not None else StatusDetails()
        self.retry_after_s = retry_after_s

    _advice = ""

    @property
    def advice(self) -> str:
        """Return what to do about it, or an empty string."""
        return self._advice

    @property
    def refusal(self) -> str:
        """Return the message of the server and the advice, without the request, for a user that knows it."""
        return f"{self.message} ({self.advice})" if self.advice else self.message

    def __str__(self) -> str:
        text = f"{self.request}: {self.status_code}"
        if self.reason:
            text += f" {self.reason}"
        if self.message:
            text += f": {self.message}"
        return f"{text} ({self.advice})" if self.advice else text


class Unauthorized(ApiError):
    _advice = "the server does not know these credentials: check --token, or the user of the context"


class Forbidden(ApiError):
    """The authorizer, an admission plugin or a webhook refused the request; ``message`` says which."""

    @property
    def advice(self) -> str:
        by_authorizer = 'User "' in self.message and " cannot " in self.message
        return "a Role or ClusterRole must allow this verb on this resource" if by_authorizer else ""


class NotFound(ApiError):
    pass


class AlreadyExists(ApiError):
    pass


class Conflict(ApiError):
    """The object has changed or was replaced since it was read: read it and decide again."""


class Gone(ApiError):
    """The requested resource version is no longer kept, or not reached by the store: list again."""


class Invalid(ApiError):
    """The object is invalid; ``details.causes`` has every invalid field."""


class RequestTooLarge(ApiError):
    """The request or the object is larger than the server or its storage accepts; nothing was stored."""


class TooManyRequests(ApiError):
    _advice = "the server is overloaded, or a disruption budget forbids it: try later"


class ServerError(ApiError):
    """A fault of the server or of a proxy; the request may have had an effect."""


class Unreachable(RequestFailed):
    """No complete response arrived: nothing listens, the connection broke, or the deadline passed.

    ``sent`` is False if the request certainly did not reach the server.
    """

    def __init__(self, request: str, server: str, problem: str, sent: bool = True) -> None:
        super().__init__(request, server, problem, sent)
        self.request, self.server, self.problem, self.sent = request, server, problem, sent

    def __str__(self) -> str:
        return f"{self.request}: no answer from {self.server}: {self.problem}"


class WriteNotPermitted(Unreachable):
    """The write was not sent, because this process may no longer be the leader."""

    def __init__(self, request: str, server: str, problem: str, sent: bool = False) -> None:
        super().__init__(request, server, problem, sent)

    def __str__(self) -> str:
        return f"{self.request}: not sent: {self.problem}"


class Unreadable(RequestFailed):
    """The response is not JSON, or has an unexpected structure."""

    def __init__(self, request: str, problem: str) -> None:
        super().__init__(request, problem)
        self.request, self.problem = request, problem

    def __str__(self) -> str:
        return f"{self.request}: the answer cannot be read: {self.problem}"


class AnswerTooLarge(Unreadable):
    """The response has more bytes than any that the API can have; the rest was not read."""

    def __init__(self, request: str, limit: int) -> None:
        Exception.__init__(self, request, limit)  # for pickle
        self.request, self.problem = request, f"more than {limit / 2**20:g} MiB"


# Failures that a later attempt may not meet, with the same request.
PASSING: Final = (ServerError, TooManyRequests, Unreachable, Unreadable)


def may_have_succeeded(failure: RequestFailed) -> bool:
    """Return True if the request may have taken effect, or may still do, despite the failure."""
    return failure.sent if isinstance(failure, Unreachable) else isinstance(failure, ServerError | Unreadable)


def is_refusal(error: ApiError) -> bool:
    """Return True if the server will answer the same until an object, a rule or a right has changed."""
    return isinstance(error, Forbidden | Invalid | RequestTooLarge) or type(error) is ApiError


# The messages, with code 500, if the storage of an API server refuses an object of such a size.
_TOO_LARGE_TO_STORE: Final = ("etcdserver: request is too large", "trying to send message larger than max")
_BY_REASON = {"AlreadyExists": AlreadyExists, "Expired": Gone}
_BY_CODE = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: RequestTooLarge,
    422: Invalid,
    429: TooManyRequests,
}


def error_from_status(request: str, status: Status, retry_after_s: float | None = None) -> ApiError:
    """Return the exception for a refusal; an unknown code below 500 is a plain ``ApiError``.

    A resource version that the store has not reached is ``Gone``, as a version that it no longer keeps: the
    store was restored from a backup.  A patch with a different uid is a ``Conflict`` although the API answers
    Invalid: the uid is meant as a precondition, and for other writes the API answers a failed uid
    precondition with Conflict.
    """
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code)
    if kind is None:
        kind = ServerError if status.code >= 500 else ApiError
    if kind is ServerError and any(text in status.message for text in _TOO_LARGE_TO_STORE):
        kind = RequestTooLarge
    details = status.details if status.details is not None else StatusDetails()
    if any(cause.reason == "ResourceVersionTooLarge" for cause in details.causes):
        kind = Gone
    if kind is Invalid and any(cause.field == "metadata.uid" for cause in details.causes):
        kind = Conflict
    if retry_after_s is None and details.retry_after_seconds:
        retry_after_s = float(details.retry_after_seconds)
    return kind(request, status.code, status.reason, status.message, status.details, retry_after_s)


def error_from_answer(request: str, status_code: int, body: bytes, retry_after_s: float | None) -> ApiError:
    """Return the exception for a response of 400 and above; the body of a proxy may not be a Status."""
    try:
        status = codec.decode(Status, body)
    except msgspec.DecodeError:
        status = Status(message=body[:200].decode(errors="replace").strip())
    # The status line is authoritative: the code in a Status is optional.
    return error_from_status(request, msgspec.structs.replace(status, code=status_code), retry_after_s)
