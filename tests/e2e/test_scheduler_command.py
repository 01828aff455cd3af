"""``quorate scheduler`` as a process: it runs on any cluster, reports errors and stops on SIGTERM."""

import asyncio
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from quorate.local.nodes import NodePool
from tests.e2e import shared_clusters
from tests.e2e.gangs import running_gang_cluster
from tests.e2e.test_controllers_command import WITHIN_S, kubeconfig
from tests.forked_command import forked_command
from tests.local.clusters import api_server

pytestmark = pytest.mark.slow

CONFIGURATION = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}]
"""


@asynccontextmanager
async def schedulers(*options: str | Path) -> AsyncIterator[Process]:
    command = [forked_command(), "scheduler", *options]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def outcome(*options: str | Path) -> tuple[int | None, str]:
    """Return the exit code and the standard error of the command."""
    async with schedulers(*options) as process, asyncio.timeout(WITHIN_S):
        _, output = await process.communicate()
        return process.returncode, output.decode()


async def until_logged(process: Process, message: str) -> Any:
    """Return the first log line with ``message``."""
    assert process.stderr is not None
    async with asyncio.timeout(WITHIN_S):
        while True:
            line = json.loads(await process.stderr.readline())
            if line["message"] == message:
                return line


def test_the_scheduler_places_gangs_serves_probes_and_exits_with_0_on_sigterm(tmp_path: Path) -> None:
    async def story() -> None:
        async with running_gang_cluster(NodePool(1, cpu="4")) as world:
            cluster = world.client.config
            token = cluster.credentials.authorization().removeprefix("Bearer ")
            file = kubeconfig(tmp_path, cluster.server, token)
            conf = tmp_path / "volcano-scheduler.conf"
            conf.write_text(CONFIGURATION)
            listening = ("--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
            options = ("--log-format", "json", *listening, "--scheduler-conf", conf)
            async with schedulers("--kubeconfig", file, *options) as process:
                address = (await until_logged(process, "listening"))["address"]
                counted = (await until_logged(process, "listening"))["address"]
                await until_logged(process, "ready")
                for endpoint in ("healthz", "readyz"):
                    async with (
                        aiohttp.ClientSession() as session,
                        session.get(f"http://{address}/{endpoint}") as answer,
                    ):
                        assert answer.status == 200
                await world.group("a", 2, {"cpu": "2"})
                await world.until_phase("a", "Inqueue")
                await world.pods("a", 2)
                await world.until_bound(a=2)

                async def after_both_binds() -> list[str] | None:
                    async with (
                        aiohttp.ClientSession() as session,
                        session.get(f"http://{counted}/metrics") as page,
                    ):
                        series = (await page.text()).splitlines()
                    done = 'volcano_task_scheduling_latency_milliseconds_count{stage="Bound"} 2.0'
                    return series if done in series else None

                series = await world.until("both binds are counted", after_both_binds)
                assert 'volcano_schedule_attempts_total{result="scheduled"} 2.0' in series
                assert 'volcano_unschedule_task_count{job_id="a"} 0.0' in series
                assert any(
                    line.startswith('volcano_action_scheduling_latency_milliseconds_count{action="allocate"}')
                    for line in series
                )
                assert 'volcano_enqueue_admitted_total{queue="default"} 1.0' in series
                assert 'volcano_queue_request_milli_cpu{queue_name="default"} 2000.0' in series
                process.terminate()
                async with asyncio.timeout(WITHIN_S):
                    _, output = await process.communicate()
            lines = [json.loads(line) for line in output.splitlines()]
            assert process.returncode == 0
            assert [line["message"] for line in lines if line["level"] not in ("info", "debug")] == []
            assert lines[-1]["message"] == "stopping"

    shared_clusters.run(story())


def test_missing_crds_end_the_scheduler_with_the_command_that_installs_them(tmp_path: Path) -> None:
    async def story() -> None:
        async with api_server() as server:
            code, output = await outcome("--kubeconfig", kubeconfig(tmp_path, server.url, server.token))
            assert code != 0
            assert "does not serve podgroups, queues of scheduling.volcano.sh/v1beta1" in output
            assert "kubectl apply --server-side -f crds/gang" in output
            assert "Traceback" not in output

    asyncio.run(story())
