"""batch/v1 Job: one pod set, suspended by ``spec.suspend``; its annotations for partial admission."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from quorate.api.batch import JOB_COMPLETION_INDEX, Job, decode_template
from quorate.api.findings import Finding
from quorate.api.kueue import PodSet
from quorate.api.kueue.topology_annotations import PodIndex
from quorate.api.meta import epoch, is_true
from quorate.api.names.kueue import ELASTIC_JOB, MIN_PARALLELISM, STOPPING
from quorate.api.names.topology import PREFERRED, REQUIRED
from quorate.api.native_groups import PodGroupSpec
from quorate.api.syntax import parse_boolean, signed_int32
from quorate.controllers.jobframework.elastic_gates import ELASTIC_GATE
from quorate.controllers.jobframework.interface import (
    EndStatus,
    JobKind,
    ManagedBy,
    Outcome,
    Stop,
    ValidationScope,
)
from quorate.controllers.jobframework.pod_counts import PodCounts, PodSetCounts
from quorate.controllers.jobframework.podset_info import (
    InjectionConflict,
    PodSetInfo,
    inject,
    read_template,
    restore,
)
from quorate.controllers.jobframework.topology import TopologySource
from quorate.controllers.limits import PODS_COUNTED_S
from quorate.kube.resources import JOBS, Resource
from quorate.kube.writes import Patch

# The Job controller sets these on the template; the first three identify one job and must not be copied.
_OWN_LABELS = ("job-name", "controller-uid", "batch.kubernetes.io/controller-uid")
_MANAGED_LABELS = frozenset({*_OWN_LABELS, "batch.kubernetes.io/job-name"})

COMPLETION_INDEX: Final = PodIndex(JOB_COMPLETION_INDEX)


class BatchJob(JobKind[Job]):
    awaits_pod_groups = True
    # Kubernetes 1.36 refuses another parallelism of a job in a gang.  1.37 accepts it, but its scheduler does
    # not place the last pods if they are fewer than ``minCount``.
    may_shrink_gangs = False
    supports_elastic = True
    has_slices = True
    managed_by = ManagedBy(("spec", "managedBy"), "kubernetes.io/job-controller")

    @property
    def resource(self) -> Resource[Job]:
        return JOBS

    def declared_group(self, job: Job) -> PodGroupSpec | None:
        return job.spec.scheduling

    def manager_of(self, job: Job) -> str:
        return job.spec.managed_by

    def findings(self, old: Job | None, new: Job, scope: ValidationScope) -> Iterable[Finding]:
        return job_findings(old, new, scope)

    def is_suspended(self, job: Job) -> bool:
        return job.spec.suspend and job.metadata.annotations.get(STOPPING) != "true"

    def is_active(self, job: Job) -> bool:
        return job.status.active != 0

    def active_count_is_late_until(self, job: Job) -> float | None:
        """See ``JobKind``.

        Without webhooks a new job may run before it is suspended.  The Job controller counts its pods some
        time after it has created them, and sets the condition Suspended when it has seen the suspension.  If
        the job were resumed before, these pods would stay, without the node selectors of their flavor.  The
        time is bounded because a cluster may have no Job controller.
        """
        created = job.metadata.creation_timestamp
        if created is None or job.metadata.generation <= 1 or is_true(job.status.conditions, "Suspended"):
            return None  # it was created suspended, or the Job controller has deleted its pods
        return epoch(created) + PODS_COUNTED_S

    def pod_sets(self, job: Job) -> tuple[PodSet, ...]:
        minimum = _min_parallelism(job)
        return (
            PodSet(
                count=parallel_pods(job),
                min_count=msgspec.UNSET if minimum is None else minimum,
                template=_without_own_labels(job.spec.template),
            ),
        )

    def topology_sources(self, job: Job) -> tuple[TopologySource, ...]:
        return (TopologySource("spec.template.metadata.annotations", COMPLETION_INDEX),)

    def is_gated(self, job: Job) -> bool:
        return any(gate.get("name") == ELASTIC_GATE for gate in _gates(job))

    def gate(self, job: Job) -> tuple[Patch, ...]:
        if self.is_active(job):
            return ()
        gates = [*_gates(job), {"name": ELASTIC_GATE}]
        body = {"spec": {"template": {"spec": {"schedulingGates": gates}}}}
        return (*_clear_start_time(job), _patch(job, body))

    def pods_label(self, job: Job) -> tuple[str, str] | None:
        if job.status.ready >= job.spec.parallelism:
            return None
        return ("batch.kubernetes.io/controller-uid", job.metadata.uid)

    def finished(self, job: Job) -> Outcome | None:
        for condition in job.status.conditions:
            if condition.type in ("Complete", "Failed") and condition.status == "True":
                return Outcome(success=condition.type != "Failed", message=condition.message)
        return None

    def end_status(self, job: Job, outcome: Outcome) -> EndStatus:
        return EndStatus(
            ("SuccessCriteriaMet", "Complete") if outcome.success else ("FailureTarget", "Failed")
        )

    def pod_counts(self, job: Job) -> PodCounts:
        """Return the counts of the Job controller, and the pods that it is yet to create.

        It has as many active pods as ``parallelism`` and the completions left allow, by default beside those
        that are being deleted.  Without ``completions`` it creates none after the first success.  Once the
        end of the job is decided, it creates none either.
        """
        status, size = job.status, parallel_pods(job)
        succeeded, failed = _ended(job)
        if _end_is_decided(job):
            wanted = 0
        elif job.spec.completions is None:
            wanted = 0 if succeeded else job.spec.parallelism
        else:
            wanted = min(job.spec.parallelism, job.spec.completions - succeeded - failed)
        awaited = status.terminating if job.spec.pod_replacement_policy == "Failed" else 0
        coming = max(0, wanted - status.active - awaited)
        return (
            PodSetCounts(
                "main",
                size,
                active=status.active,
                ready=status.ready,
                terminating=status.terminating,
                succeeded=succeeded,
                failed=failed,
                coming=coming,
            ),
        )

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> tuple[Patch, ...] | InjectionConflict:
        """Unsuspend with one patch, or with two after a stop (see ``_clear_start_time``)."""
        if len(infos) != 1:
            return InjectionConflict(f"a Job has one pod set, its workload was admitted with {len(infos)}")
        injected = inject(job.spec.template, infos[0])
        if isinstance(injected, InjectionConflict):
            return injected
        spec: dict[str, Any] = {"suspend": False, **_counts(job, infos[0].count)}
        if not injected:
            return (_patch(job, {"spec": spec}),)
        return (*_clear_start_time(job), _patch(job, {"spec": {**spec, "template": injected}}))

    def stop(self, job: Job, originals: Sequence[PodSet] | None) -> Stop:
        """Suspend with one patch if there is nothing to restore, otherwise with three.

        An annotation marks a stop in progress, which is resumed after an interruption, and when the last pod
        is gone: before, the API does not allow changes of the pod template.  A job of which the end is
        decided is left to the Job controller, which cannot finish a job without a start time.
        """
        if self.is_suspended(job):
            return Stop()
        if _end_is_decided(job):
            return Stop(waits_for_pods=True)
        if not job.spec.suspend and originals is None:
            return Stop((_patch(job, {"spec": {"suspend": True}}),), begins=True)
        patches: list[Patch] = []
        if not job.spec.suspend:
            begin = {"metadata": {"annotations": {STOPPING: "true"}}, "spec": {"suspend": True}}
            patches.append(_patch(job, begin))
        if self.is_active(job):
            return Stop(tuple(patches), begins=not job.spec.suspend, waits_for_pods=True)
        patches += _clear_start_time(job)
        body: dict[str, Any] = {"metadata": {"annotations": {STOPPING: None}}}
        if spec := _restored(job, originals):
            body["spec"] = spec
        patches.append(_patch(job, body))
        return Stop(tuple(patches), begins=not job.spec.suspend)


def _end_is_decided(job: Job) -> bool:
    """Return True if the Job controller only waits for pods before it declares the job complete or failed."""
    conditions = job.status.conditions
    return is_true(conditions, "FailureTarget") or is_true(conditions, "SuccessCriteriaMet")


def _patch(job: Job, body: dict[str, Any], subresource: str = "") -> Patch:
    return Patch(JOBS, job.metadata.key, job.metadata.resource_version, body, subresource)


def _clear_start_time(job: Job) -> tuple[Patch, ...]:
    """Remove the start time: with it the API does not allow changes of the pod template."""
    if job.status.start_time is None:
        return ()
    return (_patch(job, {"status": {"startTime": None}}, "status"),)


def _gates(job: Job) -> list[dict[str, Any]]:
    gates: list[dict[str, Any]] = (read_template(job.spec.template).get("spec") or {}).get(
        "schedulingGates"
    ) or []
    return gates


def _min_parallelism(job: Job) -> int | None:
    # Missing or malformed: the job is admitted only as a whole.  With no pods at all it would never end.
    minimum = signed_int32(job.metadata.annotations.get(MIN_PARALLELISM, ""))
    return None if minimum is None or minimum < 1 else minimum


def _without_own_labels(template: msgspec.Raw) -> msgspec.Raw:
    content = read_template(template)
    metadata = content.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key not in _OWN_LABELS}
    kept = {key: value for key, value in metadata.items() if key != "labels" and value is not None}
    if labels:
        kept["labels"] = labels
    return msgspec.Raw(msgspec.json.encode({**content, "metadata": kept}))


def _counts(job: Job, count: int) -> dict[str, int]:
    """Return the fields to set for ``count`` parallel pods; none if nothing changes."""
    if _min_parallelism(job) is None:
        return {}
    counts = {"parallelism": count}
    if parse_boolean(job.metadata.annotations.get(COMPLETIONS_EQUAL_PARALLELISM, "")):
        counts["completions"] = count
    present = {"parallelism": job.spec.parallelism, "completions": job.spec.completions}
    return {name: value for name, value in counts.items() if present[name] != value}


def _restored(job: Job, pod_sets: Sequence[PodSet] | None) -> dict[str, Any]:
    if pod_sets is None or len(pod_sets) != 1:
        return {}
    spec: dict[str, Any] = dict(_counts(job, pod_sets[0].count))
    if template := restore(job.spec.template, pod_sets[0].template, _MANAGED_LABELS):
        spec["template"] = template
    return spec


def _ended(job: Job) -> tuple[int, int]:
    """Return how many pods have succeeded and have failed for good: of an Indexed job, how many indexes."""
    status, completions = job.status, job.spec.completions
    if job.spec.completion_mode != "Indexed" or completions is None:
        return status.succeeded + len(status.uncounted_terminated_pods.succeeded), 0
    succeeded = _size_of_union(_ranges(status.completed_indexes), completions)
    both = (*_ranges(status.completed_indexes), *_ranges(status.failed_indexes))
    return succeeded, _size_of_union(both, completions) - succeeded


def _size_of_union(ranges: Iterable[tuple[int, int]], completions: int) -> int:
    count, counted_to = 0, 0
    for first, end in sorted(ranges):
        count += max(0, min(end, completions) - max(first, counted_to))
        counted_to = max(counted_to, end)
    return count


def _ranges(text: str) -> Iterator[tuple[int, int]]:
    """Parse indexes in the notation of the Job controller (``1,3-5,7``): yield first and end of each."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = signed_int32(first), signed_int32(last or first)
        if low is not None and high is not None:
            yield low, high + 1


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
