"""The invariant of an informer: whatever faults occur, its cache converges to the objects of the server."""

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


class FaultyServer:
    """Pods that are created, updated and deleted, served with random faults.

    The pods change with every request, and the history is compacted now and then.  After ``changing``
    requests the pods no longer change, and after some more the faults end.
    """

    def __init__(self, seed: int, changing: int) -> None:
        self._rng = random.Random(seed)
        self._changing = changing
        self._version = 1
        self._oldest = 1  # older versions are compacted: their watches are refused
        self._history: list[tuple[int, bytes]] = []
        self._incarnation = 0
        self.pods: dict[str, Json] = {}

    def answer(self, request: Request) -> Answer | Stream | Hangup:
        self._changing -= 1
        if self._changing > 0:
            self._change_pods()
        if self._changing > -5 and self._rng.random() < 0.3:
            return self._rng.choice(FAULTS)
        if "watch" in request.query:
            return self._watch(int(request.query["resourceVersion"]))
        return listing(self._version, *self.pods.values())

    def versions(self) -> dict[str, str]:
        return {name: metadata_of(obj).resource_version for name, obj in self.pods.items()}

    def _change_pods(self) -> None:
        for _ in range(self._rng.randrange(6)):
            self._version += 1
            name = self._rng.choice(NAMES)
            existing = self.pods.pop(name, None)
            if existing is None:
                self._incarnation += 1
                self.pods[name] = pod(name, self._version, uid=f"uid-{self._incarnation}")
                self._record("ADDED", self.pods[name])
            elif self._rng.random() < 0.5:
                self.pods[name] = pod(name, self._version, uid=metadata_of(existing).uid)
                self._record("MODIFIED", self.pods[name])
            else:
                self._record("DELETED", pod(name, self._version))
        if self._rng.random() < 0.2:
            self._oldest = self._version

    def _record(self, type_: str, obj: Json) -> None:
        self._history.append((self._version, frame(type_, obj)))

    def _watch(self, since: int) -> Answer | Stream:
        if since < self._oldest:
            expired = refusal(410, "Expired", "too old resource version")
            return Answer(410, expired) if self._rng.random() < 0.5 else Stream((frame("ERROR", expired),))
        text = b"".join(line for version, line in self._history if version > since)
        end = self._rng.choice([bookmark(self._version), b"", b"no frame\n"]) if self._changing > -5 else b""
        if self._changing > -5 and self._rng.random() < 0.5:
            return Stream((text[: self._rng.randrange(len(text) + 1)],), torn=True)
        return Stream((text + end,))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_the_cache_converges_to_the_objects_of_the_server(seed: int) -> None:
    async def story() -> None:
        faulty = FaultyServer(seed, changing=40)
        mirrored: dict[Key, Pod] = {}

        def mirror(change: Change[Pod]) -> None:
            assert mirrored.get(change.key) == change.old
            if change.new is None:
                del mirrored[change.key]
            else:
                assert change.old is None or change.old.metadata.uid == change.new.metadata.uid
                mirrored[change.key] = change.new

        def equal() -> bool:
            cached = {obj.metadata.name: obj.metadata.resource_version for obj in informer}
            return cached == faulty.versions()

        async with FakeServer(faulty.answer) as server, server.client() as client:
            informer = Informer(client, PODS, reconnect=Backoff(first_s=0.001, cap_s=0.01))
            informer.subscribe(mirror)
            async with running(informer):
                await wait_for(lambda: len(server.requests) > 40 and equal())
            assert {key.name for key in mirrored} == set(faulty.pods)

    asyncio.run(story())
