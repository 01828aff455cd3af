"""Jobs of a run: how they become workloads, and what is remembered of them."""

from collections.abc import Mapping, Sequence
from math import ceil

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.kueue import PodSet, PriorityClassRef, Workload, WorkloadPriorityClass, WorkloadSpec
from quorate.api.meta import ObjectMeta, OwnerReference, Uid, at_epoch
from quorate.api.names.kueue import RESOURCE_IN_USE
from quorate.controllers.jobframework.topology import TopologySource, with_topology_requests
from quorate.queueing.nodes.places import Place
from quorate.quota.amount import Usage
from quorate.simulate.inputs.scenario import JobClass
from quorate.simulate.inputs.submissions import Submission


class SimulatedJob:
    """A job that was submitted and has not ended."""

    __slots__ = (
        "attempt",
        "done_ms",
        "existed",
        "is_given_up",
        "is_running",
        "key",
        "number",
        "places",
        "started_ms",
        "stops",
        "submission",
        "unbound_reason",
        "usage",
        "wakes_ms",
        "workload",
        "works",
    )

    def __init__(self, number: int, submission: Submission, workload: Workload) -> None:
        self.number = number  # in the records
        self.key = workload.metadata.key
        self.submission = submission
        self.workload = workload  # as stored
        self.existed = False  # it waited when the run began, and its start is waited for
        self.is_given_up = False  # its pods were not ready in any of many attempts
        self.attempt = 0  # admissions and evictions so far
        self.done_ms = 0  # work kept by checkpoints
        self.started_ms = 0  # of its pods, in the running attempt
        self.is_running = False  # it is admitted, and not evicted
        self.works = False  # its pods run or start; not so while the node of one has failed
        self.stops = False  # it is evicted, and its pods have not ended
        self.usage: tuple[str, Usage] | None = None  # the cluster queue and the quota that it holds
        self.places: tuple[Place, ...] = ()  # of its pods on nodes
        self.unbound_reason = "pending"  # why its pods had no nodes when it was evicted
        self.wakes_ms: int | None = None


def stretched_ms(run_ms: int, job: SimulatedJob) -> int:
    """Return how long work takes with the pods that were admitted, which may be fewer than wanted."""
    wanted, granted = _pod_counts(job)
    return run_ms if wanted == granted else -(-run_ms * wanted // granted)


def shrunk_ms(ran_ms: int, job: SimulatedJob) -> int:
    """Return how long all its pods would have taken for the work of ``ran_ms``."""
    wanted, granted = _pod_counts(job)
    return ran_ms * granted // wanted


def granted_counts(job: SimulatedJob) -> tuple[int, ...]:
    """Return the pods of each pod set that were admitted."""
    wanted, admission = job.submission.counts, job.workload.status.admission
    if admission is None:
        return wanted
    assignments = zip(wanted, admission.pod_set_assignments, strict=True)
    return tuple(count if assignment.count is None else assignment.count for count, assignment in assignments)


def _pod_counts(job: SimulatedJob) -> tuple[int, int]:
    return sum(job.submission.counts), max(1, sum(granted_counts(job)))


class WorkloadTemplate:
    """Makes the workloads of a class, as the controller of its jobs would."""

    def __init__(
        self, job_class: JobClass, classes: Mapping[str, WorkloadPriorityClass], configuration: Configuration
    ) -> None:
        self._class = job_class
        self._topology_gates = configuration.topology_gates
        self._priority = job_class.priority or 0
        self._source: PriorityClassRef | None = None
        if job_class.priority_class:
            self._priority = classes[job_class.priority_class].value
            self._source = PriorityClassRef(
                group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name=job_class.priority_class
            )
        # By queue, counts and maximum execution time.
        self._specs: dict[tuple[int, tuple[int, ...], int | None], WorkloadSpec] = {}

    def workload(self, submission: Submission, number: int, now: float) -> Workload:
        """Return the stored workload of a job; ``number`` is unique in the run."""
        job_class = self._class
        name = f"{job_class.name}-{job_class.queues[submission.queue_index]}-{submission.number}"
        uid = Uid(f"{number:08}-0000-4000-8000-000000000000")
        owner = OwnerReference(
            api_version="batch/v1", kind="Job", name=name, uid=uid, controller=True, block_owner_deletion=True
        )
        metadata = ObjectMeta(
            name=name,
            namespace=job_class.namespace,
            uid=uid,
            generation=1,
            creation_timestamp=at_epoch(now),
            finalizers=(RESOURCE_IN_USE,),
            owner_references=(owner,),
        )
        return Workload(metadata=metadata, spec=self._spec(submission))

    def _spec(self, submission: Submission) -> WorkloadSpec:
        """Return the spec, which equal jobs share."""
        maximum_s = self._class.maximum_execution_s
        if maximum_s is None and self._class.overestimate is not None:
            maximum_s = 1 + ceil(submission.runs_ms * self._class.overestimate / 1000)
        wanted = (submission.queue_index, submission.counts, maximum_s)
        spec = self._specs.get(wanted)
        if spec is None:
            spec = self._specs[wanted] = WorkloadSpec(
                pod_sets=self._pod_sets(submission.counts),
                queue_name=self._class.queues[submission.queue_index],
                priority=self._priority,
                priority_class_ref=self._source,
                maximum_execution_time_seconds=maximum_s,
            )
        return spec

    def _pod_sets(self, counts: Sequence[int]) -> tuple[PodSet, ...]:
        pod_sets = tuple(
            PodSet(
                name=shape.name,
                count=pods,
                min_count=msgspec.UNSET if shape.min_count is None else min(shape.min_count, pods),
                template=shape.template,
            )
            for shape, pods in zip(self._class.pod_sets, counts, strict=True)
        )
        if self._topology_gates is None:
            return pod_sets
        sources = [TopologySource("template.metadata.annotations")] * len(pod_sets)
        pod_sets = with_topology_requests(pod_sets, sources, self._topology_gates)
        requests = [shape.topology_request for shape in self._class.pod_sets]
        return tuple(
            pod_set if request is None else msgspec.structs.replace(pod_set, topology_request=request)
            for pod_set, request in zip(pod_sets, requests, strict=True)
        )
