import asyncio
import pickle
import random
import time
from pathlib import Path

import pytest

from quorate.api.core import Pod
from quorate.api.meta import Key, ObjectMeta
from quorate.kube.client import Client, PatchKind
from quorate.kube.errors import (
    Conflict,
    Gone,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Unreadable,
)
from quorate.kube.resources import PODS
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token, TokenFile
from quorate.kube.rest.decoding import Bookmark, UndecodableObject, WatchEvent
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


def test_a_typed_object_is_created_with_its_api_version_and_kind() -> None:
    async def story() -> None:
        async with FakeServer(in_turn(Answer(201, pod("a", 5)))) as server, server.client() as client:
            made = await client.create(PODS, Pod(metadata=ObjectMeta(name="a", namespace="default")))
            assert made.metadata.resource_version == "5"
            (request,) = server.requests
            assert (request.method, request.path) == ("POST", "/api/v1/namespaces/default/pods")
            assert request.query == {"fieldManager": "quorate"}
            assert request.body == {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a", "namespace": "default"},
            }

    asyncio.run(story())


def test_a_patch_says_what_kind_it_is_and_a_dry_run_that_it_is_one() -> None:
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


def test_a_refusal_is_an_exception_that_pickles_and_tells_the_story() -> None:
    async def story() -> None:
        said = refusal(404, "NotFound", 'pods "a" not found', details={"name": "a", "kind": "pods"})
        async with FakeServer(in_turn(Answer(404, said))) as server, server.client() as client:
            with pytest.raises(NotFound) as caught:
                await client.get(PODS, A)
        copy = pickle.loads(pickle.dumps(caught.value))
        assert str(copy) == 'GET /api/v1/namespaces/default/pods/a: 404 NotFound: pods "a" not found'
        assert (copy.details.name, copy.details.kind) == ("a", "pods")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("script", "method", "asked_times", "outcome"),
    [
        pytest.param(
            [Answer(429, {}, {"Retry-After": "0"}), Answer(200, pod("a", 2))],
            "PATCH", 2, None, id="a busy server did not process it: ask again",
        ),
        pytest.param([Answer(429, {})], "PATCH", 1, TooManyRequests, id="a budget's refusal is final"),
        pytest.param(
            [Answer(429, {}, {"Retry-After": "3600"})],
            "GET", 1, TooManyRequests, id="no waiting beyond the deadline",
        ),
        pytest.param([Answer(500, b""), Answer(200, pod("a", 2))], "GET", 2, None, id="reading is harmless"),
        pytest.param([Hangup(), Answer(200, pod("a", 2))], "GET", 2, None, id="reading after a break, too"),
        pytest.param([Hangup()], "PATCH", 1, Unreachable, id="who knows whether a broken write was done"),
        pytest.param([Answer(409, refusal(409, "Conflict"))], "PATCH", 1, Conflict, id="the caller decides"),
        pytest.param([Answer(200, b"<html>")], "GET", 1, Unreadable, id="a proxy's page is no object"),
    ],
)  # fmt: skip
def test_asking_again(
    script: list[Answer | Hangup], method: str, asked_times: int, outcome: type[Exception] | None
) -> None:
    async def story() -> None:
        async with FakeServer(in_turn(*script)) as server, server.client(deadline_s=10.0) as client:
            request = client.get(PODS, A) if method == "GET" else client.patch(PODS, A, {})
            if outcome is None:
                assert (await request).metadata.resource_version == "2"
            else:
                with pytest.raises(outcome):
                    await request
            assert len(server.requests) == asked_times

    asyncio.run(story())


def test_a_token_that_is_refused_is_read_anew_and_only_once(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "token").write_text("old")
        credentials = TokenFile(tmp_path / "token")

        def door(request: Request) -> Answer:
            (tmp_path / "token").write_text("newer")
            known = request.headers["Authorization"] == "Bearer newer"
            return Answer(200, pod("a", 2)) if known else Answer(401, refusal(401, "Unauthorized"))

        async with (
            FakeServer(door) as server,
            Client(RestConfig(server.url, credentials=credentials), random.Random(7)) as client,
        ):
            assert (await client.patch(PODS, A, {})).metadata.resource_version == "2"
            assert len(server.requests) == 2

    asyncio.run(story())


def test_credentials_that_cannot_be_renewed_are_refused_once() -> None:
    async def story() -> None:
        async with (
            FakeServer(in_turn(Answer(401, refusal(401, "Unauthorized", "Unauthorized")))) as server,
            Client(RestConfig(server.url, credentials=Token("s3cr3t")), random.Random(7)) as client,
        ):
            with pytest.raises(Unauthorized, match="kubeconfig's current context") as caught:
                await client.get(PODS, A)
            assert "s3cr3t" not in str(caught.value) + repr(client.cluster)

    asyncio.run(story())


def test_a_server_that_never_answers_is_unreachable_at_the_deadline() -> None:
    async def story() -> None:
        never = asyncio.Event()

        async def silence() -> Answer:
            await never.wait()
            return Answer()

        async with FakeServer(lambda request: silence()) as server, server.client(deadline_s=0.1) as client:
            with pytest.raises(Unreachable, match="the deadline passed") as caught:
                await client.patch(PODS, A, {})
            assert caught.value.sent
            never.set()

    asyncio.run(story())


def test_who_is_stopped_in_the_turn_in_which_the_deadline_passes_stops() -> None:
    async def story() -> None:
        arrived, never = asyncio.Event(), asyncio.Event()

        async def silence() -> Answer:
            arrived.set()
            await never.wait()
            return Answer()

        async with FakeServer(lambda request: silence()) as server, server.client(deadline_s=0.3) as client:
            asking = asyncio.create_task(client.get(PODS, A))
            await arrived.wait()
            asyncio.get_running_loop().call_later(0.3, asking.cancel)
            time.sleep(0.4)  # noqa: ASYNC251  a busy machine: both are due when the loop goes on
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert asking.cancelling() == 1
            never.set()

    asyncio.run(story())


def test_nothing_listens() -> None:
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


def test_no_more_requests_are_under_way_than_allowed() -> None:
    async def story() -> None:
        under_way, most = 0, 0

        async def count() -> Answer:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.01)
            under_way -= 1
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
            ["a", "b"], [None, "x"], id="page after page",
        ),
        pytest.param(
            [listing(9, pod("a", 1), continue_="x"), EXPIRED, listing(12, pod("c", 3))],
            ["c"], [None, "x", None], id="a page too old to go on from: all over again",
        ),
    ],
)  # fmt: skip
def test_list(script: list[Answer], names: list[str], continues: list[str | None]) -> None:
    async def story() -> None:
        async with FakeServer(in_turn(*script)) as server, server.client() as client:
            found = await client.list(PODS, label_selector="app=x")
            assert [item.metadata.name for item in found.items] == names
            assert [request.query.get("continue") for request in server.requests] == continues
            assert {request.query["labelSelector"] for request in server.requests} == {"app=x"}

    asyncio.run(story())


def test_one_object_of_the_wrong_shape_hides_no_other() -> None:
    odd = pod("odd", 3) | {"spec": {"containers": "none"}}

    async def story() -> None:
        async with FakeServer(in_turn(listing(9, pod("a", 1), odd))) as server, server.client() as client:
            found = await client.list(PODS)
        assert [item.metadata.name for item in found.items] == ["a"]
        (misfit,) = found.undecodable
        assert misfit.key == Key("default", "odd")
        assert "$.spec.containers" in misfit.problem

    asyncio.run(story())


def test_a_watch_is_read_frame_by_frame_however_it_is_cut() -> None:
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
        assert isinstance(fourth, UndecodableObject)
        assert (fourth.key.name, fourth.resource_version) == ("odd", "9")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        pytest.param(Stream((frame("ERROR", refusal(410, "Expired")),)), Gone, id="an error frame"),
        pytest.param(EXPIRED, Gone, id="refused before it began"),
        pytest.param(Stream((b'{"type": "ADDED", "obj',), torn=True), Unreachable, id="torn in a frame"),
        pytest.param(Stream((b"oops\n",)), Unreadable, id="a line that is no frame"),
        pytest.param(Stream((frame("NOVELTY", pod("a", 1)),)), Unreadable, id="a type nobody knows"),
    ],
)
def test_a_watch_that_fails(said: Answer | Stream, outcome: type[Exception]) -> None:
    async def story() -> None:
        async with FakeServer(in_turn(said)) as server, server.client() as client:
            with pytest.raises(outcome):
                await watched(client)

    asyncio.run(story())
