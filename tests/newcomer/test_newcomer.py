"""The commands of the README and of the pages of tasks do what the page shows, with the wheel alone.

Each page is read in a home directory and a network of its own, so that ports are those of the page.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_task_pages import PAGES as TASK_PAGES
from tests.e2e.commands import ROOT, needs_kubectl

PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs/tasks").glob("*.md"))]
# Tests of the documentation type these from the repository, in ``make test``.
TYPED = {f"docs/tasks/{name}" for name in (*TASK_PAGES, "install.md", "migrate-from-kueue.md")}
ALONE = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]


@pytest.fixture(scope="session")
def network() -> list[str]:
    """Return the command that runs another one in a network of its own; empty where that is not permitted."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return []
    done = subprocess.run([*ALONE, "true"], capture_output=True, timeout=20, check=False)
    return ALONE if done.returncode == 0 else []


@needs_kubectl(21)
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.long if page in TYPED else ()) for page in PAGES]
)
def test_a_newcomer_types_the_commands_of_a_page(
    page: str, programs: Path, network: list[str], tmp_path: Path
) -> None:
    clone = tmp_path / "quorate"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, timeout=60)
    done = subprocess.run(
        [*network, sys.executable, "-m", "tests.newcomer", page, str(clone), str(programs)],
        cwd=ROOT, capture_output=True, text=True, timeout=1150, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r"\d+ commands typed\n", done.stdout)
