"""The cache of an informer follows lists and watches, and subscribers see every change."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.kube.errors import RequestFailed
from quorate.kube.informer import Change, Informer
from quorate.kube.limits import WATCH_SLICE_S
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import PODS
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
    streams_lists: bool = False,
) -> None:
    """Run an informer against these responses, followed by a watch without events."""

    async def story() -> None:
        silence = asyncio.Event()
        script = in_turn(*responses, Stream((), hold=silence), Stream((), hold=silence))
        async with FakeServer(script) as server, server.client(streams_lists=streams_lists) as client:
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


def test_a_watch_that_begins_with_the_existing_objects_reports_all_differences_at_their_end() -> None:
    def then(informer: Informer[Pod], server: FakeServer) -> None:
        assert versions_watched(server)[:5] == ["", "", "6", "", "9"]

    play(
        Stream((frame("ADDED", pod("gone", 1)), frame("ADDED", pod("a", 2))), torn=True),
        Stream((frame("ADDED", pod("a", 2)), bookmark(5), frame("MODIFIED", pod("a", 6)))),
        Stream((frame("ERROR", refusal(410, "Expired")),)),
        Stream((frame("ADDED", pod("new", 9)), bookmark(9))),
        want=["gone@1", "a@2", "gone@1>", "a@2>6", "new@9", "a@6>"],
        then=then,
        streams_lists=True,
    )


def test_other_tasks_run_while_a_long_list_is_taken_over() -> None:
    """Twenty objects take more than two slices each: before each but the first, another task runs."""
    turns = 0
    turns_at: list[int] = []

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    def slow(change: Change[Pod]) -> None:
        turns_at.append(turns)
        until = time.perf_counter() + 2 * WATCH_SLICE_S
        while time.perf_counter() < until:
            pass

    async def story() -> None:
        pods = [pod(f"pod-{number}", number + 1) for number in range(20)]
        script = in_turn(listing(30, *pods), Stream((), hold=asyncio.Event()))
        async with FakeServer(script) as server, server.client() as client:
            informer = Informer(client, PODS)
            informer.subscribe(slow)
            tasks = [asyncio.create_task(each) for each in (informer.run(), count())]
            await informer.synced.wait()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    asyncio.run(story())
    assert len(set(turns_at)) == 20


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
        listing(5, pod("a", 1)),
        Stream((frame("ADDED", pod("b", 6)), frame("MODIFIED", pod("a", 7)))),
        want=["a@1", "b@6", "a@1>7"],
        then=lambda informer, server: expect_check(
            server.requests[2], server.requests[3].query["resourceVersion"]
        ),
    )


def expect_check(request: Request, version: str) -> None:
    """Assert that the request asks whether the store has reached ``version``."""
    want = {"limit": "1", "resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
    assert (request.path, request.query) == ("/api/v1/pods", want)


TOO_LARGE = refusal(504, "Timeout", details={"causes": [{"reason": "ResourceVersionTooLarge"}]})


@pytest.mark.parametrize("streams_lists", [False, True])
def test_objects_of_a_store_that_was_restored_from_a_backup_are_listed_as_created_again(
    streams_lists: bool,
) -> None:
    """A watch from the version before would be silent until the store has reached it."""
    restored = (pod("back", 7), pod("same", 2), pod("new", 9))
    first = [pod("back", 19), pod("same", 2), pod("lost", 18)]
    if streams_lists:
        before: Answer | Stream = Stream((*(frame("ADDED", each) for each in first), bookmark(20)), torn=True)
        after: Answer | Stream = Stream((*(frame("ADDED", each) for each in restored), bookmark(9)))
        responses = [before, Answer(504, TOO_LARGE), after]
    else:
        responses = [
            listing(20, *first),
            Stream((), torn=True),
            Answer(504, TOO_LARGE),
            listing(9, *restored),
        ]
    again = ["back@19>", "back@7", "new@9"]
    play(
        *responses,
        want=[
            "back@19",
            "same@2",
            "lost@18",
            *([*again, "lost@18>"] if streams_lists else ["lost@18>", *again]),
        ],
        then=lambda informer, server: expect_check(server.requests[len(responses) - 2], "20"),
        streams_lists=streams_lists,
    )


@pytest.mark.parametrize(
    "responses",
    [
        pytest.param((Answer(403, refusal(403, "Forbidden", "no")),), id="a refused list"),
        pytest.param((listing(5), Stream((frame("ADDED", pod("a", 6)),), torn=True)), id="a torn watch"),
        pytest.param((listing(5), Stream((b"no JSON\n",))), id="a frame that cannot be parsed"),
    ],
)
def test_run_until_failure_raises_the_first_failure(responses: tuple[Answer | Stream, ...]) -> None:
    async def story() -> None:
        ended = (listing(3), Stream((frame("ADDED", pod("a", 4)),)), Answer(410, refusal(410, "Expired")))
        async with FakeServer(in_turn(*ended, *responses)) as server, server.client() as client:
            informer = Informer(client, PODS)
            with pytest.raises(RequestFailed):
                await informer.run_until_failure()
            assert not informer.is_running
            assert len(server.requests) == len(ended) + len(responses)

    asyncio.run(story())


def test_an_unreadable_frame_leads_to_a_list() -> None:
    play(listing(5), Stream((b"oops\n",)), listing(8, pod("a", 7)), want=["a@7"])


def test_an_object_that_becomes_undecodable_counts_as_deleted() -> None:
    odd = pod("a", 6) | {"spec": 1}
    play(listing(5, pod("a", 1)), Stream((frame("MODIFIED", odd),)), want=["a@1", "a@1>"])


@pytest.mark.parametrize("of_metadata", [False, True])
def test_indexes_follow_the_objects(of_metadata: bool) -> None:
    async def story() -> None:
        silence = asyncio.Event()
        first = listing(5, pod("b", 1, app="x"), pod("a", 2, app="x"), pod("c", 3, app="y"))
        events = (frame("MODIFIED", pod("b", 6, app="y")), frame("DELETED", pod("a", 7, app="x")))
        async with (
            FakeServer(in_turn(first, Stream(events, hold=silence))) as server,
            server.client() as client,
        ):
            informer = Informer(client, PODS)
            informer.add_index("app", lambda obj: obj.metadata.labels.values(), of_metadata=of_metadata)
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


def _refuse_odd(change: Change[Pod]) -> None:
    if change.new is not None and "odd" in change.new.metadata.labels:
        raise LookupError("no such queue")


def test_a_subscriber_sees_the_removal_of_an_object_that_it_cannot_use_and_the_next_version() -> None:
    seen: list[str] = []
    aside: list[str] = []

    def on_change(change: Change[Pod]) -> None:
        seen.append(shown(change))
        _refuse_odd(change)

    def on_unusable(key: Key, fault: ObjectFault | None) -> None:
        aside.append(f"{key.name} {'usable' if fault is None else fault.problem}")

    async def story() -> None:
        silence = asyncio.Event()
        first = listing(5, pod("a", 1), pod("b", 2, odd="x"))
        events = (
            frame("MODIFIED", pod("a", 6, odd="x")),
            frame("MODIFIED", pod("a", 7)),
            frame("MODIFIED", pod("b", 8, odd="x")),
            frame("MODIFIED", pod("a", 9) | {"spec": 1}),
            frame("DELETED", pod("b", 10, odd="x")),
            frame("DELETED", pod("a", 11) | {"spec": 1}),
        )
        async with (
            FakeServer(in_turn(first, Stream(events, hold=silence))) as server,
            server.client() as client,
        ):
            faults: list[ObjectFault] = []
            others: list[str] = []
            informer = Informer(client, PODS)
            informer.subscribe(on_change, on_unusable)
            informer.subscribe(lambda change: others.append(shown(change)))
            with client.faults.subscribed(faults.append):
                async with running(informer):
                    await wait_for(lambda: len(aside) == 7)
                    silence.set()
            assert seen == ["a@1", "b@2", "b@2>", "a@1>6", "a@1>", "a@7", "b@8", "b@8>", "a@7>"]
            assert others == ["a@1", "b@2", "a@1>6", "a@6>7", "b@2>8", "a@7>", "b@8>"]
            cannot = "internal error, see the log of this component: LookupError: no such queue"
            odd = "Expected `object`, got `int` - at `$.spec`"
            assert aside == [
                *(f"b {cannot}", f"a {cannot}", "a usable", f"b {cannot}", f"a {odd}"),
                *("b usable", "a usable"),
            ]
            assert [(fault.stage, fault.key.name, fault.resource_version) for fault in faults] == [
                *(("subscribe", "b", "2"), ("subscribe", "a", "6"), ("subscribe", "b", "8")),
                ("decode", "a", "9"),
            ]

    asyncio.run(story())


def test_an_index_leaves_out_what_it_cannot_read() -> None:
    def app_of(obj: Pod) -> tuple[str, ...]:
        return (obj.metadata.labels["app"],)

    async def story() -> None:
        silence = asyncio.Event()
        events = (
            frame("MODIFIED", pod("a", 6)),
            frame("MODIFIED", pod("b", 7, app="x")),
            frame("DELETED", pod("c", 8)),
            frame("ADDED", pod("last", 9, app="y")),
        )
        first = listing(5, pod("a", 1, app="x"), pod("b", 2), pod("c", 3))
        async with (
            FakeServer(in_turn(first, Stream(events, hold=silence))) as server,
            server.client() as client,
        ):
            informer = Informer(client, PODS)
            informer.add_index("app", app_of)
            async with running(informer):
                await wait_for(lambda: informer.get(Key("default", "last")) is not None)
                silence.set()
            informer.add_index("late", app_of)
            for index in ("app", "late"):
                assert [obj.metadata.name for obj in informer.by_index(index, "x")] == ["b"]
            assert len(informer) == 3

    asyncio.run(story())


def test_a_fault_is_logged_once_for_each_version(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        silence = asyncio.Event()
        odd = listing(5, pod("a", 1, odd="x"))
        expired = Stream((frame("ERROR", refusal(410, "Expired")),))
        events = (frame("MODIFIED", pod("a", 6, odd="x")), frame("ADDED", pod("last", 7)))
        responses = (odd, expired, odd, Stream(events, hold=silence))
        async with FakeServer(in_turn(odd, *responses)) as server, server.client() as client:
            informers = (Informer(client, PODS), Informer(client, PODS))
            for informer in informers:
                informer.subscribe(_refuse_odd)
            first = Informer(client, PODS)
            first.subscribe(_refuse_odd)
            await first._relist()
            async with running(informers[0]):
                await wait_for(lambda: informers[0].get(Key("default", "last")) is not None)
                silence.set()

    asyncio.run(story())
    raised = [record for record in caplog.records if record.exc_info is not None]
    assert [record.__dict__["quorate_keys"]["version"] for record in raised] == ["1", "6"]


def test_an_object_that_is_nested_too_deeply_hides_no_other() -> None:
    deep: Any = []
    for _ in range(800):
        deep = [deep]
    body = listing(5, pod("a", 1), pod("deep", 2) | {"deep": deep}, pod("c", 3))
    late = frame("ADDED", pod("late", 6) | {"deep": deep})
    levels = (b"[" * 800, b"[" * 3000), (b"]" * 800, b"]" * 3000)  # which the standard encoder refuses
    text = json.dumps(body.body).encode()
    for few, many in levels:
        text, late = text.replace(few, many), late.replace(few, many)
    play(
        Answer(body=text),
        Stream((late, frame("ADDED", pod("e", 7)))),
        want=["a@1", "c@3", "e@7"],
    )


@asynccontextmanager
async def running(informer: Informer[Pod]) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        yield
        task.cancel()
