"""A small version of ``make crashes``, which kills 50 times under 50 pods."""

import subprocess
import sys

import pytest

from tests.local.runtime.world import runs_processes


@runs_processes
@pytest.mark.slow
def test_kills_at_any_moment_lose_no_pod_and_leave_no_process() -> None:
    command = [sys.executable, "-m", "tests.local.runtime.crashes", "--pods", "6", "--kills", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
