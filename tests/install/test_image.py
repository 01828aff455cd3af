"""What the image installs: each file by its hash, in the versions that the tests run with."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires

import pytest
from packaging.requirements import Requirement

from quorate import __version__
from tests.e2e.commands import ROOT

LINES = re.findall(
    r"^(\S+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)$",
    (ROOT / "deploy/requirements.txt").read_text(),
    re.MULTILINE,
)
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


PINNED = {normal(name): version for name, version, _ in LINES}


def needed(package: str, seen: set[str]) -> Iterator[str]:
    """Yield what a package needs here, without extras, and what that needs."""
    for requirement in map(Requirement, requires(package) or ()):
        name = normal(requirement.name)
        if name not in seen and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            seen.add(name)
            yield name
            yield from needed(name, seen)


def test_the_image_installs_all_that_quorate_needs_and_no_more() -> None:
    assert {*PINNED} == {*needed("quorate", set())}


def test_versions_are_those_of_the_constraints() -> None:
    constraints = {
        normal(name): version
        for name, version in re.findall(
            r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE
        )
    }
    assert {name: constraints[name] for name in PINNED} == PINNED


def test_base_and_files_are_named_by_their_digests() -> None:
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", DOCKERFILE, re.MULTILINE)
    assert {*re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)} == {"${BASE}"}
    assert "--require-hashes -r requirements.txt" in DOCKERFILE


def test_the_bill_of_materials_lists_each_package() -> None:
    done = subprocess.run(
        [sys.executable, ".ci/sbom", __version__],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    bom = json.loads(done.stdout)
    packages = [part for part in bom["components"] if part["type"] == "library"]
    assert {normal(part["name"]): part["version"] for part in packages} == PINNED
    assert all(part["hashes"] for part in packages)
    references = {part["bom-ref"] for part in bom["components"]}
    assert {*bom["dependencies"][0]["dependsOn"]} == references


@pytest.mark.parametrize("field", ["urls", "classifiers", "keywords", "license", "readme"])
def test_the_wheel_describes_itself(field: str) -> None:
    assert PROJECT[field]
