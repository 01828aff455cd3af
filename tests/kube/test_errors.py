"""Which exception an error response of the API server becomes."""

import json
import pickle

import pytest

from quorate.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    Invalid,
    RequestTooLarge,
    ServerError,
    Unreachable,
    error_from_answer,
)


@pytest.mark.parametrize(
    ("code", "body", "kind", "text"),
    [
        pytest.param(
            409, b'{"reason": "AlreadyExists", "message": "taken"}', AlreadyExists,
            "X /: 409 AlreadyExists: taken", id="409 AlreadyExists",
        ),
        pytest.param(409, b'{"reason": "Conflict"}', Conflict, "X /: 409 Conflict", id="409 Conflict"),
        pytest.param(
            422, b'{"reason": "Invalid", "details": {"causes": [{"field": "metadata.uid"}]}}', Conflict,
            "X /: 422 Invalid", id="a patch with the uid of a deleted object",
        ),
        pytest.param(410, b'{"reason": "Expired"}', Gone, "X /: 410 Expired", id="410 Expired"),
        pytest.param(
            504, b'{"reason": "Timeout", "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}',
            Gone, "X /: 504 Timeout", id="a version that the store has not reached",
        ),
        pytest.param(502, b"<h1>Oh</h1>", ServerError, "X /: 502: <h1>Oh</h1>", id="a page of a proxy"),
        pytest.param(
            500, b'{"reason": "InternalError", "message": "etcdserver: request is too large"}',
            RequestTooLarge, "X /: 500 InternalError: etcdserver: request is too large",
            id="larger than etcd stores",
        ),
        pytest.param(413, b"", RequestTooLarge, "X /: 413", id="larger than the server reads"),
        pytest.param(418, b"", ApiError, "X /: 418", id="an unknown code"),
        pytest.param(400, b'"text"', ApiError, 'X /: 400: "text"', id="JSON that is not a Status"),
    ],
)  # fmt: skip
def test_an_error_response_is_mapped_to_its_exception(
    code: int, body: bytes, kind: type[ApiError], text: str
) -> None:
    error = error_from_answer("X /", code, body, None)
    assert type(error) is kind
    assert str(error) == text
    assert str(pickle.loads(pickle.dumps(error))) == text


@pytest.mark.parametrize(
    ("message", "advised"),
    [
        pytest.param('pods is forbidden: User "a" cannot list resource "pods"', True, id="the authorizer"),
        pytest.param('admission webhook "w" denied the request: no', False, id="a webhook"),
        pytest.param('pods "a" is forbidden: exceeded quota: q', False, id="an admission plugin"),
    ],
)
def test_only_a_refusal_by_the_authorizer_advises_a_role(message: str, advised: bool) -> None:
    body = json.dumps({"reason": "Forbidden", "message": message}).encode()
    assert ("must allow this verb" in str(error_from_answer("X /", 403, body, None))) is advised


def test_an_invalid_object_has_its_causes_and_a_retry_delay() -> None:
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
    unsent = Unreachable("X /", "http://x", "refused", sent=False)
    copy = pickle.loads(pickle.dumps(unsent))
    assert (str(copy), copy.sent) == (str(unsent), False)
