"""The clients of Go operators on a local cluster; ``go/main.go`` says what they do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from quorate.testing.server import LocalCluster
from tests.clients.environments import DIRECTORY, run

SOURCES = Path(__file__).with_name("go")
BUILT_WITHIN_S = 600.0  # without compiled modules


@pytest.fixture(scope="session")
def go_program() -> Path:
    """Return the program built from ``go/``; skip without Go, or if the modules cannot be had."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    program = DIRECTORY / "go-clients"
    DIRECTORY.mkdir(exist_ok=True)
    downloaded = subprocess.run(
        [go, "mod", "download"],
        cwd=SOURCES,
        capture_output=True,
        text=True,
        timeout=BUILT_WITHIN_S,
        check=False,
    )
    if downloaded.returncode != 0:
        pytest.skip(f"the modules cannot be had: {downloaded.stderr.strip().rpartition(chr(10))[2]}")
    run(
        [go, "build", "-buildvcs=false", "-o", str(program), "."],
        dict(os.environ),
        within_s=BUILT_WITHIN_S,
        directory=SOURCES,
    )
    return program


@pytest.mark.timeout(2 * BUILT_WITHIN_S)
def test_the_clients_of_go(go_program: Path, quorate_cluster: LocalCluster) -> None:
    run([go_program], quorate_cluster.environment, within_s=240)
