"""Break the rules of ``mutations.yaml`` one at a time, and see that the fast tests of the core notice.

    python -m tests.mutations

A mutant lives in a copy of ``src``.  Prints which test caught each; exits with 1 when one survives.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml
from rich.console import Console
from rich.progress import track
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
# Which tests hold the rules of a package.
TESTS = {
    "quota": ("tests/quota", "tests/queueing"),
    "queueing": ("tests/quota", "tests/queueing"),
    "placement": ("tests/placement",),
    "gang": ("tests/gang",),
}


@dataclass(frozen=True)
class Mutation:
    rule: str
    file: str
    old: str
    new: str

    def applied_to(self, source: Path) -> str:
        """The text of its file below ``source``, with the rule broken."""
        text = (source / "quorate" / self.file).read_text()
        count = text.count(self.old)
        assert count == 1, f"{self.file}: {self.old!r} occurs {count} times"
        return text.replace(self.old, self.new)


MUTATIONS = [Mutation(**each) for each in yaml.safe_load((ROOT / "tests/mutations.yaml").read_text())]


def main() -> int:
    table = Table("rule broken", "caught by", title="mutations of the cores", show_lines=True)
    survivors = 0
    for mutation in track(MUTATIONS, "breaking rules", console=Console(stderr=True)):
        caught_by = first_failure(mutation)
        survivors += caught_by is None
        table.add_row(mutation.rule, caught_by or "[bold red]nobody")
    Console().print(table)
    print(f"{len(MUTATIONS) - survivors} caught, {survivors} survived")  # noqa: T201
    return 1 if survivors else 0


def first_failure(mutation: Mutation) -> str | None:
    """The first test that fails with the rule broken; None when all pass."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        (source / "quorate" / mutation.file).write_text(mutation.applied_to(ROOT / "src"))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-m",
            "not slow",
            "-p",
            "no:cacheprovider",
            *TESTS[mutation.file.partition("/")[0]],
        ]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        result = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    if result.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - |$)", result.stdout, re.MULTILINE)
    assert failed, result.stdout + result.stderr
    return failed[1]


if __name__ == "__main__":
    sys.exit(main())
