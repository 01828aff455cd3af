"""The local cluster responds as kube-apiserver 1.36 did when these conversations were recorded.

``check.py`` replays them by area.  ``not-yet.yaml`` names the records with a different response
and the reason; a record that passes must be removed from the list.
"""

import asyncio
import random
import re
import shutil
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path

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


Answer = tuple[int | None, str]  # the exit code of the checker, and what it printed


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Answer | None]]]:
    directories = {area: tmp_path_factory.mktemp(area) for area in AREAS}
    with run_concurrently(
        lambda area: asyncio.run(replay(area, directories[area])), requested_parameters(request, "area")
    ) as futures:
        yield futures


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("area", AREAS)
def test_the_server_responds_as_recorded(area: str, answers: dict[str, Future[Answer | None]]) -> None:
    answer = answers[area].result()
    if answer is None:
        pytest.skip(f"these records need kubectl {RECORDED_WITH}")
    code, output = answer
    failed = set(re.findall(r"^FAIL (\S+?):? ", output, re.MULTILINE))
    expected = {id_ for id_ in NOT_YET if id_.startswith(f"{area}.")}
    assert failed == expected, output
    assert code == (1 if expected else 0), output
    assert re.search(r"^total: +\d+ passed", output, re.MULTILINE), output


async def replay(area: str, directory: Path) -> Answer | None:
    """Return None if the kubectl on this machine is not the recorded version."""
    if area == "cli" and not await kubectl_is(RECORDED_WITH):
        return None
    async with control_plane(directory, with_controllers=area in CONTROLLED) as server:
        return await run(
            sys.executable, str(HERE / "check.py"), "--server", server.url, "--token", server.token,
            "--insecure", "--file", str(HERE / "records" / f"{area}.jsonl"),
        )  # fmt: skip


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
    _, output = await run("kubectl", "version", "--client")
    return version in output


async def run(*command: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()
