"""``quorate status``: what waits and runs, the queues and the nodes, as the user may see them."""

import json
from pathlib import Path

import pytest

from quorate.local.nodes import NodePool
from tests.e2e.verbs import CommandLine, cells, story_runner, until_counted
from tests.e2e.world import NAMESPACE, World

pytestmark = pytest.mark.slow

POOL = NodePool(2, cpu="4")


def test_jobs_queues_and_nodes_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, command: CommandLine) -> None:
        status = ("status", "-n", NAMESPACE)
        assert (await command.output_of(*status)).startswith("no jobs wait or run\n")
        for missing in (("status",), ("queue", "list", "--local"), ("workload", "list", "-o", "json")):
            done = await command(*missing, "-n", "defaults")
            message = "error: namespace defaults does not exist (did you mean default?)\n"
            assert (done.code, done.out) == (2, "")
            assert done.err.endswith(message)
        await world.job("holder", cpu="3", runs="1h")
        await world.until_admitted("holder")
        await world.job("waits", cpu="2")
        await world.job("ended", cpu="1", runs="1s")

        async def is_shown() -> bool:
            shown = json.loads(await command.output_of(*status, "-o", "json"))
            states = {job["name"]: (job["state"], job["runningPods"]) for job in shown["jobs"]}
            is_running = states == {"holder": ("Running", 1), "waits": ("Queued", 0)}
            return is_running and "insufficient unused quota for cpu" in shown["jobs"][1]["why"]

        await world.until("one job runs and one waits", is_shown)
        await until_counted(world, pending=1, admitted=1)
        jobs, queues, nodes = (cells(table) for table in (await command.output_of(*status)).split("\n\n"))
        assert [row[:4] for row in jobs] == [
            ["holder", "queue", "Running", "1/1"], ["waits", "queue", "Queued", "0/1"]
        ]  # fmt: skip
        assert "insufficient unused quota for cpu" in jobs[1][-1]
        assert queues == [["queue", "research", "yes", "1", "1", "3/4"]]
        assert nodes[0][0] == "default"
        assert "ended" in await command.output_of(*status, "--finished")

    story_runner(tmp_path, monkeypatch, POOL)(story)
