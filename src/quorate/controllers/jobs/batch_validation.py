"""Validation of the annotations of batch Jobs for partial admission and elastic size."""

from collections.abc import Iterator
from typing import Final

from quorate.api.batch import Job, decode_template
from quorate.api.findings import Finding
from quorate.api.names.kueue import ELASTIC_JOB, MIN_PARALLELISM
from quorate.api.names.topology import PREFERRED, REQUIRED
from quorate.api.syntax import parse_boolean, signed_int32
from quorate.controllers.jobframework.interface import ValidationScope

COMPLETIONS_EQUAL_PARALLELISM: Final = "kueue.x-k8s.io/job-completions-equal-parallelism"


def parallel_pods(job: Job) -> int:
    """Return how many pods the job runs in parallel."""
    if job.spec.completions is None:
        return job.spec.parallelism
    return min(job.spec.parallelism, job.spec.completions)


def job_findings(old: Job | None, new: Job, scope: ValidationScope) -> Iterator[Finding]:
    """Validate by Kueue's rules; an unchanged minimum is not validated again."""
    # After partial admission the minimum may equal the parallelism.
    if old is None or _annotation(old, MIN_PARALLELISM) != _annotation(new, MIN_PARALLELISM):
        yield from _minimum(new, scope)
    yield from _completions(new)
    if scope.elastic:
        yield from _elastic(new)
    if old is not None:
        yield from _change(old, new)


def _annotation(job: Job, annotation: str) -> str | None:
    return job.metadata.annotations.get(annotation)


def _at(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"


def _minimum(job: Job, scope: ValidationScope) -> Iterator[Finding]:
    text = _annotation(job, MIN_PARALLELISM)
    if text is None:
        return
    if scope.elastic:
        yield Finding(_at(MIN_PARALLELISM), text, f"cannot be used together with {ELASTIC_JOB}")
    minimum, digits = signed_int32(text), text.lstrip("+-")
    if minimum is None and not (digits.isascii() and digits.isdigit()):
        yield Finding(_at(MIN_PARALLELISM), text, "is not a whole number")
        return
    most = parallel_pods(job) - 1
    if minimum is None or not 0 < minimum <= most:
        one = "should be left out: the job runs one pod at a time"
        rule = f"should be between 1 and {most}" if most > 0 else one
        yield Finding(_at(MIN_PARALLELISM), text if minimum is None else minimum, rule)


def _completions(job: Job) -> Iterator[Finding]:
    text = _annotation(job, COMPLETIONS_EQUAL_PARALLELISM)
    enabled = False if text is None else parse_boolean(text)
    if enabled is False:
        return
    if enabled is None:
        yield Finding(_at(COMPLETIONS_EQUAL_PARALLELISM), text, "is neither true nor false")
        return
    if job.spec.completion_mode != "Indexed":
        rule = "should not be enabled for NonIndexed jobs"
        yield Finding(_at(COMPLETIONS_EQUAL_PARALLELISM), text, rule)
    if job.spec.completions != job.spec.parallelism:
        rule = f"should be equal to parallelism when {_at(COMPLETIONS_EQUAL_PARALLELISM)} is true"
        yield Finding("spec.completions", job.spec.completions, rule)


def _elastic(job: Job) -> Iterator[Finding]:
    annotations = decode_template(job.spec.template).metadata.annotations
    for name in (REQUIRED, PREFERRED):
        if name in annotations:
            path = f"spec.template.metadata.annotations[{name}]"
            yield Finding(path, annotations[name], f"is not supported together with {_at(ELASTIC_JOB)}")


def _change(old: Job, new: Job) -> Iterator[Finding]:
    if (
        _annotation(old, MIN_PARALLELISM) is not None
        and not old.spec.suspend
        and old.spec.parallelism != new.spec.parallelism
    ):
        rule = "cannot change when partial admission is enabled and the job is not suspended"
        yield Finding("spec.parallelism", new.spec.parallelism, rule)
    text = _annotation(new, COMPLETIONS_EQUAL_PARALLELISM)
    runs = not (old.spec.suspend or new.spec.suspend)
    if runs and text != _annotation(old, COMPLETIONS_EQUAL_PARALLELISM):
        rule = "is immutable while the job is not suspended"
        yield Finding(_at(COMPLETIONS_EQUAL_PARALLELISM), text, rule)
