"""Pods of Volcano Jobs as the job controller reads them, and counts of them by phase."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from quorate.api.core.pod import Pod, PodMeta
from quorate.api.meta import Key, Uid, epoch, is_true
from quorate.api.names.volcano import JOB_RETRY_COUNT, JOB_VERSION, PARTITION, TASK_INDEX, TASK_SPEC
from quorate.api.volcano.job import Job

_NO_INDEX: Final = -1  # no replica has this index
_NUMBERED_NAME: Final = re.compile(r".*-([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class JobPod:
    """One pod of a job, with what the job controller reads of it."""

    pod: Pod

    @property
    def metadata(self) -> PodMeta:
        return self.pod.metadata

    @property
    def phase(self) -> str:
        return self.pod.status.phase

    @property
    def node_name(self) -> str:
        return self.pod.node_name

    @property
    def task(self) -> str:
        return self.metadata.annotations.get(TASK_SPEC, "")

    @property
    def index(self) -> int:
        """The index of the replica in its task; before Volcano 1.7 only the name has it."""
        annotated = self._number(TASK_INDEX, _NO_INDEX)
        numbered = _NUMBERED_NAME.fullmatch(self.metadata.name) if annotated == _NO_INDEX else None
        return annotated if numbered is None else int(numbered[1])

    @property
    def version(self) -> int:
        """The job version that the pod was created for."""
        return self._number(JOB_VERSION, 0)

    @property
    def retry(self) -> int:
        """The retry count of the job when the pod was created."""
        return self._number(JOB_RETRY_COUNT, 0)

    @property
    def partition(self) -> str:
        return self.metadata.labels.get(PARTITION, "")

    @property
    def is_terminating(self) -> bool:
        return self.pod.is_leaving

    @property
    def is_finished(self) -> bool:
        """Whether the phase is final; a terminating pod is unfinished until it has stopped."""
        return self.pod.has_ended

    @property
    def is_disrupted(self) -> bool:
        """Whether the kubelet, a scheduler, the eviction API or the loss of its node ends it."""
        return is_true(self.pod.status.conditions, "DisruptionTarget")

    @property
    def is_ready(self) -> bool:
        return self.phase == "Succeeded" or is_true(self.pod.status.conditions, "Ready")

    @property
    def restarts(self) -> int:
        return self.pod.history.restarts

    @property
    def exit_code(self) -> int | None:
        """The exit code of the first container that failed."""
        return self.pod.history.exit_code

    @property
    def ended_at(self) -> float:
        """When the last container ended (epoch seconds); else when the pod started or was created."""
        moment = self.pod.history.ended_at or self.metadata.creation_timestamp
        return 0.0 if moment is None else epoch(moment)

    def _number(self, annotation: str, default: int) -> int:
        text = self.metadata.annotations.get(annotation, "")
        return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else default


@dataclass(frozen=True, slots=True)
class LostPod:
    """A pod with a node that something else than the job controller deletes, or has deleted.

    ``at``: when that was seen (epoch seconds).  ``failed_at``: when it had failed before; None: it had not.
    """

    key: Key
    uid: Uid
    task: str
    index: int
    partition: str
    version: int
    at: float
    failed_at: float | None = None
    exit_code: int | None = None


@dataclass(slots=True)
class PodCounts:
    """The pods of a job by phase; a terminating pod counts as terminating only."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    by_task: dict[str, dict[str, int]] = field(default_factory=dict)  # by task and phase, not terminating

    @property
    def existing(self) -> int:
        """Pods of any phase, terminating ones included."""
        return self.pending + self.running + self.succeeded + self.failed + self.unknown + self.terminating

    def count_of(self, task: str, phase: str) -> int:
        return self.by_task.get(task, {}).get(phase, 0)


def count_pods(pods: Iterable[JobPod]) -> PodCounts:
    counts = PodCounts()
    for pod in pods:
        if pod.is_terminating:
            counts.terminating += 1
            continue
        phase = pod.phase
        match phase:
            case "Pending":
                counts.pending += 1
            case "Running":
                counts.running += 1
            case "Succeeded":
                counts.succeeded += 1
            case "Failed":
                counts.failed += 1
            case _:
                counts.unknown += 1
        of_task = counts.by_task.setdefault(pod.task, {})
        of_task[phase] = of_task.get(phase, 0) + 1
    return counts


def desired_replicas(job: Job) -> dict[str, int]:
    """Return the replicas of the current spec by task; a job may have thousands of tasks."""
    replicas: dict[str, int] = {}
    for task in job.spec.tasks:
        replicas[task.name] = max(task.replicas, replicas.get(task.name, 0))
    return replicas


def is_desired(pod: JobPod, replicas: Mapping[str, int]) -> bool:
    """Return True if ``replicas`` (from ``desired_replicas``) include this task and index."""
    return 0 <= pod.index < replicas.get(pod.task, 0)
