"""``make test-newcomer``: every command of the README and of the pages of tasks, with the wheel."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.commands import ROOT
from tests.install.helm import PROGRAM as HELM

OPTION = "--newcomer"
STAMP = ".installed"  # as in the Makefile
FUTURE = 4_000_000_000  # no file is newer: make takes the environment as it is


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION, action="store_true", help="type the commands of the documentation, with the wheel"
    )


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if config.getoption(OPTION, default=False) else True


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the ``bin`` of a fresh environment with nothing but the wheel and its dependencies.

    A directory ``wheels`` beside it has all of these, for the pages that install the wheel again.
    All workers of a run share them.
    """
    of_worker = tmp_path_factory.getbasetemp()
    base = (of_worker.parent if "PYTEST_XDIST_WORKER" in os.environ else of_worker) / "installed"
    base.mkdir(exist_ok=True)
    with (base / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (base / "environment" / STAMP).exists():
            install(base / "environment", base / "wheels")
    return base / "environment" / "bin"


def install(environment: Path, wheels: Path) -> None:
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    run([sys.executable, "-m", "venv", str(environment)])
    run([*pip, "wheel", "--wheel-dir", str(wheels), "-c", "constraints.txt", ".", "setuptools>=77"])
    run([*pip, "install", "--no-index", "--find-links", str(wheels), "quorate"])
    if HELM is not None:
        shutil.copy(HELM, environment / "bin" / "helm")
    (environment / STAMP).touch()
    os.utime(environment / STAMP, (FUTURE, FUTURE))


def run(command: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
