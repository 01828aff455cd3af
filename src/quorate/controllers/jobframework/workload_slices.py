"""Elastic jobs: jobs that change their size while they run (Kueue's workload slices).

An elastic job has one workload, a slice, for each size.  When the job shrinks, its slice is updated.  When it
grows, a second slice is created, which replaces the first once it is admitted.  Until then the job keeps
running with the pods it has, and a scheduling gate holds its new pods.  Any other change is handled as for
ordinary jobs.
"""

from collections.abc import Collection, Sequence

import msgspec

from quorate.api import codec
from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import find_condition
from quorate.api.names.kueue import ELASTIC_JOB, SLICE_NAME, SLICE_REPLACEMENT_FOR
from quorate.api.names.multikueue import ORIGIN
from quorate.controllers.executor import normal_event
from quorate.controllers.finalizers import remove_finalizer
from quorate.controllers.jobframework.construct_workload import NotComposed, workload_patch
from quorate.controllers.jobframework.ensure_one_workload import create_workload, is_equivalent, reduce_to_one
from quorate.controllers.jobframework.interface import NO_MATCHING_WORKLOAD, J, JobState
from quorate.controllers.jobframework.job_plan import JobPlan
from quorate.controllers.jobframework.pod_reports import reclaimable_pods
from quorate.controllers.jobframework.podset_info import PodSetInfo
from quorate.controllers.jobframework.sync_workload import sync_workload
from quorate.kube.patches import merged
from quorate.kube.resources import WORKLOADS, reference_to
from quorate.kube.writes import Delete, Write, status_patch
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.statuses import finish_status, release_status


def without_nodes(infos: Sequence[PodSetInfo], gated: Collection[str]) -> tuple[PodSetInfo, ...]:
    """Return what an elastic job starts with: pods of the pod sets ``gated`` get nodes when they are ungated.

    A pod set without pods may get another flavor when it grows, and templates of running pods do not change.
    A job with one pod set starts anew when it grows from zero.
    """
    if len(infos) == 1:
        return tuple(infos)
    return tuple(
        msgspec.structs.replace(info, node_selector={}, tolerations=()) if info.name in gated else info
        for info in infos
    )


def ensure_slice(state: JobState[J], owned: Sequence[Workload]) -> JobPlan | Workload:
    """Return the slice that the job follows, or what must be done first.

    ``owned`` are all workloads of the job, the oldest first.
    """
    finished = [
        write
        for workload in owned
        if c.is_finished(workload)
        for write in remove_finalizer(WORKLOADS, workload.metadata)
    ]
    if finished:
        return JobPlan(writes=tuple(finished))
    slices = in_replacement_order([workload for workload in owned if not c.is_finished(workload)])
    if any(_is_of_other_job(state, workload) for workload in slices):
        return reduce_to_one(state, None, slices)
    if state.outcome is not None and len(slices) != 1:
        return _finish_all(state, slices)
    match slices:
        case []:
            return _create_first(state)
        case [only]:
            return _with_one(state, only)
        case [*earlier, new]:  # two leaders may have created replacements of the same slice
            old = next(filter(c.has_quota_reservation, reversed(earlier)), earlier[-1])
            if surplus := [workload for workload in earlier if workload is not old]:
                return JobPlan(writes=_finish_out_of_sync(state, surplus))
            return _with_two(state, old, new)
    raise AssertionError(f"{state.job.metadata.key}: unexpected slices {slices}")


def in_replacement_order(slices: Sequence[Workload]) -> list[Workload]:
    """Sort each slice after the slice that it replaces; creation times are too coarse for that."""
    replaced = {
        str(slice_.metadata.key): slice_.metadata.annotations.get(SLICE_REPLACEMENT_FOR, "")
        for slice_ in slices
    }

    def chain_length(workload: Workload) -> int:
        seen: set[str] = set()
        key = str(workload.metadata.key)
        while key in replaced and key not in seen:
            seen.add(key)
            key = replaced[key]
        return len(seen)

    return sorted(slices, key=chain_length)


def _is_of_other_job(state: JobState[J], workload: Workload) -> bool:
    owner = workload.metadata.controller
    return owner is None or owner.uid != state.job.metadata.uid


def _create_first(state: JobState[J]) -> JobPlan:
    """Create the first slice; the pod templates must be gated before the first pod is created."""
    if state.kind.is_gated(state.job):
        return _create(state, None)
    if state.suspended:
        return JobPlan(writes=state.kind.gate(state.job))
    message = "Missing Workload; unable to restore pod templates"
    return state.kind.stop_plan(state, None, NO_MATCHING_WORKLOAD, message)


def _create(state: JobState[J], replaced: Workload | None) -> JobPlan:
    """Create a slice; a replacement has the templates of ``replaced`` without what admission added to them.

    Only the name of the first slice is in the templates, as in those of the running job.
    """
    constructed = state.kind.construct(state, extra=state.kind.size_version(state.job))
    if isinstance(constructed, NotComposed):
        return create_workload(state, constructed)
    metadata = constructed.metadata
    annotations = {**metadata.annotations, ELASTIC_JOB: "true", SLICE_NAME: metadata.name}
    if replaced is not None:
        first = replaced.metadata.annotations.get(SLICE_NAME, replaced.metadata.name)
        annotations |= {SLICE_NAME: first, SLICE_REPLACEMENT_FOR: str(replaced.metadata.key)}
        pod_sets = tuple(_named(pod_set, first) for pod_set in _recounted(replaced.spec.pod_sets, state))
        spec = msgspec.structs.replace(constructed.spec, pod_sets=pod_sets)
        constructed = msgspec.structs.replace(constructed, spec=spec)
    metadata = msgspec.structs.replace(metadata, annotations=annotations)
    return create_workload(state, msgspec.structs.replace(constructed, metadata=metadata))


def _named(pod_set: PodSet, first: str) -> PodSet:
    """Return the pod set with the name of its first slice in the template."""
    template = merged(
        msgspec.json.decode(pod_set.template), {"metadata": {"annotations": {SLICE_NAME: first}}}
    )
    return msgspec.structs.replace(pod_set, template=msgspec.Raw(codec.encode(template)))


def is_size_of_copy(state: JobState[J], workload: Workload) -> bool:
    """Return True if the elastic copy of a job in a worker cluster may go on with ``workload``.

    The manager cluster changes the size of the copy, and soon that of its workload.
    """
    is_copy = ORIGIN in state.job.metadata.labels and state.is_elastic
    return (
        is_copy
        and not _is_of_other_job(state, workload)
        and _differs_in_counts_only(state, workload, placement=False)
    )


def _with_one(state: JobState[J], only: Workload) -> JobPlan | Workload:
    if state.outcome is not None or only.metadata.deletion_timestamp is not None:
        return only
    if not _differs_in_counts_only(state, only):
        return reduce_to_one(state, None, [only])
    if _counts(only.spec.pod_sets) == _counts(state.pod_sets):
        return only
    if not c.has_quota_reservation(only):
        return _resize(state, only)
    if _shrinks(only.spec.pod_sets, state.pod_sets):
        return only if _has_surplus_pods(state) else _shrink(state, only)
    if c.is_evicted(only):
        return only  # the job stops first
    if not any(_counts(only.spec.pod_sets)):
        return _restart_from_zero(state, only)
    return _create(state, only)


def _restart_from_zero(state: JobState[J], only: Workload) -> JobPlan:
    """Stop a job without pods that grows, and finish its slice: it gets a first slice again.

    The flavors of the old slice are in the pod templates.  No pod runs, so the job may get other ones.
    """
    text = "Restoring pod templates: the job has no pods, and may get other flavors"
    stop = state.kind.stop_plan(state, only, NO_MATCHING_WORKLOAD, text)
    if stop.all_writes or not state.kind.is_stopped(state.job) or state.kind.is_active(state.job):
        return stop
    return JobPlan(writes=_finish_out_of_sync(state, [only]))


def _with_two(state: JobState[J], old: Workload, new: Workload) -> JobPlan | Workload:
    if new.spec.active and not old.spec.active:
        return JobPlan(writes=(workload_patch(new, {"spec": {"active": False}}),))  # the job is deactivated
    if c.is_admitted(new):
        return _replace(state, old, new)
    if c.is_evicted(new) and c.has_quota_reservation(new):
        # The job follows the old slice, and no pod of the new one runs: it was not admitted.
        released = release_status(new, state.now, state.options.gates)
        return JobPlan(writes=status_patch(WORKLOADS, new, released))
    has_stopped = state.kind.is_stopped(state.job) and not state.kind.is_active(state.job)
    if not c.has_quota_reservation(old) or (c.is_evicted(old) and has_stopped):
        kept = _keep_history(old, new)
        return JobPlan(writes=kept or _finish_out_of_sync(state, [old]))  # finished, it holds no quota
    if c.is_evicted(old) or old.metadata.deletion_timestamp is not None:
        return old  # the job stops, and starts again with the new slice
    if not _differs_in_counts_only(state, new):
        return reduce_to_one(state, None, [old, new], running=old)
    sync = sync_workload(state, old).then(sync_workload(state, new))
    if sync.writes:
        return sync
    if _shrinks(old.spec.pod_sets, state.pod_sets):
        event = state.event("DeletedWorkload", f"Deleted not matching Workload: {new.metadata.key}")
        delete = Delete(WORKLOADS, new.metadata.key, new.metadata.uid)
        return JobPlan(writes=(*remove_finalizer(WORKLOADS, new.metadata), delete), events=(event,))
    if _counts(state.pod_sets) != _counts(new.spec.pod_sets) and not c.has_quota_reservation(new):
        return _resize(state, new)
    return old


def _keep_history(old: Workload, new: Workload) -> tuple[Write, ...]:
    """Write into the slice with which an evicted job starts again what limits its retries and its time."""
    evicted = find_condition(old.status.conditions, c.EVICTED)
    ended = 0.0 if evicted is None else c.transition_time(evicted)
    status = msgspec.structs.replace(
        new.status,
        requeue_state=old.status.requeue_state or new.status.requeue_state,
        accumulated_past_execution_time_seconds=c.executed_s(old, ended) or None,
    )
    return status_patch(WORKLOADS, new, status)


def _replace(state: JobState[J], old: Workload, new: Workload) -> JobPlan:
    text = (
        f"Replaced to accommodate a workload (UID: {new.metadata.uid}, JobUID: {state.job.metadata.uid}) "
        "due to workload slice aggregation"
    )
    finished = finish_status(old, c.SLICE_REPLACED, text, state.now)
    event = normal_event(reference_to(WORKLOADS, old.metadata), c.SLICE_REPLACED, text)
    return JobPlan(writes=status_patch(WORKLOADS, old, finished), events=(event,))


def _differs_in_counts_only(state: JobState[J], workload: Workload, *, placement: bool = True) -> bool:
    if len(workload.spec.pod_sets) != len(state.pod_sets):
        return False
    recounted = tuple(
        msgspec.structs.replace(ours, count=theirs.count)
        for ours, theirs in zip(state.pod_sets, workload.spec.pod_sets, strict=True)
    )
    return is_equivalent(
        workload,
        recounted,
        state.maximum_execution_s,
        state.suspended,
        running=not state.suspended,
        placement=placement,
    )


def _counts(pod_sets: Sequence[PodSet]) -> list[int]:
    return [pod_set.count for pod_set in pod_sets]


def _shrinks(before: Sequence[PodSet], after: Sequence[PodSet]) -> bool:
    return all(new <= old for old, new in zip(_counts(before), _counts(after), strict=True))


def _has_surplus_pods(state: JobState[J]) -> bool:
    """Return True while more pods exist than the job has since it shrank: they use quota until they go."""
    sizes = {pod_set.name: pod_set.count for pod_set in state.pod_sets}
    return any(
        pod_count.active + pod_count.terminating > sizes.get(pod_count.name, 0)
        for pod_count in state.kind.pod_counts(state.job)
    )


def _shrink(state: JobState[J], workload: Workload) -> JobPlan:
    """Resize a slice with quota.

    Ended pods are counted off the new size first: counted off the larger one they would release the quota of
    pods that run.
    """
    resized = _resize(state, workload)
    if not workload.status.reclaimable_pods:
        return resized
    counts = {pod_set.name: pod_set.count for pod_set in state.pod_sets}
    pod_sets = tuple(
        msgspec.structs.replace(larger, count=counts.get(larger.name, larger.count))
        for larger in workload.spec.pod_sets
    )
    smaller = msgspec.structs.replace(
        workload, spec=msgspec.structs.replace(workload.spec, pod_sets=pod_sets)
    )
    pods = reclaimable_pods(state.kind.pod_counts(state.job), smaller)
    status = msgspec.structs.replace(workload.status, reclaimable_pods=pods)
    return JobPlan(writes=status_patch(WORKLOADS, workload, status)).then(resized)


def _recounted(pod_sets: Sequence[PodSet], state: JobState[J]) -> tuple[PodSet, ...]:
    """Return the pod sets of a workload with the counts of its job."""
    return tuple(
        msgspec.structs.replace(theirs, count=ours.count)
        for ours, theirs in zip(state.pod_sets, pod_sets, strict=True)
    )


def _resize(state: JobState[J], workload: Workload) -> JobPlan:
    pod_sets = _recounted(workload.spec.pod_sets, state)
    event = state.event("UpdatedWorkload", f"Updated Workload: {workload.metadata.key}")
    return JobPlan(writes=(workload_patch(workload, {"spec": {"podSets": pod_sets}}),), events=(event,))


def _finish_out_of_sync(state: JobState[J], slices: Sequence[Workload]) -> tuple[Write, ...]:
    text = "The workload slice is out of sync with its parent job"
    return _finished(slices, "OutOfSync", text, state.now)


def _finish_all(state: JobState[J], slices: Sequence[Workload]) -> JobPlan:
    assert state.outcome is not None, f"{state.job.metadata.key} has not finished"
    reason = "Succeeded" if state.outcome.success else "Failed"
    message = state.outcome.message or f"Job {reason.lower()}"
    return JobPlan(writes=_finished(slices, reason, message, state.now))


def _finished(slices: Sequence[Workload], reason: str, message: str, now: float) -> tuple[Write, ...]:
    statuses = [finish_status(workload, reason, message, now) for workload in slices]
    return tuple(
        patch
        for workload, status in zip(slices, statuses, strict=True)
        for patch in status_patch(WORKLOADS, workload, status)
    )
