"""Runs of small worlds, computed by hand."""

import pytest

from quorate.simulate.engine.records import Outcome
from tests.simulate.worlds import queue, run_of, spans

ONE = queue("q", cpu=4)
LOW = (
    "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: WorkloadPriorityClass\nmetadata: {name: low}\nvalue: 1\n"
)
HIGH = LOW.replace("low", "high").replace("value: 1", "value: 9")
PREEMPTING = queue(
    "q", cpu=4, extra="namespaceSelector: {}\n  preemption: {withinClusterQueue: LowerPriority}"
)


def test_jobs_of_a_full_queue_run_one_after_another() -> None:
    run = run_of("jobs: [{name: a, queue: q, requests: {cpu: 4}, runs: 10s, arrivals: {count: 3}}]", ONE)
    assert spans(run) == {"a": (0, 10, 10, 20, 20, 30)}
    assert run.ended_ms == 30_000


def test_a_job_borrows_what_its_cohort_leaves_free() -> None:
    borrows = "namespaceSelector: {}\n  cohortName: all"
    scenario = "jobs: [{name: a, queue: q, requests: {cpu: 6}, runs: 10s}]"
    assert spans(run_of(scenario, ONE)) == {"a": (-1, -1)}
    both = (queue("q", 4, borrows), queue("r", 4, borrows))
    assert spans(run_of(scenario, *both)) == {"a": (0, 10)}


def test_a_preempted_job_starts_again_and_its_work_is_lost() -> None:
    run = run_of(
        """
jobs:
- {name: low, queue: q, priorityClass: low, requests: {cpu: 4}, runs: 10s, stops: 2s}
- {name: high, queue: q, priorityClass: high, requests: {cpu: 4}, runs: 5s, arrivals: {at: [6s]}}
""",
        PREEMPTING,
        LOW,
        HIGH,
    )
    assert spans(run) == {"low": (0, 23), "high": (8, 13)}  # its pods take two seconds to stop
    assert list(run.jobs.preemptions) == [1, 0]


def test_a_checkpoint_keeps_work() -> None:
    run = run_of(
        """
jobs:
- {name: low, queue: q, priorityClass: low, requests: {cpu: 4}, runs: 10s, checkpointEvery: 4s}
- {name: high, queue: q, priorityClass: high, requests: {cpu: 4}, runs: 5s, arrivals: {at: [6s]}}
""",
        PREEMPTING,
        LOW,
        HIGH,
    )
    assert spans(run) == {"low": (0, 17), "high": (6, 11)}


def test_fewer_pods_take_longer() -> None:
    run = run_of("jobs: [{name: a, queue: q, pods: 8, minPods: 2, requests: {cpu: 1}, runs: 10s}]", ONE)
    assert spans(run) == {"a": (0, 20)}


def test_a_job_starts_when_its_pods_are_ready_and_may_fail() -> None:
    run = run_of(
        """
jobs:
- {name: a, queue: q, requests: {cpu: 1}, runs: 10s, starts: 3s}
- {name: b, queue: q, requests: {cpu: 1}, runs: 10s, fails: {probability: 1, after: 2s}}
""",
        ONE,
    )
    assert spans(run) == {"a": (0, 13), "b": (0, 2)}
    assert list(run.jobs.outcome) == [Outcome.SUCCEEDED, Outcome.FAILED]


CHECKED = queue(
    "q", 4, "namespaceSelector: {}\n  admissionChecksStrategy: {admissionChecks: [{name: nodes}]}"
)
CHECK = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: nodes}
spec: {controllerName: example.com/nodes}
status:
  conditions:
  - {type: Active, status: "True", reason: Active, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}
"""


def test_an_admission_check_delays_a_job() -> None:
    scenario = """
jobs: [{name: a, queue: q, requests: {cpu: 4}, runs: 10s}]
admissionChecks: {nodes: {after: 30s}}
"""
    assert spans(run_of(scenario, CHECKED, CHECK)) == {"a": (30, 40)}


WAITS = """---
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
waitForPodsReady: {timeout: 10s, requeuingStrategy: {backoffBaseSeconds: 20, backoffLimitCount: 1}}
"""


def test_a_job_that_is_not_ready_in_time_is_evicted_and_deactivated_after_its_retries() -> None:
    run = run_of("jobs: [{name: a, queue: q, requests: {cpu: 1}, runs: 10s, starts: 1m}]", ONE, WAITS)
    assert list(run.jobs.outcome) == [Outcome.DEACTIVATED]
    assert (list(run.jobs.admissions), list(run.jobs.evictions)) == ([2], [2])
    assert run.ended_ms == pytest.approx(40_000, abs=1000)  # 10 s, a backoff of 20 s and its jitter, 10 s
    assert [each.reason for each in run.waiting] == ["deactivated"]


def test_a_run_ends_at_its_limit() -> None:
    run = run_of(
        "until: 15s\njobs: [{name: a, queue: q, requests: {cpu: 4}, runs: 10s, arrivals: {count: 3}}]", ONE
    )
    assert spans(run) == {"a": (0, 10, 10, -1, -1, -1)}
    assert run.ended_ms == 15_000
    assert [each.reason for each in run.waiting] == [
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, "
        "4 more needed"
    ]


def test_a_job_that_never_fits_has_the_reason_of_the_core() -> None:
    run = run_of("jobs: [{name: a, queue: q, requests: {cpu: 9}, runs: 10s}]", ONE)
    (left,) = run.waiting
    assert (left.class_name, left.queue) == ("a", "q")
    assert "cpu" in left.reason


def test_the_use_of_quota_is_exact() -> None:
    run = run_of("jobs: [{name: a, queue: q, requests: {cpu: 3}, runs: 10s, arrivals: {at: [0s, 30s]}}]", ONE)
    assert run.usage.mean("q", "default", "cpu", run.ended_ms) == 3_000 * 20 / 40
    assert run.usage.mean("q", "default", "memory", run.ended_ms) == 0
