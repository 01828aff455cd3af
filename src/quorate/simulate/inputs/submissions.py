"""The jobs of a scenario in the order of their submission, drawn one by one.

Millions of jobs are never in memory together: a submission is drawn when the previous submission was taken.
"""

from collections.abc import Iterator
from heapq import merge
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

from quorate.simulate.inputs.distributions import Constant, draw
from quorate.simulate.inputs.lublin_feitelson import modelled_jobs
from quorate.simulate.inputs.scenario import JobClass, Scenario, Trace, WorkloadModel
from quorate.simulate.inputs.workload_format import class_of, queue_of, read_trace

MS = 1000


class Submission(NamedTuple):
    """One job: what its user submits, and what is known of it only when it has run.

    Submissions of one instant are ordered by class, queue and number.
    """

    at_ms: int  # after the start of the scenario
    class_index: int
    queue_index: int  # among the queues of the class
    number: int  # from 0, in the class and queue
    counts: tuple[int, ...]  # pods by pod set
    runs_ms: int  # with all its pods
    starts_ms: int
    stops_ms: int
    fails_after_ms: int | None  # it fails if it runs that long; None: it succeeds


def submissions(scenario: Scenario, directory: Path) -> Iterator[Submission]:
    """Yield the jobs of all classes, traces and models in order of submission.

    The files of traces are in ``directory``.  Traces, and then models, follow the classes in the order of
    class indexes.
    """
    first_trace = len(scenario.classes)
    return merge(
        *(
            _of_class(scenario.seed, class_index, queue_index, job_class)
            for class_index, job_class in enumerate(scenario.classes)
            for queue_index in range(len(job_class.queues))
        ),
        *(
            _of_trace(class_index, trace, directory / trace.file)
            for class_index, trace in enumerate(scenario.traces, first_trace)
        ),
        *(
            _of_model(scenario.seed, class_index, model)
            for class_index, model in enumerate(scenario.models, first_trace + len(scenario.traces))
        ),
    )


def number_of_jobs(scenario: Scenario) -> int | None:
    """Return how many jobs the classes submit; None if that is known only once they are drawn."""
    if scenario.traces:
        return None
    total = sum(model.jobs for model in scenario.models)
    for job_class in scenario.classes:
        arrivals = job_class.arrivals
        if arrivals.at:
            total += len(arrivals.at) * len(job_class.queues)
        elif arrivals.count is not None and arrivals.until is None:
            total += arrivals.count * len(job_class.queues)
        else:
            return None
    return total


def _of_class(seed: int, class_index: int, queue_index: int, job_class: JobClass) -> Iterator[Submission]:
    rng = Random(f"{seed} {job_class.name} {job_class.queues[queue_index]}")
    for number, at_s in enumerate(_times(job_class, rng)):
        failures = job_class.failures
        fails = failures is not None and rng.random() < failures.probability
        yield Submission(
            at_ms=round(at_s * MS),
            class_index=class_index,
            queue_index=queue_index,
            number=number,
            counts=tuple(max(1, round(draw(pod_set.count, rng))) for pod_set in job_class.pod_sets),
            runs_ms=round(draw(job_class.runs, rng) * MS),
            starts_ms=round(draw(job_class.starts, rng) * MS),
            stops_ms=round(draw(job_class.stops, rng) * MS),
            fails_after_ms=round(draw(failures.after, rng) * MS) if failures is not None and fails else None,
        )


def _of_model(seed: int, class_index: int, model: WorkloadModel) -> Iterator[Submission]:
    rng = Random(f"{seed} {model.name} {model.queue}")
    for number, job in enumerate(modelled_jobs(model.jobs, model.processors, rng)):
        yield Submission(
            at_ms=round(job.submitted_s * model.stretch * MS),
            class_index=class_index,
            queue_index=0,
            number=number,
            counts=(job.processors,),
            runs_ms=round(job.runs_s * MS),
            starts_ms=0,
            stops_ms=0,
            fails_after_ms=None,
        )


def _of_trace(class_index: int, trace: Trace, file: Path) -> Iterator[Submission]:
    queues = class_of(trace).queues
    first_s: float | None = None
    for number, job in enumerate(read_trace(file)):
        if first_s is None:
            first_s = job.submitted_s
        queue = queue_of(trace, job.queue)
        if queue is None:
            continue
        runs_ms = round(job.runs_s * MS)
        yield Submission(
            at_ms=round((job.submitted_s - first_s) * trace.stretch * MS),
            class_index=class_index,
            queue_index=queues.index(queue),
            number=number,
            counts=(job.processors,),
            runs_ms=runs_ms,
            starts_ms=0,
            stops_ms=0,
            fails_after_ms=runs_ms if job.failed else None,
        )


def _times(job_class: JobClass, rng: Random) -> Iterator[float]:
    arrivals = job_class.arrivals
    if arrivals.at:
        yield from arrivals.at
        return
    times = Random(rng.random())  # of their own: a change of sizes leaves the times as they are
    at_s = arrivals.first
    if not isinstance(arrivals.every, Constant):
        at_s += draw(arrivals.every, times)
    for number in count():
        if arrivals.count is not None and number >= arrivals.count:
            return
        if arrivals.until is not None and at_s >= arrivals.until:
            return
        yield at_s
        at_s += draw(arrivals.every, times)
