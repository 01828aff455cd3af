"""``quorate local up`` is killed again and again under writes; no acknowledged write may be lost."""

import asyncio
import random
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.errors import Unreachable
from quorate.kube.resources import CONFIG_MAPS
from quorate.kube.rest.config import load_rest_config
from tests.e2e.world import NAMESPACE
from tests.faults.at_size.outcome import Outcome, Show
from tests.observe.listening import free_port

START_TIMEOUT_S: Final = 120.0
WRITERS: Final = 8
OBJECTS_PER_WRITER: Final = 5
PREFIX: Final = "kept-"


@dataclass(frozen=True)
class Scale:
    kills: int = 500


@dataclass
class _Written:
    """The value of one object as acknowledged, and values that were sent since without a response.

    None means that the object does not exist.
    """

    acknowledged: str | None = None
    unanswered: list[str | None] = field(default_factory=list)

    def may_be(self, value: str | None) -> bool:
        return value == self.acknowledged or value in self.unanswered


async def run(scale: Scale, seed: int, show: Show) -> Outcome:
    with TemporaryDirectory() as directory:
        return await _Run(seed, Path(directory)).run(scale, show)


class _Run:
    def __init__(self, seed: int, directory: Path) -> None:
        self._rng = random.Random(f"durability {seed}")
        self._directory = directory / "data"
        self._log = directory / "log"
        self._port = free_port()
        self._objects: dict[str, _Written] = {}
        self._written = 0
        self._unanswered = 0
        self._newest = 0  # the highest acknowledged version
        self._starts_s: list[float] = []
        self._outcome = Outcome("durability")

    async def run(self, scale: Scale, show: Show) -> Outcome:
        for number in range(scale.kills + 1):
            async with self._cluster() as process, self._client() as client:
                await self._check(client)
                if number == scale.kills:
                    break
                await self._write_until_killed(client, process)
            show(number + 1)
        starts_s = sorted(self._starts_s)
        self._outcome.measures |= {
            "kills": str(scale.kills),
            "acknowledged writes": f"{self._written:,}",
            "writes without a response": f"{self._unanswered:,}",
            "start": f"{starts_s[len(starts_s) // 2]:.1f} s, at most {starts_s[-1]:.1f} s",
        }
        return self._outcome

    @asynccontextmanager
    async def _cluster(self) -> AsyncIterator[Process]:
        clock = asyncio.get_running_loop().time
        began = clock()
        command = (sys.executable, "-m", "quorate", "local", "up", "--data-dir", str(self._directory))
        options = (
            "--port",
            str(self._port),
            "--nodes",
            "0",
            "--without-controllers",
            "--scheduling",
            "plain",
        )
        with self._log.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, *options, stdin=DEVNULL, stdout=PIPE, stderr=log
            )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(START_TIMEOUT_S):
                first = await process.stdout.readline()
            assert first, f"it does not start: {self._log.read_text(encoding='utf-8')[-3000:]}"
            self._starts_s.append(clock() - began)
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Client]:
        config = await load_rest_config(self._directory / "kubeconfig")
        async with Client(config, self._rng) as client:
            yield client

    async def _check(self, client: Client) -> None:
        listing = await client.list(CONFIG_MAPS, NAMESPACE)
        stored = {each.metadata.name: each.data.get("value") for each in listing.items}
        for name, written in self._objects.items():
            found = stored.pop(name, None)
            if not written.may_be(found):
                self._outcome.findings.append(
                    f"{name} is {found}, {written.acknowledged} was acknowledged, {written.unanswered} sent"
                )
            written.acknowledged, written.unanswered = found, []
        self._outcome.findings += [f"{name} was never written" for name in stored if name.startswith(PREFIX)]
        if int(listing.resource_version) < self._newest:
            self._outcome.findings.append(
                f"the version is {listing.resource_version}, {self._newest} was acknowledged"
            )

    async def _write_until_killed(self, client: Client, process: Process) -> None:
        goal = self._written + self._rng.randint(1, 200)
        writers = [
            asyncio.create_task(self._write(client, writer, random.Random(self._rng.random())))
            for writer in range(WRITERS)
        ]
        while self._written < goal and not any(each.done() for each in writers):  # noqa: ASYNC110
            await asyncio.sleep(self._rng.uniform(0.0, 0.01))
        process.kill()
        await process.wait()
        outcomes = await asyncio.gather(*writers, return_exceptions=True)
        unexpected = [each for each in outcomes if not isinstance(each, Unreachable)]
        self._outcome.findings += [f"a writer ended with {each!r}" for each in unexpected]

    async def _write(self, client: Client, writer: int, rng: random.Random) -> None:
        """Create, change and delete objects until the server does not respond.  Raises ``Unreachable``."""
        while True:
            name = f"{PREFIX}{writer}-{rng.randrange(OBJECTS_PER_WRITER)}"
            written, key = self._objects.setdefault(name, _Written()), Key(NAMESPACE, name)
            value = (
                None if written.acknowledged is not None and rng.random() < 0.2 else f"{rng.getrandbits(64)}"
            )
            written.unanswered.append(value)
            try:
                if value is None:
                    await client.delete(CONFIG_MAPS, key)
                elif written.acknowledged is None:
                    body = {"metadata": {"name": name}, "data": {"value": value}}
                    created = await client.create(CONFIG_MAPS, body, NAMESPACE)
                    self._newest = max(self._newest, int(created.metadata.resource_version))
                else:
                    changed = await client.patch(CONFIG_MAPS, key, {"data": {"value": value}})
                    self._newest = max(self._newest, int(changed.metadata.resource_version))
            except Unreachable:
                self._unanswered += 1
                raise
            written.acknowledged, written.unanswered = value, []
            self._written += 1
