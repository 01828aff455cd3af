"""The ways in which a run ends, each with its exit code."""

from dataclasses import dataclass

from quorate.cli.exit_codes import Exit
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
