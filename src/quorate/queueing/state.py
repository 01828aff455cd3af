"""The queueing model: applies API objects to the ledger and derives statuses and views from it.

Callers pass the newest form of each object, in any order and any number of times.  Everything durable is in
the objects; only *assumed* reservations, which a cycle decided and which are not yet observed as written, are
known here alone.  A cluster queue counts the usage of every workload with a quota reservation, evicted
workloads included, until the reservation is released or the workload finishes, is deactivated or deleted.
"""

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.kueue import Admission, ClusterQueueStatus, CohortStatus, LocalQueueStatus, Workload
from quorate.api.meta import Key, Uid, is_older
from quorate.queueing import conditions as c
from quorate.queueing import queue_status
from quorate.queueing.cluster_queue import Reservation, counts_quota, usage_of
from quorate.queueing.inactive_reasons import is_terminating
from quorate.queueing.inadmissible_reasons import Misconfiguration
from quorate.queueing.ledger import Ledger
from quorate.queueing.lifecycle.transition import ClusterQueueView, LocalQueueView, QueueView
from quorate.queueing.outside_quota import ANNOTATION, recorded_use
from quorate.queueing.pending.ordering import may_queue, queue_order
from quorate.queueing.pending.second_pass_queue import second_pass_need
from quorate.queueing.planning.bounds import LearnedBounds
from quorate.queueing.pods_ready import queue_overrides
from quorate.queueing.queue_objects import QueueObjects


class PendingKeys(msgspec.Struct, frozen=True):
    """The pending workloads of a cluster queue, each list in queue order."""

    active: tuple[Key, ...]
    inadmissible: tuple[Key, ...]


class State(QueueObjects):
    """Applies workloads and all other objects to the ledger; ``scheduling.cycle`` decides about them."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        # What can be read of workloads with quota that cannot be used: exactly the unreadable reservations.
        self.unreadable: dict[Key, Workload] = {}

    def replace_with(self, fresh: "State") -> None:
        """Take over the model of ``fresh``, which was built from the same objects, in one step.

        What no object tells is kept: assumed reservations, the evictions that were decided, the preemption
        history, and the samples of consumed usage.  Pending workloads are evaluated anew.
        """
        old, ledger = self.ledger, fresh.ledger
        for workload in self.unreadable.values():
            fresh.put_unreadable(workload)
        ledger.topology.flavors = fresh.flavors
        ledger.topology.take_nodes(old.topology)
        ledger.node_changed()
        self.ledger, self.flavors, self.checks, self._cohorts = (
            ledger,
            fresh.flavors,
            fresh.checks,
            fresh._cohorts,
        )
        self.nodes.ledger = ledger
        self.request_updates.take_over(fresh.request_updates)
        ledger.now = max(ledger.now, old.now)
        ledger.bound_inputs.learned = old.bound_inputs.learned
        ledger.second_pass.take_over(old.second_pass)
        for key, queue in old.local_queues.items():
            if key in ledger.local_queues:
                ledger.local_queues[key].consumed_usage = queue.consumed_usage
        _assume_again(old, ledger)
        for name, queue_state in ledger.cluster_queues.items():
            if name in old.cluster_queues:
                root, old_root = queue_state.node.root, old.cluster_queues[name].node.root
                ledger.preemption_history.take_over(root, old.preemption_history, old_root)
        if old.expected_evictions:
            ledger.expected_evictions |= old.expected_evictions & {
                reservation.workload.metadata.uid
                for reservation in ledger.reservations.values()
                if not reservation.evicted
            }

    def set_learned_bounds(self, bounds: LearnedBounds) -> None:
        """Take over until when workloads run at most, as learned from finished ones of their kinds."""
        ledger = self.ledger
        if ledger.bound_inputs.learn(bounds):
            for queue in ledger.cluster_queues.values():
                if queue.backfills:
                    ledger.schedule_requeue(queue.node)

    # Workloads.

    def put_workload(self, workload: Workload, now: float) -> None:
        """Apply the newest object of a workload; an object older than the known one changes nothing."""
        ledger = self.ledger
        ledger.now = max(ledger.now, now)
        if ledger.aging:  # also where no cycle runs: a follower, or a dashboard
            ledger.age(now)
        key = workload.metadata.key
        self.unreadable.pop(key, None)
        former = self._known(key)
        if former is not None and former.metadata.uid != workload.metadata.uid:
            self.remove_workload(key)
        elif former is not None and is_older(workload.metadata, former.metadata):
            return
        ledger.expected_evictions.discard(workload.metadata.uid)  # observed, or to be issued again
        admission = workload.status.admission
        if admission is not None and counts_quota(workload):
            self._put_reserving(key, workload, admission)
        elif may_queue(workload, self.configuration.gates):
            self._put_pending(key, workload)
        else:
            self.remove_workload(key)
        if workload.metadata.uid in ledger.refused_evictions:
            self._end_refusal(key, workload.metadata.uid)
        if ANNOTATION in workload.metadata.annotations or key in ledger.outside:
            ledger.put_outside(key, recorded_use(workload))
        if former is None or former.metadata.generation != workload.metadata.generation:
            self._note_spec_change(key)

    def _end_refusal(self, key: Key, uid: Uid) -> None:
        """Forget a refused eviction once it is stored; its preemptor then waits for the pods."""
        ledger, reservation = self.ledger, self.ledger.reservations.get(key)
        if reservation is None:
            ledger.refused_evictions.discard(uid)
        elif reservation.evicted:
            ledger.refused_evictions.discard(uid)
            if (queue := ledger.cluster_queues.get(reservation.admission.cluster_queue)) is not None:
                ledger.mark_dirty(queue.node)

    def _note_spec_change(self, key: Key) -> None:
        """Clear the preemption history of the tree that a new or changed workload belongs to."""
        ledger = self.ledger
        entry, reservation = ledger.entries.get(key), ledger.reservations.get(key)
        name = reservation.admission.cluster_queue if reservation is not None else ""
        queue = ledger.cluster_queues.get(entry.cluster_queue if entry is not None else name)
        if queue is not None:
            ledger.preemption_history.clear(queue.node.root)

    def remove_workload(self, key: Key) -> None:
        """Remove a workload that is deleted or finished, or that may neither queue nor hold quota."""
        ledger = self.ledger
        self.unreadable.pop(key, None)
        if key in ledger.outside:
            ledger.put_outside(key, None)
        if key in ledger.entries:
            ledger.remove_entry(ledger.entries[key])
        if key in ledger.reservations:
            uid = ledger.reservations[key].workload.metadata.uid
            ledger.expected_evictions.discard(uid)
            ledger.refused_evictions.discard(uid)
            ledger.release(ledger.reservations[key])

    def put_unreadable(self, workload: Workload) -> None:
        """Reserve the admission of a workload of which only a part can be read; no preemption selects it."""
        admission, key = workload.status.admission, workload.metadata.key
        assert admission is not None, f"{key} has no reservation"
        self.remove_workload(key)
        self.unreadable[key] = workload
        self._put_reserving(key, workload, admission)
        self.ledger.reservations[key].is_readable = False

    def remove_unreadable(self, key: Key) -> None:
        """Release the quota of a workload that is deleted, if it was unreadable."""
        if key in self.unreadable:
            self.remove_workload(key)

    def forget(self, key: Key) -> None:
        """Undo the decision of a cycle about a workload: its write failed.

        An assumed reservation is released and the workload tried again at once; a preemption may be issued
        again.
        """
        ledger = self.ledger
        reservation = ledger.reservations.get(key)
        if reservation is None:
            return  # the workload was removed meanwhile
        ledger.expected_evictions.discard(reservation.workload.metadata.uid)
        if reservation.replaced_admission is not None:
            stored, reservation.replaced_admission = reservation.replaced_admission, None
            self._put_reserving(key, reservation.workload, stored)
        if reservation.assumed is not None:
            ledger.release(reservation)
            self._put_pending(key, reservation.assumed.workload)
        elif (queue := ledger.cluster_queues.get(reservation.admission.cluster_queue)) is not None:
            ledger.refused_evictions.add(reservation.workload.metadata.uid)
            ledger.preemption_history.clear(queue.node.root)
            ledger.mark_dirty(queue.node)

    def explain_later(self, key: Key) -> None:
        """Report the next outcome of a pending workload, which has none now, also if it is not evaluated."""
        entry = self.ledger.entries.get(key)
        queue = None if entry is None else self.ledger.cluster_queues.get(entry.cluster_queue)
        if entry is not None and queue is not None:
            queue.pending.explain_later(entry)

    def _known(self, key: Key) -> Workload | None:
        entry, reservation = self.ledger.entries.get(key), self.ledger.reservations.get(key)
        if entry is None and reservation is not None:
            entry = reservation.assumed
        if entry is not None:
            return entry.workload
        return reservation.workload if reservation is not None else None

    def _put_reserving(self, key: Key, workload: Workload, admission: Admission) -> None:
        ledger = self.ledger
        if key in ledger.entries:
            ledger.remove_entry(ledger.entries[key])
        order = queue_order(workload, self.configuration)
        usage = usage_of(workload, admission, self.configuration.gates)
        new = Reservation(workload, admission, usage, order)
        old = ledger.reservations.get(key)
        if old is not None and old.replaced_admission == admission and not new.evicted:
            # Another write was observed before that of the second pass, which may still take effect.
            new.admission, new.replaced_admission = old.admission, admission
        if old is None:
            ledger.add_reservation(new)
        else:
            ledger.update_reservation(old, new)
        anchored = self.configuration.gates.admission_fair_sharing_anchor_at_quota_reservation
        if new.admitted or (anchored and workload.spec.active):
            ledger.local_queues[new.local_queue].consumed_usage.settle_penalty(key)
        queue = ledger.cluster_queues.get(admission.cluster_queue)
        needs_places = workload.status.unhealthy_nodes or c.awaits_places(admission)
        if needs_places and new.replaced_admission is None:
            topology = ledger.topology
            need = second_pass_need(
                workload,
                admission,
                gives_places=topology.is_on,
                replaces_hosts=topology.gates.detect_node_failures,
            )
            flavors = {
                name for assignment in admission.pod_set_assignments for name in assignment.flavors.values()
            }
            # Without a topology a host may have failed because other pods took the place.
            may_recover = any(map(topology.is_topology_flavor, flavors))
            ledger.second_pass.put(key, need, may_recover=may_recover)
        else:
            ledger.second_pass.remove(key)
        if old is None or queue is None:
            return
        if _frees_quota(old, new) or old.priority != new.priority:
            ledger.note_external_change(queue)
        elif old.evicted != new.evicted or old.is_preemption_target:
            ledger.mark_dirty(queue.node)

    def _put_pending(self, key: Key, workload: Workload) -> None:
        ledger = self.ledger
        reservation = ledger.reservations.get(key)
        if reservation is not None and reservation.assumed is not None:
            reservation.assumed.workload = workload  # becomes pending again if the write fails
            return
        if reservation is not None:
            ledger.release(reservation)
        if key in ledger.entries:
            ledger.update_entry(ledger.entries[key], workload)
        else:
            ledger.add_entry(workload)

    # Statuses and views.

    def cluster_queue_status(self, name: str, now: float) -> ClusterQueueStatus:
        shares = self.configuration.fair_sharing is not None
        return queue_status.cluster_queue_status(self.ledger.cluster_queues[name], now, shares=shares)

    def cohort_status(self, name: str) -> CohortStatus:
        shares = self.configuration.fair_sharing is not None
        return queue_status.cohort_status(self.ledger.cohorts[name], shares=shares)

    def local_queue_status(self, key: Key, now: float) -> LocalQueueStatus:
        queue = self.ledger.local_queues[key]
        cluster_queue = self.ledger.cluster_queues.get(queue.cluster_queue)
        by_usage = self.configuration.admission_fair_sharing is not None
        return queue_status.local_queue_status(
            queue, cluster_queue, now, uses_admission_fair_sharing=by_usage
        )

    def pending(self, cluster_queue: str) -> PendingKeys:
        """Return the pending workloads of ``cluster_queue`` in queue order."""
        self.ledger.flush_requeues()
        pending = self.ledger.cluster_queues[cluster_queue].pending
        return PendingKeys(
            tuple(entry.key for entry in pending.active()),
            tuple(entry.key for entry in pending.inadmissible()),
        )

    def queue_view(self, workload: Workload) -> QueueView:
        """Return what ``lifecycle.rules.decide_workload`` needs to know of the queues of ``workload``."""
        key = Key(workload.metadata.namespace, workload.spec.queue_name)
        stored = self.ledger.local_queues.get(key)
        admission = workload.status.admission
        if stored is None or stored.object is None:
            local_view = LocalQueueView(key.name, found=False)
            name = ""
        else:
            local_view = LocalQueueView(
                key.name,
                found=True,
                terminating=stored.is_terminating,
                stop_policy=stored.object.spec.stop_policy,
            )
            name = stored.cluster_queue
        if admission is not None:
            name = admission.cluster_queue
        cluster_view = self._cluster_queue_view(name, workload) if name else None
        return QueueView(local_view, cluster_view, self._misconfiguration(workload.metadata.key, name))

    def _misconfiguration(self, key: Key, cluster_queue: str) -> Misconfiguration | None:
        """Return what is wrong with a pending workload; None if the admission cycle reports that."""
        if self.configuration.scheduling.enabled:
            return None
        entry, queue = self.ledger.entries.get(key), self.ledger.cluster_queues.get(cluster_queue)
        return None if entry is None or queue is None else self.ledger.misconfiguration(queue, entry)

    def replaced_by(self, key: Key) -> Workload | None:
        """Return the admitted workload that replaces the workload ``key`` as a slice."""
        ledger = self.ledger
        replacement = ledger.replacement_slices.get(key)
        reservation = None if replacement is None else ledger.reservations.get(replacement)
        if reservation is None or not reservation.admitted or reservation.assumed is not None:
            return None
        return reservation.workload

    def _cluster_queue_view(self, name: str, workload: Workload) -> ClusterQueueView:
        queue = self.ledger.cluster_queues.get(name)
        if queue is None:
            return ClusterQueueView(name, found=False)
        return ClusterQueueView(
            name,
            found=True,
            terminating=is_terminating(queue.object),
            active=self.ledger.is_active(queue),
            stop_policy=queue.spec.stop_policy,
            checks=queue.checks_for(
                workload.status.admission,
                [check.name for check in workload.status.admission_checks if check.retry_count],
            ),
            planned_start_rules=queue.planned_start_rules,
            overrides=queue_overrides(queue.spec, queue.annotations),
        )


def _frees_quota(old: Reservation, new: Reservation) -> bool:
    for pair, amount in old.usage.items():  # noqa: SIM110  called for each admission, where any() costs more
        if amount > new.usage.get(pair, 0):
            return True
    return False


def _assume_again(old: Ledger, ledger: Ledger) -> None:
    """Assume the reservations and places of ``old`` that were decided and are not known to be written."""
    for reservation in old.reservations.values():
        entry, name = ledger.entries.get(reservation.key), reservation.admission.cluster_queue
        if reservation.assumed is not None and entry is not None and name in ledger.cluster_queues:
            ledger.assume(entry, reservation.admission, reservation.usage, admitted=reservation.admitted)
            ledger.reservations[entry.key].is_preemption_target = reservation.is_preemption_target
        former = ledger.reservations.get(reservation.key)
        replaced = reservation.replaced_admission
        if former is not None and former.admission == replaced and not former.evicted:
            ledger.assume_places(former, reservation.admission)
            ledger.second_pass.remove(former.key)
