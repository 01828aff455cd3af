"""The controllers of the owners of pods: each is read once, unless the server was too busy to answer."""

import asyncio

import pytest

from quorate.api import codec
from quorate.api.meta import Uid
from quorate.witness.pods import WitnessedPod
from quorate.witness.process import OwnerLookup
from tests.kube.fake_server import Answer, FakeServer, Request


def pod_of(job: str) -> WitnessedPod:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"uid of {job}", "controller": True}
    metadata = {"name": f"{job}-0", "namespace": "ns", "uid": "p", "ownerReferences": [owner]}
    document = {"metadata": metadata, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}}
    return codec.convert(WitnessedPod, document)


def job_of(name: str, controller: str) -> dict[str, object]:
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": controller,
        "uid": f"uid of {controller}", "controller": True,
    }  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid of {name}", "ownerReferences": [owner]}
    }


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_a_busy_server_did_not_answer_is_read_again(status: int) -> None:
    async def story() -> None:
        is_busy = True

        def answer(request: Request) -> Answer:
            if request.path == "/apis/batch/v1":
                return Answer(body={"resources": [{"name": "jobs", "kind": "Job", "namespaced": True}]})
            if request.path.endswith("/jobs/a") and is_busy:
                return Answer(status, headers={"Retry-After": "3600"})  # beyond the deadline of a request
            if "/jobs/" in request.path:
                name = request.path.rpartition("/")[2]
                return Answer(body=job_of(name, f"set of {name}"))
            return Answer(404)

        async with FakeServer(answer) as server, server.client() as client:
            owners = OwnerLookup(client)
            pods = [pod_of("a"), pod_of("b")]
            assert not await owners.look_up(pods)
            assert owners.controllers == {Uid("uid of b"): Uid("uid of set of b")}, "no other owner waits"
            is_busy = False
            assert await owners.look_up(pods)
            assert owners.controllers == {Uid(f"uid of {job}"): Uid(f"uid of set of {job}") for job in "ab"}
            asked = len(server.requests)
            assert await owners.look_up(pods)
            assert len(server.requests) == asked, "each owner is read once"

    asyncio.run(story())


@pytest.mark.parametrize("status", [400, 403, 404])
def test_an_owner_that_cannot_be_read_has_no_controller(status: int) -> None:
    async def story() -> None:
        async with FakeServer(lambda request: Answer(status)) as server, server.client() as client:
            owners = OwnerLookup(client)
            assert await owners.look_up([pod_of("a")])
            assert owners.controllers == {}
            asked = len(server.requests)
            assert await owners.look_up([pod_of("a")])
            assert (len(server.requests), owners.controllers) == (asked, {})

    asyncio.run(story())
