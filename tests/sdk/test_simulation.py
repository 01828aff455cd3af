"""Simulations from Python: scenarios, changes, results and DataFrames."""

import sys
from pathlib import Path
from typing import Any

import pytest

from quorate.sdk.api import simulate
from quorate.sdk.results import Job, Simulation
from quorate.sdk.scenario import Scenario
from quorate.simulate.inputs.world import InvalidWorld

EXAMPLES = Path(__file__).parents[2] / "examples/simulate"
# One cpu: the second job waits 50 s for the first.
TWO_JOBS = (
    Scenario()
    .queue("a", {"cpu": 1})
    .jobs("short", queue="a", arrivals={"at": ["0s", "10s"]}, requests={"cpu": "1"}, runs="60s")
)
WAITED = Job(1, "short", "default/a", 10.0, 60.0, 120.0, 50.0, 60.0, 1, 1, 0, 0, "succeeded")


def test_jobs_and_use_of_quota_are_dataclasses() -> None:
    result = simulate(TWO_JOBS).scenario
    first, second = result.jobs
    assert (first.wait_s, second) == (0.0, WAITED)
    assert len(result.jobs) == 2
    assert sum(each.amount * (each.until_s - each.from_s) for each in result.usage) == pytest.approx(120)
    assert result.summary.outcomes["succeeded"] == 2
    assert result.comparison is None


def test_a_notebook_shows_results_as_tables() -> None:
    simulation = simulate(TWO_JOBS)
    shown = simulation._repr_html_()
    assert "<th>run</th><th>class</th><th>jobs</th>" in shown
    assert "<td>short</td><td>2</td><td>2</td><td>25.0</td>" in shown
    assert shown == simulation.scenario._repr_html_()
    assert simulation.scenario.jobs._repr_html_().endswith("</table><p>2 rows</p>")
    assert "<td>default/a</td><td>10.0</td>" in simulation.scenario.jobs._repr_html_()


def test_what_never_happened_is_none() -> None:
    large = TWO_JOBS.jobs("large", queue="a", requests={"cpu": "2"}, runs="1s")
    result = simulate(large).scenario
    (never,) = (job for job in result.jobs if job.job_class == "large")
    assert (never.admitted_s, never.ended_s, never.wait_s, never.outcome) == (None, None, None, "waiting")
    assert result.summary.waiting[0].class_name == "large"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(Scenario().queue("a", {"cpu": 2}), id="a scenario"),
        pytest.param(TWO_JOBS.queue("a", {"cpu": 2}), id="a scenario with jobs"),
        pytest.param(Scenario().queue("a", {"cpu": 2}).manifests[0], id="text"),
    ],
)
def test_a_change_is_compared(change: Any) -> None:
    simulation = simulate(TWO_JOBS, {"two cpus": change})
    changed = simulation.changes["two cpus"]
    assert [job.wait_s for job in changed.jobs] == [0.0, 0.0]
    assert changed.comparison is not None
    assert (changed.comparison.jobs.sooner, changed.comparison.jobs.later) == (1, 0)
    assert [result.name for result in simulation.results] == ["scenario", "two cpus"]


def test_a_scenario_of_a_file_is_changed_by_files_and_objects(tmp_path: Path) -> None:
    text = TWO_JOBS.manifests[0]
    head = (
        "apiVersion: simulate.quorate.dev/v1alpha1\nkind: Scenario\n"
        "jobs: [{name: short, queue: a, arrivals: {at: [0s, 10s]}, requests: {cpu: 1}, runs: 60s}]\n---\n"
    )
    file, change = tmp_path / "world.yaml", tmp_path / "change.yaml"
    file.write_text(head + text)
    change.write_text(Scenario().queue("a", {"cpu": 2}).manifests[0])
    by_file = simulate(str(file), [change])
    assert by_file.changes[str(change)].summary.jobs.mean_s == 0
    scenario = Scenario.from_file(file)
    assert [*simulate(scenario).scenario.jobs] == [*by_file.scenario.jobs]
    assert simulate(scenario.add(change)).scenario.summary.jobs.mean_s == 0
    with pytest.raises(ValueError, match="a scenario from a file has the jobs of the file"):
        scenario.jobs("more", queue="a")


def test_findings_name_the_field() -> None:
    with pytest.raises(InvalidWorld, match=r"jobs\[0\].runs: 'long' is not a"):
        simulate(Scenario().queue("a", {"cpu": 1}).jobs("short", queue="a", runs="long"))


def test_admission_checks_and_fields_have_names_of_python() -> None:
    scenario = TWO_JOBS.admission_check("check", after="10s").jobs("b", queue="a", min_pods=1, runs="1s")
    assert scenario.head["admissionChecks"] == {"check": {"after": "10s"}}
    assert scenario.head["jobs"][1]["minPods"] == 1
    assert TWO_JOBS.head.keys() == {"jobs"}  # each method returns another scenario


@pytest.mark.extra("pandas")
def test_results_are_data_frames() -> None:
    import pandas

    simulation = simulate(TWO_JOBS, {"two cpus": Scenario().queue("a", {"cpu": 2})})
    frame = simulation.scenario.jobs.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["wait_s"].tolist() == [0.0, 50.0]
    assert simulation.to_pandas()[["run", "class", "mean_s"]].to_numpy().tolist() == [
        ["scenario", "short", 25.0],
        ["two cpus", "short", 0.0],
    ]
    assert len(simulation.scenario.usage.to_pandas()) == len(simulation.scenario.usage)


@pytest.mark.parametrize(
    "frame_of", [Simulation.to_pandas, lambda simulation: simulation.scenario.jobs.to_pandas()]
)
def test_without_pandas_an_error_says_what_to_install(frame_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"needs pandas, .* \(run: pip install pandas, or"):
        frame_of(simulate(TWO_JOBS))


def test_a_scenario_with_worker_clusters_is_refused() -> None:
    with pytest.raises(InvalidWorld, match="plays one cluster"):
        simulate(EXAMPLES / "three-clusters.yaml")
