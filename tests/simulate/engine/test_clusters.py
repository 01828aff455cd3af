"""Runs of several clusters: one job runs once, and what is created in the workers is counted."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.controllers.multikueue.dispatch.dispatchers import Dispatcher, all_at_once, incremental_with
from quorate.simulate.engine.clusters import Clusters, ClustersRun
from quorate.simulate.engine.player import play
from quorate.simulate.engine.records import Outcome
from quorate.simulate.estimates.cluster_starts import play_clusters
from quorate.simulate.inputs.worker_clusters import ALL_AT_ONCE, DISPATCHERS, EARLIEST_START
from quorate.simulate.inputs.world import read_world
from quorate.simulate.results.summary import waits_ms
from tests.simulate.worlds import FLAVOR, HEAD, queue, spans, world_of

STEP_1 = incremental_with(1, in_configured_order=True)


def split(scenario: str, cpus: list[int], dispatcher: Dispatcher, manager_cpu: int = 1000) -> ClustersRun:
    worlds = {chr(ord("a") + at): world_of(scenario, queue("q", cpu)) for at, cpu in enumerate(cpus)}
    return Clusters(world_of(scenario, queue("q", manager_cpu)), worlds).run(dispatcher)


def job(name: str, cpu: int, runs: str, at: str = "0s") -> str:
    return f"- {{name: {name}, queue: q, requests: {{cpu: {cpu}}}, runs: {runs}, arrivals: {{at: [{at}]}}}}\n"


def test_the_first_cluster_that_admits_a_job_runs_it_and_the_other_copies_go() -> None:
    jobs = "jobs:\n" + job("x", 2, "10m") + job("y", 2, "10m") + job("z", 3, "10m")
    run = split(jobs, [2, 3], all_at_once)
    assert spans(run.manager) == {"x": (0, 600), "y": (0, 600), "z": (600, 1200)}
    assert {key.name[0]: name for key, name in run.started_in.items()} == {"x": "a", "y": "b", "z": "b"}
    assert (run.copies, run.moved) == (6, 0)


def test_incremental_offers_a_job_to_one_more_cluster_after_five_minutes() -> None:
    run = split("jobs:\n" + job("x", 2, "1h") + job("y", 2, "1h"), [2, 2], STEP_1)
    assert spans(run.manager) == {"x": (0, 3600), "y": (301, 3901)}
    assert run.copies == 3


def test_a_run_ends_with_its_last_job() -> None:
    """The job would be offered to a further cluster after five minutes, if it did not run by then."""
    run = split("jobs:\n" + job("x", 2, "1m"), [2, 2], STEP_1)
    assert spans(run.manager) == {"x": (0, 60)}
    assert [each.ended_ms for each in (run.manager, *run.workers.values())] == [60_000] * 3


def test_a_job_waits_for_quota_in_the_manager_first() -> None:
    run = split("jobs:\n" + job("x", 2, "1h") + job("y", 2, "1h"), [2, 2], all_at_once, manager_cpu=2)
    assert spans(run.manager) == {"x": (0, 3600), "y": (3600, 7200)}


RANDOM = """
seed: {seed}
jobs:
- name: small
  queue: q
  requests: {{cpu: 1}}
  runs: {{uniform: [1m, 40m]}}
  arrivals: {{every: {{exponential: 3m}}, count: 25}}
- name: large
  queue: q
  requests: {{cpu: 3}}
  runs: {{uniform: [5m, 60m]}}
  arrivals: {{every: {{exponential: 9m}}, count: 9}}
"""


@given(st.integers(0, 1000))
@settings(max_examples=4, deadline=None)
def test_one_worker_starts_jobs_as_the_same_cluster_without_a_manager(seed: int) -> None:
    scenario = RANDOM.format(seed=seed)
    alone = play(world_of(scenario, queue("q", 4)))
    assert waits_ms(split(scenario, [4], all_at_once).manager).tolist() == waits_ms(alone).tolist()


@pytest.mark.parametrize("dispatcher", [all_at_once, STEP_1])
@given(st.integers(0, 1000))
@settings(max_examples=3, deadline=None)
def test_each_job_runs_once_and_no_cluster_exceeds_its_quota(dispatcher: Dispatcher, seed: int) -> None:
    run = split(RANDOM.format(seed=seed), [3, 1, 4], dispatcher)
    jobs = run.manager.jobs
    assert all(outcome == Outcome.SUCCEEDED for outcome in jobs.outcome)
    assert len(run.started_in) == len(jobs) == 34
    admissions = sum(
        int(np.sum(np.frombuffer(each.jobs.admissions, np.uint32))) for each in run.workers.values()
    )
    assert admissions == 34, "no copy was admitted in a second cluster"
    assert [each.waiting for each in run.workers.values()] == [(), (), ()], "no copy is left"
    again = split(RANDOM.format(seed=seed), [3, 1, 4], dispatcher)
    assert again.manager.jobs.admitted_ms == jobs.admitted_ms
    assert again.started_in == run.started_in


def play_text(tmp_path: Path, text: str, dispatcher: str, **files: str) -> ClustersRun:
    for name, manifest in files.items():
        (tmp_path / f"{name}.yaml").write_text(manifest)
    (tmp_path / "world.yaml").write_text("\n---\n".join((HEAD + text, FLAVOR, queue("q", 4))))
    return play_clusters(read_world(tmp_path / "world.yaml"), dispatcher)


CLUSTERS = "clusters: [{name: a}, {name: b, share: 0.5}]\njobs:\n"


@pytest.mark.parametrize("dispatcher", DISPATCHERS)
def test_a_job_that_fits_no_cluster_ends_no_run_and_says_why(tmp_path: Path, dispatcher: str) -> None:
    run = play_text(tmp_path, CLUSTERS + job("x", 5, "1h") + job("y", 4, "1h"), dispatcher)
    assert spans(run.manager) == {"x": (-1, -1), "y": (0, 3600)}
    (unended,) = run.manager.waiting
    assert unended.name == "x-q-0"
    assert re.search(r"a: .*5.*cpu|a: .*cpu.*5", unended.reason), unended.reason


def test_clusters_with_the_same_reason_are_named_together(tmp_path: Path) -> None:
    clusters = "clusters: [{name: a}, {name: b}, {name: c, share: 0.5}]\njobs:\n"
    run = play_text(tmp_path, clusters + job("x", 5, "1h"), "AllAtOnce")
    (unended,) = run.manager.waiting
    assert re.fullmatch(r"a, b: .*\(4\); c: .*\(2\)", unended.reason), unended.reason


def test_a_job_behind_the_first_of_a_strict_queue_names_it(tmp_path: Path) -> None:
    strict = queue("q", 4, "namespaceSelector: {}\n  queueingStrategy: StrictFIFO")
    text = "until: 30m\nclusters: [{name: a, manifests: strict.yaml}]\njobs:\n"
    jobs = [job("x", 4, "1h"), job("y", 4, "1h", "1m"), job("z", 1, "1h", "2m")]
    run = play_text(tmp_path, text + "".join(jobs), ALL_AT_ONCE, strict=strict)
    reasons = {each.class_name: each.reason for each in run.manager.waiting}
    assert "4 more needed" in reasons["y"]
    assert reasons["z"] == "a: not evaluated yet: 1 ahead of it in q, first y-q-0"


def test_small_jobs_leave_the_large_cluster_to_large_ones(tmp_path: Path) -> None:
    text = CLUSTERS + job("small", 2, "1h") + job("large", 4, "1h", "1m")
    assert spans(play_text(tmp_path, text, ALL_AT_ONCE).manager)["large"] == (3600, 7200)
    run = play_text(tmp_path, text, EARLIEST_START)
    assert {key.name: name for key, name in run.started_in.items()} == {"small-q-0": "b", "large-q-0": "a"}
    assert spans(run.manager) == {"small": (0, 3600), "large": (60, 3660)}


def test_a_run_ends_at_until(tmp_path: Path) -> None:
    text = "until: 90m\n" + CLUSTERS + job("x", 4, "1h") + job("y", 4, "1h")
    run = play_text(tmp_path, text, ALL_AT_ONCE)
    assert spans(run.manager) == {"x": (0, 3600), "y": (3600, -1)}
    assert run.manager.ended_ms == 90 * 60_000


BUSY = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: own, namespace: default, creationTimestamp: "2026-01-04T00:00:00Z"}
spec:
  queueName: q
  maximumExecutionTimeSeconds: 7200
  podSets:
  - name: main
    count: 1
    template: {spec: {containers: [{name: c, resources: {requests: {cpu: 4}}}], restartPolicy: Never}}
"""


def test_a_worker_has_jobs_of_its_own(tmp_path: Path) -> None:
    text = "clusters: [{name: a, manifests: busy.yaml}, {name: b}]\njobs:\n" + job("x", 4, "1h", "1m")
    run = play_text(tmp_path, text, EARLIEST_START, busy=BUSY)
    assert list(run.started_in.values()) == ["b"]
    assert spans(run.manager) == {"x": (60, 3660)}
    assert run.copies == 1


def test_preemption_in_a_worker_and_a_limit_of_run_time_leave_no_job_behind(tmp_path: Path) -> None:
    low = "- {name: low, queue: q, requests: {cpu: 4}, runs: 1h, priority: 1}\n"
    high = "- {name: high, queue: q, requests: {cpu: 4}, runs: 1h, priority: 2, arrivals: {at: [10m]}}\n"
    long = "- {name: long, queue: q, requests: {cpu: 1}, runs: 9h, maximumExecutionTimeSeconds: 60}\n"
    preempts = queue("q", 4, "namespaceSelector: {}\n  preemption: {withinClusterQueue: LowerPriority}")
    text = "clusters: [{name: a, manifests: preempts.yaml}]\njobs:\n" + low + high + long
    run = play_text(tmp_path, text, ALL_AT_ONCE, preempts=preempts)
    assert spans(run.manager)["high"] == (600, 4200)
    assert run.workers["a"].jobs.preemptions.tolist().count(1) == 1
    outcomes = {Outcome(each).name for each in run.manager.jobs.outcome}
    assert outcomes == {"SUCCEEDED", "DEACTIVATED"}
    assert [(each.name, each.reason) for each in run.manager.waiting] == [("long-q-0", "deactivated")]
