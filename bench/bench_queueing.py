"""Micro-benchmarks of the queueing core, for looking closer at what ``bench.queueing`` measures.

pytest bench --benchmark-only -o python_files='bench_*.py'
"""

from itertools import islice
from typing import Any

import pytest

from bench.costs import Crowd
from bench.worlds import BASELINE, EPOCH_S, make_state, newcomers
from quorate.queueing.decisions import Reserve
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State


@pytest.mark.parametrize("workloads", [1_000, 15_000])
def test_admitting_all_that_fit(benchmark: Any, workloads: int) -> None:
    """Room for half of the work: one cycle after the other until nothing more can be decided."""
    work = workloads // 3 * sum(class_.cpu for class_ in BASELINE.classes)
    world = BASELINE._replace(nominal=work // 2 // (BASELINE.cohorts * BASELINE.queues))
    pending = list(islice(newcomers(world), workloads))

    def fresh() -> tuple[tuple[State], dict[str, Any]]:
        state = make_state(world)
        for workload in pending:
            state.put_workload(workload, EPOCH_S)
        return (state,), {}

    def admit(state: State) -> int:
        admitted, cycle = 0, AdmissionCycle(state)
        while decisions := cycle.run(EPOCH_S).decisions:
            admitted += sum(isinstance(decision, Reserve) for decision in decisions)
        return admitted

    admitted = benchmark.pedantic(admit, setup=fresh, rounds=3)
    assert workloads // 5 < admitted < workloads  # time work, not refusal
    benchmark.extra_info["admitted"] = admitted


@pytest.mark.parametrize("pending", [1_000, 100_000])
def test_one_admission_among_many_pending(benchmark: Any, pending: int) -> None:
    """One ends, the next of its class is admitted: the same cost however many wait."""
    crowd = Crowd(pending)

    def replace_one() -> None:
        crowd.end_one()
        assert crowd.admit() == 1

    benchmark.pedantic(replace_one, rounds=200, iterations=1, warmup_rounds=10)
