"""Stories on a kube-apiserver, tested with the programs of ``stand_ins``."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e import real_server
from tests.e2e.commands import ROOT
from tests.e2e.real_server import ASSETS, PROGRAMS, SCHEDULER, control_plane, unavailable_reason

pytestmark = pytest.mark.slow

# A story of gangs and one of queueing, by their modules.
STORIES = {
    "tests/e2e/test_podgroup_verbs.py": "test_watch_follows_a_pod_group_until_it_runs",
    "tests/e2e/test_prebuilt.py": "test_a_job_starts_once_its_prebuilt_workload_is_admitted",
}

# Without the imports of the program.
VERSION = '[ "$1" = --version ] && echo "Kubernetes v1.36.3" && exit'


def assets(folder: Path) -> Path:
    for program in real_server.PROGRAMS:
        script = folder / program
        command = f"{sys.executable} -m tests.e2e.stand_ins {program}"
        script.write_text(f'#!/bin/sh\n{VERSION}\ncd {ROOT}\nexec {command} "$@"\n')
        script.chmod(0o755)
    return folder


def test_the_error_contains_the_output_of_a_server_that_exits(tmp_path: Path) -> None:
    folder = assets(tmp_path)
    (folder / "kube-apiserver").write_text("#!/bin/sh\necho 'unknown flag: --secure-port' >&2\nexit 1\n")

    async def start() -> None:
        async with control_plane(folder):
            raise AssertionError("it is up")

    with pytest.raises(AssertionError, match="kube-apiserver ended with 1: unknown flag: --secure-port"):
        asyncio.run(start())


def pytest_output(folder: Path) -> str:
    stories = [f"{module}::{name}" for module, name in STORIES.items()]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *stories, "--real"]
    done = subprocess.run(
        command, env={**os.environ, ASSETS: str(folder)}, capture_output=True, text=True, cwd=ROOT, check=True
    )
    return done.stdout


def test_stories_are_skipped_with_a_reason_without_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ASSETS, raising=False)
    assert unavailable_reason().startswith(
        "KUBEBUILDER_ASSETS is not set (name a folder with etcd, kube-apiserver"
    )
    monkeypatch.setenv(ASSETS, str(tmp_path))
    assert unavailable_reason() == f"{ASSETS}={tmp_path}: no program etcd, kube-apiserver there"
    wanted = "etcd, kube-apiserver, kube-scheduler"
    assert unavailable_reason((*PROGRAMS, SCHEDULER)) == f"{ASSETS}={tmp_path}: no program {wanted} there"
    output = " ".join(pytest_output(tmp_path).split())
    for story in STORIES:
        assert f"SKIPPED [1] {story}: {unavailable_reason()}" in output


def test_the_real_option_runs_stories_on_the_configured_server(tmp_path: Path) -> None:
    assert "2 passed" in pytest_output(assets(tmp_path))
