"""The witness beside simulated jobs: it finds nothing, and each fault that is put back."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.mutations import ROOT, read_mutation
from tests.witness.simulated_jobs import first_fault

FAULTS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "mutations.yaml").read_text())
STEPS = 20_000


@pytest.mark.parametrize("seed", range(2))
def test_simulated_jobs_run_within_quota(seed: int) -> None:
    simulation, fault = first_fault(seed, 2_000)
    assert fault == ""
    assert simulation.admitted > 10


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_simulated_jobs_run_within_quota(seed: int) -> None:
    assert first_fault(seed, 20_000)[1] == ""


@pytest.mark.long
@pytest.mark.parametrize("entry", FAULTS, ids=lambda entry: str(entry["rule"]))
def test_a_fault_that_is_put_back_is_found(entry: dict[str, Any], tmp_path: Path) -> None:
    mutation = read_mutation(entry)
    source = tmp_path / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "static"))
    text = mutation.applied_to(source)
    mutation.path(source).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "tests.witness.simulated_jobs", "--steps", str(STEPS)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert re.match(r"seed \d+, step \d+: (Over|Outside|Without)", done.stderr), done.stderr
