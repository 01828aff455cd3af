"""What the shell is told by the exit code."""

from enum import IntEnum


class Exit(IntEnum):
    COMPLETED = 0
    FAILED = 1
    BAD_INPUT = 2  # also what the option parser uses
    NO_PROGRESS = 3
    TIMED_OUT = 4
    INTERRUPTED = 130  # as shells say of what SIGINT ended
