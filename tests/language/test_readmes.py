"""Each package has a README of one page: what it does, its words, a picture, where to start."""

import re
from pathlib import Path
from typing import Final

import pytest

PACKAGES: Final = Path(__file__).resolve().parents[2] / "src" / "quorate"
FOLDERS: Final = sorted(
    path.parent for pattern in ("*/__init__.py", "local/*/__init__.py") for path in PACKAGES.glob(pattern)
)
SECTIONS: Final = ["Words", "Where to start", "What may not be here"]
LINK: Final = re.compile(r"\]\(([^)]+)\)")
MOST_LINES: Final = 60  # one page


@pytest.mark.parametrize("folder", FOLDERS, ids=[str(path.relative_to(PACKAGES)) for path in FOLDERS])
def test_a_package_has_a_readme(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    assert text.startswith(f"# quorate.{'.'.join(folder.relative_to(PACKAGES).parts)}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert "```text" in text.split("\n## ")[0]  # the picture
    assert len(text.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("folder", FOLDERS, ids=[str(path.relative_to(PACKAGES)) for path in FOLDERS])
def test_what_a_readme_names_exists(folder: Path) -> None:
    links = LINK.findall((folder / "README.md").read_text())
    assert links
    assert [link for link in links if not (folder / link).exists()] == []
