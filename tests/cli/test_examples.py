"""``quorate examples``: list and copy the examples of the package."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quorate.cli.examples import examples
from quorate.inspect.errors import UsageError
from tests.e2e.commands import ROOT

NAMES = [
    "all-or-nothing", "estimate", "fragmentation", "multikueue", "native-groups", "notebooks",
    "reservations", "simulate", "topology", "training", "volcano",
]  # fmt: skip
PATH = re.compile(r"examples/[\w/.-]+\w")


def run(*arguments: str) -> str:
    result = CliRunner().invoke(examples, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_every_example_is_listed_with_its_title() -> None:
    rows = [line.split(maxsplit=1) for line in run("list").splitlines()]
    titles = {row[0]: row[1].strip() for row in rows[1 : len(NAMES) + 1]}
    assert list(titles) == NAMES
    assert titles["topology"] == "Jobs in one rack"


def test_paths_of_the_readme_exist_after_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("copy")
    texts = [ROOT / "README.md", *Path("examples").glob("*/README.md"), *(ROOT / "docs/tasks").glob("*.md")]
    for text in texts:
        named = {
            path
            for line in text.read_text().splitlines()
            if line.startswith(("    ", "quorate "))
            for path in PATH.findall(line)
        }
        assert not [path for path in sorted(named) if not Path(path).exists()], text
    copied = {path.relative_to("examples") for path in Path("examples").rglob("*") if path.is_file()}
    package = ROOT / "src" / "quorate" / "examples"
    assert copied == {path.relative_to(package) for path in package.rglob("*") if path.is_file()}


def test_a_changed_file_is_not_overwritten_and_nothing_else_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "examples/volcano" in run("copy", "volcano")
    changed = Path("examples/volcano/queues.yaml")
    changed.write_text("mine")
    with pytest.raises(UsageError, match=r"queues.yaml: exists with other content \(--force overwrites it\)"):
        run("copy", "estimate", "volcano")
    assert not Path("examples/estimate").exists()
    run("copy", "volcano", "--force")
    assert changed.read_text() != "mine"
    with pytest.raises(UsageError, match="'volcanos' is no example"):
        run("copy", "volcanos")
