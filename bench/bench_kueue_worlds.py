"""The worlds of Kueue's own scheduler benchmark, in virtual time with an ideal API, core alone.

    standard: 5 cohorts × 6 cluster queues, 15,000 workloads        large: 10 × 100, 50,000 workloads

Limits, and the runs they came from, are in ``limits.toml``.
"""

import tomllib
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Any

import pytest

from bench.virtual_time import Kind, Report, VirtualTime, make_state, names

LIMITS = tomllib.loads(Path(__file__).with_name("limits.toml").read_text())
WORLDS = {
    "standard": (
        5,
        6,
        [
            Kind("small", 350, cpu=1, priority=50, run_s=0.2, every_s=0.1),
            Kind("medium", 100, cpu=5, priority=100, run_s=0.5, every_s=0.5),
            Kind("large", 50, cpu=20, priority=200, run_s=1.0, every_s=1.2),
        ],
    ),
    "large": (
        10,
        100,
        [
            Kind("small", 35, cpu=1, priority=50, run_s=0.15, every_s=0.06),
            Kind("medium", 11, cpu=5, priority=100, run_s=0.35, every_s=0.3),
            Kind("large", 4, cpu=20, priority=200, run_s=0.7, every_s=0.7),
        ],
    ),
}


@pytest.mark.parametrize("name", list(WORLDS))
def test_world(benchmark: Any, name: str) -> None:
    cohorts, queues, kinds = WORLDS[name]
    limits = LIMITS[name]
    cpu_s: list[float] = []

    def run() -> Report:
        state = make_state(cohorts, queues)
        world = VirtualTime(state, [queue for queue, _ in names(cohorts, queues)], kinds)
        started = process_time()
        report = world.run()
        cpu_s.append(process_time() - started)
        return report

    report = benchmark.pedantic(run, rounds=1)
    assert all(len(report.wait_s[kind.name]) == kind.number * cohorts * queues for kind in kinds)
    rate = report.admissions / cpu_s[0]
    waits = {f"wait_{kind}_s": round(mean(waited), 2) for kind, waited in report.wait_s.items()}
    benchmark.extra_info.update(
        admissions=report.admissions,
        preemptions=report.preemptions,
        makespan_s=round(report.makespan_s, 1),
        admissions_per_cpu_s=round(rate),
        **waits,
    )
    assert report.makespan_s <= limits["makespan_s"]
    assert rate >= limits["admissions_per_cpu_s"]
    for kind in kinds:
        assert waits[f"wait_{kind.name}_s"] <= limits[f"wait_{kind.name}_s"]
