"""The observed state of a run: each job with its workload and its pods, and the nodes.

Everything here is a pure function of objects read from the API, so that tests need literals only.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from quorate.api import volcano
from quorate.api.batch import Job, JobSpec
from quorate.api.core import Node, Pod, Resources
from quorate.api.core.pod import ENDED_PHASES
from quorate.api.core.pod_resources import pod_requests, sum_resources
from quorate.api.kueue import ClusterQueue, Workload
from quorate.api.meta import Condition, Uid, find_condition, is_true
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.quantity import Quantity
from quorate.api.volcano import PodGroup


@dataclass(frozen=True, slots=True)
class PodCount:
    """The pods of one job by phase; pods that are being deleted do not count."""

    wanted: int = 0  # to finish the job
    unplaced: int = 0
    starting: int = 0  # on a node, not running yet
    running: int = 0
    ready: int = 0  # of the running
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class ObservedJob:
    job: Job
    workload: Workload | None
    pods: tuple[Pod, ...]
    group: PodGroup | None = None

    @property
    def name(self) -> str:
        key = self.job.metadata.key
        return key.name if key.namespace == "default" else str(key)

    @property
    def queue(self) -> str:
        """Return the local queue that the job names; empty when it names none."""
        metadata = self.job.metadata
        return metadata.labels.get(QUEUE_NAME) or metadata.annotations.get(QUEUE_NAME, "")

    @property
    def completed(self) -> bool:
        return is_true(self.job.status.conditions, "Complete")

    @property
    def failure(self) -> Condition | None:
        failed = find_condition(self.job.status.conditions, "Failed")
        return failed if failed is not None and failed.status == "True" else None

    @property
    def finished(self) -> bool:
        return self.completed or self.failure is not None

    @property
    def finished_at(self) -> datetime | None:
        if self.failure is not None:
            return self.failure.last_transition_time
        return self.job.status.completion_time

    @property
    def pod_group_reason(self) -> str:
        """Return what its pod group waits for; empty when it waits for nothing or has no condition yet."""
        if self.group is None or self.group.status.phase not in ("", volcano.PENDING):
            return ""
        short_of = find_condition(self.group.status.conditions, volcano.UNSCHEDULABLE)
        return "" if short_of is None else f"its pod group waits: {short_of.message}"

    @property
    def evictions(self) -> int:
        stats = self.workload.status.scheduling_stats if self.workload is not None else None
        return sum(eviction.count for eviction in stats.evictions) if stats is not None else 0

    @property
    def count(self) -> PodCount:
        live = [pod for pod in self.pods if pod.metadata.deletion_timestamp is None]
        phases = [pod.status.phase for pod in live]
        running = [pod for pod in live if pod.status.phase == "Running"]
        pending = [pod for pod in live if pod.status.phase == "Pending"]
        return PodCount(
            wanted=wanted_pods(self.job.spec),
            unplaced=sum(not pod.spec.node_name for pod in pending),
            starting=sum(bool(pod.spec.node_name) for pod in pending),
            running=len(running),
            ready=sum(is_true(pod.status.conditions, "Ready") for pod in running),
            # Finished pods may be deleted; the status of the job keeps their count.
            succeeded=max(self.job.status.succeeded, phases.count("Succeeded")),
            failed=max(self.job.status.failed, phases.count("Failed")),
        )

    def condition(self, type_: str) -> Condition | None:
        """Return a condition of the workload, None if it has none of that type."""
        return find_condition(self.workload.status.conditions, type_) if self.workload is not None else None

    def has(self, type_: str) -> bool:
        """Return True if a condition of the workload is true."""
        condition = self.condition(type_)
        return condition is not None and condition.status == "True"


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    jobs: tuple[ObservedJob, ...]  # by creation, then name
    nodes: tuple[Node, ...]  # by name
    pods: tuple[Pod, ...]  # all pods, by key, also those without a job
    cluster_queues: tuple[ClusterQueue, ...]  # by name

    @property
    def finished(self) -> bool:
        """Return True if there are jobs and each is finished."""
        return bool(self.jobs) and all(observed.finished for observed in self.jobs)

    @property
    def fingerprint(self) -> frozenset[tuple[Uid, str]]:
        """Return a value that changes with each write to a job, its workload, its pod group or a pod."""
        seen = [pod.metadata for pod in self.pods]
        seen += [observed.job.metadata for observed in self.jobs]
        seen += [observed.workload.metadata for observed in self.jobs if observed.workload is not None]
        seen += [observed.group.metadata for observed in self.jobs if observed.group is not None]
        return frozenset((metadata.uid, metadata.resource_version) for metadata in seen)

    def free(self, node: Node) -> Resources:
        """Return the free part of a node's allocatable resources, ``pods`` included.

        It is 0 if pods use more than is allocatable: none of that is free on other nodes either.
        """
        placed = [
            pod
            for pod in self.pods
            if pod.spec.node_name == node.metadata.name and pod.status.phase not in ENDED_PHASES
        ]
        used = sum_resources(
            [{"pods": Quantity.of_units(len(placed))}, *(pod_requests(pod.spec) for pod in placed)]
        )
        return {
            name: max(amount - used[name], Quantity(0)) if name in used else amount
            for name, amount in node.status.allocatable.items()
        }


def observe(
    jobs: Iterable[Job],
    workloads: Iterable[Workload],
    pods: Iterable[Pod],
    nodes: Iterable[Node],
    cluster_queues: Iterable[ClusterQueue],
    groups: Iterable[PodGroup] = (),
) -> ObservedCluster:
    """Join the objects: workloads, pods and pod groups belong to the job that controls them."""
    workload_of = {
        owner.uid: workload for workload in workloads if (owner := workload.metadata.job_owner) is not None
    }
    group_of = {owner.uid: group for group in groups if (owner := group.metadata.controller) is not None}
    all_pods = tuple(sorted(pods, key=lambda pod: pod.metadata.key))
    pods_of: defaultdict[Uid, list[Pod]] = defaultdict(list)
    for pod in all_pods:
        if (owner := pod.metadata.controller) is not None:
            pods_of[owner.uid].append(pod)
    observed_jobs = []
    for job in jobs:
        uid = job.metadata.uid
        observed_jobs.append(ObservedJob(job, workload_of.get(uid), tuple(pods_of[uid]), group_of.get(uid)))
    return ObservedCluster(
        jobs=tuple(sorted(observed_jobs, key=_age)),
        nodes=tuple(sorted(nodes, key=lambda node: node.metadata.name)),
        pods=all_pods,
        cluster_queues=tuple(sorted(cluster_queues, key=lambda queue: queue.metadata.name)),
    )


def wanted_pods(spec: JobSpec) -> int:
    """Return how many pods must succeed: ``completions``, or ``parallelism`` without it."""
    return spec.completions if spec.completions is not None else spec.parallelism


def _age(observed: ObservedJob) -> tuple[bool, datetime | int, str]:
    created = observed.job.metadata.creation_timestamp
    return (created is None, created or 0, str(observed.job.metadata.key))
