import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from quorate.local.runtime.containers.sandbox import Mount, Sandbox, Tools, arguments, variables_file

TOOLS = Tools(bwrap="/usr/bin/bwrap", own_proc=True)
PLAIN = Sandbox(
    command=["true"],
    working_directory="/",
    hostname="h",
    network=None,
    hosts=Path("/state/hosts"),
    resolv_conf=Path("/state/resolv.conf"),
    mounts=(),
    termination_log=Path("/state/termination-log"),
    termination_log_target="/dev/termination-log",
    layers=Path("/state/layers"),
    image=Path("/"),
    home="/root",
    read_only=False,
    devices=(),
    cgroups=(),
    user=None,
    group=None,
    terminal=False,
    pid_namespace=None,
)


@pytest.mark.parametrize(
    ("prefix", "mounts", "is_mounted"),
    [
        pytest.param("/tmp/venv", (), True, id="the container has a /tmp of its own"),
        pytest.param("/opt/venv", (), False, id="the directory of the host is seen"),
        pytest.param("/tmp/venv", (Mount(Path("/v"), "/tmp", read_only=True),), False, id="/tmp is a volume"),
    ],
)
def test_the_python_that_is_offered_can_be_read(
    prefix: str, mounts: tuple[Mount, ...], is_mounted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if path else which(name))
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    started = arguments(replace(PLAIN, mounts=mounts), TOOLS, Path("/state/status"))
    assert (f"--ro-bind {prefix} {prefix}" in " ".join(started)) is is_mounted


def test_values_of_variables_are_in_no_argument() -> None:
    variables = variables_file({"pass.word": "hidden", "KEY": "plain"})
    assert variables is not None
    started = arguments(PLAIN, TOOLS, Path("/state/status"), variables)
    with os.fdopen(variables, "rb") as file:
        assert file.read() == b"--setenv\0pass.word\0hidden\0"
    assert started[-4:] == ["--args", str(variables), "--", "true"]
    assert variables_file({"KEY": "plain"}) is None
