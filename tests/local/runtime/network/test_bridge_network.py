"""Networks of pods in namespaces, where the kernel permits them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quorate.local.runtime.network import namespaces
from quorate.local.runtime.network.namespaces import (
    NamespacesUnavailable,
    end_namespaces,
    join_or_create,
    read_namespaces,
    start_time,
)
from tests.local.runtime.network.inside import STORIES, namespaces_unavailable

ORDINARY = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all"]
"""Runs a command of root without the right to make namespaces, as for an ordinary user."""


pytestmark = pytest.mark.skipif(bool(namespaces_unavailable()), reason=namespaces_unavailable() or "-")


@pytest.mark.slow
@pytest.mark.parametrize(
    "user",
    [
        pytest.param(ORDINARY if os.geteuid() == 0 else ["env"], id="ordinary"),
        pytest.param(
            ["env"],
            id="root",
            marks=[pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")],
        ),
    ],
)
@pytest.mark.parametrize("story", STORIES)
def test_inside_the_namespaces(story: str, user: list[str], tmp_path: Path) -> None:
    command = [
        *user,
        sys.executable,
        "-m",
        "tests.local.runtime.network.enter",
        story,
        str(tmp_path / "a b"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_namespaces_last_until_they_are_ended(tmp_path: Path) -> None:
    made = join_or_create(tmp_path)
    assert join_or_create(tmp_path) == made
    end_namespaces(tmp_path)
    assert read_namespaces(tmp_path) is None
    again = join_or_create(tmp_path)
    assert again.pid != made.pid
    end_namespaces(tmp_path)


def test_a_later_process_with_the_id_of_the_holder_is_not_the_holder(tmp_path: Path) -> None:
    record = tmp_path / namespaces.RECORD
    started = start_time(os.getpid())
    assert started is not None
    record.write_text(f'{{"pid": {os.getpid()}, "startTime": {started - 1}, "userNamespace": false}}')
    assert read_namespaces(tmp_path) is None
    record.write_text("damaged")
    assert read_namespaces(tmp_path) is None


def test_a_missing_tool_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NamespacesUnavailable, match=r"setsid and unshare and nsenter not installed"):
        join_or_create(tmp_path)
