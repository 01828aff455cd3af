"""Every ``quorate`` command in the documentation is valid."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from typer import rich_utils

from quorate.cli import kubectl_arguments
from quorate.cli.lazy_commands import LazyCommand
from tests.cli.conftest import Quorate

ROOT = Path(__file__).parents[2]
PAST = ROOT / "CHANGELOG.md"  # describes the commands of every version
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")} - {PAST})


def command_lines(page: Path) -> Iterator[str]:
    """Yield the commands in code blocks and in inline code."""
    for line in page.read_text().splitlines():
        block = line.removeprefix("    ").removeprefix("$ ").partition(" && ")[0]
        if line.startswith("    ") and block.startswith("quorate "):
            yield block
        yield from (code for code in line.split("`")[1::2] if code.startswith("quorate "))


LINES = sorted({(line, page.relative_to(ROOT)) for page in PAGES for line in command_lines(page)})


_printed: Final[set[str]] = set()  # paths of commands
print_help: Final = rich_utils.rich_format_help
load_once: Final = cache(LazyCommand.load)


def print_help_once(**options: Any) -> None:
    """Print the help of a command for the first of its lines: it takes two thirds of the time."""
    path = options["ctx"].command_path
    if path not in _printed:
        print_help(**options)
        _printed.add(path)


@pytest.mark.parametrize(("line", "page"), LINES, ids=str)
def test_a_documented_command_is_valid(
    quorate: Quorate, monkeypatch: pytest.MonkeyPatch, line: str, page: Path
) -> None:
    monkeypatch.setattr(rich_utils, "rich_format_help", print_help_once)
    monkeypatch.setattr(LazyCommand, "load", load_once)
    arguments = shlex.split(line, comments=True)[1:]
    if kubectl_arguments(arguments):
        return  # kubectl takes the place of this process, and checks its options
    end = arguments.index("--") if "--" in arguments else len(arguments)
    done = quorate(*arguments[:end], "--help")  # options are parsed before help is printed
    assert done.code == 0, done.err


def test_documented_files_exist() -> None:
    words = {word for line, _ in LINES for word in shlex.split(line, comments=True)}
    named = sorted(word for word in words if word.startswith("examples/"))
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_links_between_pages_have_targets() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_links_to_headings_have_targets() -> None:
    links = [
        (page, target, heading)
        for page in PAGES
        for target, heading in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text())
        if "://" not in target
    ]
    assert links
    broken = [
        f"{page.relative_to(ROOT)}: {target}#{heading}"
        for page, target, heading in links
        if heading not in anchors(page.parent / target if target else page)
    ]
    assert broken == []


def test_kubectl_commands_name_the_group_of_kinds_that_kubernetes_also_has() -> None:
    ambiguous = re.compile(r"kubectl [^`]*?(?<= )(workloads?|podgroups?)(/\S+)?( |`|$)")
    found = [
        f"{page.relative_to(ROOT)}: {line.strip()}"
        for page in PAGES
        for line in page.read_text().splitlines()
        if ambiguous.search(line)
    ]
    assert found == []


COMMANDS = (
    "local up", "local down", "local status", "local reset", "local run", "demo", "crds", "controllers",
    "queue list", "queue create", "flavor list", "flavor create", "topology list", "topology describe",
    "queue describe", "queue stop", "queue resume", "workload list", "workload describe",
    "workload stop", "workload resume", "workload explain", "workload delete", "workload pods",
    "version", "preflight", "manifests", "explain", "submit", "logs", "cancel",
    "reservation list", "reservation create", "reservation describe", "reservation delete",
    "cluster list", "cluster describe", "cluster kubeconfig",
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(quorate: Quorate, command: str) -> None:
    done = quorate(*command.split(), "--help")
    assert done.code == 0
    assert f"Example: quorate {command}" in " ".join(done.out.split())
