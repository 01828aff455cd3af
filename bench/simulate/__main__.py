"""``python -m bench.simulate``: processor time and memory of simulations, each in a process of its own.

Exits with status 1 if a limit of ``limits.yaml`` is broken.
"""

import sys
from math import log
from typing import Annotated, Final

import typer
from rich.console import Console

from bench.limits import check_limits
from bench.simulate.measure import Cost, measured

SIZES: Final = (10_000, 100_000, 1_000_000)
PLACED: Final = 100_000


def main(
    most: Annotated[int, typer.Option(help="Number of jobs of the largest simulation.")] = SIZES[-1],
) -> None:
    """Play jobs on 1,000 queues, alone and with 1,000 nodes, and compare time and memory with the limits."""
    console = Console()
    values: dict[str, list[float]] = {}
    costs: dict[int, Cost] = {}
    for jobs in (each for each in SIZES if each <= most):
        costs[jobs] = measured("queues", jobs)
        console.print(f"{jobs:,} jobs on 1,000 queues: {costs[jobs]}")
    base = SIZES[0]
    for jobs in (each for each in costs if each > base):
        values[f"simulate: {jobs:,} jobs, s"] = [costs[jobs].processor_s]
        values[f"simulate: {jobs:,} jobs, peak memory, MB"] = [costs[jobs].peak_mb]
        growth = costs[jobs].processor_s / costs[base].processor_s * base / jobs
        values[f"simulate: cost of a job ÷ log jobs, {jobs:,} ÷ {base:,}"] = [growth * log(base) / log(jobs)]
    placed = measured("nodes", PLACED)
    console.print(f"{PLACED:,} jobs on 1,000 queues and 1,000 nodes: {placed}")
    values[f"simulate: {PLACED:,} jobs placed on 1,000 nodes, s"] = [placed.processor_s]
    sys.exit(check_limits(values, console))


if __name__ == "__main__":
    typer.run(main)
