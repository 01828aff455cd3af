"""Traces in Standard Workload Format, the format of the Parallel Workloads Archive (version 2.2).

A line is a job with 18 fields; ``;`` begins a comment and -1 means unknown.  Read are the submit time (2),
the run time (4), the processors that were allocated (5) or else requested (8), the status (11) and the queue
(15).  A job without a run time or processors, such as a job cancelled before its start, is left
out.  A job that was checkpointed or swapped out has a line for all of it and one for each part, with the
status 2, 3 or 4: the parts are left out.  Submission times are taken from the trace: dependencies (17) and
think times (18) are not modelled.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from quorate.api import codec
from quorate.simulate.inputs.distributions import Constant
from quorate.simulate.inputs.scenario import Arrivals, JobClass, PodSetShape, Trace, WorkloadModel

FIELDS: Final = 18
FAILED: Final = 0  # the status of a job that failed
PARTS: Final = (2, 3, 4)  # to be continued, the last, the last of a job that failed
_SIZE: Final = re.compile(r";\s*(MaxProcs|MaxNodes):\s*([0-9]+)")


class TracedJob(NamedTuple):
    submitted_s: float
    runs_s: float
    processors: int
    status: int
    queue: str  # a number, as text

    @property
    def failed(self) -> bool:
        return self.status == FAILED


class InvalidTrace(Exception):
    """A line is not in Standard Workload Format."""

    def __init__(self, file: Path, line: int, problem: str) -> None:
        super().__init__(file, line, problem)
        self.file, self.line, self.problem = file, line, problem

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}"


def read_trace(file: Path) -> Iterator[TracedJob]:
    """Yield the jobs of a trace in order.  Raises ``InvalidTrace`` and ``OSError``."""
    last_s = 0.0
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            fields = line.partition(";")[0].split()
            if not fields:
                continue
            job = _job(file, number, fields)
            if job.submitted_s < last_s:
                raise InvalidTrace(
                    file,
                    number,
                    f"is submitted at {job.submitted_s:g} s, the job before at {last_s:g} s (sort the file)",
                )
            last_s = job.submitted_s
            if job.runs_s >= 0 and job.processors > 0 and job.status not in PARTS:
                yield job


def machine_size(file: Path) -> int:
    """Return the processors of the machine of a trace, by its header or else by its largest job.

    Raises ``InvalidTrace`` and ``OSError``.
    """
    sizes: dict[str, int] = {}
    with file.open(encoding="utf-8", errors="replace") as lines:
        for line in takewhile(lambda line: line.startswith(";") or not line.strip(), lines):
            if match := _SIZE.match(line):
                sizes[match[1]] = int(match[2])
    size = sizes.get("MaxProcs", 0) or sizes.get("MaxNodes", 0)
    return size or max((job.processors for job in read_trace(file)), default=1)


def _job(file: Path, number: int, fields: list[str]) -> TracedJob:
    if len(fields) != FIELDS:
        raise InvalidTrace(file, number, f"has {len(fields)} fields, must have {FIELDS}")
    try:
        submitted, runs = float(fields[1]), float(fields[3])
        allocated, requested, status = (int(float(fields[at])) for at in (4, 7, 10))
    except (ValueError, OverflowError) as error:
        raise InvalidTrace(file, number, f"has a field that is no number: {error}") from error
    if not (0 <= submitted < 1e10 and runs < 1e10 and max(allocated, requested) < 2**31):
        raise InvalidTrace(file, number, "has a time or a number of processors out of range")
    processors = allocated if allocated > 0 else requested
    return TracedJob(submitted, runs, processors, status, fields[14])


def class_of(trace: Trace) -> JobClass:
    """Return the class of the jobs of a trace, of which each processor is a pod."""
    name = Path(trace.file).stem.lower().replace("_", "-")[:40].strip("-.") or "trace"
    return processor_class(name, trace, tuple(sorted(set(trace.queues.values()))))


def processor_class(name: str, source: Trace | WorkloadModel, queues: tuple[str, ...]) -> JobClass:
    """Return a class of jobs of which each processor is a pod."""
    amounts = {source.resource: str(source.per_processor)}
    container = {"name": "main", "image": "simulated", "resources": {"requests": amounts}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    shape = PodSetShape("main", Constant(1.0), None, msgspec.Raw(codec.encode(template)))
    return JobClass(
        name=name,
        namespace=source.namespace,
        queues=queues,
        arrivals=Arrivals(),
        pod_sets=(shape,),
        runs=Constant(0.0),
        overestimate=source.overestimate,
        priority=source.priority,
    )


def queue_of(trace: Trace, number: str) -> str | None:
    """Return the local queue of the jobs of queue ``number``; None if the trace leaves them out."""
    return trace.queues.get(number, trace.queues.get(""))
