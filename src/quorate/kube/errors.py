"""What can go wrong when the API is asked something, as exceptions with attributes.

``ApiError`` and below: the server answered and refused.  ``Unreachable``: no whole answer came, so it is
unknown whether the server did what it was asked.  ``Unreadable``: an answer came that is no API answer.
"""

from typing import ClassVar

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
    """The body of a refusal, and the object of a watch's last frame when it ends in an error."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


class ApiError(Exception):
    """The server answered, and refused.

    ``request`` is the request in words ("PATCH /api/v1/..."); ``retry_after_s`` is how long the server asks
    to be left alone, None when it does not say.
    """

    advice: ClassVar[str] = ""

    def __init__(
        self,
        request: str,
        status_code: int,
        reason: str,
        message: str,
        details: StatusDetails | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(request, status_code, reason, message, details, retry_after_s)  # intact: it pickles
        self.request, self.status_code, self.reason, self.message = request, status_code, reason, message
        self.details = details if details is not None else StatusDetails()
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        text = f"{self.request}: {self.status_code}"
        if self.reason:
            text += f" {self.reason}"
        if self.message:
            text += f": {self.message}"
        return f"{text} ({self.advice})" if self.advice else text


class Unauthorized(ApiError):
    advice = "the server does not know these credentials: check the user of the kubeconfig's current context"


class Forbidden(ApiError):
    advice = "a Role or ClusterRole must allow this verb on this resource"


class NotFound(ApiError):
    pass


class AlreadyExists(ApiError):
    pass


class Conflict(ApiError):
    """The object changed since it was read, or is another by now: read it again and decide again."""


class Gone(ApiError):
    """The resource version asked for is no longer kept: list again."""


class Invalid(ApiError):
    """The object breaks a rule; ``details.causes`` names every field that does."""


class TooManyRequests(ApiError):
    advice = "the server is busy, or a disruption budget stands in the way: try later"


class ServerError(ApiError):
    """A fault within the server, or between it and us; what was asked may or may not have been done."""


class Unreachable(Exception):
    """No whole answer came: nothing listens, the connection broke, or the deadline passed.

    ``sent`` is False when the request certainly never reached the server.
    """

    def __init__(self, request: str, server: str, problem: str, sent: bool = True) -> None:
        super().__init__(request, server, problem, sent)
        self.request, self.server, self.problem, self.sent = request, server, problem, sent

    def __str__(self) -> str:
        return f"{self.request}: no answer from {self.server}: {self.problem}"


class Unreadable(Exception):
    """What came back is not what the API promises: no JSON, or JSON of another shape."""

    def __init__(self, request: str, problem: str) -> None:
        super().__init__(request, problem)
        self.request, self.problem = request, problem

    def __str__(self) -> str:
        return f"{self.request}: the answer cannot be read: {self.problem}"


def may_have_succeeded(failure: ApiError | Unreachable | Unreadable) -> bool:
    """Whether what was asked may have been done all the same, or may yet be: nobody said that it was not."""
    match failure:
        case Unreachable(sent=sent):
            return sent
        case ApiError():
            return isinstance(failure, ServerError)
        case Unreadable():
            return True


_BY_REASON = {"AlreadyExists": AlreadyExists, "Expired": Gone}
_BY_CODE = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


def error_from_status(request: str, status: Status, retry_after_s: float | None = None) -> ApiError:
    """The exception for a refusal; an unknown code below 500 is a plain ``ApiError``.

    A patch that names another uid is a conflict, although the API calls it invalid: elsewhere it calls the
    same thing a conflict, and whoever names a uid means that.
    """
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code)
    if kind is None:
        kind = ServerError if status.code >= 500 else ApiError
    details = status.details if status.details is not None else StatusDetails()
    if kind is Invalid and any(cause.field == "metadata.uid" for cause in details.causes):
        kind = Conflict
    if retry_after_s is None and details.retry_after_seconds:
        retry_after_s = float(details.retry_after_seconds)
    return kind(request, status.code, status.reason, status.message, status.details, retry_after_s)


def error_from_answer(request: str, status_code: int, body: bytes, retry_after_s: float | None) -> ApiError:
    """The exception for an answer of 400 and above; a proxy's answer need not have a Status for a body."""
    try:
        status = codec.decode(Status, body)
    except msgspec.DecodeError:
        status = Status(message=body[:200].decode(errors="replace").strip())
    # The line above the body is what the server meant; a Status may leave its code out.
    return error_from_status(request, msgspec.structs.replace(status, code=status_code), retry_after_s)
