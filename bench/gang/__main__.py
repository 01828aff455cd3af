"""``python -m bench.gang``: measure speed and placement quality of the gang core.

Exits with status 1 if a limit of ``limits.yaml`` is exceeded.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from statistics import fmean
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from bench.gang.core import (
    behind_gangs_of_many_shapes,
    behind_gangs_that_fit_in_part,
    behind_hopeless_gangs,
    bytes_a_pod,
    gang_within_a_hyper_node,
    idle_session,
    one_large_gang,
    small_gangs,
)
from bench.gang.explained import explained_group
from bench.gang.hopeless import hopeless_groups, hopeless_groups_in_churn, many_hopeless_groups
from bench.gang.quality import GANGS, SCHEDULERS, measure
from bench.limits import check_limits, number_table

MEASURES: Final[Mapping[str, Callable[[], float]]] = {
    "session: a gang of 10,000 on 5,000 nodes, s": one_large_gang,
    "session: 1,000 gangs of 10, half-full nodes: decisions a second": small_gangs,
    "session: a gang of 1,000 within 500 of 10,000 nodes, ms": gang_within_a_hyper_node,
    "session: nothing can start, 5,000 nodes and 50,000 pods, ms": idle_session,
    "session: a gang behind 10,000 that do not fit, s": behind_hopeless_gangs,
    "session: a gang behind 1,000 of as many shapes, s": behind_gangs_of_many_shapes,
    "session: a gang behind 1,000 that fit in part, s": behind_gangs_that_fit_in_part,
    "session: 20 gangs without sufficient victims, ms": partial(hopeless_groups, native=False),
    "session: 20 gangs without sufficient victims, after a change, ms": (
        partial(hopeless_groups_in_churn, native=False)
    ),
    "session: 20 native groups without sufficient victims, ms": partial(hopeless_groups, native=True),
    "session: 20 native groups without sufficient victims, after a change, ms": (
        partial(hopeless_groups_in_churn, native=True)
    ),
    "session: 1,000 gangs without sufficient victims, after a change, s": many_hopeless_groups,
    "explanation of one of 1,000 waiting gangs, 5,000 nodes and 50,000 pods, s": explained_group,
    "bytes a pod of a gang": bytes_a_pod,
}
SEEDS: Final = 5


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often to repeat each measurement.")] = 3,
) -> None:
    """Measure the gang core and check its limits."""
    console = Console()
    with console.status("measuring the gang core"):
        values = {name: [run() for _ in range(rounds)] for name, run in MEASURES.items()}
        console.print(_quality())
    sys.exit(check_limits(values, console))


def _quality() -> Table:
    result = number_table(
        "gangs started", "GPUs working", "GPUs stranded", first=f"of {GANGS} gangs, by scheduler"
    )
    for name, (by_gang, scores) in SCHEDULERS.items():
        found = [measure(by_gang=by_gang, scores=scores, seed=seed) for seed in range(SEEDS)]
        result.add_row(name, *(f"{fmean(numbers):.1f}" for numbers in zip(*found, strict=True)))
    return result


if __name__ == "__main__":
    typer.run(main)
