"""Refusals of the API server as responses of the dashboard."""

from quorate.api import codec
from quorate.dashboard.responses import problem, refusal_of
from quorate.dashboard.schema import Problem
from quorate.kube.errors import ApiError


def test_a_webhook_may_refuse_with_a_status_code_without_a_name() -> None:
    response = problem(refusal_of(ApiError("PATCH /x", 499, "Denied", "not today")))
    assert response.status == 499
    assert isinstance(response.body, bytes)
    assert codec.decode(Problem, response.body) == Problem(status=499, reason="Denied", message="not today")
