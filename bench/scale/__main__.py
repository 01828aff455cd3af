"""``python -m bench.scale``: measure the processes in a synthetic cluster as large as Kubernetes supports.

``--size large`` measures 100,000 nodes and 1,000,000 pods, without limits.  Each process runs in three or
four clusters, each in a process of its own; the cost of one object is a difference between two of them.

Exits with status 1 if a limit of ``limits.yaml`` is exceeded.
"""

import sys
from enum import StrEnum
from typing import Annotated, Final

import typer
from rich.console import Console

from bench.limits import check_limits, number_table
from bench.scale.measure import PROCESSES, Costs, measured
from bench.scale.objects import Size

PENDING: Final = 10_000
BASE: Final = Size(100, 0, 0)


class Scale(StrEnum):
    KUBERNETES = "kubernetes"
    LARGE = "large"


SIZES: Final = {
    Scale.KUBERNETES: Size(5_000, 150_000, PENDING),
    Scale.LARGE: Size(100_000, 1_000_000, PENDING),
}


def main(
    size: Annotated[Scale, typer.Option(help="5,000 nodes with 150,000 pods, or 100,000 with 1,000,000.")] = (
        Scale.KUBERNETES
    ),
    process: Annotated[list[str] | None, typer.Option(help="Only these processes.")] = None,
) -> None:
    """Measure memory, start, decisions and changes of each process at one size."""
    console = Console()
    values: dict[str, float] = {}
    table = number_table(*(process or PROCESSES), first=f"{size}")
    rows: dict[str, list[str]] = {}
    for name in process or PROCESSES:
        with console.status(f"measuring {name}"):
            found = _figures(name, SIZES[size])
        for measure, value in found.items():
            values[f"scale: {name}: {measure}"] = value
        for measure in MEASURES:
            rows.setdefault(measure, []).append(f"{found[measure]:,.4g}" if measure in found else "-")
    for measure, cells in rows.items():
        table.add_row(measure, *cells)
    console.print(table)
    if size is Scale.KUBERNETES and process is None:
        sys.exit(check_limits({name: [value] for name, value in values.items() if _has_limit(name)}, console))


def _has_limit(name: str) -> bool:
    """Return False for times that depend on other work of the machine, or on the budget of the estimates."""
    return (
        not name.endswith((", wall s", "longest pause, ms"))
        and ": µs of CPU" not in name.partition("estimates")[2]
    )


MEASURES: Final = (
    "start to first decision, wall s",
    "start to first decision, CPU s",
    "memory, MB",
    "peak memory, MB",
    "bytes a node",
    "bytes a pod",
    "bytes a pending workload",
    "µs of CPU a node",
    "µs of CPU a pod",
    "µs of CPU a pending workload",
    "µs of CPU a change of a pod",
    "µs of CPU a change of a node",
    "decisions a second of CPU",
    "longest pause, ms",
)


def _figures(name: str, size: Size) -> dict[str, float]:
    """Return the measures of one process; those of one object are differences between two clusters."""
    base = measured(name, BASE)
    nodes = measured(name, BASE._replace(nodes=size.nodes))
    whole = measured(name, size)
    found = {
        "start to first decision, wall s": whole.first_s,
        "start to first decision, CPU s": whole.first_cpu_s,
        "memory, MB": whole.resident_bytes / 1e6,
        "peak memory, MB": whole.peak_bytes / 1e6,
        "bytes a node": (nodes.resident_bytes - base.resident_bytes) / (size.nodes - BASE.nodes),
        "µs of CPU a node": 1e6 * (nodes.first_cpu_s - base.first_cpu_s) / (size.nodes - BASE.nodes),
    }
    if name != "estimates":
        return found | _differences(nodes, whole, size)
    # It reads no pods, only their workloads, and all pending workloads are there from the start.
    admitted = measured(name, size._replace(pending=0))
    return found | {
        "bytes a pending workload": (whole.resident_bytes - admitted.resident_bytes) / size.pending,
        "bytes a pod": (admitted.resident_bytes - nodes.resident_bytes) / size.pods,
        "µs of CPU a pod": 1e6 * (admitted.first_cpu_s - nodes.first_cpu_s) / size.pods,
    }


def _differences(nodes: Costs, whole: Costs, size: Size) -> dict[str, float]:
    found = {
        "bytes a pod": (whole.resident_bytes - nodes.resident_bytes) / size.pods,
        "µs of CPU a pod": 1e6 * (whole.first_cpu_s - nodes.first_cpu_s) / size.pods,
    }
    optional = {
        "bytes a pending workload": (whole.pending_bytes, 1 / size.pending),
        "µs of CPU a pending workload": (whole.pending_cpu_s, 1e6 / size.pending),
        "µs of CPU a change of a pod": (whole.pod_change_cpu_s, 1e6),
        "µs of CPU a change of a node": (whole.node_change_cpu_s, 1e6),
        "decisions a second of CPU": (whole.decisions_per_s, 1),
        "longest pause, ms": (whole.longest_pause_s, 1e3),
    }
    return found | {name: value * factor for name, (value, factor) in optional.items() if value is not None}


if __name__ == "__main__":
    typer.run(main)
