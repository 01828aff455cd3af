"""The steps of the image, in a directory: what they install is complete, and nothing else is in it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from quorate import __version__
from tests.e2e.commands import ROOT

TARGET = "/opt/quorate"


def build_steps() -> str:
    """Return the command that builds what the image copies."""
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text().replace("\\\n", " ")
    (command,) = re.findall(r"^RUN (.*)$", dockerfile, re.MULTILINE)
    assert TARGET in command
    return str(command)


def test_the_image_is_built_from_the_pinned_files_and_runs(programs: Path, tmp_path: Path) -> None:
    """The directory of wheels stands for the package index: each file must have its pinned hash."""
    build, target = tmp_path / "build", tmp_path / "image"
    build.mkdir()
    wheels = programs.parent.parent / "wheels"
    shutil.copy(ROOT / "deploy" / "requirements.txt", build)
    for wheel in wheels.glob("quorate-*.whl"):
        shutil.copy(wheel, build)
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
    }
    run(["sh", "-ec", build_steps().replace(TARGET, str(target))], environment, build)
    assert [path for path in target.rglob("*") if path.suffix == ".pyc" or path.name == "pip"] == []
    inside = {"PATH": f"{target / 'bin'}:/usr/bin:/bin"}
    assert __version__ in run(["quorate", "version", "--client"], inside, tmp_path)
    run(["quorate", "controllers", "--check"], inside, tmp_path)


def run(command: list[str], environment: dict[str, str], directory: Path) -> str:
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
