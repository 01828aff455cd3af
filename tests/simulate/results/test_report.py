"""The HTML report: its numbers are those of the run, and it needs no network."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest

from quorate.cli.simulate import report_page
from quorate.simulate.engine.player import play
from quorate.simulate.engine.recorder import Run
from quorate.simulate.inputs.changes import changed
from quorate.simulate.inputs.world import read_world
from quorate.simulate.results import chart_series, charts
from quorate.simulate.results.summary import compare, summarize
from tests.simulate.engine.test_player import HIGH, LOW
from tests.simulate.worlds import queue, run_of

EXAMPLES = Path(__file__).parents[3] / "examples" / "simulate"


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    world = read_world(EXAMPLES / "two-teams.yaml")
    change = changed(world, EXAMPLES / "larger-quota.yaml")
    return {"as it is": play(world), "a <b>larger</b> quota": play(change)}


@pytest.fixture(scope="module")
def written(runs: dict[str, Run]) -> str:
    first, second = runs.values()
    return report_page.report(runs, [compare("a <b>larger</b> quota", first, second)])


def test_amounts_in_use_add_up_to_the_mean_use(runs: dict[str, Run]) -> None:
    run = runs["as it is"]
    means = {
        line.name: np.average(line.y, weights=np.diff([0.0, *line.x]))
        for line in chart_series.amounts_in_use(run, "cpu")
    }
    expected = {queue: run.usage.mean(queue, "default", "cpu", run.ended_ms) for queue in means}
    assert set(means) == {"research", "training"}
    assert means == pytest.approx(expected)


def test_waits_are_a_distribution_with_the_percentiles_of_the_summary(runs: dict[str, Run]) -> None:
    run = runs["as it is"]
    line = chart_series.distribution_of_waits(run)
    assert line.x == sorted(line.x)
    assert line.y == sorted(line.y)
    assert line.y[-1] == 1.0
    p90_ms = float(np.interp(0.9, line.y, line.x))
    assert p90_ms / 1000 == pytest.approx(summarize(run).jobs.p90_s, rel=0.02)


def test_waits_by_class_are_a_part_of_all_waits(runs: dict[str, Run]) -> None:
    run = runs["as it is"]
    by_class = {line.name: line for line in chart_series.distributions_by_class(run)}
    waits = summarize(run).by_class
    assert by_class.keys() == waits.keys() == {"notebook", "sweep", "training"}
    for name, line in by_class.items():
        assert line.y[-1] == 1.0
        at_ms = waits[name].p90_s * 1000
        assert np.interp(at_ms, line.x, line.y) == pytest.approx(0.9, abs=0.04)
    assert [line.name for line in chart_series.distributions_by_class(run, most=2)] == ["notebook", "sweep"]


def test_bars_have_the_jobs_that_move(runs: dict[str, Run]) -> None:
    change = compare("larger", *runs.values())
    later, sooner = charts.moved_jobs(change.by_class)["data"]
    assert later["y"] == sooner["y"] == [*change.by_class]
    assert later["x"] == [-(each.later or 0) for each in change.by_class.values()]
    assert sooner["x"] == [each.sooner for each in change.by_class.values()]
    assert sum(sooner["x"]) == change.jobs.sooner


def test_the_window_has_the_jobs_that_wait_at_the_busiest_time(runs: dict[str, Run]) -> None:
    run = runs["as it is"]
    at_ms = chart_series.busiest_ms(run)
    bars = chart_series.window(run, at_ms)
    assert len(bars) == chart_series.MOST_BARS
    phases = [each.phase for bar in bars for each in bar.intervals if each.starts_ms <= at_ms < each.ends_ms]
    assert phases.count(chart_series.Phase.WAITS) > chart_series.MOST_BARS / 2
    submitted = [bar.intervals[0].starts_ms for bar in bars]
    assert submitted == sorted(submitted)


BUSY = """
jobs:
- name: long
  queue: q
  priorityClass: low
  requests: {cpu: 2}
  runs: {exponential: 40s}
  arrivals: {every: {exponential: 15s}, count: 60}
- name: urgent
  queue: q
  priorityClass: high
  requests: {cpu: 4}
  runs: {exponential: 20s}
  arrivals: {every: {exponential: 60s}, count: 20}
"""
PREEMPTS = queue("q", 8, "namespaceSelector: {}\n  preemption: {withinClusterQueue: LowerPriority}")


def test_bars_show_all_interruptions() -> None:
    run = run_of(BUSY, PREEMPTS, LOW, HIGH)
    jobs = run.jobs
    bars = chart_series.window(run, -1, most=len(jobs))
    assert len(bars) == len(jobs)
    found = dict.fromkeys(chart_series.Phase, 0)
    for number, bar in enumerate(bars):
        assert bar.intervals[-1].ends_ms == jobs.ended_ms[number]
        for one, other in pairwise(bar.intervals):
            assert (one.ends_ms, one.phase == chart_series.Phase.RUNS) == (
                other.starts_ms, other.phase != chart_series.Phase.RUNS,
            )  # fmt: skip
        for each in bar.intervals:
            found[each.phase] += 1
    assert found[chart_series.Phase.PREEMPTED] == sum(jobs.preemptions) > 0
    assert found[chart_series.Phase.EVICTED] == sum(jobs.evictions)


PREEMPTED = """
jobs:
- {name: victim, queue: q, priorityClass: low, requests: {cpu: 8}, runs: 8s}
- {name: urgent, queue: q, priorityClass: high, requests: {cpu: 8}, runs: 4s, arrivals: {at: [3s]}}
"""


def test_a_bar_has_a_pattern_while_its_job_is_preempted() -> None:
    run = run_of(PREEMPTED, PREEMPTS, LOW, HIGH)
    waits, runs = charts.gantt(run)["data"]
    assert (waits["name"], waits["marker"]["pattern"]) == ("waits after a preemption", {"shape": "x"})
    assert [*zip(waits["y"], waits["base"], waits["x"], strict=True)] == [("victim 0", 3, 4)]
    assert sorted(zip(runs["y"], runs["base"], runs["x"], strict=True)) == [
        ("urgent 1", 3, 4), ("victim 0", 0, 3), ("victim 0", 7, 8),
    ]  # fmt: skip


def test_many_queues_are_added_up(runs: dict[str, Run]) -> None:
    run = runs["as it is"]
    all_lines = chart_series.amounts_in_use(run, "cpu")
    shown = chart_series.amounts_in_use(run, "cpu", most=1)
    assert [line.name for line in shown] == ["training", chart_series.OTHERS]
    totals = [np.sum([line.y for line in lines], axis=0) for lines in (all_lines, shown)]
    assert totals[0] == pytest.approx(totals[1])


@pytest.fixture(scope="module")
def run_on_nodes() -> Run:
    world = read_world(EXAMPLES / "gpu-nodes.yaml")
    scenario = msgspec.structs.replace(world.scenario, until_s=4 * 3600.0)
    return play(msgspec.structs.replace(world, scenario=scenario))


def test_nodes_have_the_use_of_their_pods(run_on_nodes: Run) -> None:
    run = run_on_nodes
    for use in summarize(run).nodes:
        heat_map = chart_series.use_of_nodes(run, use.resource)
        assert heat_map is not None
        assert len(heat_map.nodes) == use.nodes
        lengths = np.diff([0, *heat_map.sampled_ms])
        means = [float(np.average(row, weights=lengths)) for row in heat_map.shares]
        assert (min(means), max(means)) == pytest.approx((use.least, use.most), abs=1e-3)
    assert chart_series.use_of_nodes(run, "example.com/absent") is None


def test_a_cell_of_the_heat_map_spans_its_interval(run_on_nodes: Run) -> None:
    heat_map = chart_series.use_of_nodes(run_on_nodes, "cpu")
    assert heat_map is not None
    (trace,) = charts.nodes(heat_map, "cpu")["data"]
    assert trace["x"][0] == 0
    assert {len(row) for row in trace["z"]} == {len(trace["x"]) - 1}


def test_many_nodes_share_rows(run_on_nodes: Run) -> None:
    run = run_on_nodes
    every, rows = chart_series.use_of_nodes(run, "cpu"), 3
    grouped = chart_series.use_of_nodes(run, "cpu", most=rows)
    assert every is not None
    assert grouped is not None
    assert len(grouped.nodes) <= rows < len(every.nodes)
    assert grouped.nodes[0].startswith(f"{every.nodes[0]} to ")


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action")]


@pytest.mark.extra("plotly")
def test_the_page_has_a_chart_for_each_question_and_no_link_outside(written: str) -> None:
    parsed = Page(written)
    assert parsed.links == []
    assert "default-src 'none'" in written
    # Waits, waiting jobs and the jobs that move; for each of the two runs waits, cpu, memory and the jobs.
    assert parsed.tags.count("figure") == 3 + 2 * 4
    data = re.findall(r'<script type="application/json">(.*?)</script>', written)
    assert [msgspec.json.decode(each).keys() for each in data] == [{"data", "layout"}] * 11


@pytest.mark.extra("plotly")
def test_text_of_the_scenario_is_escaped(written: str) -> None:
    assert "b" not in Page(written).tags
    assert "a &lt;b&gt;larger&lt;/b&gt; quota" in written


@pytest.mark.extra("plotly")
def test_the_same_runs_give_the_same_bytes(runs: dict[str, Run], written: str) -> None:
    first, second = runs.values()
    assert report_page.report(runs, [compare("a <b>larger</b> quota", first, second)]) == written


@pytest.mark.parametrize(
    ("longest_ms", "unit"),
    [(0, "s"), (600_000, "s"), (600_001, "min"), (5 * 3_600_000 + 1, "h"), (11 * 86_400_000, "days")],
)
def test_axes_have_units_of_their_length(longest_ms: int, unit: str, runs: dict[str, Run]) -> None:
    run = msgspec.structs.replace(runs["as it is"], ended_ms=longest_ms)
    figure = charts.waiting({"one": run})
    assert figure["layout"]["xaxis"]["title"]["text"] == f"time ({unit})"
