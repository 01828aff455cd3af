"""Micro-benchmarks of the queueing core, for a closer look at the measures of ``bench.queueing``.

pytest bench --benchmark-only -o python_files='bench_*.py'
"""

from itertools import islice
from typing import Any

import pytest

from bench.costs import Backlog
from bench.worlds import BASELINE, EPOCH_S, endless_workloads, make_state
from quorate.queueing.decisions import Reserve
from quorate.queueing.scheduling.cycle import AdmissionCycle


@pytest.mark.parametrize("workloads", [1_000, 15_000])
def test_admitting_everything_that_fits(benchmark: Any, workloads: int) -> None:
    """The quota is half of the requests; run cycles until no more can be decided."""
    work = workloads // 3 * sum(class_.cpu for class_ in BASELINE.classes)
    world = BASELINE._replace(nominal=work // 2 // (BASELINE.cohorts * BASELINE.queues))
    pending = list(islice(endless_workloads(world), workloads))

    def fresh() -> tuple[tuple[AdmissionCycle], dict[str, Any]]:
        state = make_state(world)
        for workload in pending:
            state.put_workload(workload, EPOCH_S)
        return (AdmissionCycle(state),), {}

    def admit(admission_cycle: AdmissionCycle) -> int:
        admitted = 0
        while decisions := admission_cycle.run(EPOCH_S).decisions:
            admitted += sum(isinstance(decision, Reserve) for decision in decisions)
        return admitted

    admitted = benchmark.pedantic(admit, setup=fresh, rounds=3)
    assert workloads // 5 < admitted < workloads  # both admissions and refusals are measured
    benchmark.extra_info["admitted"] = admitted


@pytest.mark.parametrize("pending", [1_000, 100_000])
def test_one_admission_among_many_pending(benchmark: Any, pending: int) -> None:
    """One workload finishes and the next of its class is admitted, at a cost independent of ``pending``."""
    backlog = Backlog(pending)

    def replace_one() -> None:
        backlog.finish_one()
        assert backlog.admit() == 1

    benchmark.pedantic(replace_one, rounds=200, iterations=1, warmup_rounds=10)
