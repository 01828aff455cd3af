"""``python -m bench.topology``: measure the core of topology-aware scheduling and of the check against nodes.

Exits with status 1 if a limit of ``limits.yaml`` is exceeded.  The whole over HTTP is measured by
``python -m bench.admission --world topology``.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer
from rich.console import Console

from bench.limits import check_limits
from bench.topology.core import (
    bytes_a_node,
    calls_of_preemption,
    calls_with_topologies,
    calls_without_topologies,
    growth_of_waiting_workloads,
    node_change,
    placement_after_node_change,
    preferred_across_blocks,
    report_cost,
    require_cost,
    required_rack,
)
from bench.virtual_time import Simulation
from bench.worlds import BASELINE, TOPOLOGIES

MEASURES: Final[Mapping[str, Callable[[], float]]] = {
    "places: 1,000 pods in a rack of 10,000 nodes, ms": required_rack,
    "places: 1,000 pods across blocks of 10,000 nodes, ms": preferred_across_blocks,
    "places: a node of 10,000 changes, ms": node_change,
    "places: a node of 10,000 changes, then 8 pods, ms": placement_after_node_change,
    "places: bytes a node": bytes_a_node,
    "places: bytes a waiting workload, 10,000 ÷ 1,000 nodes": growth_of_waiting_workloads,
    "node check: Report, 1,000 nodes: µs an admission": report_cost,
    "node check: Require, 1,000 nodes: µs an admission": require_cost,
    "no topologies: Python calls an admission": calls_without_topologies,
    "topology: Python calls an admission": calls_with_topologies,
    "places: Python calls of a preemption ÷ without topologies": calls_of_preemption,
}


def main(rounds: Annotated[int, typer.Option(min=1, help="Number of runs of each measure.")] = 3) -> None:
    """Measure places and the check against nodes, and compare them with their limits."""
    console = Console()
    values: dict[str, list[float]] = {}
    with console.status("measuring places"):
        for _ in range(rounds):
            plain = Simulation(BASELINE).run(lambda _: None)
            outcome = Simulation(TOPOLOGIES).run(lambda _: None)
            found = {
                "topology: end, s": outcome.finished_ms / 1000,
                "topology: admissions a second": outcome.admissions_per_s,
                "topology: CPU of an admission ÷ baseline": plain.admissions_per_s / outcome.admissions_per_s,
            }
            found |= {name: measure() for name, measure in MEASURES.items()}
            for name, value in found.items():
                values.setdefault(name, []).append(value)
    sys.exit(check_limits(values, console))


if __name__ == "__main__":
    typer.run(main)
