"""The commands of the example's README have the results that it states."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.e2e.commands import ROOT, cluster, needs_kubectl, poll, rows
from tests.forked_command import forked_command

EXAMPLE = ROOT / "examples" / "reservations"
README = (EXAMPLE / "README.md").read_text(encoding="utf-8")
UP, *COMMANDS = [line.strip() for line in README.splitlines() if line.startswith("    ")]


def test_the_readme_lists_all_files() -> None:
    assert [path.name for path in sorted(EXAMPLE.glob("*.yaml")) if f"`{path.name}`" not in README] == []


@pytest.mark.slow
@needs_kubectl()
def test_the_commands_of_the_readme(tmp_path: Path) -> None:
    data = tmp_path / "data"
    path = f"{forked_command().parent}:{os.environ['PATH']}"
    environment = {**os.environ, "KUBECONFIG": str(data / "kubeconfig"), "HOME": str(data), "PATH": path}

    def run(command: str) -> str:
        words = shlex.split(command)
        done = subprocess.run(
            words, env=environment, cwd=ROOT, text=True, timeout=60, capture_output=True, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def places() -> dict[str, set[str]]:
        """Return the nodes of the pods that run or have ended, by job."""
        found: dict[str, set[str]] = {}
        for name, _, phase, _, _, _, node, *_ in rows(run("kubectl get pods -o wide")):
            if phase in ("Running", "Completed"):
                found.setdefault(name.split("-")[0], set()).add(node)
        return found

    with cluster(data, *shlex.split(UP)[3:]):
        for command in COMMANDS:
            if command == "quorate explain job/sweep":
                poll(lambda: run("quorate explain job/sweep"), lambda text: "reserved for" in text, 30)
            elif command == "quorate reservation list":
                poll(places, lambda found: found == {"tune": {"node-1"}, "flagship": {"node-1"}}, 30)
                listed = {row[0]: row[2] for row in rows(run(command))}
                assert listed == {"hero": "Active", "repair": "Active"}
            else:
                run(command)
        poll(places, lambda found: found.get("sweep") == {"node-1", "node-2"}, 60)
