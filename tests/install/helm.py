"""Run the real Helm: lint the chart, and render it.

``make helm`` puts the program beside the Python of the virtual environment; one on the PATH is used as well.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

Json = dict[str, Any]
Name = tuple[str, str, str]  # kind, namespace and name of an object

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
CHART: Final = DEPLOY / "helm" / "quorate"
RELEASE: Final = "quorate"
_BESIDE_PYTHON: Final = Path(sys.executable).parent / "helm"
PROGRAM: Final = str(_BESIDE_PYTHON) if _BESIDE_PYTHON.exists() else shutil.which("helm")

needs_helm: Final = pytest.mark.skipif(PROGRAM is None, reason="there is no helm (run: make helm)")


class Refused(Exception):
    """Helm refuses the values or the cluster; the text is its standard error."""


def helm(*args: str, values: Json | None = None) -> str:
    """Return what Helm prints, with ``values`` as a values file.  Raises ``Refused``."""
    assert PROGRAM is not None
    with tempfile.TemporaryDirectory() as home:
        file = Path(home, "values.yaml")
        file.write_text(yaml.safe_dump(values or {}))
        done = subprocess.run(
            [PROGRAM, *args, "--values", str(file)],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env={"HOME": home, "PATH": os.environ["PATH"]},  # no configuration and no plugins of the user
        )
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


def rendered(namespace: str, values: Json | None = None, version: str = "v1.36.0") -> dict[Name, Json]:
    """Return the objects of the chart for a cluster of that version.  Raises ``Refused``."""
    options = ("--namespace", namespace, "--kube-version", version)
    return named(helm("template", RELEASE, str(CHART), *options, values=values))


def named(*texts: str) -> dict[Name, Json]:
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for text in texts
        for each in documents(text)
    }


def documents(text: str) -> Iterator[Json]:
    return (each for each in yaml.load_all(text, Loader=yaml.CSafeLoader) if each is not None)
