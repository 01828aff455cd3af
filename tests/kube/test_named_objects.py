"""An object is followed by its name alone."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from quorate.api.core import ConfigMap
from quorate.api.meta import Key
from quorate.controllers.multikueue.connection.credential_sources import follow
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.resources import CONFIG_MAPS
from tests.kube.fake_server import Answer, FakeServer, Hangup, Stream, in_turn, refusal

pytestmark = pytest.mark.slow

ABSENT = Answer(404, refusal(404, "NotFound"))
FORBIDDEN = Answer(403, refusal(403, "Forbidden", "not allowed"))
KEY = Key("default", "one")


def stored(version: int) -> dict[str, Any]:
    return {"kind": "ConfigMap", "metadata": {"name": "one", "resourceVersion": str(version)}}


def change(type_: str, body: Any) -> bytes:
    return json.dumps({"type": type_, "object": body}).encode() + b"\n"


def readings(client: Client) -> AsyncGenerator[Any, None]:
    return follow(client, CONFIG_MAPS, KEY, WallClock())


def shown(reading: object) -> str:
    return reading.metadata.resource_version if isinstance(reading, ConfigMap) else type(reading).__name__


@pytest.mark.parametrize(
    ("responses", "want"),
    [
        pytest.param(
            (ABSENT, Stream((change("ADDED", stored(2)), change("DELETED", stored(3))))),
            ["NoneType", "2", "NoneType"],
            id="created and deleted",
        ),
        pytest.param((Answer(body=stored(1)), Stream((change("MODIFIED", stored(4)),))), ["1", "4"],
                     id="changed"),
        pytest.param(
            (Answer(body=stored(1)), Stream((change("MODIFIED", {**stored(2), "data": 7}),))),
            ["1", "Unreadable"],
            id="changed into what cannot be read",
        ),
        pytest.param((FORBIDDEN, Answer(body=stored(1))), ["Forbidden", "1"], id="a right is granted"),
        pytest.param((ABSENT, ABSENT, Answer(body=stored(1))), ["NoneType", "NoneType", "1"],
                     id="the kind is served later"),
        pytest.param((Answer(body=stored(1)), Stream((), torn=True), Answer(body=stored(5))), ["1", "5"],
                     id="the watch breaks"),
    ],
)  # fmt: skip
def test_readings(responses: tuple[Answer | Stream | Hangup, ...], want: list[str]) -> None:
    async def story() -> None:
        async with FakeServer(in_turn(*responses)) as server, server.client() as client:
            got = []
            async with asyncio.timeout(20):
                async for reading in readings(client):
                    got.append(shown(reading))
                    if len(got) == len(want):
                        break
            assert got == want
            for request in server.requests:
                by_name = request.path.endswith("/one")
                assert by_name or request.query["fieldSelector"] == "metadata.name=one"

    asyncio.run(story())
