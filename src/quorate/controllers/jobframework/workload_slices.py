"""Elastic jobs: they change their size while they run, and have a workload, a slice, for each size.

A job that shrinks has its slice shrunk.  One that grows gets a second slice, which replaces the first once it
is admitted; until then it runs on with the pods it has, as the pods it gets are held by a scheduling gate.
Any other change is that of an ordinary job.  Kueue calls this workload slices.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from quorate.api.kueue import SLICE_NAME, SLICE_REPLACEMENT_FOR, PodSet, Workload
from quorate.controllers.finalizers import released
from quorate.controllers.jobframework.construct_workload import (
    ELASTIC_JOB,
    MissingPriorityClass,
    maximum_execution_s,
)
from quorate.controllers.jobframework.ensure_one_workload import constructed, reduced_to_one
from quorate.controllers.jobframework.equivalence import is_equivalent
from quorate.controllers.jobframework.interface import J
from quorate.controllers.jobframework.job_plan import (
    IDLE,
    Case,
    JobPlan,
    not_composed,
    stop_plan,
    told,
    updated,
)
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Create, Delete, Write, status_patch
from quorate.queueing.conditions import has_quota_reservation, is_admitted, is_evicted, is_finished
from quorate.queueing.lifecycle.statuses import finish_status

SLICE_REPLACED: Final = "WorkloadSliceReplaced"  # why a slice is finished, and the event that tells it


def is_elastic(case: Case[J]) -> bool:
    asked = case.job.metadata.annotations.get(ELASTIC_JOB) == "true"
    return asked and case.kind.has_slices and case.rules.elastic_jobs


def slice_of(case: Case[J], owned: Sequence[Workload]) -> JobPlan | Workload:
    """The slice by whose admission the job lives, or what is to be done before there is one.

    ``owned`` are all workloads of the job, the oldest first.
    """
    over = [write for each in owned if is_finished(each) for write in released(WORKLOADS, each.metadata)]
    if over:
        return JobPlan(tuple(over))
    slices = in_order([each for each in owned if not is_finished(each)])
    if any(_is_of_another(each, case) for each in slices):
        return reduced_to_one(case, None, slices)
    if case.outcome is not None and len(slices) != 1:
        return _all_finished(case, slices)
    match slices:
        case []:
            return _first(case)
        case [only]:
            return _one(case, only)
        case [*surplus, old, new]:
            if surplus:
                return JobPlan(_out_of_sync(case, surplus))
            return _two(case, old, new)
    raise AssertionError(f"{case.job.metadata.key} has slices that are none: {slices}")


def in_order(slices: Sequence[Workload]) -> list[Workload]:
    """Each after the one it replaces.  Their age cannot tell: several may be of the same second."""
    replaced = {
        str(each.metadata.key): each.metadata.annotations.get(SLICE_REPLACEMENT_FOR, "") for each in slices
    }

    def place(workload: Workload) -> int:
        seen: set[str] = set()
        key = str(workload.metadata.key)
        while key in replaced and key not in seen:
            seen.add(key)
            key = replaced[key]
        return len(seen)

    return sorted(slices, key=place)


def _is_of_another(workload: Workload, case: Case[J]) -> bool:
    owner = workload.metadata.controller
    return owner is None or owner.uid != case.job.metadata.uid


def _first(case: Case[J]) -> JobPlan:
    """The pods of an elastic job must be gated before the first of them is made."""
    if not case.kind.is_gated(case.job):
        if not case.suspended:
            return stop_plan(case, None, "Missing Workload; unable to restore pod templates")
        return JobPlan(case.kind.gate(case.job))
    return _created(case, None)


def _created(case: Case[J], replaced: Workload | None) -> JobPlan:
    workload = constructed(case, extra=str(case.job.metadata.generation))
    if isinstance(workload, MissingPriorityClass):
        return not_composed(str(workload), lacks=str(workload))
    annotations = {**workload.metadata.annotations, ELASTIC_JOB: "true", SLICE_NAME: workload.metadata.name}
    if replaced is not None:
        annotations[SLICE_NAME] = replaced.metadata.annotations.get(SLICE_NAME, replaced.metadata.name)
        annotations[SLICE_REPLACEMENT_FOR] = str(replaced.metadata.key)
    metadata = msgspec.structs.replace(workload.metadata, annotations=annotations)
    workload = msgspec.structs.replace(workload, metadata=metadata)
    create = Create(WORKLOADS, workload, metadata.namespace)
    return JobPlan((create,), (told("CreatedWorkload", f"Created Workload: {metadata.key}"),))


def _one(case: Case[J], only: Workload) -> JobPlan | Workload:
    if case.outcome is not None or only.metadata.deletion_timestamp is not None:
        return only
    if not _differs_in_counts_only(only, case):
        return reduced_to_one(case, None, [only])
    if _counts(only.spec.pod_sets) == _counts(case.pod_sets):
        return only
    if not has_quota_reservation(only) or _shrinks(only.spec.pod_sets, case.pod_sets):
        return _resized(case, only)
    if is_evicted(only):
        return only  # it stops first
    return _created(case, only)


def _two(case: Case[J], old: Workload, new: Workload) -> JobPlan | Workload:
    if is_admitted(new):
        return _replaced(case, old, new)
    if not has_quota_reservation(old):
        return JobPlan(_out_of_sync(case, [old]))
    if is_evicted(old) or old.metadata.deletion_timestamp is not None:
        return old  # the job stops, and begins anew with the other
    if not _differs_in_counts_only(new, case):
        return reduced_to_one(case, None, [old, new])
    if _counts(case.pod_sets) == _counts(old.spec.pod_sets):
        event = told("DeletedWorkload", f"Deleted not matching Workload: {new.metadata.key}")
        gone = Delete(WORKLOADS, new.metadata.key, new.metadata.uid)
        return JobPlan((*released(WORKLOADS, new.metadata), gone), (event,))
    if _counts(case.pod_sets) != _counts(new.spec.pod_sets) and not has_quota_reservation(new):
        return _resized(case, new)
    return IDLE


def _replaced(case: Case[J], old: Workload, new: Workload) -> JobPlan:
    text = (
        f"Replaced to accommodate a workload (UID: {new.metadata.uid}, JobUID: {case.job.metadata.uid}) "
        "due to workload slice aggregation"
    )
    finished = finish_status(old, SLICE_REPLACED, text, case.now)
    return JobPlan(status_patch(WORKLOADS, old, finished), of_workload=((old, told(SLICE_REPLACED, text)),))


def _differs_in_counts_only(workload: Workload, case: Case[J]) -> bool:
    if len(workload.spec.pod_sets) != len(case.pod_sets):
        return False
    alike = tuple(
        msgspec.structs.replace(ours, count=theirs.count)
        for ours, theirs in zip(case.pod_sets, workload.spec.pod_sets, strict=True)
    )
    return is_equivalent(workload, alike, maximum_execution_s(case.job.metadata), case.suspended)


def _counts(pod_sets: Sequence[PodSet]) -> list[int]:
    return [pod_set.count for pod_set in pod_sets]


def _shrinks(before: Sequence[PodSet], after: Sequence[PodSet]) -> bool:
    return all(new <= old for old, new in zip(_counts(before), _counts(after), strict=True))


def _resized(case: Case[J], workload: Workload) -> JobPlan:
    pod_sets = tuple(
        msgspec.structs.replace(theirs, count=ours.count)
        for ours, theirs in zip(case.pod_sets, workload.spec.pod_sets, strict=True)
    )
    event = told("UpdatedWorkload", f"Updated Workload: {workload.metadata.key}")
    return JobPlan((updated(workload, {"spec": {"podSets": pod_sets}}),), (event,))


def _out_of_sync(case: Case[J], slices: Sequence[Workload]) -> tuple[Write, ...]:
    text = "The workload slice is out of sync with its parent job"
    return tuple(
        patch
        for each in slices
        for patch in status_patch(WORKLOADS, each, finish_status(each, "OutOfSync", text, case.now))
    )


def _all_finished(case: Case[J], slices: Sequence[Workload]) -> JobPlan:
    assert case.outcome is not None, f"{case.job.metadata.key} has not ended"
    reason = "Succeeded" if case.outcome.success else "Failed"
    message = case.outcome.message or f"Job {reason.lower()}"
    patches = (
        status_patch(WORKLOADS, each, finish_status(each, reason, message, case.now)) for each in slices
    )
    return JobPlan(tuple(patch for each in patches for patch in each))
