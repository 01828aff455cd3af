"""What is missing for native gangs, by what the API server answers."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from quorate.controllers.native_groups import Missing, NativeGangs, NativeGangSupport
from quorate.kube.resources import NATIVE_POD_GROUPS
from tests.kube.fake_server import Answer, FakeServer, Request, refusal
from tests.kube.virtual_clock import VirtualClock

GROUPS = Answer(body={"resources": [{"name": "podgroups", "kind": "PodGroup", "namespaced": True}]})
NOT_FOUND = Answer(404, refusal(404, "NotFound"))
FORBIDDEN = Answer(403, refusal(403, "Forbidden"))


def answer_of(script: Callable[[Request], Answer]) -> NativeGangs:
    async def ask() -> NativeGangs:
        async with FakeServer(script) as server, server.client() as client:
            return await NativeGangSupport(client, VirtualClock()).availability()

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("groups", "policy", "binding", "want"),
    [
        pytest.param(GROUPS, Answer(), Answer(), NATIVE_POD_GROUPS, id="all is there"),
        pytest.param(NOT_FOUND, Answer(), Answer(), Missing.GROUPS, id="gates are off"),
        pytest.param(GROUPS, NOT_FOUND, NOT_FOUND, Missing.POLICY, id="no policy"),
        pytest.param(GROUPS, Answer(), NOT_FOUND, Missing.POLICY, id="no binding"),
        pytest.param(GROUPS, FORBIDDEN, FORBIDDEN, Missing.POLICY, id="the role is not there either"),
    ],
)
def test_the_pod_groups_or_what_is_missing(
    groups: Answer, policy: Answer, binding: Answer, want: NativeGangs
) -> None:
    def script(request: Request) -> Answer:
        if "mutatingadmissionpolicybindings" in request.path:
            return binding
        return policy if "mutatingadmissionpolicies" in request.path else groups

    assert answer_of(script) == want


def test_groups_are_written_in_the_version_of_the_server() -> None:
    def script(request: Request) -> Answer:
        return NOT_FOUND if request.path.endswith("/v1alpha2") else GROUPS

    assert answer_of(script) == replace(NATIVE_POD_GROUPS, version="v1beta1")
