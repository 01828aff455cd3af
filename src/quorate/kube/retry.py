"""Whether to ask the server again after a failure, and when: a table, without I/O.

A request is repeated only when that cannot do a thing twice: it reads, or the server says it refused it
unprocessed (429, or 503 with Retry-After), or it never reached the server.
"""

from quorate.kube.backoff import Backoff
from quorate.kube.errors import ApiError, ServerError, TooManyRequests, Unreachable

ATTEMPTS = 5  # in all; with BACKOFF that is about 1.5 s of trying when the server names no time
BACKOFF = Backoff(first_s=0.1, cap_s=2.0)


def retry_delay_s(method: str, attempt: int, failure: ApiError | Unreachable) -> float | None:
    """Seconds to wait before asking again; None: do not.

    ``attempt`` counts requests sent so far, from 1.  Time the server asks for is given in full; the caller
    bounds the sum by its deadline.
    """
    if attempt >= ATTEMPTS:
        return None
    reads = method == "GET"
    match failure:
        case Unreachable(sent=sent):
            return BACKOFF.delay_s(attempt) if reads or not sent else None
        case TooManyRequests(retry_after_s=asked_for_s):
            return asked_for_s  # without a time the refusal is meant: a disruption budget forbids an eviction
        case ServerError(status_code=code, retry_after_s=asked_for_s):
            if asked_for_s is not None and (reads or code == 503):
                return asked_for_s
            return BACKOFF.delay_s(attempt) if reads else None
        case _:
            return None
