"""Answers that are not what was asked for."""

import asyncio
import re

import pytest

from quorate.api.meta import Key
from quorate.kube.errors import Unreadable
from quorate.kube.resources import PODS, untyped
from tests.kube.fake_server import Answer, FakeServer

pytestmark = pytest.mark.slow
A = Key("default", "a")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", "Input data was truncated", id="nothing"),
        pytest.param(b"<html>Log in", "it begins with '<html>Log in'", id="the page of a proxy"),
        pytest.param(b"[]", "it begins with '[]'", id="a list"),
        pytest.param(b'{"metadata": {"name": "a', "truncated", id="cut off"),
        pytest.param(b"\xff\xfe\x00", "malformed", id="no text"),
    ],
)
def test_an_answer_is_read_before_it_counts(body: bytes, problem: str) -> None:
    async def story() -> None:
        async with FakeServer(lambda _: Answer(body=body)) as server, server.client() as client:
            for request in (client.get(PODS, A), client.patch(PODS, A, {}), client.delete(PODS, A)):
                with pytest.raises(Unreadable, match=re.escape(problem)):
                    await request

    asyncio.run(story())


@pytest.mark.parametrize("body", [{}, {"error": "log in"}, {"metadata": 5}])
def test_a_document_of_any_kind_has_metadata(body: object) -> None:
    async def story() -> None:
        async with FakeServer(lambda _: Answer(body=body)) as server, server.client() as client:
            with pytest.raises(Unreadable, match=r"no `\$.metadata`"):
                await client.get(untyped("", "v1", "pods", "Pod", True), A)

    asyncio.run(story())
