"""The limits that measurements are held to, and whether one is broken."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = Path(__file__).with_name("limits.yaml")


class Runs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runs that a limit came from."""

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
    machine: str  # on which all the runs were made
    measures: dict[str, Limit]

    def broken(self, measured: Mapping[str, float]) -> list[str]:
        """The measures beyond their limit.  What has no limit is a ``KeyError``: it would never fail."""
        return [name for name, value in measured.items() if not self.measures[name].allows(value)]


def load(path: Path = FILE) -> Limits:
    return msgspec.yaml.decode(path.read_bytes(), type=Limits)


def table(limits: Limits) -> str:
    """All limits as Markdown, for the page that shows them."""
    rows = [
        f"| {name} | {limit} | {limit.runs.median:,g} | {limit.reason.strip()} |"
        for name, limit in limits.measures.items()
    ]
    return "\n".join(["| measure | limit | measured | why |", "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    print(table(load()), end="")  # noqa: T201  to be put into the page
