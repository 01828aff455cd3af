"""batch.volcano.sh/v1alpha1 Job with its defaults, and bus.volcano.sh/v1alpha1 Command.

Field meanings are Volcano's (v1.15). The structs have the defaults of the stored schema. ``with_defaults``
adds those of Volcano's webhook (queue, task names, minimums), which may be absent; it changes nothing if the
webhook ran. Templates and volume claims are stored as the original bytes, so that pods and claims get every
field.
"""

from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from quorate.api.batch import EMPTY_OBJECT, intern_raw
from quorate.api.meta import Int32, ObjectMeta, OwnerReference, Struct, always_encoded
from quorate.api.syntax import INT32_MAX
from quorate.api.volcano import DEFAULT_QUEUE, NetworkTopology

GROUP: Final = "batch.volcano.sh"
BUS_GROUP: Final = "bus.volcano.sh"
VERSION: Final = "v1alpha1"

JobPhase = Literal[
    "", "Pending", "Running", "Completing", "Completed", "Restarting",
    "Aborting", "Aborted", "Terminating", "Terminated", "Failed",
]  # fmt: skip


class VolumeSpec(Struct):
    """A volume of all pods: an existing claim, a claim to create, or else an empty directory."""

    mount_path: str
    volume_claim_name: str = ""
    volume_claim: msgspec.Raw = EMPTY_OBJECT  # a PersistentVolumeClaimSpec; an empty one means none

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "volume_claim", intern_raw(self.volume_claim))


class LifecyclePolicy(Struct):
    """The action on one event, on several events, or on an exit code.

    Events and actions are plain text here: unknown ones match nothing, and admission rejects them.
    """

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: Int32 | None = None
    timeout: str = ""  # a duration; "" means at once


class DependsOn(Struct):
    """Tasks of which ``any`` or ``all`` must run or be finished before this task starts."""

    name: tuple[str, ...] = ()
    iteration: str = ""  # any; everything else means all, as in Volcano


class PartitionPolicy(Struct):
    """Divides the replicas of a task into equal partitions, each placed in one network tier."""

    total_partitions: Int32 = 0
    partition_size: Int32 = 0
    min_partitions: Int32 = 0
    network_topology: NetworkTopology | None = None


class TaskSpec(Struct):
    name: str = ""  # "" means default<index>
    replicas: Int32 = 0
    min_available: Int32 | None = None  # None: all replicas
    template: msgspec.Raw = EMPTY_OBJECT
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: Literal["", "none", "best-effort", "restricted", "single-numa-node"] = ""
    max_retry: Int32 = 0  # container restarts before the task fails; 0 means 3, -1 unlimited
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "template", intern_raw(self.template))


class JobSpec(Struct):
    scheduler_name: str = ""
    min_available: Int32 = 0  # 0 means the sum of the tasks' minimums
    volumes: tuple[VolumeSpec, ...] = ()
    tasks: tuple[TaskSpec, ...] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: dict[str, tuple[str, ...]] = {}
    running_estimate: str = ""
    queue: str = ""  # "" means default
    max_retry: Int32 = 3
    ttl_seconds_after_finished: Int32 | None = None
    priority_class_name: str = ""
    min_success: Int32 | None = None
    network_topology: NetworkTopology | None = None


class JobState(Struct):
    phase: JobPhase = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class TaskState(Struct):
    phase: dict[str, Int32] = {}  # number of pods by phase


class JobCondition(Struct):
    """A phase in the job's history, which is ordered from oldest to newest."""

    status: JobPhase = always_encoded()
    last_transition_time: datetime | None = None


class JobStatus(Struct):
    state: JobState = JobState()
    min_available: Int32 = 0
    task_status_count: dict[str, TaskState] = {}
    pending: Int32 = 0
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    terminating: Int32 = 0
    unknown: Int32 = 0
    version: Int32 = 0
    retry_count: Int32 = 0
    running_duration: str = ""  # duration from Running to the final phase
    controlled_resources: dict[str, str] = {}
    conditions: tuple[JobCondition, ...] = ()


class Job(Struct):
    metadata: ObjectMeta
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def phase(self) -> JobPhase:
        """Return the phase in the status; empty before the job controller has set one."""
        return self.status.state.phase


class Command(Struct):
    """A command to a job or queue; it is deleted before it is executed."""

    metadata: ObjectMeta
    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""


SCHEDULER_NAME: Final = "volcano"
MAX_RETRY: Final = 3
INVALID_JOB: Final = "InvalidJob"  # reason of ``status.state``: no pods can be created (ours)
_PLUGINS_USING_SVC: Final = frozenset({"pytorch", "tensorflow", "mpi", "ray"})
_PLUGINS_USING_SSH: Final = frozenset({"mpi"})


def with_defaults(job: Job) -> Job:
    """Return ``job`` with the defaults that Volcano's webhook (v1.15) sets."""
    spec = job.spec
    tasks = tuple(_task_with_defaults(index, task) for index, task in enumerate(spec.tasks))
    return replace(
        job,
        spec=replace(
            spec,
            tasks=tasks,
            min_available=spec.min_available or min(INT32_MAX, sum(map(task_min_available, tasks))),
            scheduler_name=spec.scheduler_name or SCHEDULER_NAME,
            queue=spec.queue or DEFAULT_QUEUE,
            max_retry=spec.max_retry or MAX_RETRY,
            plugins=_with_required_plugins(spec.plugins),
        ),
    )


def task_min_available(task: TaskSpec) -> int:
    """Return the minimum number of running pods of ``task``."""
    if task.min_available is not None:
        return task.min_available
    partitions = task.partition_policy
    if partitions is not None and partitions.min_partitions > 0:
        return min(INT32_MAX, partitions.min_partitions * partitions.partition_size)
    return task.replicas


def _task_with_defaults(index: int, task: TaskSpec) -> TaskSpec:
    return replace(task, name=task.name or f"default{index}", min_available=task_min_available(task))


def _with_required_plugins(plugins: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return ``plugins`` with the plugins that they require."""
    needed: dict[str, tuple[str, ...]] = {}
    if _PLUGINS_USING_SVC & plugins.keys():
        needed["svc"] = ()
    if _PLUGINS_USING_SSH & plugins.keys():
        needed["ssh"] = ()
    return needed | plugins
