"""What is missing for native gangs, by what the API server answers."""

import asyncio

import pytest

from quorate.controllers.native_gang_support import Availability, NativeGangSupport
from tests.kube.fake_server import Answer, FakeServer, Request, refusal
from tests.kube.virtual_clock import VirtualClock

GROUPS = Answer(body={"resources": [{"name": "podgroups", "kind": "PodGroup", "namespaced": True}]})
NOT_FOUND = Answer(404, refusal(404, "NotFound"))
FORBIDDEN = Answer(403, refusal(403, "Forbidden"))


@pytest.mark.parametrize(
    ("groups", "policy", "binding", "want"),
    [
        pytest.param(GROUPS, Answer(), Answer(), Availability.AVAILABLE, id="all is there"),
        pytest.param(NOT_FOUND, Answer(), Answer(), Availability.NO_GROUPS, id="gates are off"),
        pytest.param(GROUPS, NOT_FOUND, NOT_FOUND, Availability.NO_POLICY, id="no policy"),
        pytest.param(GROUPS, Answer(), NOT_FOUND, Availability.NO_POLICY, id="no binding"),
        pytest.param(GROUPS, FORBIDDEN, FORBIDDEN, Availability.NO_POLICY, id="the role is not there either"),
    ],
)
def test_what_is_missing(groups: Answer, policy: Answer, binding: Answer, want: Availability) -> None:
    def script(request: Request) -> Answer:
        if "mutatingadmissionpolicybindings" in request.path:
            return binding
        return policy if "mutatingadmissionpolicies" in request.path else groups

    async def story() -> Availability:
        async with FakeServer(script) as server, server.client() as client:
            return await NativeGangSupport(client, VirtualClock()).availability()

    assert asyncio.run(story()) is want
