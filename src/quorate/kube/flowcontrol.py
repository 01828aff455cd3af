"""Flow control of requests: backoff after failures, retries of single requests, and rate limits."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from quorate.kube import errors
from quorate.kube.clock import Clock
from quorate.kube.limits import ATTEMPTS
from quorate.kube.log import logger

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff: the delay doubles with each consecutive failure, up to ``cap_s``."""

    first_s: float
    cap_s: float

    def delay_s(self, failures: int) -> float:
        """Return the delay after the ``failures``-th consecutive failure, counted from 1."""
        # The exponent is bounded because 2.0 ** 1024 overflows, and failures may continue for a year.
        return min(self.cap_s, self.first_s * 2.0 ** min(failures - 1, 62))

    def jittered_s(self, failures: int, rng: random.Random) -> float:
        """Return between half and all of the delay, so that clients that failed together spread out."""
        return self.delay_s(failures) * (0.5 + rng.random() / 2)


RETRY = Backoff(first_s=0.1, cap_s=2.0)


def retry_delay_s(method: str, attempt: int, failure: errors.ApiError | errors.Unreachable) -> float | None:
    """Return the seconds to wait before the request is sent again; None: do not retry.

    A request is repeated only when that cannot have its effect twice: it reads, or the server rejected it
    unprocessed (429, or 503 with Retry-After), or it did not reach the server.  ``attempt`` counts the
    requests sent so far, from 1.  Retry-After is honored in full; the caller bounds the sum by its deadline.
    """
    if attempt >= ATTEMPTS:
        return None
    reads = method == "GET"
    match failure:
        case errors.WriteNotPermitted():
            return None
        case errors.Unreachable(sent=sent):
            return RETRY.delay_s(attempt) if reads or not sent else None
        case errors.TooManyRequests(retry_after_s=retry_after_s):
            return retry_after_s  # None is a final refusal: a disruption budget forbids an eviction
        case errors.ServerError(status_code=code, retry_after_s=retry_after_s):
            if retry_after_s is not None and (reads or code == 503):
                return retry_after_s
            return RETRY.delay_s(attempt) if reads else None
        case _:
            return None


STARTUP = Backoff(first_s=0.5, cap_s=10.0)


async def until_answered(request: Callable[[], Awaitable[T]], clock: Clock, rng: random.Random) -> T:
    """Repeat ``request`` with backoff until the API server answers it, and return the answer."""
    steady = clock.steady
    failures = 0
    while True:
        try:
            return await request()
        except errors.RequestFailed as error:
            failures += 1
            retry_in_s = STARTUP.jittered_s(failures, rng)
            logger(__name__).warning("waiting for the API server", problem=str(error), retry_in_s=retry_in_s)
            await steady.sleep_until(steady.now() + retry_in_s)


class RateLimiter(Protocol):
    async def wait(self) -> None:
        """Return when the next request may be sent."""
        ...


class TokenBucketRateLimiter:
    """Allows ``burst`` requests at once and ``per_second`` in the long run, first come, first served."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._interval_s = 1.0 / per_second
        self._burst_s = (burst - 1) * self._interval_s
        self._next = -math.inf  # loop time at which the next request is due at an even rate

    async def wait(self) -> None:
        """Return when the next request may be sent."""
        wait_s = self.reserve_s()
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def reserve_s(self) -> float:
        """Return in how many seconds the next request may be sent, which is then counted; at most 0: now."""
        now = asyncio.get_running_loop().time()
        # An idle client accumulates tokens, but no more than one burst.
        self._next = max(self._next, now - self._burst_s) + self._interval_s
        return self._next - self._interval_s - now
