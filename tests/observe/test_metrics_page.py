"""The reference page lists every series as the code declares it."""

from pathlib import Path

from quorate.observe.catalogue import FAMILIES, ROLE, Family
from tests.observe.test_catalogue import NOT_YET

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


def row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels if label != ROLE)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"


def test_the_page_lists_what_is_exported_and_what_is_not() -> None:
    listed = [
        line for line in PAGE.splitlines() if line.startswith(("| `kueue_", "| `multikueue_", "| `quorate_"))
    ]
    missing = [f"| `{name}` | {why} |" for name, why in sorted(NOT_YET.items())]
    assert listed == [*map(row, FAMILIES), *missing]
