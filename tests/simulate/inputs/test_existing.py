"""Workloads that exist when a run begins: they go on from the state in which an API server stores them."""

import re
from random import Random

import pytest

from quorate.simulate.engine.recorder import Run
from quorate.simulate.engine.records import NEVER, Outcome
from quorate.simulate.inputs.distributions import Constant, Uniform, draw_above
from quorate.simulate.inputs.world import InvalidWorld
from tests.simulate.worlds import queue, run_of

SCENARIO = """
begins: "2026-03-01T12:00:00Z"
existing:
- {name: known, runs: 15m}
"""
FOUND = {"Admitted", "QuotaReserved", "PodsReady"}


def workload(
    name: str,
    created: str,
    *conditions: str,
    cpu: int = 1,
    pods: int = 1,
    assigned: bool = False,
    spec: str = "",
    more: str = "",
) -> str:
    """A workload of queue ``q``; ``conditions`` are ``Type=12:00:00 Reason``, negated with ``!``."""
    lines = []
    for each in conditions:
        type_, _, rest = each.partition("=")
        time, _, reason = rest.partition(" ")
        status = "False" if type_.startswith("!") else "True"
        lines.append(
            f"  - {{type: {type_.lstrip('!')}, status: '{status}', reason: {reason or 'Test'}, message: '', "
            f"lastTransitionTime: '2026-03-01T{time}Z'}}"
        )
    admission = (
        "  admission: {clusterQueue: q, podSetAssignments: [{name: main, count: 1, flavors: {cpu: default}, "
        f"resourceUsage: {{cpu: '{cpu}'}}}}]}}\n"
    )
    return f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {{name: {name}, creationTimestamp: "2026-03-01T{created}Z"}}
spec:
  queueName: q
  priority: 0
  active: true
  {spec}
  podSets:
  - name: main
    count: {pods}
    template:
      spec:
        restartPolicy: Never
        containers: [{{name: c, image: i, resources: {{requests: {{cpu: '{cpu}'}}}}}}]
status:
  {more or "requeueState: null"}
{admission if assigned else ""}  conditions: {"" if lines else "[]"}
""" + "\n".join(lines)


def running(name: str, ready: str, *, pods: int = 1, spec: str = "") -> str:
    """A workload that runs with one of ``pods`` pods."""
    times = [f"{type_}={ready}" for type_ in sorted(FOUND)]
    return workload(name, "11:00:00", *times, pods=pods, assigned=True, spec=spec)


def fates(run: Run) -> list[tuple[float, float, float, str]]:
    """Return by name when each job was created, admitted and ended (seconds), and its outcome."""
    jobs = run.jobs
    return [
        (
            jobs.submitted_ms[at] / 1000,
            jobs.admitted_ms[at] if jobs.admitted_ms[at] == NEVER else jobs.admitted_ms[at] / 1000,
            jobs.ended_ms[at] if jobs.ended_ms[at] == NEVER else jobs.ended_ms[at] / 1000,
            Outcome(jobs.outcome[at]).name,
        )
        for at in range(len(jobs))
    ]


def test_a_running_workload_ends_after_the_rest_of_its_run_time() -> None:
    assert fates(run_of(SCENARIO, queue("q", 1), running("a", "11:50:00"))) == [
        (-3600, -600, 300, "SUCCEEDED")
    ]


def test_a_waiting_workload_starts_when_a_running_one_ends() -> None:
    waits = workload("b", "11:58:00", "!QuotaReserved=11:58:00 Pending")
    assert fates(run_of(SCENARIO, queue("q", 1), running("a", "11:50:00"), waits)) == [
        (-3600, -600, 300, "SUCCEEDED"),
        (-120, 300, 1200, "SUCCEEDED"),
    ]


def test_a_workload_with_fewer_pods_has_done_less_of_its_work() -> None:
    """It has run 30 minutes with one of four pods, which all of them do in 7.5 of their 15 minutes."""
    ((_, _, ended, _),) = fates(run_of(SCENARIO, queue("q", 1), running("a", "11:30:00", pods=4)))
    assert ended == (60 - 30) * 60


@pytest.mark.parametrize(
    ("reason", "spec", "want"),
    [
        pytest.param("WaitForStart", "", 15 * 60, id="start now"),
        pytest.param("WaitForScheduling", "", 15 * 60, id="start now on a node"),
        pytest.param("WaitForScheduling", "maximumExecutionTimeSeconds: 900", 5 * 60, id="end in time"),
        pytest.param("WaitForRecovery", "", 5 * 60, id="have run"),
    ],
)
def test_pods_that_do_not_run_yet(reason: str, spec: str, want: float) -> None:
    """The workload was admitted ten minutes before the run, and runs for 15 minutes."""
    conditions = ("QuotaReserved=11:50:00", "Admitted=11:50:00", f"!PodsReady=11:50:00 {reason}")
    stuck = workload("a", "11:00:00", *conditions, assigned=True, spec=spec)
    ((_, _, ended, _),) = fates(run_of(SCENARIO, queue("q", 1), stuck))
    assert ended == want


@pytest.mark.parametrize("pods", [1, 4])
@pytest.mark.parametrize("queues", ["", ", queues: [other]"], ids=["known", "unknown"])
def test_no_workload_runs_longer_than_it_declares_whatever_its_pods(pods: int, queues: str) -> None:
    scenario = SCENARIO.replace("runs: 15m", f"runs: 1h{queues}")
    declared = running("a", "11:50:00", pods=pods, spec="maximumExecutionTimeSeconds: 1000")
    ((_, _, ended, _),) = fates(run_of(scenario, queue("q", 1), declared))
    assert ended == 400


def test_backoff_goes_on() -> None:
    requeued = "requeueState: {count: 2, requeueAt: '2026-03-01T12:02:30Z'}"
    conditions = (
        "!QuotaReserved=11:59:00 Pending",
        "Evicted=11:59:00 PodsReadyTimeout",
        "!Requeued=11:59:00 PodsReadyTimeout",
    )
    waits = workload("a", "11:58:00", *conditions, more=requeued)
    ((_, admitted, _, outcome),) = fates(run_of(SCENARIO, queue("q", 1), waits))
    assert (admitted, outcome) == (150, "SUCCEEDED")


def test_quota_of_an_evicted_workload_is_released_when_its_pods_have_stopped() -> None:
    scenario = SCENARIO.replace("runs: 15m", "runs: 15m, stops: 30s")
    stops = workload(
        "a",
        "11:00:00",
        "QuotaReserved=11:00:00",
        "Admitted=11:00:00",
        "Evicted=11:59:59 Preempted",
        assigned=True,
    )
    waits = workload("b", "11:30:00", "!QuotaReserved=11:30:00 Pending")
    first, second = fates(run_of(scenario, queue("q", 1), stops, waits))
    assert second[1] == 30 or first[1] == 30
    assert {first[3], second[3]} == {"SUCCEEDED"}


def test_finished_workloads_are_left_out_and_inactive_ones_stay() -> None:
    done = workload("a", "11:00:00", "Finished=11:30:00 Succeeded")
    off = workload("b", "11:00:00", spec="active: false").replace("  active: true\n", "")
    assert [each[3] for each in fates(run_of(SCENARIO, queue("q", 1), done, off))] == ["DEACTIVATED"]


def test_a_workload_without_a_class_runs_as_long_as_it_declares() -> None:
    scenario = SCENARIO.replace("name: known", "name: known, queues: [other]")
    declared = running("a", "11:50:00", spec="maximumExecutionTimeSeconds: 1000")
    ((_, _, ended, _),) = fates(run_of(scenario, queue("q", 1), declared))
    assert ended == 400
    with pytest.raises(InvalidWorld, match="the Workload default/a has no run time"):
        run_of(scenario, queue("q", 1), running("a", "11:50:00"))


def test_what_a_manifest_written_by_hand_does_not_date_begins_with_the_run() -> None:
    undated = [
        re.sub(r", (creationTimestamp|lastTransitionTime): ['\"][^'\"]*['\"]", "", text)
        for text in (running("a", "11:50:00"), workload("b", "11:58:00", "!QuotaReserved=11:58:00 Pending"))
    ]
    assert "Timestamp" not in "".join(undated)
    assert fates(run_of(SCENARIO, queue("q", 1), *undated)) == [
        (0, 0, 900, "SUCCEEDED"),
        (0, 900, 1800, "SUCCEEDED"),
    ]


def test_a_workload_may_name_its_class() -> None:
    scenario = SCENARIO + "- {name: short, queues: [other], runs: 11m}\n"
    named = running("a", "11:50:00").replace(
        "metadata: {", "metadata: {annotations: {simulate.quorate.dev/class: short}, "
    )
    ((_, _, ended, _),) = fates(run_of(scenario, queue("q", 1), named))
    assert ended == 60


def test_jobs_are_submitted_beside_them() -> None:
    scenario = SCENARIO + "jobs: [{name: new, queue: q, runs: 1m, requests: {cpu: 1}}]\n"
    run = run_of(scenario, queue("q", 1), running("a", "11:50:00"))
    assert [each[1] for each in fates(run)] == [-600, 300]
    assert [each.name for each in run.world.classes] == ["new", "known", "existing"]


@pytest.mark.parametrize("begins", ["yesterday", "[]"])
def test_the_beginning_is_a_time(begins: str) -> None:
    with pytest.raises(InvalidWorld, match=r"begins: .* is no time \(write 2026-01-05T00:00:00Z\)"):
        run_of(f"begins: {begins}\njobs: []")


def test_a_value_above_a_bound() -> None:
    rng = Random(1)
    values = [draw_above(0.9, Uniform(0, 1), rng) for _ in range(100)]
    assert min(values) > 0.9
    assert len(set(values)) > 50
    assert draw_above(5.0, Constant(3.0), rng) == 10.0
