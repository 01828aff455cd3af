"""The exit codes of the commands."""

from enum import IntEnum


class Exit(IntEnum):
    COMPLETED = 0
    FAILED = 1
    BAD_INPUT = 2  # also used by the option parser
    NO_PROGRESS = 3
    TIMED_OUT = 4
    INTERRUPTED = 130  # the convention of shells for SIGINT
