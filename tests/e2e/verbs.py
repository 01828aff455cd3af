"""Run the command line inside a story: in this process, in a thread besides the event loop."""

import asyncio
import io
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from quorate.api.configuration import default_configuration
from quorate.api.kueue import ClusterQueue
from quorate.api.meta import Key
from quorate.cli import main
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from quorate.local.nodes import NodePool
from tests.cli.conftest import Done
from tests.e2e.gangs import GangWorld
from tests.e2e.test_controllers_command import kubeconfig
from tests.e2e.world import World, run_story


class CommandLine:
    """``await command("queue", "list")`` runs a command as the administrator of ``world``."""

    def __init__(self, world: World | GangWorld, directory: Path, patch: pytest.MonkeyPatch) -> None:
        cluster = world.client.config
        token = cluster.credentials.authorization().removeprefix("Bearer ")
        patch.setenv("KUBECONFIG", str(kubeconfig(directory, cluster.server, token)))
        patch.setenv("COLUMNS", "200")
        self._patch = patch

    async def __call__(self, *arguments: str, given: str = "") -> Done:
        self._patch.setattr(sys, "argv", ["quorate", *arguments])
        self._patch.setattr(sys.modules["__main__"], "__package__", "")  # not as ``python -m pytest``
        self._patch.setattr(sys, "stdin", io.StringIO(given))
        return await asyncio.to_thread(_run)

    async def output_of(self, *arguments: str) -> str:
        """Return the output of a command that must succeed."""
        done = await self(*arguments)
        assert done.code == 0, done.err
        return done.out

    async def completes(self, line: str) -> list[str]:
        """Return the bash completions of ``quorate`` followed by ``line``."""
        words = f"quorate {line}".split(" ")
        environment = {
            "_QUORATE_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        with self._patch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            return (await self.output_of()).split()


def _run() -> Done:
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code if isinstance(exit_.code, int) else 0
    return Done(code, out.getvalue(), err.getvalue())


def cells(table: str) -> list[list[str]]:
    """Return the rows of a table without its header; two spaces or more separate columns."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in table.splitlines()[1:]]


def titles(table: str) -> list[str]:
    return [cell.strip() for cell in table.splitlines()[0].split("  ") if cell.strip()]


Story = Callable[[World, CommandLine], Awaitable[None]]
RunWithCommands = Callable[[Story], None]


def story_runner(
    directory: Path, patch: pytest.MonkeyPatch, fleet: NodePool | None = None
) -> RunWithCommands:
    """Return a function that runs a story with controllers, a cluster queue of 4 cpus and a command line."""

    def run(story: Story) -> None:
        async def with_commands(world: World) -> None:
            await world.queues(cpu="4")
            await story(world, CommandLine(world, directory, patch))

        run_story(with_commands, default_configuration(), fleet)

    return run


async def name_of(world: World, job: str) -> str:
    workload = await world.workload(job)
    assert workload is not None
    return workload.metadata.name


async def queue_of(world: World, name: str = "research") -> ClusterQueue:
    return await world.client.get(CLUSTER_QUEUES, Key("", name))


async def until_counted(world: World, pending: int, admitted: int) -> None:
    """Wait for workload counts in the cluster queue and in its local queues."""

    async def counted() -> bool:
        queue = await queue_of(world)
        locals_ = (await world.client.list(LOCAL_QUEUES)).items
        statuses = [each.status for each in locals_ if each.spec.cluster_queue == queue.metadata.name]
        below = (
            sum(each.pending_workloads for each in statuses),
            sum(each.admitted_workloads for each in statuses),
        )
        above = queue.status.pending_workloads, queue.status.admitted_workloads
        return above == below == (pending, admitted)

    await world.until(f"{pending} pending and {admitted} admitted are counted", counted)
