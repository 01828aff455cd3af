"""Run the command line inside a story: in this process, in a thread besides the event loop."""

import asyncio
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from quorate.cli import main
from tests.cli.conftest import Done
from tests.e2e.gangs import GangWorld
from tests.e2e.test_controllers_command import kubeconfig
from tests.e2e.world import World


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
