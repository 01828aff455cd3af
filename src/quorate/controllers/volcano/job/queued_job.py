"""batch.volcano.sh Job as a kind of job: one pod set for each task, admitted by quota before its gang.

Partial admission takes pods from one task, down to ``minAvailable``: the queueing API allows one ``minCount``
in a workload.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from quorate.api.kueue import PodSet
from quorate.api.kueue.topology_annotations import PodIndex
from quorate.api.names.volcano import TASK_INDEX
from quorate.api.volcano.job import Job, with_defaults
from quorate.controllers.jobframework.interface import EndStatus, JobKind, JobState, Outcome, Stop
from quorate.controllers.jobframework.pod_counts import PodCounts, PodSetCounts
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobframework.topology import TopologySource
from quorate.controllers.volcano.job.job_phases import total_replicas
from quorate.controllers.volcano.job.quota_admission import (
    admitted_pod_sets,
    as_admitted,
    begin_stop,
    is_stopping,
    is_suspended,
    record_admission,
)
from quorate.kube.resources import VOLCANO_JOBS, Resource
from quorate.kube.writes import Patch

_TASK_INDEX: Final = PodIndex(TASK_INDEX)


class VolcanoJob(JobKind[Job]):
    joins_native_groups = False  # it has a pod group of Volcano

    @property
    def resource(self) -> Resource[Job]:
        return VOLCANO_JOBS

    def is_suspended(self, job: Job) -> bool:
        return is_suspended(job) and not is_stopping(job)

    def is_stopped(self, job: Job) -> bool:
        return is_suspended(job)

    def is_active(self, job: Job) -> bool:
        status = job.status
        return is_stopping(job) or any((status.pending, status.running, status.terminating, status.unknown))

    def is_on_hold(self, state: JobState[Job]) -> bool:
        """Return True for an aborted job: it may be resumed."""
        return state.suspended and state.job.phase == "Aborted"

    def pod_sets(self, job: Job) -> tuple[PodSet, ...]:
        """Return one pod set for each task, with the counts of the admission if the job is admitted."""
        defaulted, admitted = with_defaults(job), admitted_pod_sets(job) or {}
        minimum = minimum_of_one_task(defaulted)
        return tuple(
            PodSet(
                name=task.name,
                count=admitted[task.name].count if task.name in admitted else task.replicas,
                min_count=msgspec.UNSET if minimum is None or minimum[0] != task.name else minimum[1],
                template=task.template,
            )
            for task in defaulted.spec.tasks
        )

    def topology_sources(self, job: Job) -> tuple[TopologySource, ...]:
        return tuple(
            TopologySource(f"spec.tasks[{index}].template.metadata.annotations", _TASK_INDEX)
            for index in range(len(job.spec.tasks))
        )

    def priority_class(self, job: Job) -> str | None:
        return job.spec.priority_class_name

    def finished(self, job: Job) -> Outcome | None:
        state = job.status.state
        match state.phase:
            case "Completed":
                return Outcome(True, state.message or "Job finished successfully")
            case "Failed" | "Terminated":
                return Outcome(False, state.message or f"Job {state.phase.lower()}")
            case _:
                return None

    def end_status(self, job: Job, outcome: Outcome) -> EndStatus:
        phase = "Completed" if outcome.success else "Failed"
        return EndStatus(fields={"state": {"phase": phase, "message": outcome.message}})

    def pod_counts(self, job: Job) -> PodCounts:
        """Return the counts by task; ``minAvailable`` pods that run or have succeeded are enough for the job.

        A failed pod may run again, because a policy or a command can restart the job.
        """
        status, defaulted = job.status, with_defaults(job)
        is_enough = status.running + status.succeeded >= defaulted.spec.min_available
        admitted = admitted_pod_sets(job) or {}
        counts: list[PodSetCounts] = []
        for task in defaulted.spec.tasks:
            size = admitted[task.name].count if task.name in admitted else task.replicas
            of_task = status.task_status_count.get(task.name)
            phases = {} if of_task is None else of_task.phase
            running, done = phases.get("Running", 0), min(phases.get("Succeeded", 0), size)
            required = min(size, running + done) if is_enough else size
            counts.append(
                PodSetCounts(
                    task.name,
                    required,
                    active=running,
                    ready=running,
                    succeeded=done,
                    coming=max(0, size - running - done),
                )
            )
        return tuple(counts)

    def start(self, job: Job, infos: Sequence[PodSetInfo]) -> tuple[Patch, ...] | InjectionConflict:
        conflict = as_admitted(with_defaults(job), {info.name: info for info in infos})
        if isinstance(conflict, InjectionConflict):
            return conflict
        return (record_admission(job, infos),)

    def stop(self, job: Job, originals: Sequence[PodSet] | None) -> Stop:
        if is_suspended(job):
            return Stop(waits_for_pods=is_stopping(job))
        return Stop((begin_stop(job),), begins=True, waits_for_pods=True)


def minimum_of_one_task(job: Job) -> tuple[str, int] | None:
    """Return the task of a defaulted job that may start with fewer pods, and its minimum; None if none may.

    It is the task with the most pods beyond its minimum, the first of equal ones.  The minimums of tasks
    count only if ``minAvailable`` of the job is not below their sum, as in Volcano.
    """
    tasks = job.spec.tasks
    minimums = [task.replicas if task.min_available is None else task.min_available for task in tasks]
    every_task_counts = job.spec.min_available >= sum(minimums)
    total = total_replicas(job)

    def surplus() -> Iterable[tuple[int, str, int]]:
        for task, minimum in zip(tasks, minimums, strict=True):
            of_job = job.spec.min_available - (total - task.replicas)
            lowest = max(minimum if every_task_counts else 0, of_job, 1)
            yield task.replicas - lowest, task.name, lowest

    most = max(surplus(), key=lambda row: row[0], default=(0, "", 0))
    return (most[1], most[2]) if most[0] > 0 else None
