"""Completion of commands by shells, and the command as a plugin of kubectl, against a running cluster."""

import asyncio
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.verbs import CommandLine, RunWithCommands, name_of, story_runner
from tests.e2e.world import World

pytestmark = [pytest.mark.slow, pytest.mark.measured]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_with_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunWithCommands:
    return story_runner(tmp_path, monkeypatch)


def test_the_shell_completes_the_names_of_objects(run_with_commands: RunWithCommands) -> None:
    async def story(world: World, command: CommandLine) -> None:
        await world.job("train", suspend=True)
        await world.until_admitted("train")
        name = await name_of(world, "train")
        for line, offered in (
            ("work", "workload"),
            ("workload describe job-tr", name),
            ("explain tr", "train"),
            ("explain job/", "job/train"),
            ("logs Job.batch/t", "Job.batch/train"),
            ("explain rayjob/", ""),
            ("-n default explain t", "train"),
            ("--as alice work", "workload"),
            ("queue stop re", "research"),
            ("queue stop lq/", "lq/queue"),
            ("queue describe --local q", "queue"),
            ("workload list -n def", "default"),
            ("workload list --localqueue ", "queue"),
            ("workload describe -n nowhere job", ""),
            ("workload describe --context nowhere job", ""),
        ):
            assert await command.completes(line) == offered.split(), line
        os.environ["KUBECONFIG"] = "/nonexistent"
        assert await command.completes("workload describe job-tr") == []

    run_with_commands(story)


def test_the_command_runs_as_a_kubectl_plugin(run_with_commands: RunWithCommands, tmp_path: Path) -> None:
    entries: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert entries["kubectl-quorate"] == entries["quorate"]
    module, function = entries["kubectl-quorate"].split(":")
    script = tmp_path / "bin" / "kubectl-quorate"  # as an installer writes it
    script.parent.mkdir()
    script.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)

    async def story(world: World, command: CommandLine) -> None:
        environment = {**os.environ, "PATH": f"{script.parent}{os.pathsep}{os.environ['PATH']}"}

        async def kubectl(*arguments: str) -> str:
            done = await asyncio.to_thread(
                subprocess.run, ["kubectl", *arguments], env=environment, capture_output=True, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout.decode()

        assert str(script) in await kubectl("plugin", "list")
        listed = await kubectl("quorate", "queue", "list")
        assert [line.split()[0] for line in listed.splitlines()] == ["NAME", "research"]

    run_with_commands(story)
