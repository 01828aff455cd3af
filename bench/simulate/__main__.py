"""``python -m bench.simulate``: processor time and memory of simulations, each in a process of its own.

Exits with status 1 if a limit of ``limits.yaml`` is broken.
"""

import sys
from itertools import pairwise
from math import log
from typing import Annotated, Final

import typer
from rich.console import Console

from bench.limits import check_limits
from bench.simulate.measure import Cost, measured, refreshed
from quorate.processes.estimation.supervisor import BUDGET_S

SIZES: Final = (10_000, 100_000, 1_000_000)
PLACED: Final = 100_000
BOUND: Final = 10_000
WAITING: Final = 10_000
WAITING_QUEUES: Final = 100


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
    for less, jobs in pairwise(costs):
        values[f"simulate: {jobs:,} jobs, s"] = [costs[jobs].processor_s]
        values[f"simulate: {jobs:,} jobs, peak memory, MB"] = [costs[jobs].peak_mb]
        growth = costs[jobs].processor_s / costs[less].processor_s * less / jobs
        values[f"simulate: cost of a job ÷ log jobs, {jobs:,} ÷ {less:,}"] = [growth * log(less) / log(jobs)]
    placed = measured("nodes", PLACED)
    console.print(f"{PLACED:,} jobs on 1,000 queues and 1,000 nodes: {placed}")
    values[f"simulate: {PLACED:,} jobs placed on 1,000 nodes, s"] = [placed.processor_s]
    bound = measured("sessions", BOUND)
    console.print(f"{BOUND:,} jobs bound to 1,000 nodes by sessions: {bound}")
    values[f"simulate: {BOUND:,} jobs bound to 1,000 nodes by sessions, s"] = [bound.processor_s]
    refresh = refreshed(WAITING, WAITING_QUEUES, BUDGET_S)
    console.print(f"{WAITING:,} workloads wait in {WAITING_QUEUES} queues: {refresh}")
    values[f"simulate: estimates of {WAITING:,} waiting workloads, s"] = [refresh.processor_s]
    values[f"simulate: part of {WAITING:,} waiting workloads with an estimate"] = [
        refresh.estimated / WAITING
    ]
    sys.exit(check_limits(values, console))


if __name__ == "__main__":
    typer.run(main)
