"""What the controllers answer, also those of another version."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorate.inspect.explain.served import served_estimates


@pytest.mark.parametrize("answer", [b'{"items": [{}]}', b'{"items": 1}', b"<html>"])
def test_estimates_of_another_version_are_no_estimates(answer: bytes) -> None:
    async def request(*_: str, **__: object) -> bytes:
        return answer

    client = cast("Any", SimpleNamespace(request=request))
    assert asyncio.run(served_estimates(client, "lab")) == {}
