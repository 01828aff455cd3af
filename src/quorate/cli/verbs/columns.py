"""The columns of the lists, by the names that kueuectl gives them."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from quorate.api.kueue import ACTIVE, ClusterQueue, LocalQueue, Workload
from quorate.api.meta import Key, OwnerReference, find_condition, is_true
from quorate.cli.verbs.printing import Column, age
from quorate.local.objects.tables.durations import human_duration
from quorate.queueing import conditions as c

_LONGEST_JOB_TYPE: Final = 30


class Status(StrEnum):
    """How far a workload has come."""

    PENDING = "pending"
    QUOTA_RESERVED = "quotareserved"
    ADMITTED = "admitted"
    FINISHED = "finished"


def status_of(workload: Workload) -> Status:
    if c.is_finished(workload):
        return Status.FINISHED
    if c.is_admitted(workload):
        return Status.ADMITTED
    return Status.QUOTA_RESERVED if c.has_quota_reservation(workload) else Status.PENDING


def is_active(queue: ClusterQueue | LocalQueue) -> bool:
    return is_true(queue.status.conditions, ACTIVE)


def why_inactive(queue: ClusterQueue | LocalQueue) -> str:
    active = find_condition(queue.status.conditions, ACTIVE)
    if active is None:
        return "nobody has looked at it yet"
    return "" if active.status == "True" else active.message


def cluster_queue_columns(now: float) -> Sequence[Column[ClusterQueue]]:
    return (
        Column("NAME", lambda queue: queue.metadata.name),
        Column("COHORT", lambda queue: queue.spec.cohort_name),
        Column("PENDING WORKLOADS", lambda queue: str(queue.status.pending_workloads)),
        Column("ADMITTED WORKLOADS", lambda queue: str(queue.status.admitted_workloads)),
        Column("ACTIVE", lambda queue: str(is_active(queue)).lower()),
        Column("AGE", lambda queue: age(queue.metadata.creation_timestamp, now)),
        Column("STRATEGY", lambda queue: queue.spec.queueing_strategy, wide=True),
        Column("STOP POLICY", lambda queue: queue.spec.stop_policy, wide=True),
        Column("WHY INACTIVE", why_inactive, wide=True),
    )


def local_queue_columns(now: float, *, namespaces: bool) -> Sequence[Column[LocalQueue]]:
    columns: tuple[Column[LocalQueue], ...] = (
        Column("NAME", lambda queue: queue.metadata.name),
        Column("CLUSTERQUEUE", lambda queue: queue.spec.cluster_queue),
        Column("PENDING WORKLOADS", lambda queue: str(queue.status.pending_workloads)),
        Column("ADMITTED WORKLOADS", lambda queue: str(queue.status.admitted_workloads)),
        Column("AGE", lambda queue: age(queue.metadata.creation_timestamp, now)),
        Column("STOP POLICY", lambda queue: queue.spec.stop_policy, wide=True),
        Column("WHY INACTIVE", why_inactive, wide=True),
    )
    if not namespaces:
        return columns
    return (Column("NAMESPACE", lambda queue: queue.metadata.namespace), *columns)


def workload_columns(
    now: float,
    cluster_queues: Mapping[Key, str],
    positions: Mapping[Key, int],
    *,
    namespaces: bool,
) -> Sequence[Column[Workload]]:
    """``cluster_queues`` are those of the local queues, ``positions`` count from 0 in each local queue."""

    def position(workload: Workload) -> str:
        place = positions.get(workload.metadata.key)
        return "" if place is None else str(place)

    columns: tuple[Column[Workload], ...] = (
        Column("NAME", lambda workload: workload.metadata.name),
        Column("JOB TYPE", _of_owners(_job_type)),
        Column("JOB NAME", _of_owners(lambda owner: owner.name)),
        Column("LOCALQUEUE", lambda workload: workload.spec.queue_name),
        Column("CLUSTERQUEUE", lambda workload: cluster_queue_of(workload, cluster_queues)),
        Column("STATUS", lambda workload: status_of(workload).upper()),
        Column("POSITION IN QUEUE", position),
        Column("EXEC TIME", lambda workload: _execution_time(workload, now)),
        Column("AGE", lambda workload: age(workload.metadata.creation_timestamp, now)),
        Column("PRIORITY", lambda workload: str(workload.spec.priority or 0), wide=True),
        Column("WHY", why_not_running, wide=True),
    )
    if not namespaces:
        return columns
    return (Column("NAMESPACE", lambda workload: workload.metadata.namespace), *columns)


def cluster_queue_of(workload: Workload, cluster_queues: Mapping[Key, str]) -> str:
    if workload.status.admission is not None:
        return workload.status.admission.cluster_queue
    return cluster_queues.get(Key(workload.metadata.namespace, workload.spec.queue_name), "")


def why_not_running(workload: Workload) -> str:
    """What its status says about why it has no quota, or is not admitted with it; empty if it runs."""
    if c.is_finished(workload) or c.is_admitted(workload):
        return ""
    if not workload.spec.active:
        return "it is stopped"
    if c.has_quota_reservation(workload):
        waited = [check.name for check in workload.status.admission_checks if check.state != "Ready"]
        return f"waits for admission checks: {', '.join(waited)}" if waited else ""
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    return "" if reserved is None else reserved.message


def _of_owners(told: Callable[[OwnerReference], str]) -> Callable[[Workload], str]:
    return lambda workload: ", ".join(map(told, workload.metadata.owner_references))


def _job_type(owner: OwnerReference) -> str:
    group, _, _ = owner.api_version.rpartition("/")
    name = f"{owner.kind.lower()}.{group}" if group else owner.kind.lower()
    return name if len(name) <= _LONGEST_JOB_TYPE else f"{name[: _LONGEST_JOB_TYPE - 3]}..."


def _execution_time(workload: Workload, now: float) -> str:
    """Since it was admitted, until it finished or now; empty before."""
    admitted = find_condition(workload.status.conditions, c.ADMITTED)
    if admitted is None or admitted.status != "True":
        return ""
    finished = find_condition(workload.status.conditions, c.FINISHED)
    ended = c.transition_time(finished) if finished is not None and finished.status == "True" else now
    return human_duration(ended - c.transition_time(admitted))
