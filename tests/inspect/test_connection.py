"""Connections to a cluster, and what is said of an object that it does not have."""

import asyncio

import pytest

from quorate.inspect.connection import not_found_message
from quorate.kube.errors import NotFound, StatusDetails
from tests.kube.fake_server import Answer, FakeServer, Request, Script, refusal

QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/lab/localqueues"


def said(script: Script, error: NotFound) -> str:
    async def run() -> str:
        async with FakeServer(script) as server, server.client() as client:
            return await not_found_message(client, error)

    return asyncio.run(run())


@pytest.mark.parametrize("name", ["lab", "apis", "localqueues"])
def test_similar_names_are_those_of_the_kind_also_if_the_name_is_elsewhere_in_the_path(name: str) -> None:
    def script(request: Request) -> Answer:
        if request.path == "/api/v1/namespaces/lab":
            return Answer()
        assert request.path == QUEUES
        return Answer(body={"items": [{"metadata": {"name": f"{name}s"}}]})

    message, details = f'localqueues "{name}" not found', StatusDetails(name=name)
    error = NotFound(f"GET {QUEUES}/{name}", 404, "NotFound", message, details)
    assert said(script, error) == f"{message} in namespace lab (did you mean {name}s?)"


def test_a_namespace_that_does_not_exist_is_said_to_be_missing_first() -> None:
    def script(request: Request) -> Answer:
        if request.path == "/api/v1/namespaces":
            return Answer(body={"items": [{"metadata": {"name": "lab"}}]})
        assert request.path == "/api/v1/namespaces/lap"
        return Answer(404, refusal(404, "NotFound", 'namespaces "lap" not found', details={"name": "lap"}))

    path = QUEUES.replace("lab", "lap")
    error = NotFound(f"GET {path}/main", 404, "NotFound", "not found", StatusDetails(name="main"))
    assert said(script, error) == "namespace lap does not exist (did you mean lab?)"


def test_no_name_is_suggested_if_the_names_cannot_be_read() -> None:
    error = NotFound(f"GET {QUEUES}/x", 404, "NotFound", "not found", StatusDetails(name="x"))
    assert said(lambda request: Answer(body=b"<html>"), error) == "not found in namespace lab"
