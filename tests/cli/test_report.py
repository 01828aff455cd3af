"""What is printed while a run goes on and when it is over, read as text."""

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from quorate.cli.run.outcome import Completed, Ending, Exit, Failed, Outcome, Stuck, TimedOut
from quorate.cli.run.progress import JobProgress, JobRecord, QueueProgress
from quorate.cli.run.report import ending_in_words, print_outcome
from quorate.cli.run.screen import LineScreen, Picture, open_screen, pods_in_words
from quorate.cli.run.standstill import Shortage, Standstill, StuckJob
from quorate.cli.run.world import PodCount

RECORD = JobRecord("job1", None, None, None, None, 0, "completed")
FULL = PodCount(wanted=20, ready=14, running=14, unplaced=6)


def a_console(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=120, force_terminal=terminal, no_color=True, _environ={}), text


@pytest.mark.parametrize(
    ("count", "words"),
    [
        pytest.param(PodCount(wanted=20), "20 pods", id="none yet"),
        pytest.param(FULL, "14 ready, 6 without a node of 20 pods"),
        pytest.param(
            PodCount(wanted=9, succeeded=1, failed=2, running=3, ready=1, starting=1),
            "1 done, 2 failed, 1 ready, 2 running, 1 starting of 9 pods",
        ),
    ],
)
def test_pods_in_words(count: PodCount, words: str) -> None:
    assert pods_in_words(count) == words


def test_a_log_gets_a_line_for_what_changed_and_no_other() -> None:
    console, text = a_console()
    job = JobProgress("job1", "queued", PodCount(wanted=20), "quota")
    queue = QueueProgress("cq", 1, 0, ("memory 0 of 16858Mi",))
    with LineScreen(console) as screen:
        screen.show(Picture(0.0, (job,), (queue,)))
        screen.show(Picture(0.2, (job,), (queue,)))
        screen.show(Picture(1.5, (replace(job, state="starting", count=FULL, because=""),), (queue,)))
    assert text.getvalue().splitlines() == [
        "  0.0 s  job1: queued, 20 pods: quota",
        "  0.0 s  queue cq: 0 admitted, 1 pending; memory 0 of 16858Mi",
        "  1.5 s  job1: starting, 14 ready, 6 without a node of 20 pods",
    ]


def test_a_terminal_gets_a_picture_and_keeps_the_last_one() -> None:
    console, text = a_console(terminal=True)
    with open_screen(console) as screen:
        screen.say("[b]names are not markup")
        screen.show(Picture(1.0, (JobProgress("job1", "starting", FULL, "6 more pods"),), ()))
    shown = text.getvalue()
    assert "[b]names are not markup" in shown
    assert "█" * 14 + "░" * 6 in shown
    assert "14 ready, 6 without a node of 20 pods" in shown


STARVED = StuckJob("job1", 14, 20, {}, (Shortage(6, {}, "no room"),), "")
UNADMITTED = StuckJob("late", 0, 1, {}, (), "no quota")
STANDSTILL = Standstill((STARVED, UNADMITTED), ("memory: 213Mi free of 8429Mi",), "")


@pytest.mark.parametrize(
    ("ending", "lines", "exit_code"),
    [
        pytest.param(Completed(), ("every job completed",), Exit.COMPLETED),
        pytest.param(
            Failed((replace(RECORD, result="failed: BackoffLimitExceeded: too many"),)),
            ("job1 failed: BackoffLimitExceeded: too many",),
            Exit.FAILED,
        ),
        pytest.param(
            Stuck(STANDSTILL),
            (
                "standstill: nothing can make progress any more",
                "  job1 runs 14 of 20 pods and holds nothing; 6 more pods have no node: no room",
                "  late waits: no quota",
                "  memory: 213Mi free of 8429Mi",
            ),
            Exit.STANDSTILL,
        ),
        pytest.param(
            TimedOut(60.0, ("job1", "job2")),
            ("not finished within 60 s: job1, job2 (allow more with --timeout)",),
            Exit.TIMED_OUT,
        ),
    ],
)
def test_why_a_run_ended(ending: Ending, lines: tuple[str, ...], exit_code: Exit) -> None:
    assert ending_in_words(ending) == lines
    assert ending.exit is exit_code


def test_the_final_table_has_a_row_for_each_job() -> None:
    start = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC).astimezone()
    late = JobRecord("job2", start, start + timedelta(seconds=13), None, None, 2, "unfinished")
    console, text = a_console()
    print_outcome(console, Outcome(Completed(), (RECORD, late), 20.0))
    header, first, second, verdict = (line.split() for line in text.getvalue().splitlines())
    assert header == ["JOB", "SUBMITTED", "ADMITTED", "STARTED", "FINISHED", "EVICTED", "WAITED", "RESULT"]
    assert first == ["job1", "-", "-", "-", "-", "0", "-", "completed"]
    admitted = (start + timedelta(seconds=13)).strftime("%H:%M:%S")
    assert second == ["job2", start.strftime("%H:%M:%S"), admitted, "-", "-", "2", "13", "s", "unfinished"]
    assert " ".join(verdict) == "every job completed"
