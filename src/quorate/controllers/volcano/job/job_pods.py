"""Pods of Volcano Jobs as the job controller reads them, and counts of them by phase."""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

import msgspec

from quorate.api.core import ContainerStateTerminated, PodStatus
from quorate.api.meta import Key, ObjectMeta, Struct, Uid, epoch, is_true
from quorate.api.volcano.annotations import TASK_SPEC
from quorate.api.volcano.job import JOB_NAME, JOB_RETRY_COUNT, JOB_VERSION, PARTITION, TASK_INDEX, Job
from quorate.kube.resources import Resource

FINISHED_POD_PHASES: Final = ("Succeeded", "Failed")
_NO_INDEX: Final = -1  # no replica has this index
_NUMBERED_NAME: Final = re.compile(r".*-([0-9]{1,9})")

_ANNOTATIONS: Final = frozenset({TASK_SPEC, TASK_INDEX, JOB_VERSION, JOB_RETRY_COUNT})
_LABELS: Final = frozenset({PARTITION})


def prune_metadata(metadata: ObjectMeta, annotations: Set[str], labels: Set[str] = frozenset()) -> ObjectMeta:
    """Return ``metadata`` with only the given annotations and labels, and without finalizers.

    The fields that no controller reads would be most of the memory that a cached pod takes.
    """
    return msgspec.structs.replace(
        metadata,
        annotations={key: text for key, text in metadata.annotations.items() if key in annotations},
        labels={key: text for key, text in metadata.labels.items() if key in labels},
        finalizers=(),
        owner_references=tuple(owner for owner in metadata.owner_references if owner.controller),
    )


class PlacedSpec(Struct):
    node_name: str = ""


class JobPod(Struct):
    """One pod of a job, with the annotations and labels that the job controller reads."""

    metadata: ObjectMeta
    spec: PlacedSpec = PlacedSpec()
    status: PodStatus = PodStatus()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "metadata", prune_metadata(self.metadata, _ANNOTATIONS, _LABELS))

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
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        """Whether the phase is final; a terminating pod is unfinished until it has stopped."""
        return self.status.phase in FINISHED_POD_PHASES

    @property
    def is_disrupted(self) -> bool:
        """Whether the kubelet, a scheduler, the eviction API or the loss of its node ends it."""
        return is_true(self.status.conditions, "DisruptionTarget")

    @property
    def is_ready(self) -> bool:
        return self.status.phase == "Succeeded" or is_true(self.status.conditions, "Ready")

    @property
    def restarts(self) -> int:
        statuses = (*self.status.container_statuses, *self.status.init_container_statuses)
        return sum(status.restart_count for status in statuses)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the first container that failed."""
        for terminated in self._terminated_containers():
            if terminated.exit_code:
                return terminated.exit_code
        return None

    @property
    def ended_at(self) -> float:
        """When the last container ended (epoch seconds); else when the pod started or was created."""
        moments = [each.finished_at for each in self._terminated_containers() if each.finished_at is not None]
        if not moments:
            began = self.status.start_time or self.metadata.creation_timestamp
            return 0.0 if began is None else epoch(began)
        return epoch(max(moments))

    def _terminated_containers(self) -> Iterable[ContainerStateTerminated]:
        for status in (*self.status.container_statuses, *self.status.init_container_statuses):
            if status.state.terminated is not None:
                yield status.state.terminated

    def _number(self, annotation: str, default: int) -> int:
        text = self.metadata.annotations.get(annotation, "")
        return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else default


JOB_PODS: Final = Resource("", "v1", "pods", "Pod", True, JobPod)
JOB_POD_SELECTOR: Final = JOB_NAME  # a label that all pods of Volcano Jobs have, and hardly any other pod


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

    def count_of(self, task: str, phase: str) -> int:
        return self.by_task.get(task, {}).get(phase, 0)


def count_pods(pods: Iterable[JobPod]) -> PodCounts:
    counts = PodCounts()
    for pod in pods:
        if pod.is_terminating:
            counts.terminating += 1
            continue
        phase = pod.status.phase
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
    """Return True if ``replicas``, those of ``desired_replicas``, include this task and index."""
    return 0 <= pod.index < replicas.get(pod.task, 0)
