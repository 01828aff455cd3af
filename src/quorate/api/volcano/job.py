"""batch.volcano.sh/v1alpha1 Job and bus.volcano.sh/v1alpha1 Command: the fields we read and write.

Field meanings are Volcano's (v1.15).  Defaults are those of the stored schema; what Volcano's webhook
fills in beyond them (queue, task names, minimums) is filled in by whoever reads, since it may be absent.
Templates and volume claims are kept as the bytes they came in, so that no field is lost on the way to a
pod or a claim.
"""

from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from quorate.api.batch import EMPTY_OBJECT, intern_raw
from quorate.api.meta import ObjectMeta, OwnerReference, Struct, always_encoded
from quorate.api.volcano import DEFAULT_QUEUE, NetworkTopology

GROUP: Final = "batch.volcano.sh"
BUS_GROUP: Final = "bus.volcano.sh"
VERSION: Final = "v1alpha1"

# Labels and annotations of pods and of what else a job owns.
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
TASK_INDEX: Final = "volcano.sh/task-index"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
PARTITION: Final = "volcano.sh/partition-id"

JobPhase = Literal[
    "", "Pending", "Running", "Completing", "Completed", "Restarting",
    "Aborting", "Aborted", "Terminating", "Terminated", "Failed",
]  # fmt: skip


class VolumeSpec(Struct):
    """One volume of all pods: a claim by name, a claim to make, or else an empty directory."""

    mount_path: str
    volume_claim_name: str = ""
    volume_claim: msgspec.Raw = EMPTY_OBJECT  # a PersistentVolumeClaimSpec; none is valid when empty

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "volume_claim", intern_raw(self.volume_claim))


class LifecyclePolicy(Struct):
    """What to do on an event, on one of several events, or on an exit code.

    Events and actions are texts here: what is unknown matches nothing, and is refused at admission.
    """

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout: str = ""  # a duration; "" acts at once


class DependsOn(Struct):
    """The tasks of which ``any`` or ``all`` must be running, or done, before this one's pods are created."""

    name: tuple[str, ...] = ()
    iteration: Literal["", "any", "all"] = ""  # "" is all


class PartitionPolicy(Struct):
    """The replicas of a task in partitions of equal size, each placed close together."""

    total_partitions: int = 0
    partition_size: int = 0
    min_partitions: int = 0
    network_topology: NetworkTopology | None = None


class TaskSpec(Struct):
    name: str = ""  # "" is default<index>
    replicas: int = 0
    min_available: int | None = None  # None is all replicas
    template: msgspec.Raw = EMPTY_OBJECT
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: Literal["", "none", "best-effort", "restricted", "single-numa-node"] = ""
    max_retry: int = 0  # restarts of containers before the task counts as failed; 0: 3, -1: any number
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "template", intern_raw(self.template))


class JobSpec(Struct):
    scheduler_name: str = ""
    min_available: int = 0  # 0 is the sum of the tasks' minimums
    volumes: tuple[VolumeSpec, ...] = ()
    tasks: tuple[TaskSpec, ...] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: dict[str, tuple[str, ...]] = {}
    running_estimate: str = ""
    queue: str = ""  # "" is default
    max_retry: int = 3
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str = ""
    min_success: int | None = None
    network_topology: NetworkTopology | None = None


class JobState(Struct):
    phase: JobPhase = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class TaskState(Struct):
    phase: dict[str, int] = {}  # pods by phase


class JobCondition(Struct):
    """One phase the job was in, and since when; the list is its history, oldest first."""

    status: JobPhase = always_encoded()
    last_transition_time: datetime | None = None


class JobStatus(Struct):
    state: JobState = JobState()
    min_available: int = 0
    task_status_count: dict[str, TaskState] = {}
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str = ""  # from Running to the final phase, as a duration
    controlled_resources: dict[str, str] = {}
    conditions: tuple[JobCondition, ...] = ()


class Job(Struct):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class Command(Struct):
    """One thing that a job or a queue is told to do; it is deleted when it has been taken up."""

    metadata: ObjectMeta
    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""


SCHEDULER_NAME: Final = "volcano"
MAX_RETRY: Final = 3
_PLUGINS_USING_SVC: Final = frozenset({"pytorch", "tensorflow", "mpi", "ray"})
_PLUGINS_USING_SSH: Final = frozenset({"mpi"})


def with_defaults(job: Job) -> Job:
    """``job`` with all that its tasks, its minimum, its queue and its plugins leave unsaid."""
    spec = job.spec
    tasks = tuple(_task_with_defaults(index, task) for index, task in enumerate(spec.tasks))
    return replace(
        job,
        spec=replace(
            spec,
            tasks=tasks,
            min_available=spec.min_available or sum(map(task_min_available, tasks)),
            scheduler_name=spec.scheduler_name or SCHEDULER_NAME,
            queue=spec.queue or DEFAULT_QUEUE,
            max_retry=spec.max_retry or MAX_RETRY,
            plugins=_with_required_plugins(spec.plugins),
        ),
    )


def task_min_available(task: TaskSpec) -> int:
    """How many pods of ``task`` must run at least."""
    if task.min_available is not None:
        return task.min_available
    partitions = task.partition_policy
    if partitions is not None and partitions.min_partitions:
        return partitions.min_partitions * partitions.partition_size
    return task.replicas


def _task_with_defaults(index: int, task: TaskSpec) -> TaskSpec:
    return replace(task, name=task.name or f"default{index}", min_available=task_min_available(task))


def _with_required_plugins(plugins: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """``plugins`` with those that others of them rely on."""
    needed: dict[str, tuple[str, ...]] = {}
    if _PLUGINS_USING_SVC & plugins.keys():
        needed["svc"] = ()
    if _PLUGINS_USING_SSH & plugins.keys():
        needed["ssh"] = ()
    return needed | plugins
