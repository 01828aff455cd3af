"""A virtual environment for each client, made once from its pins in ``NAME.txt`` and kept in ``.clients``."""

import fcntl
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
DIRECTORY: Final = ROOT / ".clients"
INSTALLED_WITHIN_S: Final = 600.0  # PySpark is built from its sources


def commands(name: str) -> Path:
    """Return the directory of the commands of client ``name``; skip the test if it cannot be installed."""
    DIRECTORY.mkdir(exist_ok=True)
    with (DIRECTORY / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes side by side use the same environments
        problem = _install(name)
    if problem:
        pytest.skip(f"{name} cannot be installed: {problem}")
    return DIRECTORY / name / "bin"


def _install(name: str) -> str:
    """Return why the pins could not be installed; empty if they are."""
    pins = Path(__file__).with_name(f"{name}.txt")
    directory = DIRECTORY / name
    stamp = directory / "installed.txt"
    if stamp.exists() and stamp.read_text() == pins.read_text():
        return ""
    venv.create(directory, clear=True, with_pip=True)
    pip = (directory / "bin" / "python", "-m", "pip")
    try:
        done = subprocess.run(
            [*pip, "install", "--quiet", "--disable-pip-version-check", "--no-input", "--requirement", pins],
            capture_output=True, text=True, timeout=INSTALLED_WITHIN_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"not within {INSTALLED_WITHIN_S:g} s"
    if done.returncode != 0:
        return str(done.stderr).strip().rpartition("\n")[2]
    stamp.write_text(pins.read_text())
    return ""


def run_story(client: str, program: str, story: str, environment: dict[str, str]) -> str:
    """Run function ``story`` of module ``programs.program`` in the environment of ``client``.

    Returns its output; fails the test with the output if the function raises.
    """
    code = f"from tests.clients.programs.{program} import {story}; {story}()"
    return run([commands(client) / "python", "-c", code], environment)


def run(
    command: Sequence[str | Path],
    environment: dict[str, str],
    *,
    within_s: float = 100.0,
    directory: Path = ROOT,
) -> str:
    """Return what the command prints; fail if it fails."""
    done = subprocess.run(
        command, env=environment, cwd=directory, text=True, timeout=within_s, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}"
    return done.stdout
