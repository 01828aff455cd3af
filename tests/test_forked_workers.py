"""``pytest --workers``: each test runs once, and a worker that ends early fails the run."""

import os
import subprocess
import sys
from pathlib import Path

MODULE = """
import os

import pytest

def test_passes(tmp_path):
    (tmp_path / "file").touch()

def test_fails():
    os.system("echo printed")
    raise AssertionError

@pytest.mark.skip(reason="always")
def test_is_skipped():
    pass
"""
ENDING = """
import os

def test_ends_its_process():
    os._exit(0 if os.environ["ENDS"] == "0" else 3)
"""


def test_each_test_runs_once_and_is_reported(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(MODULE)
    ended, output = run(tmp_path)
    assert "4 failed, 4 passed, 4 skipped" in output
    assert output.count("\nprinted\n") == 4
    assert ended == 1


def test_a_worker_that_ends_early_is_a_failed_test(tmp_path: Path) -> None:
    (tmp_path / "test_ending.py").write_text(ENDING)
    for code in "03":
        ended, output = run(tmp_path, ENDS=code)
        assert "1 failed in" in output
        assert "test_ending.py::test_ends_its_process" in output
        assert f"the worker ended with {code}; the rest of the module did not run" in output
        assert ended == 1


def run(directory: Path, **environment: str) -> tuple[int, str]:
    (directory / "pytest.ini").touch()
    options = ("-p", "tests.forked_workers", "--workers", "2", "-rf", "-p", "no:cacheprovider")
    done = subprocess.run(
        (sys.executable, "-m", "pytest", "--rootdir", directory, *options, directory),
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout + done.stderr
