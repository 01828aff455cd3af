"""A feed passes the same changes to its model from an informer as from one list."""

import asyncio

import pytest

from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.kube.feed import Feed, load
from quorate.kube.informer import Informer
from quorate.kube.resources import PODS
from tests.kube.fake_server import FakeServer, Stream, frame, in_turn, listing, pod

pytestmark = pytest.mark.slow


class Model:
    """Records every call, and under ``-`` every notification."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def put(self, pod: Pod) -> None:
        self.calls.append(f"put {pod.metadata.name}@{pod.metadata.resource_version}")

    def remove(self, key: Key) -> None:
        self.calls.append(f"remove {key.name}")

    def changed(self) -> None:
        self.calls.append("-")

    def feed(self) -> Feed[Pod]:
        """Labels are read, and only the label ``team`` decides."""

        def labels_differ(old: Pod, new: Pod) -> bool:
            return old.metadata.labels != new.metadata.labels

        def teams_differ(old: Pod, new: Pod) -> bool:
            return old.metadata.labels.get("team") != new.metadata.labels.get("team")

        return Feed(PODS, self.put, self.remove, is_relevant=labels_differ, is_decisive=teams_differ)


def test_an_informer_passes_on_relevant_changes_and_notifies_of_decisive_ones() -> None:
    async def story() -> list[str]:
        silence = asyncio.Event()
        changes = (
            frame("MODIFIED", pod("a", 6)),  # nothing that the model reads
            frame("MODIFIED", pod("a", 7, note="x")),
            frame("MODIFIED", pod("a", 8, note="x", team="red")),
            frame("DELETED", pod("a", 9, note="x", team="red")),
        )
        script = in_turn(listing(5, pod("a", 1)), Stream(changes, hold=silence))
        model = Model()
        async with FakeServer(script) as server, server.client() as client:
            informer = Informer(client, PODS)
            model.feed().subscribe(informer, model.changed)
            running = asyncio.create_task(informer.run())
            async with asyncio.timeout(20):
                while "remove a" not in model.calls:  # noqa: ASYNC110  the deadline is above
                    await asyncio.sleep(0.005)
            silence.set()
            running.cancel()
            await asyncio.wait([running])
        return model.calls

    assert asyncio.run(story()) == ["put a@1", "-", "put a@7", "put a@8", "-", "remove a", "-"]


def test_a_load_puts_every_listed_object_in_the_order_of_the_feeds() -> None:
    async def story() -> list[str]:
        first, second = Model(), Model()
        second.calls = first.calls
        script = in_turn(listing(5, pod("a", 1), pod("b", 2)), listing(5, pod("a", 1), pod("b", 2)))
        async with FakeServer(script) as server, server.client() as client:
            await load(client, (first.feed(), second.feed()))
        return first.calls

    assert asyncio.run(story()) == ["put a@1", "put b@2", "put a@1", "put b@2"]
