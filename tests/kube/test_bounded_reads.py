"""Responses are not read beyond their limits: a list is read in smaller pages, or refused."""

import asyncio
import pickle

import pytest

from quorate.api.meta import Key
from quorate.kube.errors import AnswerTooLarge
from quorate.kube.resources import PODS
from tests.kube.fake_server import Answer, FakeServer, Request, Stream, listing, pod

pytestmark = pytest.mark.slow
A = Key("default", "a")


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("announced", [True, False])
def test_a_response_is_not_read_beyond_its_limit(announced: bool, status: int) -> None:
    async def story() -> None:
        large: Answer | Stream = Answer(status, b"x" * 101) if announced else Stream((b"x" * 60,) * 2)
        async with FakeServer(lambda request: large) as server, server.client(answer_bytes=100) as client:
            with pytest.raises(AnswerTooLarge) as raised:
                await client.get(PODS, A)
            copy = pickle.loads(pickle.dumps(raised.value))
            assert str(copy) == str(raised.value)

    asyncio.run(story())


def test_a_list_is_read_in_small_pages_if_a_large_page_is_too_large() -> None:
    async def story() -> None:
        def script(request: Request) -> Answer:
            pods = [pod(f"pod{number}", 1) for number in range(int(request.query["limit"]))]
            return listing(1, *pods)

        async with FakeServer(script) as server, server.client(answer_bytes=10_000) as client:
            assert 0 < len((await client.list(PODS)).items) < 100

    asyncio.run(story())


def test_a_list_without_end_is_refused() -> None:
    async def story() -> None:
        page = listing(1, *(pod(f"pod{number}", 1) for number in range(10)), continue_="more")
        async with FakeServer(lambda request: page) as server, server.client(answer_bytes=5000) as client:
            with pytest.raises(AnswerTooLarge):
                await client.list(PODS)

    asyncio.run(story())
