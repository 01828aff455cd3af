"""The ways in which a run ends, each with its exit code, and the output at the end: a table of its jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from quorate.api.meta import epoch
from quorate.cli.exit_codes import Exit
from quorate.inspect.formatting import format_duration
from quorate.processes.local.deadlock import NoProgress
from quorate.processes.local.progress import JobRecord


@dataclass(frozen=True, slots=True)
class Completed:
    """Every job completed."""

    exit = Exit.COMPLETED


@dataclass(frozen=True, slots=True)
class Failed:
    """Every job finished, not every one completed."""

    exit = Exit.FAILED


@dataclass(frozen=True, slots=True)
class Deadlocked:
    """Jobs are left and nothing can make progress."""

    no_progress: NoProgress
    exit = Exit.NO_PROGRESS


@dataclass(frozen=True, slots=True)
class TimedOut:
    """Jobs were left when the timeout expired."""

    timeout_s: float
    left: tuple[str, ...]
    exit = Exit.TIMED_OUT


Ending = Completed | Failed | Deadlocked | TimedOut


@dataclass(frozen=True, slots=True)
class Outcome:
    ending: Ending
    records: tuple[JobRecord, ...]


def print_outcome(console: Console, outcome: Outcome) -> None:
    console.print()
    console.print(records_table(outcome.records))
    console.print()
    for line in outcome_lines(outcome):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def records_table(records: Sequence[JobRecord]) -> Table:
    """Return a table with a row for each job.

    Times are whole seconds, as the API stores them, since the first job was submitted.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("JOB", overflow="fold")
    for heading in ("SUBMITTED", "ADMITTED", "STARTED", "FINISHED", "EVICTED", "WAITED"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("RESULT", no_wrap=True)
    first = first_submission(records)
    for record in records:
        moments = (record.submitted, record.admitted, record.started, record.finished)
        lines = [_duration(epoch(moment) - first if moment is not None else None) for moment in moments]
        result = Text(record.result, "green" if record.result == "completed" else "red")
        evicted = f"{record.evictions} x" if record.evictions else "-"
        table.add_row(Text(record.name), *lines, evicted, _duration(record.waited_s), result)
    return table


def outcome_value(outcome: Outcome) -> dict[str, Any]:
    """Return the end of the run and its jobs with all moments, for JSON."""
    return {
        "ending": type(outcome.ending).__name__,
        "exitCode": int(outcome.ending.exit),
        "messages": outcome_lines(outcome),
        "jobs": outcome.records,
    }


def first_submission(records: Sequence[JobRecord]) -> float:
    """Return when the first job was submitted (seconds since the epoch), the zero of the tables."""
    return min((epoch(record.submitted) for record in records if record.submitted is not None), default=0.0)


def outcome_lines(outcome: Outcome) -> tuple[str, ...]:
    """Return which jobs failed and why the run ended, a line for each fact."""
    failed = tuple(f"{job.name} failed: {job.reason}" for job in outcome.records if job.result == "failed")
    return (*failed, *_ending_lines(outcome.ending))


def _ending_lines(ending: Ending) -> tuple[str, ...]:
    match ending:
        case Completed():
            return ("every job completed",)
        case Failed():
            return ()
        case Deadlocked(no_progress):
            what = "deadlock" if no_progress.is_deadlock else "no progress"
            lines = [f"{what}: nothing can make progress any more"]
            lines += [f"  {job}" for job in no_progress.jobs]
            lines += [f"  {free_capacity}" for free_capacity in no_progress.free_capacity]
            return (*lines, no_progress.advice) if no_progress.advice else tuple(lines)
        case TimedOut(timeout_s, left):
            return (f"not finished within {timeout_s:g} s: {', '.join(left)} (allow more with --timeout)",)
        case _:
            assert_never(ending)


def _duration(seconds: float | None) -> str:
    return format_duration(seconds) if seconds is not None else "-"
