"""The mutable model of the queueing core: what is queued, who holds quota, what may be tried.

It is told the newest form of each object, in any order and as often as one likes, and derives the rest.
Everything durable is in the objects; the one thing known only here are reservations that a cycle decided
and that are not yet seen written ("assumed").  A cluster queue counts quota for every workload that
reserves, evicted ones included, until the reservation is released, finished, deactivated or deleted.
"""

from collections.abc import Mapping

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.core import LimitRange, RuntimeClass
from quorate.api.kueue import (
    Admission,
    AdmissionCheck,
    ClusterQueue,
    ClusterQueueStatus,
    Cohort,
    CohortSpec,
    CohortStatus,
    LocalQueue,
    LocalQueueStatus,
    ResourceFlavor,
    Workload,
)
from quorate.api.meta import Key, epoch, is_older
from quorate.api.quantity import NANOS
from quorate.queueing import conditions as c
from quorate.queueing import queue_status
from quorate.queueing.cluster_queue import (
    ClusterQueueState,
    Reservation,
    flavor_groups,
    inactive_reasons,
    is_terminating,
    limits_of,
    spec_findings,
    usage_of,
    weight_of,
)
from quorate.queueing.consumed_usage import ConsumedUsage
from quorate.queueing.ledger import Ledger
from quorate.queueing.lifecycle.transition import ClusterQueueView, LocalQueueView, QueueView
from quorate.queueing.pending.ordering import may_queue, queue_order
from quorate.queueing.pods_ready import queue_overrides
from quorate.quota.tree import Node


class PendingKeys(msgspec.Struct, frozen=True):
    """The pending workloads of a cluster queue, each list in queue order."""

    active: tuple[Key, ...]
    inadmissible: tuple[Key, ...]


class State(Ledger):
    """See the module.  Nothing here decides: ``queueing.cycle`` does."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.flavors: dict[str, ResourceFlavor] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self._cohorts: dict[str, CohortSpec] = {}  # exactly the cohorts that are declared

    # What queues and requests are made of.

    def put_flavor(self, flavor: ResourceFlavor) -> None:
        name = flavor.metadata.name
        old = self.flavors.get(name)
        self.flavors[name] = flavor
        if old is None or old.spec != flavor.spec:
            self._flavor_changed(name)

    def remove_flavor(self, name: str) -> None:
        if self.flavors.pop(name, None) is not None:
            self._flavor_changed(name)

    def _flavor_changed(self, name: str) -> None:
        for queue in self.cluster_queues.values():
            if any(name in group.flavors for group in queue.groups.values()):
                self._set_inactivity(queue)
                self.note_external_change(queue)

    def put_admission_check(self, check: AdmissionCheck) -> None:
        self.checks[check.metadata.name] = check
        self._check_changed(check.metadata.name)

    def remove_admission_check(self, name: str) -> None:
        if self.checks.pop(name, None) is not None:
            self._check_changed(name)

    def _check_changed(self, name: str) -> None:
        for queue in self.cluster_queues.values():
            rules = queue.spec.admission_checks_strategy.admission_checks
            if any(rule.name == name for rule in rules):
                self._set_inactivity(queue)

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        if self.namespaces.get(name) == labels:
            return
        self.namespaces[name] = labels
        for queue in self.cluster_queues.values():
            if name in queue.matching_namespaces(self.namespaces):
                self.note_external_change(queue)

    def remove_namespace(self, name: str) -> None:
        self.namespaces.pop(name, None)

    def put_runtime_class(self, runtime_class: RuntimeClass) -> None:
        if self.shapes.put_runtime_class(runtime_class):
            self._judge_anew("")

    def remove_runtime_class(self, name: str) -> None:
        if self.shapes.remove_runtime_class(name):
            self._judge_anew("")

    def put_limit_range(self, limit_range: LimitRange) -> None:
        if self.shapes.put_limit_range(limit_range):
            self._judge_anew(limit_range.metadata.namespace)

    def remove_limit_range(self, key: Key) -> None:
        if self.shapes.remove_limit_range(key):
            self._judge_anew(key.namespace)

    def _judge_anew(self, namespace: str) -> None:
        """Judge the pending workloads of ``namespace`` (empty: of all) by what they ask for now."""
        for entry in list(self.entries.values()):
            if namespace in ("", entry.key.namespace):
                self.reevaluate(entry)

    # Queues and cohorts.

    def put_cluster_queue(self, cluster_queue: ClusterQueue) -> None:
        name = cluster_queue.metadata.name
        queue = self.cluster_queues.get(name)
        if queue is not None:
            old, queue.object = queue.object, cluster_queue
            if old.spec == cluster_queue.spec and is_terminating(old) == is_terminating(cluster_queue):
                return
        self.flush_requeues()  # of the old tree: only the new one is to be tried again
        node = self.quota.put_queue(
            name, cluster_queue.spec.cohort_name, limits_of(cluster_queue.spec.resource_groups)
        )
        node.weight = weight_of(cluster_queue.spec.fair_sharing)
        if queue is None:
            queue = self._add_cluster_queue(cluster_queue, node)
        queue.groups = flavor_groups(cluster_queue.spec)
        queue.findings = spec_findings(cluster_queue.spec)
        turns = self.configuration.admission_fair_sharing is not None and queue.uses_admission_fair_sharing
        queue.pending.set_consumed_usage(self.consumed_usage if turns else None)
        if queue.is_strict:
            queue.pending.sticky = None
        self._set_inactivity(queue)
        self.note_root_change(node)
        self.note_quota_change(node)

    def _add_cluster_queue(self, cluster_queue: ClusterQueue, node: Node) -> ClusterQueueState:
        name = cluster_queue.metadata.name
        self.cluster_queues[name] = queue = ClusterQueueState(cluster_queue, node)
        for reservation in self.reservations.values():
            if reservation.admission.cluster_queue == name:
                self.count_reservation(queue, reservation)
        for local_queue in self.local_queues.values():
            if local_queue.cluster_queue == name:
                self.enqueue_all(local_queue)
        return queue

    def remove_cluster_queue(self, name: str) -> None:
        queue = self.cluster_queues.get(name)
        if queue is None:
            return
        self.flush_requeues()
        for local_queue in self.local_queues.values():
            if local_queue.cluster_queue == name:
                self.dequeue_all(local_queue)
        for reservation in list(queue.reservations.values()):
            self.uncount_reservation(queue, reservation)
        self.note_quota_change(queue.node)
        self.flush_requeues()
        self.dirty_trees.pop(queue.node, None)  # if it was a tree of its own
        del self.cluster_queues[name]
        self.quota.remove_queue(name)

    def put_cohort(self, cohort: Cohort) -> None:
        name = cohort.metadata.name
        if self._cohorts.get(name) == cohort.spec:
            return
        self._cohorts[name] = cohort.spec
        self.flush_requeues()
        known, looped = self.quota.cohorts.get(name), self.quota.looped
        root = known.root if known is not None else None
        node = self.quota.put_cohort(name, cohort.spec.parent_name, limits_of(cohort.spec.resource_groups))
        node.weight = weight_of(cohort.spec.fair_sharing)
        self._cohort_changed(node, root, looped)

    def remove_cohort(self, name: str) -> None:
        if self._cohorts.pop(name, None) is None:
            return
        self.flush_requeues()
        node, looped = self.quota.cohorts[name], self.quota.looped
        root = node.root
        self.quota.remove_cohort(name)
        node.weight = weight_of(None)
        self._cohort_changed(node, root, looped)

    def _cohort_changed(self, node: Node, old_root: Node | None, looped: frozenset[Node]) -> None:
        """``node`` was declared anew; before, ``old_root`` was its root, and ``looped`` were on loops."""
        if node.root is not old_root:
            self.note_root_change(node)
        self.note_quota_change(node)
        for other in looped ^ self.quota.looped:
            self.note_root_change(other)
            self.note_quota_change(other)

    def put_local_queue(self, local_queue: LocalQueue) -> None:
        queue = self.local_queue(local_queue.metadata.key)
        before = queue.is_running, queue.cluster_queue
        queue.object = local_queue
        if queue.consumed_usage.sampled_at is None:
            _restore(queue.consumed_usage, local_queue)
        if before != (queue.is_running, queue.cluster_queue):
            self.dequeue_all(queue)
            self.enqueue_all(queue)

    def remove_local_queue(self, key: Key) -> None:
        queue = self.local_queues.get(key)
        if queue is None:
            return
        self.dequeue_all(queue)
        queue.object = None
        self.drop_if_unused(key)

    def _set_inactivity(self, queue: ClusterQueueState) -> None:
        """Work out anew what keeps ``queue`` from taking work; wake it if nothing does any more."""
        was_inactive = bool(queue.inactive_reasons)
        queue.inactive_reasons = tuple(
            inactive_reasons(queue.object, queue.findings, self.flavors, self.checks)
        )
        if was_inactive and not queue.inactive_reasons:
            self.note_external_change(queue)

    # Workloads.

    def put_workload(self, workload: Workload, now: float) -> None:
        """Take in the newest object; an older one than is known changes nothing."""
        self._now = max(self._now, now)
        key = workload.metadata.key
        known = self._known(key)
        if known is not None and known.metadata.uid != workload.metadata.uid:
            self.remove_workload(key)
        elif known is not None and is_older(workload.metadata, known.metadata):
            return
        self.expected_evictions.discard(workload.metadata.uid)  # evicted as asked, or to be asked again
        admission = workload.status.admission
        if holds_quota(workload) and admission is not None:
            self._put_reserving(workload, admission)
        elif may_queue(workload, self.configuration.gates):
            self._put_pending(workload)
        else:
            self.remove_workload(key)
        if known is None or known.metadata.generation != workload.metadata.generation:
            self._note_news(key)

    def _note_news(self, key: Key) -> None:
        """The workload just came, or its spec changed."""
        entry, reservation = self.entries.get(key), self.reservations.get(key)
        name = reservation.admission.cluster_queue if reservation is not None else ""
        queue = self.cluster_queues.get(entry.cluster_queue if entry is not None else name)
        if queue is not None:
            self.preemption_history.forget(queue.node.root)

    def remove_workload(self, key: Key) -> None:
        """Forget a workload that is gone or finished, or that may not run."""
        if key in self.entries:
            self.drop_entry(self.entries[key])
        if key in self.reservations:
            self.expected_evictions.discard(self.reservations[key].workload.metadata.uid)
            self.release(self.reservations[key])

    def forget(self, key: Key) -> None:
        """Undo what a cycle decided about a workload: it could not be written.

        A reservation is given back and the workload tried again at once; a preemption is asked for again.
        """
        reservation = self.reservations.get(key)
        if reservation is None:
            return  # it is gone meanwhile
        self.expected_evictions.discard(reservation.workload.metadata.uid)
        if reservation.assumed is not None:
            self.release(reservation)
            self._put_pending(reservation.assumed.workload)
        elif (queue := self.cluster_queues.get(reservation.admission.cluster_queue)) is not None:
            self.preemption_history.forget(queue.node.root)
            self.mark_dirty(queue.node)

    def _known(self, key: Key) -> Workload | None:
        entry, reservation = self.entries.get(key), self.reservations.get(key)
        if entry is None and reservation is not None:
            entry = reservation.assumed
        if entry is not None:
            return entry.workload
        return reservation.workload if reservation is not None else None

    def _put_reserving(self, workload: Workload, admission: Admission) -> None:
        key = workload.metadata.key
        if key in self.entries:
            self.drop_entry(self.entries[key])
        order = queue_order(workload, self.configuration)
        new = Reservation(workload, admission, usage_of(workload, admission), order)
        old = self.reservations.get(key)
        if old is None:
            self.add_reservation(new)
        else:
            self.replace_reservation(old, new)
        if new.admitted:
            self.local_queues[new.local_queue].consumed_usage.settle(key)
        queue = self.cluster_queues.get(admission.cluster_queue)
        if old is None or queue is None:
            return
        if _frees(old, new) or old.priority != new.priority:
            self.note_external_change(queue)
        elif old.evicted != new.evicted or old.wanted:
            self.mark_dirty(queue.node)

    def _put_pending(self, workload: Workload) -> None:
        key = workload.metadata.key
        reservation = self.reservations.get(key)
        if reservation is not None and reservation.assumed is not None:
            reservation.assumed.workload = workload  # to pend again with, should the write fail
            return
        if reservation is not None:
            self.release(reservation)
        if key in self.entries:
            self.replace_entry(self.entries[key], workload)
        else:
            self.add_entry(workload)

    # What others want to know.

    def cluster_queue_status(self, name: str, now: float) -> ClusterQueueStatus:
        shares = self.configuration.fair_sharing is not None
        return queue_status.cluster_queue_status(self.cluster_queues[name], now, shares=shares)

    def cohort_status(self, name: str) -> CohortStatus:
        shares = self.configuration.fair_sharing is not None
        return queue_status.cohort_status(self.quota.cohorts[name], shares=shares)

    def local_queue_status(self, key: Key, now: float) -> LocalQueueStatus:
        queue = self.local_queues[key]
        cluster_queue = self.cluster_queues.get(queue.cluster_queue)
        turns = cluster_queue is not None and cluster_queue.pending.consumed_usage is not None
        return queue_status.local_queue_status(queue, cluster_queue, now, uses_admission_fair_sharing=turns)

    def pending(self, cluster_queue: str) -> PendingKeys:
        """Who waits in ``cluster_queue``, in order."""
        self.flush_requeues()
        pending = self.cluster_queues[cluster_queue].pending
        return PendingKeys(
            tuple(entry.key for entry in pending.active()),
            tuple(entry.key for entry in pending.inadmissible()),
        )

    def queue_view(self, workload: Workload) -> QueueView:
        """What ``lifecycle.decide_workload`` needs to know of the queues of ``workload``."""
        key = Key(workload.metadata.namespace, workload.spec.queue_name)
        known = self.local_queues.get(key)
        local_queue = known.object if known is not None else None
        admission = workload.status.admission
        if local_queue is None:
            local_view = LocalQueueView(key.name, found=False)
            name = admission.cluster_queue if admission is not None else ""
        else:
            local_view = LocalQueueView(key.name, found=True, stop_policy=local_queue.spec.stop_policy)
            name = admission.cluster_queue if admission is not None else local_queue.spec.cluster_queue
        return QueueView(local_view, self._cluster_queue_view(name, admission) if name else None)

    def _cluster_queue_view(self, name: str, admission: Admission | None) -> ClusterQueueView:
        queue = self.cluster_queues.get(name)
        if queue is None:
            return ClusterQueueView(name, found=False)
        return ClusterQueueView(
            name,
            found=True,
            terminating=is_terminating(queue.object),
            active=self.is_active(queue),
            stop_policy=queue.spec.stop_policy,
            checks=queue.checks_for(admission),
            overrides=queue_overrides(queue.spec, queue.object.metadata.annotations),
        )


def holds_quota(workload: Workload) -> bool:
    return c.has_quota_reservation(workload) and workload.spec.active and not c.is_finished(workload)


def _restore(consumed_usage: ConsumedUsage, local_queue: LocalQueue) -> None:
    """Go on from what an earlier process stored in the status."""
    sharing = local_queue.status.fair_sharing
    stored = sharing.admission_fair_sharing_status if sharing is not None else None
    if stored is not None and stored.last_update is not None:
        consumed_usage.sampled_at = epoch(stored.last_update)
        consumed_usage.consumed = {
            resource: quantity.nanos / NANOS for resource, quantity in stored.consumed_resources.items()
        }


def _frees(old: Reservation, new: Reservation) -> bool:
    return any(amount > new.usage.get(pair, 0) for pair, amount in old.usage.items())
