"""What holds for a Volcano Job where it says nothing: the defaults of Volcano's webhook (v1.15).

The webhook may be absent, so whoever reads a job fills them in; with it nothing is left to fill in.
"""

from typing import Final

from msgspec.structs import replace

from quorate.api.volcano import DEFAULT_QUEUE
from quorate.api.volcano_job import Job, TaskSpec

SCHEDULER_NAME: Final = "volcano"
MAX_RETRY: Final = 3
_NEED_SERVICE: Final = frozenset({"pytorch", "tensorflow", "mpi", "ray"})
_NEED_KEYS: Final = frozenset({"mpi"})


def completed(job: Job) -> Job:
    """``job`` with all that its tasks, its minimum, its queue and its plugins leave unsaid."""
    spec = job.spec
    tasks = tuple(_completed_task(index, task) for index, task in enumerate(spec.tasks))
    return replace(
        job,
        spec=replace(
            spec,
            tasks=tasks,
            min_available=spec.min_available or sum(map(minimum_of, tasks)),
            scheduler_name=spec.scheduler_name or SCHEDULER_NAME,
            queue=spec.queue or DEFAULT_QUEUE,
            max_retry=spec.max_retry or MAX_RETRY,
            plugins=_with_needed(spec.plugins),
        ),
    )


def minimum_of(task: TaskSpec) -> int:
    """How many pods of ``task`` must run at least."""
    if task.min_available is not None:
        return task.min_available
    partitions = task.partition_policy
    if partitions is not None and partitions.min_partitions:
        return partitions.min_partitions * partitions.partition_size
    return task.replicas


def _completed_task(index: int, task: TaskSpec) -> TaskSpec:
    return replace(task, name=task.name or f"default{index}", min_available=minimum_of(task))


def _with_needed(plugins: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """``plugins`` with those that others of them rely on."""
    needed: dict[str, tuple[str, ...]] = {}
    if _NEED_SERVICE & plugins.keys():
        needed["svc"] = ()
    if _NEED_KEYS & plugins.keys():
        needed["ssh"] = ()
    return needed | plugins
