"""Every ``quorate`` line in the documentation is one that the command line understands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Quorate

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")])


def command_lines(page: Path) -> Iterator[str]:
    """The lines of code blocks, and of code in a line, that begin with the command."""
    for line in page.read_text().splitlines():
        block = line.removeprefix("    ").removeprefix("$ ").partition(" && ")[0]
        if line.startswith("    ") and block.startswith("quorate "):
            yield block
        yield from (code for code in line.split("`")[1::2] if code.startswith("quorate "))


LINES = sorted({(line, page.relative_to(ROOT)) for page in PAGES for line in command_lines(page)})


@pytest.mark.parametrize(("line", "page"), LINES, ids=str)
def test_the_command_line_understands(quorate: Quorate, line: str, page: Path) -> None:
    arguments = shlex.split(line, comments=True)[1:]
    done = quorate(*arguments, "--help")  # options are read before help is given
    assert done.code == 0, done.err


def test_documented_files_exist() -> None:
    words = {word for line, _ in LINES for word in shlex.split(line, comments=True)}
    named = sorted(word for word in words if word.startswith("examples/"))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


COMMANDS = (
    "local up", "local down", "local status", "local reset", "local run", "demo", "crds", "controllers",
    "queue list", "queue create", "flavor list", "flavor create",
    "queue describe", "queue stop", "queue resume", "workload list", "workload describe",
    "workload stop", "workload resume", "workload explain", "workload delete", "workload pods",
    "version", "preflight", "manifests",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_example(quorate: Quorate, command: str) -> None:
    done = quorate(*command.split(), "--help")
    assert done.code == 0
    assert f"Example: quorate {command}" in " ".join(done.out.split())
