"""The benchmark of admission over HTTP, on scenarios small enough to compute the results.

No test checks durations: counts do not depend on the load of the machine.
"""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from bench.admission.__main__ import FLOOR_CONTROLLERS, QUORATE_CONTROLLERS
from bench.admission.processes import API_SERVER
from bench.admission.requests import RequestKind, admission_writes, parse_counts
from bench.admission.run import Outcome, Plan, run
from bench.admission.writes import measure
from bench.worlds import BASELINE, WorkloadClass, World

AT_ONCE = WorkloadClass("small", per_queue=20, cpu=1, priority=50, runs_ms=100, every_ms=5)


def outcome_of(world: World, directory: Path, controllers: str = QUORATE_CONTROLLERS) -> Outcome:
    return asyncio.run(run(Plan(world, None, controllers, None, 60.0, directory), lambda _: None))


@pytest.mark.slow
def test_a_workload_that_fits_is_admitted_in_one_write(tmp_path: Path) -> None:
    world = World("roomy", cohorts=1, queues=2, classes=(AT_ONCE,), nominal=100)
    outcome = outcome_of(world, tmp_path)
    record = outcome.record
    assert (record.workloads, record.admissions, record.evictions, record.finished) == (40, 40, 0, 40)
    assert outcome.requests["PATCH workloads/status"] == 40
    assert outcome.refused == {}
    assert outcome.controllers is not None
    assert outcome.controllers.peak_bytes > 1e7
    assert outcome.processes[API_SERVER].written_bytes > 40 * 100


@pytest.mark.slow
def test_a_preemption_is_one_write_for_the_victim(tmp_path: Path) -> None:
    """The late workload uses all quota; the early one restarts after the late one has finished."""
    early = WorkloadClass("early", per_queue=1, cpu=1, priority=50, runs_ms=8_000, every_ms=0)
    late = WorkloadClass("late", per_queue=1, cpu=2, priority=200, runs_ms=100, every_ms=0, from_ms=1_000)
    world = World("tight", cohorts=1, queues=1, classes=(early, late), nominal=2, borrowing=0)
    outcome = outcome_of(world, tmp_path)
    assert (outcome.record.admissions, outcome.record.evictions) == (3, 1)
    # At most: three admissions, one eviction, and a pending status for each.
    assert outcome.requests["PATCH workloads/status"] <= 3 + 1 + 2


@pytest.mark.slow
def test_the_floor_writes_one_admission_for_each_workload_and_nothing_else(tmp_path: Path) -> None:
    """More work than quota: a workload waits until another has finished."""
    world = World("tight", cohorts=1, queues=2, classes=(AT_ONCE,), nominal=4)
    outcome = outcome_of(world, tmp_path, FLOOR_CONTROLLERS)
    assert (outcome.record.admissions, outcome.record.evictions, outcome.record.finished) == (40, 0, 40)
    assert max(outcome.record.in_use) <= 1
    writes = {name: count for name, count in outcome.requests.items() if name.startswith("PATCH")}
    assert writes == {"PATCH workloads/status": 40}
    assert "POST events" not in outcome.requests


@pytest.mark.slow
def test_each_type_of_request_is_accepted_and_measured() -> None:
    costs = asyncio.run(measure(None, None, count=2, rounds=1, watches=1, only=""))
    merge, apply = costs["workload: admit by merge patch"], costs["workload: admit by apply"]
    assert merge.sent_bytes < apply.sent_bytes
    only_metadata = costs["workload: admit by merge patch, answer: metadata"]
    assert only_metadata.received_bytes < merge.received_bytes


def test_a_part_of_a_scenario_has_the_same_load_for_a_shorter_time() -> None:
    part = BASELINE.scaled(0.1)
    assert [one.per_queue for one in part.classes] == [35, 10, 5]
    assert part.workloads == 1_500
    assert part.lower_bound_s == pytest.approx(BASELINE.lower_bound_s / 10)


METRICS = """\
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="kueue.x-k8s.io",resource="workloads",\
scope="resource",subresource="status",verb="PATCH",version="v1beta2"} 40
apiserver_request_total{code="200",group="kueue.x-k8s.io",resource="workloads",subresource="status",\
verb="APPLY",version="v1beta2"} 1.5e+06
apiserver_request_total{code="409",group="kueue.x-k8s.io",resource="workloads",subresource="status",\
verb="PATCH",version="v1beta2"} 3
apiserver_request_total{code="201",group="events.k8s.io",resource="events",subresource="",verb="POST",\
version="v1"} 80
apiserver_request_total{code="0",group="",resource="pods",subresource="",verb="WATCH",version="v1"} 2
process_cpu_seconds_total 12.25
"""


def test_counters_of_a_kube_apiserver_are_read() -> None:
    counts = parse_counts(METRICS)
    assert counts.succeeded == Counter(
        {
            RequestKind("PATCH", "workloads/status"): 40,
            RequestKind("APPLY", "workloads/status"): 1_500_000,
            RequestKind("POST", "events"): 80,
            RequestKind("WATCH", "pods"): 2,
        }
    )
    assert counts.refused == Counter({RequestKind("PATCH", "workloads/status"): 3})
    assert counts.cpu_s == 12.25
    assert admission_writes(counts.succeeded) == 1_500_040
