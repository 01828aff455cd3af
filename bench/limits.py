"""The limits of measurements, in ``limits.yaml``, and the comparison of measured values with them."""

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

FILE: Final = Path(__file__).with_name("limits.yaml")


class Runs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs that a limit was derived from."""

    count: int
    low: float
    median: float
    high: float


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reason: str
    runs: Runs
    at_most: float | None = None
    at_least: float | None = None

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("a limit has either at_most or at_least")

    def allows(self, value: float) -> bool:
        if self.at_most is not None:
            return value <= self.at_most
        return self.at_least is not None and value >= self.at_least

    def __str__(self) -> str:
        return f"≤ {self.at_most:,g}" if self.at_most is not None else f"≥ {self.at_least:,g}"


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    machine: str  # on which all runs were made
    measures: dict[str, Limit]

    def broken(self, measured: Mapping[str, float]) -> list[str]:
        """Return the measures beyond their limit.

        Raises ``KeyError`` for a measure without a limit, which otherwise could never fail.
        """
        return [name for name, value in measured.items() if not self.measures[name].allows(value)]


def load(path: Path = FILE) -> Limits:
    return msgspec.yaml.decode(path.read_bytes(), type=Limits)


def check_limits(values: Mapping[str, list[float]], console: Console) -> int:
    """Print all runs of each measure and the limits that their medians break; return the exit status."""
    limits = load()
    results = number_table("median", "lowest", "highest", "limit", first="measured")
    for name, runs in values.items():
        limit, middle = limits.measures[name], median(runs)
        shown = f"{middle:,.4g}" if limit.allows(middle) else f"[red]{middle:,.4g}[/]"
        results.add_row(name, shown, f"{min(runs):,.4g}", f"{max(runs):,.4g}", str(limit))
    console.print(results)
    broken = limits.broken({name: median(runs) for name, runs in values.items()})
    for name in broken:
        console.print(f"[red]broken[/]: {name}: {limits.measures[name].reason}")
    return 1 if broken else 0


def number_table(*headings: str, first: str) -> Table:
    """Return an empty table: ``first`` is the heading of the names, ``headings`` are those of the numbers."""
    result = Table(first, box=SIMPLE_HEAD)
    for heading in headings:
        result.add_column(heading, justify="right")
    return result


def markdown_table(limits: Limits) -> str:
    """Return all limits as a Markdown table, for docs/reference/performance.md."""
    rows = [
        f"| {name} | {limit} | {limit.runs.median:,g} | {limit.reason.strip()} |"
        for name, limit in limits.measures.items()
    ]
    return "\n".join(["| measure | limit | measured | why |", "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    print(markdown_table(load()), end="")  # noqa: T201
