"""Run ``quorate`` and ``kubectl`` in separate processes, as a user does."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from quorate.local.directory import DESCRIPTION
from tests.forked_command import forked_command
from tests.witnessed import witnessed_process

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "all-or-nothing"
QUORATE = (sys.executable, "-m", "quorate")


def quorate(*arguments: str, timeout_s: float = 100.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [forked_command(), *arguments],
        capture_output=True, text=True, timeout=timeout_s, check=False, cwd=ROOT,
    )  # fmt: skip


@contextmanager
def cluster(data_dir: Path, *options: str, is_new: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Run ``quorate local up`` for the duration of the block, which begins when it is ready.

    A directory that does not exist is made with the definitions installed, which takes as much processor
    time as the rest of a start; with ``is_new`` the command makes it.
    """
    if not is_new and not data_dir.exists():
        shutil.copytree(_directory_with_definitions(), data_dir)
    with _running_cluster(data_dir, *options) as process, witnessed_process(data_dir / "kubeconfig"):
        yield process


@contextmanager
def _running_cluster(data_dir: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [str(forked_command()), "local", "up", "--data-dir", str(data_dir), "--port", "0", *options]
    log_path = data_dir.with_suffix(".log")
    with (
        log_path.open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT) as process,
    ):
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first == f"export KUBECONFIG={data_dir / 'kubeconfig'}\n", log_path.read_text()
            yield process
        finally:
            process.terminate()
            process.communicate(timeout=60)


def _directory_with_definitions() -> Path:
    """Return a data directory in which a cluster has started, made once for all workers of pytest."""
    path = forked_command().with_name("started")
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            made = path.with_suffix(".partial")
            with _running_cluster(made, "--nodes", "0", "--without-controllers", "--scheduling", "plain"):
                pass
            for name in (DESCRIPTION, "kubeconfig", "running.json"):
                (made / name).unlink()
            made.rename(path)
    return path


def kubectl(data_dir: Path, *arguments: str) -> str:
    """Return the output of kubectl; fail when kubectl fails."""
    done = subprocess.run(
        ["kubectl", *arguments],
        env={**os.environ, "KUBECONFIG": str(data_dir / "kubeconfig"), "HOME": str(data_dir)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


@cache
def _kubectl_minor() -> int:
    """Return the minor version of kubectl; -1 if it is not installed."""
    if shutil.which("kubectl") is None:
        return -1
    command = ["kubectl", "version", "--client", "-o", "json"]
    version = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return int(version["clientVersion"]["minor"].rstrip("+"))


def needs_kubectl(minor: int = 0) -> pytest.MarkDecorator:
    """Skip without kubectl 1.``minor`` or later; Debian 12 has 1.20."""
    return pytest.mark.skipif(_kubectl_minor() < minor, reason=f"needs kubectl 1.{minor or 'x'}")


def rows(table: str) -> list[list[str]]:
    """Return the rows of a table printed by kubectl, without its header."""
    return [line.split() for line in table.splitlines()[1:]]


T = TypeVar("T")


def poll(read: Callable[[], T], accept: Callable[[T], bool], within_s: float) -> None:
    """Call ``read`` until ``accept`` returns True; fail with the last value."""
    deadline = time.monotonic() + within_s
    began = time.monotonic()
    while not accept(value := read()):
        now = time.monotonic()
        assert now < deadline, value
        time.sleep(pause_s(now - began))
        began = time.monotonic()


def pause_s(attempt_s: float) -> float:
    """Return the pause after an attempt that took ``attempt_s``.

    A command of half a second polls in a fifth of the time, so that other tests have the rest.  Attempts of
    many seconds, on a busy machine, pause twice their time: the deadline leaves room for several.
    """
    return max(0.3, min(4 * attempt_s, 2 * attempt_s + 1.0))
