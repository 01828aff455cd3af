"""Traces in Standard Workload Format."""

from pathlib import Path

import pytest

from quorate.simulate.engine.player import play
from quorate.simulate.inputs.workload_format import TracedJob, read_trace
from quorate.simulate.inputs.world import InvalidWorld, read_world
from quorate.simulate.results.summary import summarize
from tests.simulate.worlds import FLAVOR, HEAD, queue, spans

TRACE = """; Version: 2.2
; UnixStartTime: 1000
1 100 -1 10 4 -1 -1 8 200 -1 1 1 1 -1 1 -1 -1 -1
2 105 -1 20 -1 -1 -1 2 200 -1 0 1 1 -1 2 -1 -1 -1

3 106 -1 -1 -1 -1 -1 8 200 -1 5 1 1 -1 2 -1 -1 -1 ; cancelled before it started
4 107 -1 5 1 -1 -1 1 200 -1 1 1 1 -1 3 -1 -1 -1
"""


def test_a_trace_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.swf"
    file.write_text(TRACE)
    assert list(read_trace(file)) == [
        TracedJob(100, 10, 4, 1, "1"),
        TracedJob(105, 20, 2, 0, "2"),
        TracedJob(107, 5, 1, 1, "3"),
    ]


def test_the_parts_of_a_job_that_was_checkpointed_are_left_out(tmp_path: Path) -> None:
    """Its first line is of the whole job; 2, 3 and 4 are the statuses of parts."""
    line = "7 {} -1 {} 4 -1 -1 4 -1 -1 {} 1 1 -1 1 -1 -1 -1"
    parts = [(100, 30, 1), (100, 10, 2), (150, 20, 3), (200, 9, 0), (200, 9, 4)]
    file = tmp_path / "a.swf"
    file.write_text("\n".join(line.format(*each) for each in parts))
    assert [(job.runs_s, job.failed) for job in read_trace(file)] == [(30, False), (9, True)]


@pytest.mark.parametrize(
    ("header", "cpus"),
    [
        pytest.param("; MaxNodes: 8\n; MaxProcs: 16", 16, id="its processors"),
        pytest.param("; MaxNodes: 8\n; MaxProcs: -1", 8, id="or its nodes"),
        pytest.param("", 4, id="or its largest job"),
    ],
)
def test_a_trace_alone_is_played_on_one_queue_of_the_size_of_its_machine(
    tmp_path: Path, header: str, cpus: int
) -> None:
    file = tmp_path / "a.swf"
    file.write_text(f"{header}\n{TRACE}")
    run = play(read_world(file))
    (use,) = summarize(run).utilisation
    assert use.nominal == str(cpus)
    assert len(run.jobs) == 3


def test_a_trace_is_played_on_the_queues_of_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "cluster-2.swf").write_text(TRACE)
    (tmp_path / "world.yaml").write_text(
        HEAD + "traces: [{file: cluster-2.swf, queues: {'1': q, '2': r}, stretch: 2}]\n---\n" + FLAVOR
        + queue("q", 4) + queue("r", 4)
    )  # fmt: skip
    run = play(read_world(tmp_path / "world.yaml"))
    assert spans(run) == {"cluster-2": (0, 10, 10, 30)}  # the job of queue 3 is left out
    assert [str(key) for key in run.queues] == ["default/q", "default/r"]
    assert list(run.jobs.pods) == [4, 2]


def test_jobs_of_a_trace_with_a_priority_start_before_others(tmp_path: Path) -> None:
    job = "{number} 0 -1 {runs} 1" + " -1" * 9 + " 1 -1 -1 -1\n"
    for name, runs in ("a", 60), ("b", 90):
        (tmp_path / f"{name}.swf").write_text(job.format(number=1, runs=runs))
    (tmp_path / "world.yaml").write_text(
        HEAD + "traces:\n- {file: a.swf, queue: q}\n- {file: b.swf, queue: q, priority: 1}\n---\n"
        + FLAVOR + queue("q", 1)
    )  # fmt: skip
    assert spans(play(read_world(tmp_path / "world.yaml"))) == {"b": (0, 90), "a": (90, 150)}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 2 3", "has 3 fields, must have 18"),
        ("1 x" + " -1" * 16, "has a field that is no number: could not convert string to float: 'x'"),
        ("1 1e99" + " -1" * 16, "has a time or a number of processors out of range"),
        ("1 50" + " -1" * 16, "is submitted at 50 s, the job before at 107 s (sort the file)"),
    ],
)
def test_a_line_that_is_wrong_is_a_finding(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "a.swf"
    file.write_text(f"{TRACE}{line}\n")
    (tmp_path / "world.yaml").write_text(
        HEAD + "traces: [{file: a.swf, queue: q}]\n---\n" + FLAVOR + queue("q", 4)
    )
    with pytest.raises(InvalidWorld) as refused:
        read_world(tmp_path / "world.yaml")
    assert refused.value.findings == (f"{file}:8: {problem}",)
