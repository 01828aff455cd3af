"""Pods of Volcano Jobs as their controller reads them, and how many of them stand how."""

import re
from collections.abc import Iterable, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from quorate.api.meta import Condition, Key, ObjectMeta, Struct, epoch, is_true
from quorate.api.volcano.annotations import TASK_SPEC
from quorate.api.volcano.job import JOB_NAME, JOB_RETRY_COUNT, JOB_VERSION, PARTITION, TASK_INDEX, Job
from quorate.kube.resources import Resource

ENDED: Final = ("Succeeded", "Failed")
_NOBODY: Final = -1  # an index that no replica has
_NUMBERED: Final = re.compile(r".*-([0-9]{1,9})")


_ANNOTATIONS: Final = frozenset({TASK_SPEC, TASK_INDEX, JOB_VERSION, JOB_RETRY_COUNT})
_LABELS: Final = frozenset({PARTITION})


def prune_metadata(metadata: ObjectMeta, annotations: Set[str], labels: Set[str] = frozenset()) -> ObjectMeta:
    """``metadata`` without what nobody reads: of many pods it would be most of the memory they take."""
    return msgspec.structs.replace(
        metadata,
        annotations={key: text for key, text in metadata.annotations.items() if key in annotations},
        labels={key: text for key, text in metadata.labels.items() if key in labels},
        finalizers=(),
        owner_references=tuple(owner for owner in metadata.owner_references if owner.controller),
    )


class Terminated(Struct):
    exit_code: int = 0
    finished_at: datetime | None = None


class ContainerState(Struct):
    terminated: Terminated | None = None


class ContainerStatus(Struct):
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PlacedSpec(Struct):
    node_name: str = ""


class PodStatus(Struct):
    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    start_time: datetime | None = None


class JobPod(Struct):
    """One pod of a job; its annotations say which, and of them no others are kept."""

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
        """Which replica of its task it is; pods of Volcano before 1.7 say so in their name only."""
        given = self._number(TASK_INDEX, _NOBODY)
        numbered = _NUMBERED.fullmatch(self.metadata.name) if given == _NOBODY else None
        return given if numbered is None else int(numbered[1])

    @property
    def version(self) -> int:
        """The version of the job that it was made for."""
        return self._number(JOB_VERSION, 0)

    @property
    def retry(self) -> int:
        """How often the job had been restarted when it was made."""
        return self._number(JOB_RETRY_COUNT, 0)

    @property
    def partition(self) -> str:
        return self.metadata.labels.get(PARTITION, "")

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        return self.status.phase in ENDED

    @property
    def is_unfinished(self) -> bool:
        """Whether it runs or may yet run; so it does until it is away, however it was told to end."""
        return not self.is_finished

    @property
    def is_ready(self) -> bool:
        return self.status.phase == "Succeeded" or is_true(self.status.conditions, "Ready")

    @property
    def restarts(self) -> int:
        statuses = (*self.status.container_statuses, *self.status.init_container_statuses)
        return sum(status.restart_count for status in statuses)

    @property
    def exit_code(self) -> int | None:
        """What its first container that failed ended with."""
        for ended in self._ended_containers():
            if ended.exit_code:
                return ended.exit_code
        return None

    @property
    def ended_at(self) -> float:
        """When its last container ended, as far as that is known (epoch seconds)."""
        moments = [ended.finished_at for ended in self._ended_containers() if ended.finished_at is not None]
        if not moments:
            began = self.status.start_time or self.metadata.creation_timestamp
            return 0.0 if began is None else epoch(began)
        return epoch(max(moments))

    def _ended_containers(self) -> Iterable[Terminated]:
        for status in (*self.status.container_statuses, *self.status.init_container_statuses):
            if status.state.terminated is not None:
                yield status.state.terminated

    def _number(self, annotation: str, otherwise: int) -> int:
        text = self.metadata.annotations.get(annotation, "")
        return int(text) if len(text) < 10 and text.isascii() and text.isdigit() else otherwise


JOB_PODS: Final = Resource("", "v1", "pods", "Pod", True, JobPod)
JOB_POD_SELECTOR: Final = JOB_NAME  # a label all of them have, and hardly any other pod


@dataclass(frozen=True, slots=True)
class LostPod:
    """A pod that went without our doing; ``at`` is when that was seen (epoch seconds)."""

    key: Key
    task: str
    index: int
    partition: str
    version: int
    retry: int
    at: float


@dataclass(slots=True)
class PodCounts:
    """The pods of a job by what they do; those on their way out are counted as that and as nothing else."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    terminating: int = 0
    by_task: dict[str, dict[str, int]] = field(default_factory=dict)  # phase by phase, without terminating

    def count_of(self, task: str, phase: str) -> int:
        return self.by_task.get(task, {}).get(phase, 0)


def count_pods(members: Iterable[JobPod]) -> PodCounts:
    counts = PodCounts()
    for member in members:
        if member.is_terminating:
            counts.terminating += 1
            continue
        phase = member.status.phase
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
        of_task = counts.by_task.setdefault(member.task, {})
        of_task[phase] = of_task.get(phase, 0) + 1
    return counts


def is_desired(member: JobPod, job: Job) -> bool:
    """Whether the job, as it is now, wants a pod of this task and index."""
    return any(task.name == member.task and 0 <= member.index < task.replicas for task in job.spec.tasks)
