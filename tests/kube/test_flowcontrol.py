"""When a failed request is sent again, how long a backoff is, and how a rate limiter spaces requests."""

import asyncio

import pytest

from quorate.kube.errors import ApiError, Unreachable, error_from_answer
from quorate.kube.flowcontrol import Backoff, TokenBucketRateLimiter, retry_delay_s
from quorate.kube.limits import ATTEMPTS


def refused(code: int, retry_after_s: float | None = None) -> ApiError:
    return error_from_answer("X /", code, b"{}", retry_after_s)


lost = Unreachable("X /", "http://x", "broken")
unsent = Unreachable("X /", "http://x", "refused", sent=False)


@pytest.mark.parametrize(
    ("failure", "get_s", "post_s"),
    [
        pytest.param(refused(429, 3), 3, 3, id="429 was not processed"),
        pytest.param(refused(429), None, None, id="429 without Retry-After is final"),
        pytest.param(refused(503, 2), 2, 2, id="503 with Retry-After was not processed"),
        pytest.param(refused(503), 0.1, None, id="503 without Retry-After may have been processed"),
        pytest.param(refused(504, 1), 1, None, id="504 may have been processed, also with Retry-After"),
        pytest.param(refused(500), 0.1, None, id="500 may have been processed"),
        pytest.param(refused(404), None, None, id="404 is final"),
        pytest.param(refused(409, 1), None, None, id="409 is for the caller to handle"),
        pytest.param(lost, 0.1, None, id="a broken connection may have delivered it"),
        pytest.param(unsent, 0.1, 0.1, id="without a connection nothing was sent"),
    ],
)
def test_a_request_is_retried_only_if_its_effect_cannot_happen_twice(
    failure: ApiError | Unreachable, get_s: float | None, post_s: float | None
) -> None:
    assert (retry_delay_s("GET", 1, failure), retry_delay_s("POST", 1, failure)) == (get_s, post_s)


def test_the_number_of_attempts_is_limited() -> None:
    delays = [retry_delay_s("GET", attempt, lost) for attempt in range(1, ATTEMPTS + 1)]
    assert delays == [0.1, 0.2, 0.4, 0.8, None]


def test_a_backoff_doubles_up_to_its_cap() -> None:
    backoff = Backoff(first_s=1.0, cap_s=5.0)
    assert [backoff.delay_s(failures) for failures in (1, 2, 3, 4, 10_000)] == [1.0, 2.0, 4.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("per_second", "burst", "requests", "at_least_s"),
    [
        pytest.param(100.0, 5, 5, 0.0, id="a burst passes at once"),
        pytest.param(100.0, 1, 6, 0.05, id="without a burst requests are spaced evenly"),
        pytest.param(100.0, 5, 15, 0.1, id="the burst is available once"),
    ],
)
def test_requests_pass_no_faster_than_the_rate(
    per_second: float, burst: int, requests: int, at_least_s: float
) -> None:
    async def taken_s() -> float:
        limiter, clock = TokenBucketRateLimiter(per_second, burst), asyncio.get_running_loop().time
        began = clock()
        await asyncio.gather(*(limiter.wait() for _ in range(requests)))
        return clock() - began

    took_s = asyncio.run(taken_s())
    # Timers may fire a clock tick early, and a busy machine is late: only the lower bound is exact.
    assert took_s >= at_least_s - 0.001
