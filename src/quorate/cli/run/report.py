"""What remains on the terminal when a run is over: the table of its jobs, and why it ended."""

from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

from rich.console import Console
from rich.table import Table
from rich.text import Text

from quorate.cli.run.outcome import Completed, Ending, Failed, Outcome, Stuck, TimedOut
from quorate.cli.run.progress import JobRecord


def print_outcome(console: Console, outcome: Outcome) -> None:
    console.print(records_table(outcome.records))
    for line in ending_in_words(outcome.ending):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def records_table(records: Sequence[JobRecord]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("JOB", "SUBMITTED", "ADMITTED", "STARTED", "FINISHED"):
        table.add_column(heading)
    table.add_column("EVICTED", justify="right")
    table.add_column("WAITED", justify="right")
    table.add_column("RESULT", overflow="fold")
    for record in records:
        moments = (record.submitted, record.admitted, record.started, record.finished)
        waited = f"{record.waited_s:.0f} s" if record.waited_s is not None else "-"
        result = Text(record.result, "green" if record.result == "completed" else "red")
        table.add_row(Text(record.name), *map(_moment, moments), str(record.evictions), waited, result)
    return table


def ending_in_words(ending: Ending) -> tuple[str, ...]:
    """Why a run ended, a line for each fact."""
    match ending:
        case Completed():
            return ("every job completed",)
        case Failed(jobs):
            return tuple(f"{job.name} {job.result}" for job in jobs)
        case Stuck(standstill):
            what = "deadlock" if standstill.is_deadlock else "standstill"
            told = [f"{what}: nothing can make progress any more"]
            told += [f"  {job}" for job in standstill.jobs]
            told += [f"  {room}" for room in standstill.room]
            return (*told, standstill.advice) if standstill.advice else tuple(told)
        case TimedOut(timeout_s, left):
            return (f"not finished within {timeout_s:g} s: {', '.join(left)} (allow more with --timeout)",)
        case _:
            assert_never(ending)


def _moment(moment: datetime | None) -> str:
    return moment.astimezone().strftime("%H:%M:%S") if moment is not None else "-"
