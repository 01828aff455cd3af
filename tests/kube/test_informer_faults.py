"""The law an informer lives by: however the outside fails, the copy ends up equal to the world."""

import asyncio
import random

import pytest

from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.kube.flowcontrol import Backoff
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PODS, Json, metadata_of
from tests.kube.fake_server import (
    Answer,
    FakeServer,
    Hangup,
    Request,
    Stream,
    bookmark,
    frame,
    listing,
    pod,
    refusal,
)
from tests.kube.test_informer import running, wait_for

FAULTS: list[Hangup | Answer] = [Hangup(), Answer(403, {}), Answer(429, {}, {"Retry-After": "0"})]
NAMES = [f"p{number}" for number in range(8)]


class World:
    """Pods that come, change and go, served by an API server that is having a very bad day.

    It changes whenever it is asked something, and forgets its history now and then.  After ``days`` request
    it changes no more, and after some more it stops failing.
    """

    def __init__(self, seed: int, days: int) -> None:
        self._rng = random.Random(seed)
        self._days = days
        self._version = 1
        self._oldest = 1  # watches from before are refused
        self._history: list[tuple[int, bytes]] = []
        self._incarnation = 0
        self.pods: dict[str, Json] = {}

    def answer(self, request: Request) -> Answer | Stream | Hangup:
        self._days -= 1
        if self._days > 0:
            self._live()
        if self._days > -5 and self._rng.random() < 0.3:
            return self._rng.choice(FAULTS)
        if "watch" in request.query:
            return self._watch(int(request.query["resourceVersion"]))
        return listing(self._version, *self.pods.values())

    def versions(self) -> dict[str, str]:
        return {name: metadata_of(obj).resource_version for name, obj in self.pods.items()}

    def _live(self) -> None:
        for _ in range(self._rng.randrange(6)):
            self._version += 1
            name = self._rng.choice(NAMES)
            known = self.pods.pop(name, None)
            if known is None:
                self._incarnation += 1
                self.pods[name] = pod(name, self._version, uid=f"uid-{self._incarnation}")
                self._remember("ADDED", self.pods[name])
            elif self._rng.random() < 0.5:
                self.pods[name] = pod(name, self._version, uid=metadata_of(known).uid)
                self._remember("MODIFIED", self.pods[name])
            else:
                self._remember("DELETED", pod(name, self._version))
        if self._rng.random() < 0.2:
            self._oldest = self._version

    def _remember(self, type_: str, obj: Json) -> None:
        self._history.append((self._version, frame(type_, obj)))

    def _watch(self, since: int) -> Answer | Stream:
        if since < self._oldest:
            gone = refusal(410, "Expired", "too old resource version")
            return Answer(410, gone) if self._rng.random() < 0.5 else Stream((frame("ERROR", gone),))
        text = b"".join(line for version, line in self._history if version > since)
        end = self._rng.choice([bookmark(self._version), b"", b"no frame\n"]) if self._days > -5 else b""
        if self._days > -5 and self._rng.random() < 0.5:
            return Stream((text[: self._rng.randrange(len(text) + 1)],), torn=True)
        return Stream((text + end,))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_the_copy_ends_up_equal_to_the_world(seed: int) -> None:
    async def story() -> None:
        world = World(seed, days=40)
        told: dict[Key, Pod] = {}

        def retell(change: Change[Pod]) -> None:
            assert told.get(change.key) == change.old
            if change.new is None:
                del told[change.key]
            else:
                assert change.old is None or change.old.metadata.uid == change.new.metadata.uid
                told[change.key] = change.new

        def equal() -> bool:
            copied = {obj.metadata.name: obj.metadata.resource_version for obj in informer}
            return copied == world.versions()

        async with FakeServer(world.answer) as server, server.client() as client:
            informer = Informer(client, PODS, reconnect=Backoff(first_s=0.001, cap_s=0.01))
            informer.subscribe(retell)
            async with running(informer):
                await wait_for(lambda: len(server.requests) > 40 and equal())
            assert {key.name for key in told} == set(world.pods)

    asyncio.run(story())
