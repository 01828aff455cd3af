"""Tables of runs: rows of jobs, use of quota, and their files."""

import csv
import io
import sys
from pathlib import Path

import numpy as np
import pytest

from quorate.cli.simulate.tables import check_table_file, csv_text, write_table
from quorate.inspect.errors import UsageError
from quorate.simulate.results.tables import job_columns, stacked, usage_columns
from tests.simulate.worlds import queue, run_of

# One cpu: the second job waits 50 s for the first, the third is too large for the queue.
THREE_JOBS = """
jobs:
- {name: short, queue: a, arrivals: {at: [0s, 10s]}, requests: {cpu: "1"}, runs: 60s}
- {name: large, queue: a, arrivals: {at: [20s]}, requests: {cpu: "2"}, runs: 60s}
"""
JOBS_CSV = """\
job,class,queue,submitted_s,admitted_s,ended_s,wait_s,runs_s,pods,admissions,preemptions,evictions,outcome
0,short,default/a,0.0,0.0,60.0,0.0,60.0,1,1,0,0,succeeded
1,short,default/a,10.0,60.0,120.0,50.0,60.0,1,1,0,0,succeeded
2,large,default/a,20.0,,,,60.0,1,0,0,0,waiting
"""


def test_a_row_for_each_job() -> None:
    assert csv_text(job_columns(run_of(THREE_JOBS, queue("a", 1)))) == JOBS_CSV


def test_the_use_of_quota_adds_up() -> None:
    table = usage_columns(run_of(THREE_JOBS, queue("a", 1)))
    cpu = np.array(table["amount"])
    seconds = np.array(table["until_s"]) - np.array(table["from_s"])
    assert table["from_s"][0] == 0
    assert table["until_s"][-1] == 120
    assert float((cpu * seconds).sum()) == pytest.approx(120)  # two jobs of one cpu and 60 s
    assert set(zip(table["cluster_queue"], table["flavor"], table["resource"], strict=True)) == {
        ("a", "default", "cpu")
    }
    assert {1, 2} <= set(np.array(table["waiting"]).tolist())


def test_a_run_without_jobs_has_no_rows() -> None:
    run = run_of("jobs: []", queue("a", 1))
    assert csv_text(job_columns(run)).count("\n") == 1
    assert csv_text(usage_columns(run)).count("\n") == 1


def test_runs_are_stacked_under_their_names() -> None:
    one, other = run_of(THREE_JOBS, queue("a", 1)), run_of(THREE_JOBS, queue("a", 2))
    table = stacked({"as it is": job_columns(one), "larger": job_columns(other)})
    rows = list(csv.DictReader(io.StringIO(csv_text(table))))
    assert [(row["run"], row["class"], row["admitted_s"]) for row in rows] == [
        ("as it is", "short", "0.0"),
        ("as it is", "short", "60.0"),
        ("as it is", "large", ""),
        ("larger", "short", "0.0"),
        ("larger", "short", "10.0"),
        ("larger", "large", "70.0"),
    ]


@pytest.mark.extra("pyarrow")
def test_a_table_in_parquet_is_that_in_csv(tmp_path: Path) -> None:
    from pyarrow import parquet

    table = job_columns(run_of(THREE_JOBS, queue("a", 1)))
    file = tmp_path / "jobs.parquet"
    check_table_file("--jobs", file)
    write_table("--jobs", file, table)
    read = parquet.read_table(file).to_pydict()
    assert [*read] == [*table]
    assert read["admitted_s"] == [0.0, 60.0, None]
    assert read["class"] == ["short", "short", "large"]
    assert read["pods"] == [1, 1, 1]


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed
    with pytest.raises(UsageError, match=r"needs pyarrow, .* \(run: pip install pyarrow, or"):
        check_table_file("--jobs", Path("jobs.parquet"))
    check_table_file("--jobs", Path("jobs.csv"))


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--usage a.xlsx: is no .csv or .parquet file"):
        check_table_file("--usage", Path("a.xlsx"))
    with pytest.raises(UsageError, match=r"no such file or directory"):
        write_table("--jobs", tmp_path / "absent" / "jobs.csv", {"job": ["1"]})
