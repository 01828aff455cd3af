import pickle

import pytest

from quorate.kube.backoff import Backoff
from quorate.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    Invalid,
    ServerError,
    Unreachable,
    error_from_answer,
)
from quorate.kube.retry import ATTEMPTS, retry_delay_s


def refused(code: int, retry_after_s: float | None = None) -> ApiError:
    return error_from_answer("X /", code, b"{}", retry_after_s)


lost = Unreachable("X /", "http://x", "broken")
unsent = Unreachable("X /", "http://x", "refused", sent=False)


@pytest.mark.parametrize(
    ("failure", "get_s", "post_s"),
    [
        pytest.param(refused(429, 3), 3, 3, id="429 was not processed"),
        pytest.param(refused(429), None, None, id="429 that names no time is meant"),
        pytest.param(refused(503, 2), 2, 2, id="503 with a time was not processed"),
        pytest.param(refused(503), 0.1, None, id="503 without may have been"),
        pytest.param(refused(504, 1), 1, None, id="504 may have been, whatever time it names"),
        pytest.param(refused(500), 0.1, None, id="500 may have been"),
        pytest.param(refused(404), None, None, id="404 is an answer"),
        pytest.param(refused(409, 1), None, None, id="409 is the caller's"),
        pytest.param(lost, 0.1, None, id="a broken connection may have carried it"),
        pytest.param(unsent, 0.1, 0.1, id="without a connection nothing was sent"),
    ],
)
def test_asking_again(failure: ApiError | Unreachable, get_s: float | None, post_s: float | None) -> None:
    assert (retry_delay_s("GET", 1, failure), retry_delay_s("POST", 1, failure)) == (get_s, post_s)


def test_the_last_attempt_is_the_last() -> None:
    delays = [retry_delay_s("GET", attempt, lost) for attempt in range(1, ATTEMPTS + 1)]
    assert delays == [0.1, 0.2, 0.4, 0.8, None]


def test_a_backoff_doubles_up_to_its_cap_for_as_long_as_it_takes() -> None:
    backoff = Backoff(first_s=1.0, cap_s=5.0)
    assert [backoff.delay_s(failures) for failures in (1, 2, 3, 4, 10_000)] == [1.0, 2.0, 4.0, 5.0, 5.0]


@pytest.mark.parametrize(
    ("code", "body", "kind", "text"),
    [
        pytest.param(
            409, b'{"reason": "AlreadyExists", "message": "taken"}', AlreadyExists,
            "X /: 409 AlreadyExists: taken", id="a 409 by its reason",
        ),
        pytest.param(409, b'{"reason": "Conflict"}', Conflict, "X /: 409 Conflict", id="the other 409"),
        pytest.param(
            422, b'{"reason": "Invalid", "details": {"causes": [{"field": "metadata.uid"}]}}', Conflict,
            "X /: 422 Invalid", id="a patch that is meant for another object of the name",
        ),
        pytest.param(410, b'{"reason": "Expired"}', Gone, "X /: 410 Expired", id="gone"),
        pytest.param(502, b"<h1>Oh</h1>", ServerError, "X /: 502: <h1>Oh</h1>", id="a proxy"),
        pytest.param(418, b"", ApiError, "X /: 418", id="a code nobody expects"),
        pytest.param(400, b'"text"', ApiError, 'X /: 400: "text"', id="JSON that is no Status"),
    ],
)  # fmt: skip
def test_what_a_refusal_becomes(code: int, body: bytes, kind: type[ApiError], text: str) -> None:
    error = error_from_answer("X /", code, body, None)
    assert type(error) is kind
    assert str(error) == text
    assert str(pickle.loads(pickle.dumps(error))) == text


def test_the_details_name_each_field_and_how_long_to_wait() -> None:
    body = (
        b'{"reason": "Invalid", "details": {"retryAfterSeconds": 7,'
        b' "causes": [{"reason": "FieldValueRequired", "field": "spec.x", "message": "Required value"}]}}'
    )
    error = error_from_answer("X /", 422, body, None)
    assert isinstance(error, Invalid)
    assert [(cause.field, cause.reason) for cause in error.details.causes] == [
        ("spec.x", "FieldValueRequired")
    ]
    assert error.retry_after_s == 7.0


def test_unreachable_pickles() -> None:
    copy = pickle.loads(pickle.dumps(unsent))
    assert (str(copy), copy.sent) == (str(unsent), False)
