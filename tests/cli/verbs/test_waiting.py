"""Commands that wait for a job outlast a restart of the API server, but not any other refusal."""

import asyncio
from collections.abc import Sequence

import pytest

from quorate.cli.verbs.waiting import until_answered
from quorate.kube.errors import Forbidden, RequestFailed, ServerError, Unreachable

REFUSED = Unreachable("GET /x", "https://a", "connection refused", sent=False)
STARTING = ServerError("GET /x", 503, "ServiceUnavailable", "the server is starting")
NOT_PERMITTED = Forbidden("GET /x", 403, "Forbidden", "no")


def waited(answers: Sequence[RequestFailed | int], longest_s: float = 60.0) -> int:
    remaining = iter(answers)

    async def read() -> int:
        answer = next(remaining)
        if isinstance(answer, RequestFailed):
            raise answer
        return answer

    return asyncio.run(until_answered(read, pause_s=0.0, longest_s=longest_s))


def test_a_read_is_repeated_until_the_server_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert waited([REFUSED, REFUSED, STARTING, 7]) == 7
    assert capsys.readouterr().err == (
        "waiting for the API server: GET /x: no answer from https://a: connection refused\n"
    )


@pytest.mark.parametrize(
    ("failure", "longest_s"), [(NOT_PERMITTED, 60.0), (REFUSED, 0.0)], ids=["refused", "away"]
)
def test_a_refusal_and_a_server_that_stays_away_end_the_wait(
    failure: RequestFailed, longest_s: float
) -> None:
    with pytest.raises(type(failure)):
        waited([failure, failure, 7], longest_s)
