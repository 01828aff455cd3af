"""Connections to a cluster, and what is said of an object that it does not have."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from quorate.inspect.connection import not_found_message
from quorate.kube.errors import NotFound, StatusDetails

QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/lab/localqueues"


@pytest.mark.parametrize("name", ["lab", "apis", "localqueues"])
def test_similar_names_are_those_of_the_kind_also_if_the_name_is_elsewhere_in_the_path(name: str) -> None:
    async def request(_: str, path: str, **__: object) -> bytes:
        if path == "/api/v1/namespaces/lab":
            return b"{}"
        assert path == QUEUES
        return b'{"items": [{"metadata": {"name": "%ss"}}]}' % name.encode()

    client = cast("Any", SimpleNamespace(request=request))
    message, details = f'localqueues "{name}" not found', StatusDetails(name=name)
    error = NotFound(f"GET {QUEUES}/{name}", 404, "NotFound", message, details)
    sentence = asyncio.run(not_found_message(client, error))
    assert sentence == f"{message} in namespace lab (did you mean {name}s?)"


def test_a_namespace_that_does_not_exist_is_said_to_be_missing_first() -> None:
    async def request(_: str, path: str, **__: object) -> bytes:
        if path == "/api/v1/namespaces":
            return b'{"items": [{"metadata": {"name": "lab"}}]}'
        assert path == "/api/v1/namespaces/lap"
        raise NotFound(
            f"GET {path}", 404, "NotFound", 'namespaces "lap" not found', StatusDetails(name="lap")
        )

    client, path = cast("Any", SimpleNamespace(request=request)), QUEUES.replace("lab", "lap")
    error = NotFound(f"GET {path}/main", 404, "NotFound", "not found", StatusDetails(name="main"))
    sentence = asyncio.run(not_found_message(client, error))
    assert sentence == "namespace lap does not exist (did you mean lab?)"
