"""Requests, retries and watches of the client against a fake server."""

import asyncio
import pickle
import random
from pathlib import Path
from typing import Any

import pytest

from quorate.api.core import Pod
from quorate.api.meta import Key, ObjectMeta
from quorate.api.quantity import Quantity
from quorate.kube.client import Client, PatchKind
from quorate.kube.errors import (
    Conflict,
    Gone,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Unreadable,
    WriteNotPermitted,
)
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import PLACEABLE_PODS, PODS
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token, TokenFile
from quorate.kube.rest.decoding import Bookmark, WatchEvent
from tests.kube.fake_server import (
    Answer,
    FakeServer,
    Hangup,
    Request,
    Stream,
    bookmark,
    frame,
    in_turn,
    listing,
    pod,
    refusal,
)

pytestmark = pytest.mark.slow
A = Key("default", "a")
EXPIRED = Answer(410, refusal(410, "Expired"))


async def watched(client: Client, version: str = "1") -> list[object]:
    return [event async for event in client.watch(PODS, version)]


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_no_request_is_sent_for_a_name_that_would_name_all_objects(name: str) -> None:
    async def story() -> None:
        key = Key("default", name)
        async with FakeServer(in_turn()) as server, server.client() as client:
            for request in (
                client.get(PODS, key),
                client.replace(PODS, key, {}),
                client.patch(PODS, key, {}, subresource="status"),
                client.patch_for_version(PODS, key, {}),
                client.delete(PODS, key),
            ):
                with pytest.raises(NotFound, match="no name"):
                    await request
            assert server.requests == []

    asyncio.run(story())


def test_a_typed_object_is_created_with_its_api_version_and_kind() -> None:
    async def story() -> None:
        async with FakeServer(in_turn(Answer(201, pod("a", 5)))) as server, server.client() as client:
            created = await client.create(PODS, Pod(metadata=ObjectMeta(name="a", namespace="default")))
            assert created.metadata.resource_version == "5"
            (request,) = server.requests
            assert (request.method, request.path) == ("POST", "/api/v1/namespaces/default/pods")
            assert request.query == {"fieldManager": "quorate"}
            assert request.body == {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a", "namespace": "default"},
            }

    asyncio.run(story())


def test_a_patch_has_its_content_type_and_a_dry_run_its_parameter() -> None:
    async def story() -> None:
        async with FakeServer(in_turn(Answer(200, pod("a", 6)))) as server, server.client() as client:
            await client.patch(
                PODS, A, {"x": None}, subresource="status", kind=PatchKind.STRATEGIC, dry_run=True
            )
            (request,) = server.requests
            assert request.path == "/api/v1/namespaces/default/pods/a/status"
            assert request.query == {"fieldManager": "quorate", "dryRun": "All"}
            assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
            assert request.body == {"x": None}

    asyncio.run(story())


def test_a_refusal_is_an_exception_with_details_that_can_be_pickled() -> None:
    async def story() -> None:
        answer = refusal(404, "NotFound", 'pods "a" not found', details={"name": "a", "kind": "pods"})
        async with FakeServer(in_turn(Answer(404, answer))) as server, server.client() as client:
            with pytest.raises(NotFound) as caught:
                await client.get(PODS, A)
        copy = pickle.loads(pickle.dumps(caught.value))
        assert str(copy) == 'GET /api/v1/namespaces/default/pods/a: 404 NotFound: pods "a" not found'
        assert (copy.details.name, copy.details.kind) == ("a", "pods")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("script", "method", "requests", "outcome"),
    [
        pytest.param(
            [Answer(429, {}, {"Retry-After": "0"}), Answer(200, pod("a", 2))],
            "PATCH", 2, None, id="an overloaded server did not process it: retry",
        ),
        pytest.param([Answer(429, {})], "PATCH", 1, TooManyRequests, id="a budget refuses for good"),
        pytest.param(
            [Answer(429, {}, {"Retry-After": "3600"})],
            "GET", 1, TooManyRequests, id="no retry beyond the deadline",
        ),
        pytest.param([Answer(500, b""), Answer(200, pod("a", 2))], "GET", 2, None, id="a read is safe"),
        pytest.param([Hangup(), Answer(200, pod("a", 2))], "GET", 2, None, id="a read after a hangup"),
        pytest.param([Hangup()], "PATCH", 1, Unreachable, id="a write may have taken effect"),
        pytest.param([Answer(409, refusal(409, "Conflict"))], "PATCH", 1, Conflict, id="a conflict is final"),
        pytest.param([Answer(200, b"<html>")], "GET", 1, Unreadable, id="the page of a proxy"),
    ],
)  # fmt: skip
def test_a_request_is_retried_only_where_that_is_safe(
    script: list[Answer | Hangup], method: str, requests: int, outcome: type[Exception] | None
) -> None:
    async def story() -> None:
        async with FakeServer(in_turn(*script)) as server, server.client(deadline_s=10.0) as client:
            request = client.get(PODS, A) if method == "GET" else client.patch(PODS, A, {})
            if outcome is None:
                assert (await request).metadata.resource_version == "2"
            else:
                with pytest.raises(outcome):
                    await request
            assert len(server.requests) == requests

    asyncio.run(story())


def test_a_refused_token_is_refreshed_once(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "token").write_text("old")
        credentials = TokenFile(tmp_path / "token")

        def script(request: Request) -> Answer:
            (tmp_path / "token").write_text("newer")
            known = request.headers["Authorization"] == "Bearer newer"
            return Answer(200, pod("a", 2)) if known else Answer(401, refusal(401, "Unauthorized"))

        async with (
            FakeServer(script) as server,
            Client(RestConfig(server.url, credentials=credentials), random.Random(7)) as client,
        ):
            assert (await client.patch(PODS, A, {})).metadata.resource_version == "2"
            assert len(server.requests) == 2

    asyncio.run(story())


def test_credentials_that_cannot_be_refreshed_are_not_retried() -> None:
    async def story() -> None:
        async with (
            FakeServer(in_turn(Answer(401, refusal(401, "Unauthorized", "Unauthorized")))) as server,
            Client(RestConfig(server.url, credentials=Token("s3cr3t")), random.Random(7)) as client,
        ):
            with pytest.raises(Unauthorized, match="check --token, or the user of the context") as caught:
                await client.get(PODS, A)
            assert "s3cr3t" not in str(caught.value) + repr(client.config)

    asyncio.run(story())


def test_a_server_that_never_answers_is_unreachable_at_the_deadline() -> None:
    async def story() -> None:
        never = asyncio.Event()

        async def silence() -> Answer:
            await never.wait()
            return Answer()

        async with FakeServer(lambda request: silence()) as server, server.client(deadline_s=0.5) as client:
            with pytest.raises(Unreachable, match="the deadline passed") as caught:
                await client.patch(PODS, A, {})
            assert caught.value.sent
            never.set()

    asyncio.run(story())


def test_a_refused_connection_is_unreachable_and_not_sent() -> None:
    async def story() -> None:
        async with FakeServer(in_turn()) as server:
            pass
        async with server.client() as client:
            with pytest.raises(
                Unreachable, match=r"connection refused \(is the API server running\?\)"
            ) as caught:
                await client.delete(PODS, A)
            assert not caught.value.sent

    asyncio.run(story())


def test_a_request_that_waits_while_the_client_is_closed_is_unreachable() -> None:
    async def story() -> None:
        asked = asyncio.Event()

        def hang_up(request: Request) -> Hangup:
            asked.set()
            return Hangup()

        async with FakeServer(hang_up) as server:
            async with server.client() as client:
                waiting = asyncio.create_task(client.get(PODS, A))  # its second attempt is after a pause
                await asked.wait()
            with pytest.raises(Unreachable, match="this client is closed"):
                await waiting
            with pytest.raises(Unreachable, match="this client is closed"):
                await watched(client)

    asyncio.run(story())


def test_the_number_of_concurrent_requests_is_bounded() -> None:
    async def story() -> None:
        in_flight, most = 0, 0

        async def count() -> Answer:
            nonlocal in_flight, most
            in_flight += 1
            most = max(most, in_flight)
            await asyncio.sleep(0.01)  # sleeps: a request that takes a while
            in_flight -= 1
            return Answer(200, pod("a", 1))

        async with FakeServer(lambda request: count()) as server, server.client(concurrency=3) as client:
            await asyncio.gather(*(client.get(PODS, A) for _ in range(12)))
        assert most == 3

    asyncio.run(story())


@pytest.mark.parametrize(
    ("script", "names", "continues"),
    [
        pytest.param(
            [listing(9, pod("a", 1), continue_="x"), listing(9, pod("b", 2))],
            ["a", "b"], [None, "x"], id="two pages",
        ),
        pytest.param(
            [listing(9, pod("a", 1), continue_="x"), EXPIRED, listing(12, pod("c", 3))],
            ["c"], [None, "x", None], id="an expired continue token: the list starts over",
        ),
    ],
)  # fmt: skip
def test_a_list_is_complete_over_all_pages(
    script: list[Answer], names: list[str], continues: list[str | None]
) -> None:
    async def story() -> None:
        async with FakeServer(in_turn(*script)) as server, server.client() as client:
            found = await client.list(PODS, label_selector="app=x")
            assert [item.metadata.name for item in found.items] == names
            assert [request.query.get("continue") for request in server.requests] == continues
            assert {request.query["labelSelector"] for request in server.requests} == {"app=x"}

    asyncio.run(story())


def test_an_undecodable_object_does_not_hide_the_others() -> None:
    odd = pod("odd", 3) | {"spec": {"containers": "none"}}

    async def story() -> None:
        async with FakeServer(in_turn(listing(9, pod("a", 1), odd))) as server, server.client() as client:
            found = await client.list(PODS)
        assert [item.metadata.name for item in found.items] == ["a"]
        (undecodable,) = found.undecodable
        assert undecodable.key == Key("default", "odd")
        assert "$.spec.containers" in undecodable.problem

    asyncio.run(story())


@pytest.mark.parametrize(
    ("requests", "problem"),
    [
        pytest.param({"cpu": "2"} | {f"a.b/{number}": "0" for number in range(9000)}, "", id="nearly all 0"),
        pytest.param({f"a.b/{number}": 0 for number in range(9000)} | {"cpu": "2"}, "", id="0 as a number"),
        pytest.param(
            {"cpu": "2"} | {f"a.b/{number}": "1" for number in range(9000)},
            "more than 8192 quantities, which are not read",
            id="too many",
        ),
    ],
)
def test_an_object_with_thousands_of_quantities_is_read_if_nearly_all_are_zero(
    requests: dict[str, Any], problem: str
) -> None:
    """A pod that requests nothing of thousands of resources may run, and what it does request counts."""
    large = pod("large", 3) | {"spec": {"containers": [{"resources": {"requests": requests}}]}}

    async def story() -> None:
        answers = in_turn(listing(9, pod("a", 1), large), Stream((frame("ADDED", large),)))
        async with FakeServer(answers) as server, server.client() as client:
            found = await client.list(PODS)
            async for event in client.watch(PODS, "9"):
                seen = event
                break
        faults = [*found.undecodable, *([seen] if isinstance(seen, ObjectFault) else [])]
        read = [*found.items[1:], *([seen.object] if isinstance(seen, WatchEvent) else [])]
        if problem:
            assert read == []
            assert [fault.problem.startswith(problem) for fault in faults] == [True, True]
        else:
            assert faults == []
            of_pods = [each.spec.containers[0].resources.requests for each in read]
            assert of_pods == [{"cpu": Quantity.of_units(2)}] * 2

    asyncio.run(story())


MANY = {f"a.b/{number}": "1" for number in range(5000)}


@pytest.mark.parametrize(
    ("spec", "status", "requests"),
    [
        pytest.param(
            {
                "nodeName": "n",
                "containers": [{"resources": {"requests": {"cpu": "1500m", **MANY}}}] * 2,
                "initContainers": [{"resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
            },
            {}, {"cpu": "3", "memory": "1Gi", "a.b/7": "2"}, id="the effective request of all containers",
        ),
        pytest.param(
            {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
            {"containerStatuses": [{"name": "c", "allocatedResources": MANY}] * 2},
            {"cpu": "1"}, id="a status with many quantities",
        ),
        pytest.param(
            {
                "nodeName": "n",
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "tolerations": "all",
            },
            {}, {"cpu": "1"}, id="another field that cannot be decoded",
        ),
        pytest.param(
            {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": [1], **MANY}}}] * 2},
            {}, None, id="a request that cannot be read",
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": MANY}}] * 2}, {}, None, id="a pod without a node"
        ),
        pytest.param(
            {"nodeName": "n", "containers": [{"resources": {"requests": MANY}}] * 2},
            {"phase": "Succeeded"}, None, id="a pod that has ended",
        ),
    ],
)  # fmt: skip
def test_what_a_pod_requests_of_its_node_is_known_although_it_cannot_be_decoded(
    spec: dict[str, Any], status: dict[str, Any], requests: dict[str, str] | None
) -> None:
    odd = pod("odd", 3) | {"spec": spec, "status": status}

    async def story() -> None:
        answers = in_turn(listing(9, odd), Stream((frame("ADDED", odd),)))
        async with FakeServer(answers) as server, server.client() as client:
            (listed,) = (await client.list(PLACEABLE_PODS)).undecodable
            async for event in client.watch(PLACEABLE_PODS, "9"):
                watched = event
                break
        assert isinstance(watched, ObjectFault)
        for fault in (listed, watched):
            if requests is None:
                assert fault.requests is None
            else:
                assert fault.requests is not None
                found = fault.requests.of_resources(["cpu", "memory", "a.b/7", "other"])
                names = {name for name in ("cpu", "memory", "a.b/7") if name in requests}
                assert {name: str(amount) for name, amount in found.items() if name in names} == requests

    asyncio.run(story())


def test_frames_of_a_watch_are_decoded_whatever_the_chunks_are() -> None:
    text = frame("ADDED", pod("a", 2)) + frame("MODIFIED", pod("ü", 3)) + bookmark(8)
    odd = frame("ADDED", pod("odd", 9) | {"spec": 1})
    chunks = (*(text[i : i + 7] for i in range(0, len(text), 7)), b"\n", odd)

    async def story() -> None:
        async with FakeServer(in_turn(Stream(chunks))) as server, server.client() as client:
            first, second, third, fourth = await watched(client)
        assert isinstance(first, WatchEvent)
        assert isinstance(second, WatchEvent)
        assert (first.type, first.object.metadata.name) == ("ADDED", "a")
        assert (second.type, second.object.metadata.name) == ("MODIFIED", "ü")
        assert third == Bookmark("8")
        assert isinstance(fourth, ObjectFault)
        assert (fourth.key.name, fourth.resource_version) == ("odd", "9")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        pytest.param(Stream((frame("ERROR", refusal(410, "Expired")),)), Gone, id="an error frame"),
        pytest.param(EXPIRED, Gone, id="refused at the start"),
        pytest.param(
            Stream((b'{"type": "ADDED", "obj',), torn=True), Unreachable, id="broken within a frame"
        ),
        pytest.param(Stream((b"oops\n",)), Unreadable, id="a line that is not a frame"),
        pytest.param(Stream((frame("NOVELTY", pod("a", 1)),)), Unreadable, id="an unknown type"),
    ],
)
def test_a_failed_watch_raises_the_matching_error(
    response: Answer | Stream, outcome: type[Exception]
) -> None:
    async def story() -> None:
        async with FakeServer(in_turn(response)) as server, server.client() as client:
            with pytest.raises(outcome):
                await watched(client)

    asyncio.run(story())


def test_writes_are_sent_only_while_they_are_permitted() -> None:
    """The permit is asked for each attempt of a write, and never for a read."""

    async def scenario() -> None:
        refusals = iter(["", "", "the lease may be another's"])
        overloaded = Answer(429, refusal(429, "TooManyRequests"), {"Retry-After": "0"})
        async with (
            FakeServer(in_turn(Answer(), overloaded, Answer())) as server,
            server.client(permit=lambda: next(refusals)) as client,
        ):
            await client.request("POST", "/api/v1/namespaces", body=b"{}")
            with pytest.raises(WriteNotPermitted) as error:
                await client.request("DELETE", "/api/v1/namespaces/n")
            assert str(error.value) == "DELETE /api/v1/namespaces/n: not sent: the lease may be another's"
            await client.request("GET", "/api/v1/namespaces")
            assert [each.method for each in server.requests] == ["POST", "DELETE", "GET"]

    asyncio.run(scenario())


def test_a_watch_is_unreachable_if_its_connection_ends_between_two_events() -> None:
    async def story() -> None:
        hold = asyncio.Event()
        stream = Stream((frame("ADDED", pod("a", 1)),), hold=hold)
        async with FakeServer(in_turn(stream)) as server:
            client = server.client()
            async with client:
                events = client.watch(PODS, "1")
                assert isinstance(await anext(events), WatchEvent)
            with pytest.raises(Unreachable):
                await anext(events)
            hold.set()

    asyncio.run(story())
