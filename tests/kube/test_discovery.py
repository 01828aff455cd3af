"""Waiting for kinds that the API server does not serve yet."""

import asyncio
import logging

import pytest

from quorate.kube import discovery
from quorate.kube.clock import WallClock
from quorate.kube.resources import JOBS
from tests.kube.fake_server import Answer, FakeServer, Request


def test_a_kind_for_which_several_wait_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    requests = 0

    def answer(request: Request) -> Answer:
        nonlocal requests
        requests += 1
        return Answer(404) if requests <= 4 else Answer(body={"resources": [{"name": "jobs"}]})

    async def story() -> None:
        async with (
            FakeServer(answer) as server,
            server.client() as client,
            asyncio.TaskGroup() as tasks,
        ):
            for _ in range(2):
                tasks.create_task(discovery.wait_until_served(JOBS, client, WallClock(), interval_s=0.01))

    asyncio.run(story())
    lines = [record.getMessage() for record in caplog.records if record.name == discovery.__name__]
    assert [line for line in lines if "not served" not in line] == ["kind is served"], lines
    assert len(lines) == len(set(lines))
