"""The first screen of the README: how to get it, a picture, and numbers that were measured."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from bench.limits import load

from tests.e2e.commands import ROOT
from tests.forked_command import forked_command

README = (ROOT / "README.md").read_text()
PERFORMANCE = (ROOT / "docs" / "reference" / "performance.md").read_text()
FIRST_SCREEN = README.split("\n## ")[0]
LOCAL_CLUSTER = (ROOT / "docs" / "tasks" / "local-cluster.md").read_text()
FIRST_JOB = re.findall(
    r"^    (quorate .+)$", LOCAL_CLUSTER.split("## Your first job\n")[1].split("\n## ")[0], re.M
)
HEAD = "| Measured with a kube-apiserver, all on two cores |"


def table_of(text: str) -> list[str]:
    """Return the lines of the table of measurements."""
    return (HEAD + text.split(HEAD)[1]).split("\n\n")[0].splitlines()


def test_the_first_screen_shows_how_to_get_it_and_a_picture() -> None:
    assert len(FIRST_SCREEN.splitlines()) <= 40
    assert "git clone REPOSITORY quorate && cd quorate && make demo" in FIRST_SCREEN
    (picture,) = re.findall(r"!\[[^]]+\]\(([^)]+)\)", FIRST_SCREEN)
    assert (ROOT / picture).stat().st_size < 150_000


def test_the_table_of_measurements_is_that_of_the_performance_page() -> None:
    assert table_of(README) == table_of(PERFORMANCE)


def test_the_measurements_of_quorate_are_those_of_the_limits_and_of_the_page() -> None:
    shown = {cells[1].strip(): cells[2].strip() for row in table_of(README)[2:] if (cells := row.split("|"))}
    measures = load().measures

    def median(measure: str) -> float:
        return measures[f"baseline on kube-apiserver: {measure}"].runs.median

    assert shown["CPU time of the controllers"] == f"{median('controllers: CPU, s'):.0f} s"
    assert shown["peak memory of the controllers"] == f"{median('controllers: peak memory, MB'):.0f} MB"
    assert shown["status writes for each admission"] == f"{median('writes per admission'):.1f}"
    assert shown["15,000 workloads of Kueue's benchmark, until all have finished"] == "161 to 166 s"
    assert "| until all have finished | 137.2 s | 161.0 s and 166.0 s " in PERFORMANCE
    assert f"{shown['pods of gangs bound in a second']} pods a second" in PERFORMANCE.replace(" and ", " to ")
    assert "pip install quorate" not in README


@pytest.mark.slow
def test_the_first_commands_for_a_laptop_follow_each_other(tmp_path: Path) -> None:
    (row,) = (line for line in FIRST_SCREEN.splitlines() if line.startswith("| have jobs"))
    up, *others = re.findall(r"`(quorate [^`]+)`", row)
    assert FIRST_JOB[-len(others) :] == others
    assert "(docs/tasks/local-cluster.md#your-first-job)" in row
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environment.pop("KUBECONFIG", None)

    def typed(command: str) -> str:
        done = subprocess.run(
            [forked_command(), *shlex.split(command)[1:]],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=150, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    try:
        assert "State:" in [typed(command) for command in (up, *FIRST_JOB)][-1]
    finally:
        typed("quorate local down --delete")
