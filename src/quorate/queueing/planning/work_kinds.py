"""Kinds of work: workloads that are expected to run equally long.

Work of the same kind has the same queue, the same kind of owner, and a name that differs only in digits and
generated suffixes: the runs of one CronJob, or of one pipeline step.
"""

import re
from typing import Final, NamedTuple

from quorate.api.kueue import Workload

_SEPARATORS: Final = re.compile(r"([-._])")
# Kubernetes generates suffixes from these characters, so that they contain no words.
_GENERATED: Final = re.compile(
    r"[bcdfghjklmnpqrstvwxz2456789]{5}|(?=.*[0-9])[bcdfghjklmnpqrstvwxz2456789]{6,10}"
)
_HASH: Final = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{4,}")
_DIGITS: Final = re.compile(r"[0-9]+")

Queue = tuple[str, str]  # namespace and name of a local queue


class WorkKind(NamedTuple):
    """What is expected to run equally long; ``owner`` and ``pattern`` are empty for all of a queue."""

    queue: Queue
    owner: str = ""  # kind of the owner
    pattern: str = ""  # of its name

    def __str__(self) -> str:
        name = "/".join(self.queue)
        return f"{name}, {self.owner} {self.pattern}".rstrip() if self.pattern else name


def name_pattern(name: str) -> str:
    """Return ``name`` with # for each number and * for each generated part.

    The first part is never taken for a generated one, so that a name that looks generated stays itself.
    """
    first, *rest = _SEPARATORS.split(name)
    return _DIGITS.sub("#", first) + "".join(map(_pattern_of_part, rest))


def _pattern_of_part(part: str) -> str:
    if part.isdigit():
        return "#"
    if _GENERATED.fullmatch(part) or _HASH.fullmatch(part):
        return "*"
    return _DIGITS.sub("#", part)


def queue_of(workload: Workload) -> Queue:
    return workload.metadata.namespace, workload.spec.queue_name


def kind_of(workload: Workload) -> WorkKind:
    """Return the kind of a workload: by its job, or by its own name if it has none."""
    owner = workload.metadata.job_owner
    kind, name = ("Workload", workload.metadata.name) if owner is None else (owner.kind, owner.name)
    return WorkKind(queue_of(workload), kind, name_pattern(name))
