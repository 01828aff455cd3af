"""The local cluster responds as kube-apiserver 1.36 did when these conversations were recorded.

``check.py`` replays them by area.  ``not-yet.yaml`` names the records with a different response
and the reason; a record that passes must be removed from the list.
"""

import asyncio
import random
import shutil
import ssl
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.controllers.start import run_controllers
from quorate.local.directory import ClusterDirectory
from tests.concurrent_stories import requested_parameters, run_concurrently
from tests.local.clusters import RunningServer, api_server

HERE = Path(__file__).parent
AREAS = sorted(path.stem for path in (HERE / "records").glob("*.jsonl"))
NOT_YET: dict[str, str] = yaml.safe_load((HERE / "not-yet.yaml").read_text()) or {}
# Areas with records of what controllers do; in other areas a controller would interfere.
CONTROLLED = {"crud", "gc", "job"}
RECORDED_WITH = "v1.32"  # the kubectl that recorded area cli
AT_ONCE = 4  # records of an area


CHECKER: Any = import_module("tests.conformance.check")  # a tool without types
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # of the tool

Troubles = dict[str, str | None]  # by record: where the server first responded differently, if anywhere


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Troubles | None]]]:
    directories = {area: tmp_path_factory.mktemp(area) for area in AREAS}
    with run_concurrently(
        lambda area: asyncio.run(replay(area, directories[area])), requested_parameters(request, "area")
    ) as futures:
        yield futures


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("area", AREAS)
def test_the_server_responds_as_recorded(area: str, answers: dict[str, Future[Troubles | None]]) -> None:
    troubles = answers[area].result()
    if troubles is None:
        pytest.skip(f"these records need kubectl {RECORDED_WITH}")
    failed = {name: trouble for name, trouble in troubles.items() if trouble is not None}
    assert failed.keys() == {name for name in NOT_YET if name.startswith(f"{area}.")}, failed
    assert len(failed) < len(troubles)


async def replay(area: str, directory: Path) -> Troubles | None:
    """Return the records that ran; None if the kubectl on this machine is not the recorded version."""
    if area == "cli" and not await kubectl_is(RECORDED_WITH):
        return None
    async with (
        control_plane(directory, with_controllers=area in CONTROLLED) as server,
        CHECKER.Server(server.url, server.token, insecure=True) as checked,
    ):
        turns, troubles = asyncio.Semaphore(AT_ONCE), Troubles()

        async def replay_one(record: dict[str, Any]) -> None:
            async with turns:
                with suppress(CHECKER.Skip):  # the openssl command is not installed
                    troubles[record["id"]] = await CHECKER.replay(checked, record)

        records = CHECKER.load([HERE / "records" / f"{area}.jsonl"])
        await asyncio.gather(*map(replay_one, records))
        return troubles


@asynccontextmanager
async def control_plane(directory: Path, *, with_controllers: bool) -> AsyncIterator[RunningServer]:
    """Run an API server and controllers without nodes, as recorded; kubectl sends tokens over TLS only."""
    clock = WallClock()
    with ClusterDirectory(directory).lock(clock.now()) as held:
        credentials = held.credentials(clock.now())
    trust = ssl.create_default_context(cadata=credentials.authority.decode())
    async with (
        api_server(tls=credentials.tls) as server,
        Client(
            RestConfig(server.url, tls=trust, credentials=Token(server.token)), random.Random(1)
        ) as client,
    ):
        if not with_controllers:
            yield server
            return
        run = run_controllers(client, clock, random.Random(1), authority=credentials.authority)
        controllers = asyncio.create_task(run)
        try:
            yield server
        finally:
            controllers.cancel()
            await asyncio.gather(controllers, return_exceptions=True)


async def kubectl_is(version: str) -> bool:
    if shutil.which("kubectl") is None:
        return False
    process = await asyncio.create_subprocess_exec(
        "kubectl", "version", "--client", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return version in output.decode()
