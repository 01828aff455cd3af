"""What the controllers answer, also those of another version."""

import asyncio

import pytest

from quorate.inspect.explain.served import served_estimates
from tests.kube.fake_server import Answer, FakeServer


@pytest.mark.parametrize("body", [b'{"items": [{}]}', b'{"items": 1}', b"<html>"])
def test_estimates_of_another_version_are_no_estimates(body: bytes) -> None:
    async def run() -> object:
        async with FakeServer(lambda request: Answer(body=body)) as server, server.client() as client:
            return await served_estimates(client, "lab")

    assert asyncio.run(run()) == {}
