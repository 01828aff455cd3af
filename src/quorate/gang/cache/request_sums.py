"""The sums of the requests of the tasks of a gang, by what the tasks have."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.gang.cache.task import ALLOCATED_STATUSES, FINISHED_STATUSES, Task, TaskStatus

# Shared by all sums that are empty: most gangs use few of theirs at a time.  Never changed.
_EMPTY: Final[Counter[str]] = Counter()


def _empty() -> Counter[str]:
    return _EMPTY


def _plus(sums: Counter[str], amounts: Mapping[str, int], factor: int) -> Counter[str]:
    """Add ``factor`` times ``amounts`` to ``sums``, or to a new counter for the shared one."""
    if sums is _EMPTY:
        sums = Counter()
    for resource, amount in amounts.items():
        sums[resource] += amount * factor
    return sums if factor > 0 or any(sums.values()) else _EMPTY


@dataclass(slots=True, eq=False)
class RequestSums:
    """The requests in base units; updated with every task, so that nothing is recounted."""

    allocated: Counter[str] = field(default_factory=_empty)  # of tasks with a node
    pending: Counter[str] = field(default_factory=_empty)
    gated: Counter[str] = field(default_factory=_empty)  # of pending tasks with gates that admission leaves
    pipelined: Counter[str] = field(default_factory=_empty)
    finished: Counter[str] = field(default_factory=_empty)
    quota_used: Counter[str] = field(default_factory=_empty)  # of all tasks, by every name of quotas

    def count(self, task: Task, factor: int) -> None:
        """Count ``task`` with its status, or no longer if ``factor`` is -1."""
        request = task.request
        if task.status in ALLOCATED_STATUSES:
            self.allocated = _plus(self.allocated, request, factor)
        elif task.status is TaskStatus.PENDING:
            self.pending = _plus(self.pending, request, factor)
            if task.gated_after_admission:
                self.gated = _plus(self.gated, request, factor)
        elif task.status is TaskStatus.PIPELINED:
            self.pipelined = _plus(self.pipelined, request, factor)
        elif task.status in FINISHED_STATUSES:
            self.finished = _plus(self.finished, request, factor)

    def count_quota(self, task: Task, factor: int) -> None:
        self.quota_used = _plus(self.quota_used, task.quota_usage, factor)

    @property
    def charged(self) -> Counter[str]:
        """The requests of allocated and pipelined tasks: the sum that plugins keep by events."""
        return self.allocated + self.pipelined
