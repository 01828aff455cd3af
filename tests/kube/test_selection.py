"""A selection of an informer is an informer of the objects that it selects."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.kube.informer import Change, Informer
from quorate.kube.object_faults import ObjectFault
from quorate.kube.resources import PODS
from quorate.kube.selection import Selection
from tests.kube.fake_server import FakeServer, Stream, frame, in_turn, listing, pod
from tests.kube.test_informer import shown, wait_for

pytestmark = pytest.mark.slow


def is_red(obj: Pod) -> bool:
    return obj.metadata.labels.get("color") == "red"


EVENTS = (
    frame("MODIFIED", pod("a", 3, color="red")),
    frame("MODIFIED", pod("b", 4, color="red")),
    frame("MODIFIED", pod("a", 5, color="blue")),
    frame("DELETED", pod("c", 6, color="blue")),
    frame("DELETED", pod("b", 7, color="red")),
)
"""Of a list with a red pod a, and blue pods b and c."""


def play(story: Callable[[Informer[Pod], asyncio.Event], Any]) -> None:
    """Run an informer; the events are sent once the event of the story is set."""

    async def run() -> None:
        go_on = asyncio.Event()
        listed = listing(2, pod("a", 1, color="red"), pod("b", 1, color="blue"), pod("c", 1, color="blue"))
        script = in_turn(listed, Stream((), hold=go_on), Stream(EVENTS, hold=asyncio.Event()))
        async with FakeServer(script) as server, server.client() as client:
            await story(Informer(client, PODS), go_on)

    asyncio.run(run())


@pytest.mark.parametrize("is_small", [False, True])
@pytest.mark.parametrize("is_late", [False, True], ids=["from the start", "later"])
def test_an_object_that_is_not_selected_is_absent(is_small: bool, is_late: bool) -> None:
    seen: list[str] = []

    async def story(informer: Informer[Pod], go_on: asyncio.Event) -> None:
        selection = Selection("red", informer, is_red, is_small=is_small)
        if not is_late:
            selection.subscribe(lambda change: seen.append(shown(change)))
        running = asyncio.create_task(selection.run())
        await selection.synced.wait()
        if is_late:
            selection.subscribe(lambda change: seen.append(shown(change)))
        selection.add_index("all", lambda _: ("all",))
        assert [obj.metadata.name for obj in selection.by_index("all", "all")] == ["a"]
        assert selection.get(Key("default", "b")) is None
        go_on.set()
        await wait_for(lambda: informer.get(Key("default", "b")) is None)
        assert selection.by_index("all", "all") == []
        running.cancel()

    play(story)
    assert seen == ["a@1", "a@1>3", "b@4", "a@3>", "b@4>"]


def test_several_selections_run_one_watch() -> None:
    async def story(informer: Informer[Pod], go_on: asyncio.Event) -> None:
        red = Selection("red", informer, is_red)
        blue = Selection("blue", informer, lambda obj: not is_red(obj))
        for selection in (red, blue):
            selection.add_index("all", lambda _: ("all",))
        tasks = [asyncio.create_task(selection.run()) for selection in (red, blue)]
        await blue.synced.wait()
        assert [obj.metadata.name for obj in blue.by_index("all", "all")] == ["b", "c"]
        assert informer.is_running
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    play(story)


def test_a_subscriber_in_slices_sees_each_object_once_and_every_change() -> None:
    seen: list[str] = []
    unusable: list[Key] = []

    def on_change(change: Change[Pod]) -> None:
        seen.append(shown(change))
        if change.key.name == "c" and change.new is not None:
            raise ValueError("c is not for this subscriber")

    def on_unusable(key: Key, fault: ObjectFault | None) -> None:
        if fault is not None:
            unusable.append(key)

    async def story(informer: Informer[Pod], go_on: asyncio.Event) -> None:
        running = asyncio.create_task(informer.run())
        await informer.synced.wait()
        await informer.subscribe_in_slices(on_change, on_unusable)
        go_on.set()
        await wait_for(lambda: informer.get(Key("default", "b")) is None)
        running.cancel()

    play(story)
    assert sorted(seen[:4]) == ["a@1", "b@1", "c@1", "c@1>"]
    assert seen[4:] == ["a@1>3", "b@1>4", "a@3>5", "b@4>"]
    assert unusable == [Key("default", "c")]
