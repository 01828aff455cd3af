"""The cache of an informer follows lists and watches, and subscribers see every change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PODS
from tests.kube.fake_server import (
    Answer,
    FakeServer,
    Hangup,
    Stream,
    bookmark,
    frame,
    in_turn,
    listing,
    pod,
    refusal,
)

pytestmark = pytest.mark.slow


def shown(change: Change[Pod]) -> str:
    """Return ``a@3`` for an addition, ``a@3>4`` for an update, ``a@4>`` for a deletion."""
    old = change.old.metadata.resource_version if change.old else ""
    new = change.new.metadata.resource_version if change.new else ""
    return f"{change.key.name}@{old}{'>' if old else ''}{new}"


async def wait_for(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  the deadline is above
            await asyncio.sleep(0.005)


def play(
    *responses: Answer | Stream | Hangup,
    want: list[str],
    then: Callable[[Informer[Pod], FakeServer], None] = lambda informer, server: None,
    on_change: Callable[[Change[Pod]], None] = lambda change: None,
) -> None:
    """Run an informer against these responses, followed by a watch without events."""

    async def story() -> None:
        silence = asyncio.Event()
        script = in_turn(*responses, Stream((), hold=silence), Stream((), hold=silence))
        async with FakeServer(script) as server, server.client() as client:
            seen: list[str] = []
            informer = Informer(client, PODS)
            informer.subscribe(lambda change: seen.append(shown(change)))
            informer.subscribe(on_change)
            running = asyncio.create_task(informer.run())
            await wait_for(lambda: len(server.requests) > len(responses) or running.done())
            silence.set()
            running.cancel()
            await asyncio.wait([running])
            assert seen == want
            then(informer, server)

    asyncio.run(story())


def versions_watched(server: FakeServer) -> list[str]:
    return [request.query["resourceVersion"] for request in server.requests if "watch" in request.query]


def test_a_watch_continues_from_the_last_version() -> None:
    def then(informer: Informer[Pod], server: FakeServer) -> None:
        assert versions_watched(server) == ["5", "7", "9"]
        assert [obj.metadata.name for obj in informer] == ["b"]

    play(
        listing(5, pod("b", 1), pod("a", 2)),
        Stream((frame("MODIFIED", pod("a", 6)), frame("DELETED", pod("a", 7)))),
        Stream((bookmark(9),)),
        want=["b@1", "a@2", "a@2>6", "a@6>"],
        then=then,
    )


def test_a_new_list_after_an_expired_watch_reports_all_differences() -> None:
    play(
        listing(5, pod("gone", 1), pod("same", 2), pod("changed", 3), pod("replaced", 4)),
        Stream((frame("ERROR", refusal(410, "Expired")),)),
        listing(20, pod("same", 2), pod("changed", 11), pod("replaced", 12, uid="other"), pod("new", 13)),
        want=[
            *("gone@1", "same@2", "changed@3", "replaced@4"),
            *("gone@1>", "changed@3>11", "replaced@4>", "replaced@12", "new@13"),
        ],
    )


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            Stream((frame("ADDED", pod("b", 6)), b'{"type":'), torn=True), id="broken within a frame"
        ),
        pytest.param(Hangup(), id="hung up"),
        pytest.param(Answer(500, b"oops"), id="a server error"),
        pytest.param(Answer(403, refusal(403, "Forbidden")), id="a refusal"),
    ],
)
def test_a_failed_watch_is_resumed(fault: Answer | Stream | Hangup) -> None:
    play(
        listing(5, pod("a", 1)),
        fault,
        Stream((frame("ADDED", pod("b", 6)), frame("MODIFIED", pod("a", 7)))),
        want=["a@1", "b@6", "a@1>7"],
    )


def test_an_unreadable_frame_leads_to_a_list() -> None:
    play(listing(5), Stream((b"oops\n",)), listing(8, pod("a", 7)), want=["a@7"])


def test_an_object_that_becomes_undecodable_counts_as_deleted() -> None:
    odd = pod("a", 6) | {"spec": 1}
    play(listing(5, pod("a", 1)), Stream((frame("MODIFIED", odd),)), want=["a@1", "a@1>"])


def test_indexes_follow_the_objects() -> None:
    async def story() -> None:
        silence = asyncio.Event()
        first = listing(5, pod("b", 1, app="x"), pod("a", 2, app="x"), pod("c", 3, app="y"))
        events = (frame("MODIFIED", pod("b", 6, app="y")), frame("DELETED", pod("a", 7, app="x")))
        async with (
            FakeServer(in_turn(first, Stream(events, hold=silence))) as server,
            server.client() as client,
        ):
            informer = Informer(client, PODS)
            informer.add_index("app", lambda obj: obj.metadata.labels.values())
            async with running(informer):
                await wait_for(lambda: informer.get(Key("default", "a")) is None and len(informer) == 2)
                informer.add_index("late", lambda obj: obj.metadata.labels.values())
                for index in ("app", "late"):
                    assert informer.by_index(index, "x") == []
                    assert [obj.metadata.name for obj in informer.by_index(index, "y")] == ["b", "c"]
                silence.set()

    asyncio.run(story())


def test_namespace_and_selectors_apply_to_list_and_watch() -> None:
    async def story() -> None:
        silence = asyncio.Event()
        async with (
            FakeServer(in_turn(listing(5), Stream((), hold=silence))) as server,
            server.client() as client,
        ):
            informer = Informer(client, PODS, "research", "app=x", "spec.nodeName=n")
            async with running(informer):
                await wait_for(lambda: len(server.requests) == 2)
                silence.set()
            for request in server.requests:
                assert request.path == "/api/v1/namespaces/research/pods"
                assert request.query["labelSelector"] == "app=x"
                assert request.query["fieldSelector"] == "spec.nodeName=n"

    asyncio.run(story())


def test_a_late_subscriber_first_gets_all_cached_objects() -> None:
    def then(informer: Informer[Pod], server: FakeServer) -> None:
        late: list[str] = []
        informer.subscribe(lambda change: late.append(shown(change)))
        assert late == ["a@2", "b@1"]

    play(listing(5, pod("b", 1), pod("a", 2)), want=["b@1", "a@2"], then=then)


def test_unchanged_metadata_is_shared_between_versions_of_an_object() -> None:
    changes: list[Change[Pod]] = []
    play(
        listing(5, pod("some-pod", 1)),
        Stream((frame("MODIFIED", pod("some-pod", 6)),)),
        want=["some-pod@1", "some-pod@1>6"],
        on_change=changes.append,
    )
    first, second = changes
    assert first.new is not None
    assert second.new is not None
    for part in ("name", "uid", "labels"):
        assert getattr(first.new.metadata, part) is getattr(second.new.metadata, part), part


def test_a_subscriber_that_raises_ends_the_run() -> None:
    def refuse(change: Change[Pod]) -> None:
        raise LookupError("no such queue")

    async def story() -> None:
        async with FakeServer(in_turn(listing(5, pod("a", 1)))) as server, server.client() as client:
            informer = Informer(client, PODS)
            informer.subscribe(refuse)
            with pytest.raises(LookupError) as caught:
                await informer.run()
            assert "pods default/a" in caught.value.__notes__[0]
            assert informer.get(Key("default", "a")) is not None

    asyncio.run(story())


@asynccontextmanager
async def running(informer: Informer[Pod]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        yield
        task.cancel()
