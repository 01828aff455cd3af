"""Workloads that exist when a run begins, as an API server stores them.

One that runs has a run time above the time that it ran already; a waiting workload keeps its place in the
queue, its backoff and its reserved quota.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import at_epoch, epoch, find_condition, true_condition
from quorate.kube.resources import WORKLOADS
from quorate.queueing import conditions as c
from quorate.queueing.planning.bounds import granted_part
from quorate.queueing.pods_ready import WAIT_FOR_RECOVERY
from quorate.simulate.inputs.distributions import draw, draw_above
from quorate.simulate.inputs.scenario import OTHERS, ClassesOfExisting, JobClass
from quorate.simulate.inputs.submissions import MS, Submission
from quorate.simulate.inputs.world import World


class ExistingJob(NamedTuple):
    """Times are in ms after the beginning: negative."""

    workload: Workload
    submission: Submission
    admitted_ms: int | None  # None: it is not admitted, or evicted
    ready_ms: int | None  # None: its pods are not all ready
    began_ms: int  # when its pods began or begin to run


def existing_jobs(world: World) -> Iterator[ExistingJob]:
    """Yield the workloads of ``world`` that have not finished, in the order of their names.

    Their run times are drawn in that order from a generator of their own.
    """
    rng = Random(f"{world.scenario.seed} existing workloads")
    classes = world.existing
    index_of = ClassesOfExisting(classes).index_of
    first = len(world.classes) - len(classes)
    for number, workload in enumerate(world.of_kind(WORKLOADS)):
        if not c.is_finished(workload):
            index = index_of(workload)
            yield _existing(workload, number, first + index, classes[index], world.begins_s, rng)


def is_running(workload: Workload) -> bool:
    """Return True if a workload that has not finished runs when a run begins: it does not wait."""
    return c.is_admitted(workload) and not c.is_evicted(workload)


def _existing(
    workload: Workload, number: int, class_index: int, job_class: JobClass, begins_s: float, rng: Random
) -> ExistingJob:
    is_admitted = is_running(workload)
    admitted_ms = _since_ms(workload, c.ADMITTED, begins_s) if is_admitted else None
    ready_ms = _since_ms(workload, c.PODS_READY, begins_s) if is_admitted else None
    starts_ms = round(draw(job_class.starts, rng) * MS)
    stops_ms = round(draw(job_class.stops, rng) * MS)
    part = granted_part(workload) if is_admitted else 1.0
    declared_s = workload.spec.maximum_execution_time_seconds
    began_ms = ready_ms if ready_ms is not None else 0 if admitted_ms is None else admitted_ms + starts_ms
    waited_s = 0.0
    if began_ms < 0 and ready_ms is None and _awaits_first_start(workload):
        waited_s, began_ms = -began_ms / MS, 0
    ran_s = part * max(0, -began_ms) / MS  # with all its pods it would have taken that long
    if job_class is OTHERS:
        assert declared_s is not None, f"{workload.metadata.key} has no run time"
        runs_s = max(part * (declared_s - waited_s), ran_s)
    else:
        runs_s = draw_above(ran_s, job_class.runs, rng)
        if declared_s is not None:  # the controllers stop what runs longer
            runs_s = max(ran_s, min(runs_s, part * (declared_s - waited_s)))
    created = workload.metadata.creation_timestamp
    submission = Submission(
        at_ms=0 if created is None else min(0, round((epoch(created) - begins_s) * MS)),
        class_index=class_index,
        queue_index=0,
        number=number,
        counts=tuple(pod_set.count for pod_set in workload.spec.pod_sets),
        runs_ms=max(1, round(runs_s * MS)),
        starts_ms=starts_ms,
        stops_ms=stops_ms,
        fails_after_ms=None,
    )
    return ExistingJob(_stored(workload, begins_s), submission, admitted_ms, ready_ms, began_ms)


def _awaits_first_start(workload: Workload) -> bool:
    """Return True if pods of an admitted workload are known not to run yet: they are taken to start now."""
    ready = find_condition(workload.status.conditions, c.PODS_READY)
    return ready is not None and ready.status == "False" and ready.reason != WAIT_FOR_RECOVERY


def _stored(workload: Workload, begins_s: float) -> Workload:
    """Return the workload as an API server has it: a manifest written by hand has no times."""
    replace, metadata, status = msgspec.structs.replace, workload.metadata, workload.status
    created = metadata.creation_timestamp or at_epoch(begins_s)
    metadata = replace(metadata, resource_version="1", creation_timestamp=created)
    if any(condition.last_transition_time is None for condition in status.conditions):
        conditions = tuple(
            replace(condition, last_transition_time=condition.last_transition_time or at_epoch(begins_s))
            for condition in status.conditions
        )
        status = replace(status, conditions=conditions)
    return replace(workload, metadata=metadata, status=status)


def _since_ms(workload: Workload, condition: str, begins_s: float) -> int | None:
    """Return since when the condition is true, at the latest since the beginning; None if it is not."""
    latest = true_condition(workload.status.conditions, condition)
    if latest is None:
        return None
    since = latest.last_transition_time
    return 0 if since is None else min(0, round((epoch(since) - begins_s) * MS))
