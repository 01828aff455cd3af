"""The output during a run and at its end, as text."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from quorate.cli.exit_codes import Exit
from quorate.cli.run.demo import as_documented, comparison, lesson
from quorate.cli.run.report import (
    Completed,
    Deadlocked,
    Ending,
    Failed,
    Outcome,
    TimedOut,
    outcome_lines,
    print_outcome,
)
from quorate.cli.run.screen import LineScreen, Snapshot, format_pod_count, open_screen
from quorate.processes.local.deadlock import BlockedJob, NoProgress, Shortage
from quorate.processes.local.observation import PodCount
from quorate.processes.local.progress import JobProgress, JobRecord, QueueProgress

RECORD = JobRecord("job1", None, None, None, None, 0, "completed")
FULL = PodCount(wanted=20, ready=14, running=14, unplaced=6)


def a_console(*, terminal: bool = False, width: int = 120) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=width, force_terminal=terminal, no_color=True, _environ={}), text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        pytest.param(PodCount(wanted=20), "20 pods", id="no pods yet"),
        pytest.param(FULL, "14 ready, 6 without a node of 20 pods"),
        pytest.param(
            PodCount(wanted=9, succeeded=1, failed=2, running=3, ready=1, starting=1),
            "1 done, 2 failed, 1 ready, 2 running, 1 starting of 9 pods",
        ),
    ],
)
def test_format_pod_count(count: PodCount, text: str) -> None:
    assert format_pod_count(count) == text


def test_a_log_has_a_line_for_each_change_only() -> None:
    console, text = a_console()
    job = JobProgress("job1", "queued", PodCount(wanted=20), "quota")
    queue = QueueProgress("cq", 1, 0, ("memory 0 of 16858Mi",))
    with LineScreen(console) as screen:
        screen.show(Snapshot(0.0, (job,), (queue,)))
        screen.show(Snapshot(0.2, (job,), (queue,)))
        screen.show(Snapshot(1.5, (replace(job, state="starting", count=FULL, reason=""),), (queue,)))
    assert text.getvalue().splitlines() == [
        "  0.0 s  job1: queued, 20 pods: quota",
        "  0.0 s  queue cq: 0 admitted, 1 pending; memory 0 of 16858Mi",
        "  1.5 s  job1: starting, 14 ready, 6 without a node of 20 pods",
    ]


def test_a_log_shows_each_state_of_a_job_however_short() -> None:
    console, text = a_console()
    job = JobProgress("job1", "Starting", PodCount(wanted=20), "")
    queue = QueueProgress("cq", 0, 1, ())
    with LineScreen(console) as screen:
        screen.show(Snapshot(0.0, (job,), ()))
        screen.show(Snapshot(0.2, (replace(job, count=FULL),), (queue,)))
        screen.show(Snapshot(0.3, (replace(job, state="Running", count=FULL),), (queue,)))
        screen.show(Snapshot(0.4, (replace(job, state="Completed"),), (queue,)))
        screen.show(Snapshot(1.1, (replace(job, state="Completed"),), (queue,)))
    assert text.getvalue().splitlines() == [
        "  0.0 s  job1: Starting, 20 pods",
        "  0.3 s  job1: Running, 14 ready, 6 without a node of 20 pods",
        "  0.4 s  job1: Completed, 20 pods",
        "  1.1 s  queue cq: 1 admitted, 0 pending",
    ]


def test_a_terminal_shows_a_live_table_and_keeps_the_last_one() -> None:
    console, text = a_console(terminal=True)
    with open_screen(console) as screen:
        screen.print_line("[b]names are not markup")
        screen.show(Snapshot(1.0, (JobProgress("job1", "starting", FULL, "6 more pods"),), ()))
    shown = text.getvalue()
    assert "[b]names are not markup" in shown
    assert "█" * 14 + "░" * 6 in shown
    assert "14 ready, 6 without a node of 20 pods" in shown


BLOCKED = BlockedJob("job1", 14, 20, {}, (Shortage(6, {}, "no node fits"),), "")
UNADMITTED = BlockedJob("late", 0, 1, {}, (), "no quota")
NO_PROGRESS = NoProgress((BLOCKED, UNADMITTED), ("memory: 213Mi free of 8429Mi",), "")
DEADLOCK = NoProgress((BLOCKED, replace(BLOCKED, name="job2")), (), "")


BROKEN = JobRecord("job2", None, None, None, None, 0, "failed", "BackoffLimitExceeded: too many")


@pytest.mark.parametrize(
    ("records", "ending", "lines", "exit_code"),
    [
        pytest.param([RECORD], Completed(), ["every job completed"], Exit.COMPLETED),
        pytest.param(
            [RECORD, BROKEN], Failed(), ["job2 failed: BackoffLimitExceeded: too many"], Exit.FAILED
        ),
        pytest.param(
            [BROKEN],
            Deadlocked(NO_PROGRESS),
            [
                "job2 failed: BackoffLimitExceeded: too many",
                "no progress: nothing can make progress any more",
                "  job1 runs 14 of 20 pods and holds nothing; 6 more pods have no node: no node fits",
                "  late waits: no quota",
                "  memory: 213Mi free of 8429Mi",
            ],
            Exit.NO_PROGRESS,
        ),
        pytest.param(
            [],
            TimedOut(60.0, ("job1", "job2")),
            ["not finished within 60 s: job1, job2 (allow more with --timeout)"],
            Exit.TIMED_OUT,
        ),
    ],
)
def test_outcome_lines(records: list[JobRecord], ending: Ending, lines: list[str], exit_code: Exit) -> None:
    assert list(outcome_lines(Outcome(ending, tuple(records)))) == lines
    assert ending.exit is exit_code


START = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
LATE = JobRecord("quick-job", START, START + timedelta(seconds=13), None, None, 2, "unfinished")
LATE_JOB = JobRecord("job1", START, START, START, None, 0, "unfinished")
DONE = JobRecord("job1", START, START, START, START + timedelta(seconds=120), 0, "completed")


def test_the_final_table_counts_from_the_first_submission_and_fits_a_terminal() -> None:
    console, text = a_console(width=80)
    print_outcome(console, Outcome(Completed(), (DONE, LATE)))
    assert text.getvalue() == (
        "\n"
        "JOB        SUBMITTED  ADMITTED  STARTED  FINISHED  EVICTED  WAITED  RESULT    \n"
        "job1              0s        0s       0s        2m        -      0s  completed \n"
        "quick-job         0s       13s        -         -      2 x     13s  unfinished\n"
        "\n"
        "every job completed\n"
    )


def test_the_runs_of_the_demo_are_compared_job_by_job() -> None:
    console, text = a_console(width=100)
    stuck = replace(DONE, finished=None, result="unfinished")
    without = Outcome(Deadlocked(NO_PROGRESS), (stuck, replace(DONE, name="quick-job")))
    ready = Outcome(Completed(), (DONE, replace(DONE, name="quick-job")))
    grouped = Outcome(TimedOut(60.0, ("job1",)), (LATE_JOB, replace(DONE, name="quick-job")))
    console.print(comparison(without, ready, grouped))
    assert text.getvalue() == (
        "JOB        QUOTA ALONE               WAIT FOR PODS READY  POD GROUPS        \n"
        "job1       stuck with 14 of 20 pods  completed after 2m   unfinished        \n"
        "quick-job  completed after 2m        completed after 2m   completed after 2m\n"
    )


@pytest.mark.parametrize(
    ("without", "ready", "grouped", "documented", "lesson_begins"),
    [
        pytest.param(
            Deadlocked(DEADLOCK), Completed(), Completed(), True, "Quota limits", id="as documented"
        ),
        pytest.param(Completed(), Completed(), Completed(), False, "this time quota alone", id="no deadlock"),
        pytest.param(
            Deadlocked(NO_PROGRESS),
            Completed(),
            Completed(),
            False,
            "this time quota alone",
            id="only one job is blocked",
        ),
        pytest.param(
            Deadlocked(DEADLOCK),
            Deadlocked(NO_PROGRESS),
            Completed(),
            False,
            "with waitForPodsReady every job should",
        ),
        pytest.param(
            Deadlocked(DEADLOCK),
            Completed(),
            Deadlocked(NO_PROGRESS),
            False,
            "with pod groups every job should",
        ),
    ],
)
def test_the_demo_reports_a_run_that_differs_from_the_documentation(
    without: Ending, ready: Ending, grouped: Ending, documented: bool, lesson_begins: str
) -> None:
    runs = [Outcome(ending, ()) for ending in (without, ready, grouped)]
    assert as_documented(*runs) is documented
    assert lesson(*runs).startswith(lesson_begins)
