"""The reference page lists every series as it is declared."""

from pathlib import Path

from quorate.observe.families import FAMILIES, ROLE, Family
from quorate.observe.gang_families import FAMILIES as OF_GANGS
from quorate.witness.metrics import FAMILIES as OF_WITNESS
from tests.observe.test_families import NOT_YET
from tests.observe.test_gang_families import NOT_YET as NOT_OF_SCHEDULER

METRICS = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
PAGE, OF_SCHEDULER = METRICS.split("\n## The gang scheduler\n")


def row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels if label != ROLE)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.help} |"


def test_the_page_lists_exported_and_missing_series() -> None:
    prefixes = ("| `kueue_", "| `multikueue_", "| `quorate_", "| `volcano_")
    listed = [line for line in PAGE.splitlines() if line.startswith(prefixes)]
    missing = [f"| `{name}` | {why} |" for name, why in sorted(NOT_YET.items())]
    assert listed == [*map(row, FAMILIES), *missing]


def test_the_page_lists_the_series_of_the_gang_scheduler() -> None:
    listed = [line for line in OF_SCHEDULER.splitlines() if line.startswith("| `volcano_")]
    missing = [f"| `{name}` | {why} |" for name, why in NOT_OF_SCHEDULER.items()]
    assert listed == [*map(row, OF_GANGS), *missing]


def test_the_page_lists_the_series_of_the_witness() -> None:
    listed = [line for line in METRICS.splitlines() if line.startswith("| `quorate_witness")]
    assert listed == list(map(row, OF_WITNESS))
