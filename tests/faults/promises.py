"""The six promises of the product, checked on every stored state and on nothing else.

A finding states the violated promise, the object and the version.  The running pods of a job are read from
pods, reservations from workload statuses, and limits from the queues as they were created.

The quota of pods that have ended belongs to others: a workload of which such pods run again, or of which pods
of a lost node terminate beside their replacements, says so with a condition, and is counted as before.

As in Kueue, a deactivated workload holds no quota from then on, though its pods still
terminate; after any other eviction the workload holds quota until they have stopped.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, assert_never

from quorate.api.batch import Job
from quorate.api.core import Pod
from quorate.api.kueue import PODS_RUN_AGAIN, Admission, ClusterQueue, Cohort, Workload
from quorate.api.kueue.multikueue import MultiKueueCluster
from quorate.api.meta import Key, Uid, find_condition, is_true
from quorate.api.volcano import PodGroup
from quorate.queueing.cluster_queue import limits_of, usage_of
from quorate.queueing.conditions import (
    has_quota_reservation,
    is_admitted,
    is_evicted,
    is_finished,
    is_preempted,
)
from quorate.quota.amount import FlavorResource
from quorate.quota.audit import quantities
from quorate.quota.hierarchy import QuotaTree
from quorate.quota.tree import Node
from tests.faults.history import Step

# How often one workload may be preempted for another without another event: once, and again if
# the reservation of the preemptor was lost.  A preemption cycle exceeds any limit.
MAX_PREEMPTIONS: Final = 2


class Promises:
    """Check the promises on stored states in the order of their versions."""

    def __init__(
        self,
        cluster_queues: Iterable[ClusterQueue],
        cohorts: Iterable[Cohort],
        lost_pods: Iterable[Key] = (),  # stopped with their nodes
    ) -> None:
        self._tree = QuotaTree()
        for cohort in cohorts:
            self._tree.put_cohort(
                cohort.metadata.name, cohort.spec.parent_name, limits_of(cohort.spec.resource_groups)
            )
        for queue in cluster_queues:
            self._tree.put_queue(
                queue.metadata.name, queue.spec.cohort_name, limits_of(queue.spec.resource_groups)
            )
        self.workloads: dict[Key, Workload] = {}
        self.jobs: dict[Uid, Job] = {}
        self.pods: dict[Key, Pod] = {}
        # Pods that existed while their job was suspended: the job controller may stop them late.
        self._to_stop: set[Key] = {*lost_pods}
        self._before_restart: dict[Key, Mapping[FlavorResource, int]] = {}  # usage: see ``_note_restart``
        # Preemptions by (preemptor, victim) since the last event that was not a preemption.
        self._preemptions: Counter[tuple[str, Key]] = Counter()

    def step(self, step: Step) -> Iterator[str]:
        """Check the next stored state and yield its findings."""
        for finding in self._findings(step):
            yield f"{finding} (at version {step.version})"

    def _findings(self, step: Step) -> Iterator[str]:
        match step.object:
            case Workload() as workload:
                old = self.workloads.pop(workload.metadata.key, None)
                if not step.deleted:
                    self.workloads[workload.metadata.key] = workload
                yield from self._workload_changed(old, None if step.deleted else workload)
            case Job() as job:
                old_job = self.jobs.pop(job.metadata.uid, None)
                if old_job is None or step.deleted:
                    self._preemptions.clear()
                if not step.deleted:
                    self.jobs[job.metadata.uid] = job
                    yield from self._job_changed(old_job, job)
            case Pod() as pod:
                old_pod = self.pods.pop(pod.metadata.key, None)
                if step.deleted:
                    self._to_stop.discard(pod.metadata.key)
                else:
                    self.pods[pod.metadata.key] = pod
                    yield from self._pod_changed(old_pod, pod)
            case PodGroup() | MultiKueueCluster():
                raise AssertionError("gang_promises and cluster_runs check them")
            case _:
                assert_never(step.object)

    def outside_event(self) -> None:
        """Reset the preemption counts after an event that is not stored, such as a restart."""
        self._preemptions.clear()

    # Workloads.

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> Iterator[str]:
        held, holds = _admission(old), _admission(new)
        if new is not None and holds is not None:
            if held is None:
                # Later, pods that succeeded need not be reclaimable any more: the job runs with fewer pods.
                yield from self._gang_complete(new, holds)
                yield from self._single_reservation(new)
            elif _quota_held(held) != _quota_held(holds):
                yield f"promise 5: {new.metadata.key} got quota while it held quota"
                yield from self._gang_complete(new, holds)
        self._note_restart(old, new)
        if _usage(old) != _usage(new):
            yield from self._within_limits()
        if (
            old is not None
            and new is not None
            and has_quota_reservation(old)
            and not has_quota_reservation(new)
        ):
            yield from self._job_stopped(new)
        yield from self._preempted(old, new)

    def _note_restart(self, old: Workload | None, new: Workload | None) -> None:
        """Remember what a workload used before its pods run again of which others may have the quota."""
        if old is None or new is None or not is_true(new.status.conditions, PODS_RUN_AGAIN):
            for workload in (old, new):
                self._before_restart.pop(Key("", "") if workload is None else workload.metadata.key, None)
        elif (admission := _admission(old)) is not None:
            self._before_restart.setdefault(new.metadata.key, usage_of(old, admission))

    def _gang_complete(self, workload: Workload, admission: Admission) -> Iterator[str]:
        wanted = {pod_set.name: pod_set for pod_set in workload.spec.pod_sets}
        given = {each.name: each.count for each in admission.pod_set_assignments}
        if wanted.keys() != given.keys():
            yield f"promise 2: {workload.metadata.key} holds quota for {sorted(given)} of {sorted(wanted)}"
            return
        for name, pod_set in wanted.items():
            most = pod_set.count
            left = most - _done(workload, name)  # a restarted job does not repeat succeeded pods
            least = min(pod_set.min_count if isinstance(pod_set.min_count, int) else most, left)
            count = given[name]
            if count is None or not least <= count <= most:
                yield (
                    f"promise 2: {workload.metadata.key} holds quota for {count} pods of {name}, "
                    f"it requests {least} to {most}"
                )

    def _single_reservation(self, workload: Workload) -> Iterator[str]:
        owner = workload.metadata.job_owner
        for other in self.workloads.values():
            other_owner = other.metadata.controller
            if other is workload or owner is None or other_owner is None or other_owner.uid != owner.uid:
                continue
            if _admission(other) is not None:
                keys = f"{other.metadata.key} and {workload.metadata.key}"
                yield f"promise 5: {keys} both hold quota for job {owner.name}"

    def _within_limits(self) -> Iterator[str]:
        usage = self.usage()
        for node in (*self._tree.queues.values(), *self._tree.cohorts.values()):
            for pair in node.limits.keys() | {pair for used in usage.values() for pair in used}:
                got = quantities(node, pair, usage)
                if got.available < 0:
                    yield (
                        f"promise 1: {node.name} uses {got.usage} of {pair.resource} on {pair.flavor}, "
                        f"{-got.available} above its limit"
                    )

    def usage(self) -> Mapping[Node, dict[FlavorResource, int]]:
        """Return the quota usage of each cluster queue by flavor and resource."""
        usage: dict[Node, dict[FlavorResource, int]] = {node: {} for node in self._tree.queues.values()}
        for workload in self.workloads.values():
            admission = _admission(workload)
            if admission is None:
                continue
            of_queue = usage[self._tree.queues[admission.cluster_queue]]
            used = self._before_restart.get(workload.metadata.key) or usage_of(workload, admission)
            for pair, amount in used.items():
                of_queue[pair] = of_queue.get(pair, 0) + amount
        return usage

    def _job_stopped(self, workload: Workload) -> Iterator[str]:
        """Check that the job has no active pods by its status; uncounted pods are unknown."""
        owner = workload.metadata.job_owner
        job = self.jobs.get(owner.uid) if owner is not None else None
        if job is not None and (not job.spec.suspend or job.status.active):
            yield (
                f"promise 3: {workload.metadata.key} releases its quota, its job has "
                f"{job.status.active} active pods and suspend={job.spec.suspend}"
            )

    def _preempted(self, old: Workload | None, new: Workload | None) -> Iterator[str]:
        if old is None or new is None or is_finished(new) != is_finished(old):
            self._preemptions.clear()
            return
        if is_evicted(new) and not is_evicted(old):
            if not is_preempted(new):
                self._preemptions.clear()
                return
            evicted = find_condition(new.status.conditions, "Evicted")
            assert evicted is not None
            pair = (evicted.message, new.metadata.key)  # the message contains the uid of the preemptor
            self._preemptions[pair] += 1
            if self._preemptions[pair] > MAX_PREEMPTIONS:
                yield f"promise 4: {new.metadata.key} is preempted repeatedly: {evicted.message}"

    # Jobs and pods.

    def _job_changed(self, old: Job | None, new: Job) -> Iterator[str]:
        if new.spec.suspend and old is not None and not old.spec.suspend:
            self._to_stop |= {key for key, pod in self.pods.items() if _owned_by(pod, new)}
        started = not new.spec.suspend and (old is None or old.spec.suspend)
        if not _is_managed(new):
            if new.spec.suspend:
                yield f"promise 6: {new.metadata.key}, which is unmanaged, is suspended"
        elif started and self._admitted(new.metadata.uid) is None:
            yield f"promise 5: {new.metadata.key} starts without admission"
        elif started:
            yield from self._starts_with_admitted_pods(new)

    def _starts_with_admitted_pods(self, job: Job) -> Iterator[str]:
        workload = self._admitted(job.metadata.uid)
        if workload is None or workload.status.admission is None:
            yield f"promise 5: {job.metadata.key} starts and its workload has no admission"
            return
        (assigned,) = workload.status.admission.pod_set_assignments
        if assigned.count is None or job.spec.parallelism - _done(workload, assigned.name) > assigned.count:
            yield (
                f"promise 2: {job.metadata.key} starts with {job.spec.parallelism} pods, "
                f"it holds quota for {assigned.count}"
            )

    def _pod_changed(self, old: Pod | None, new: Pod) -> Iterator[str]:
        owner = new.metadata.controller
        job = self.jobs.get(owner.uid) if owner is not None else None
        if job is None or job.metadata.deletion_timestamp is not None:
            return
        if job.spec.suspend:
            self._to_stop.add(new.metadata.key)
        stopped = old is not None and _runs(old) and new.metadata.deletion_timestamp is not None
        if stopped and new.metadata.key not in self._to_stop:
            yield f"promise 6: {new.metadata.key} is stopped while its job is not suspended"
        if old is None and _is_managed(job) and not job.spec.suspend and not self._admitted(job.metadata.uid):
            yield f"promise 3: {new.metadata.key} is created without a reservation"

    def _admitted(self, job: Uid) -> Workload | None:
        return next(
            (each for each in self._workloads_of(job) if is_admitted(each) and not is_finished(each)), None
        )

    def _workloads_of(self, job: Uid) -> Iterator[Workload]:
        for workload in self.workloads.values():
            owner = workload.metadata.job_owner
            if owner is not None and owner.uid == job:
                yield workload


def _admission(workload: Workload | None) -> Admission | None:
    """Return the admission that holds quota; None for a finished or deactivated workload."""
    if (
        workload is None
        or is_finished(workload)
        or not workload.spec.active
        or not has_quota_reservation(workload)
    ):
        return None
    return workload.status.admission


def _usage(workload: Workload | None) -> tuple[str, Mapping[FlavorResource, int]] | None:
    """Return the cluster queue and the quota usage of a reservation; None without one."""
    admission = _admission(workload)
    if workload is None or admission is None:
        return None
    return admission.cluster_queue, usage_of(workload, admission)


def _done(workload: Workload, pod_set: str) -> int:
    return sum(each.count for each in workload.status.reclaimable_pods if each.name == pod_set)


def _quota_held(admission: Admission) -> tuple[object, ...]:
    sets = tuple((each.name, each.count, each.flavors) for each in admission.pod_set_assignments)
    return (admission.cluster_queue, sets)


def _owned_by(pod: Pod, job: Job) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.uid == job.metadata.uid


def _is_managed(job: Job) -> bool:
    return "kueue.x-k8s.io/queue-name" in job.metadata.labels


def _runs(pod: Pod) -> bool:
    ended = pod.status.phase in ("Succeeded", "Failed")
    return not ended and pod.metadata.deletion_timestamp is None
