"""What was measured, beside its limits."""

from collections.abc import Mapping
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench.limits import load


def hold_to_limits(values: Mapping[str, list[float]], console: Console) -> int:
    """Print all runs of each measure and which limits their medians break: the status to end with."""
    limits = load()
    verdicts = table("median", "lowest", "highest", "limit", first="measured")
    for name, found in values.items():
        limit, middle = limits.measures[name], median(found)
        shown = f"{middle:,.4g}" if limit.allows(middle) else f"[red]{middle:,.4g}[/]"
        verdicts.add_row(name, shown, f"{min(found):,.4g}", f"{max(found):,.4g}", str(limit))
    console.print(verdicts)
    broken = limits.broken({name: median(found) for name, found in values.items()})
    for name in broken:
        console.print(f"[red]broken[/]: {name}: {limits.measures[name].reason}")
    return 1 if broken else 0


def table(*headings: str, first: str) -> Table:
    """``first`` heads the column of names, ``headings`` those of numbers."""
    result = Table(first, box=SIMPLE_HEAD)
    for heading in headings:
        result.add_column(heading, justify="right")
    return result
