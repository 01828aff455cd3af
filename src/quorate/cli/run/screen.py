"""The output of a run in progress: a live table on a terminal, a line per change elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from quorate.inspect.formatting import plural
from quorate.processes.local.observation import PodCount
from quorate.processes.local.progress import JobProgress, QueueProgress

_BAR_CELLS: Final = 20
_WRITE_EVERY_S: Final = 1.0
_LOG_WIDTH: Final = 120
_COLOURS: Final = {
    "Completed": "green", "Running": "cyan", "Starting": "yellow", "Failed": "red", "Deactivated": "red",
    "Evicted": "magenta", "Backing off": "magenta",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a run at one moment."""

    elapsed_s: float
    jobs: tuple[JobProgress, ...]
    queues: tuple[QueueProgress, ...]
    note: str = ""


class Screen(Protocol):
    """Where a run is shown; a context manager, because a terminal must be restored."""

    def print_line(self, line: str) -> None:
        """Print one line that stays."""
        ...

    def show(self, snapshot: Snapshot) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...


def open_console(*, to_stderr: bool = False) -> Console:
    """Return standard output or error: as wide as the terminal, or wide enough for tables if it is none."""
    console = Console(stderr=to_stderr)
    return console if console.is_terminal else Console(stderr=to_stderr, width=_LOG_WIDTH)


def open_screen(console: Console) -> Screen:
    return LiveScreen(console) if console.is_terminal else LineScreen(console)


class LiveScreen:
    """Draws one table again and again; the last one stays."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)

    def print_line(self, line: str) -> None:
        self._live.console.print(escape(line), highlight=False)

    def show(self, snapshot: Snapshot) -> None:
        parts: list[Table | Text] = [_job_table(snapshot.jobs)]
        parts += [Text(_queue_line(queue), "dim") for queue in snapshot.queues]
        parts.append(Text(f"{snapshot.elapsed_s:.0f} s  {snapshot.note}", "dim"))
        self._live.update(Group(*parts), refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()


class LineScreen:
    """Prints a line when the state of a job changed, and at most one a second for other changes, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._states: dict[str, str] = {}  # of jobs, as written last
        self._lines: dict[str, str] = {}  # of jobs and queues, as written last
        self._written_s = -_WRITE_EVERY_S  # when other changes were written last

    def print_line(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, snapshot: Snapshot) -> None:
        is_due = snapshot.elapsed_s - self._written_s >= _WRITE_EVERY_S
        if is_due:
            self._written_s = snapshot.elapsed_s
        for job in snapshot.jobs:
            if is_due or self._states.get(job.name) != job.state:
                self._states[job.name] = job.state
                self._write(snapshot, f"job {job.name}", job_line(job))
        for queue in snapshot.queues if is_due else ():
            self._write(snapshot, f"queue {queue.name}", _queue_line(queue))

    def _write(self, snapshot: Snapshot, name: str, line: str) -> None:
        if self._lines.get(name) != line:
            self._lines[name] = line
            self.print_line(f"{snapshot.elapsed_s:5.1f} s  {line}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


def job_line(job: JobProgress) -> str:
    """Return ``job1: Starting, 14 ready, 6 without a node of 20 pods: 6 more pods need cpu 1 each``."""
    line = f"{job.name}: {job.state}, {format_pod_count(job.count)}"
    return f"{line}: {job.reason}" if job.reason else line


def format_pod_count(count: PodCount) -> str:
    """Return the pod counts of a job; counts of zero are left out."""
    parts = [
        (count.succeeded, "done"),
        (count.failed, "failed"),
        (count.ready, "ready"),
        (count.running - count.ready, "running"),
        (count.starting, "starting"),
        (count.unplaced, "without a node"),
    ]
    lines = ", ".join(f"{number} {what}" for number, what in parts if number)
    return f"{lines} of {plural(count.wanted, 'pod')}" if lines else plural(count.wanted, "pod")


def _queue_line(queue: QueueProgress) -> str:
    counts = f"queue {queue.name}: {queue.admitted} admitted, {queue.pending} pending"
    return "; ".join((counts, *queue.used))


def _job_table(jobs: Sequence[JobProgress]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("JOB", "STATE", "PODS", "", "WHY"):
        table.add_column(heading, overflow="fold")
    for job in jobs:
        table.add_row(
            Text(job.name),
            Text(job.state, _COLOURS.get(job.state, "")),
            _bar(job.count),
            Text(format_pod_count(job.count)),
            Text(job.reason),
        )
    return table


def _bar(count: PodCount) -> Text:
    """Return the pods of a job as cells: done, running, starting, without a node."""
    bar = Text()
    filled = 0
    seen = 0
    for number, cell, colour in (
        (count.succeeded, "█", "green"),
        (count.failed, "█", "red"),
        (count.running, "█", "cyan"),
        (count.starting, "▒", "cyan"),
        (count.unplaced, "░", "yellow"),
    ):
        seen += number
        upto = min(_BAR_CELLS, round(_BAR_CELLS * seen / max(count.wanted, 1)))
        bar.append(cell * (upto - filled), colour)
        filled = max(filled, upto)
    return bar.append("·" * (_BAR_CELLS - filled), "dim")
