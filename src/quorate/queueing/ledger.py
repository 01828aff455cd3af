"""Who waits where, and who holds quota: the mechanics under ``queueing.state``.

Entries and reservations come, move and go here, and every sum over them follows.  What an object means is
decided in ``queueing.state``, what is to be done about it in ``queueing.cycle``.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from quorate.api.configuration import Configuration
from quorate.api.kueue import SLICE_REPLACEMENT_FOR, Admission, Workload
from quorate.api.meta import Key, Uid, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState, LocalQueueState, Reservation, usage_of
from quorate.queueing.pending.ordering import affects_scheduling, queue_order
from quorate.queueing.pending.queue import Entry, RequeueReason
from quorate.queueing.pending.shape import ShapeRegistry
from quorate.queueing.pods_ready import UnreadyWorkloads
from quorate.queueing.preemption.history import PreemptionHistory
from quorate.quota import tree
from quorate.quota.amount import Usage
from quorate.quota.hierarchy import QuotaTree
from quorate.quota.tree import Node


def replaced_slice(workload: Workload) -> Key | None:
    """The workload that ``workload`` replaces, always of its own namespace."""
    text = workload.metadata.annotations.get(SLICE_REPLACEMENT_FOR)
    if text is None:
        return None
    return Key(workload.metadata.namespace, text.rpartition("/")[2])


if TYPE_CHECKING:
    from quorate.queueing.scheduling.cycle import Round


class Ledger:
    """See the module."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.quota = QuotaTree()
        self.shapes = ShapeRegistry(configuration.resources, configuration.gates)
        self.namespaces: dict[str, Mapping[str, str]] = {}  # the labels of each
        self.cluster_queues: dict[str, ClusterQueueState] = {}
        # Every local queue that exists or that a workload known here names.
        self.local_queues: dict[Key, LocalQueueState] = {}
        self.entries: dict[Key, Entry] = {}  # exactly the workloads that may queue and hold no quota
        self.reservations: dict[Key, Reservation] = {}  # exactly those that hold quota; disjoint from entries
        self.replacement_slices: dict[
            Key, Key
        ] = {}  # by who is replaced: the slice that holds quota in its place
        self.expected_evictions: set[Uid] = set()  # workloads whose eviction was decided and is not yet seen
        self.preemption_history = PreemptionHistory()  # preemptions since anything happened from outside
        self.unready = UnreadyWorkloads()  # exactly the reservations whose pods are not all ready
        # Roots of the trees in which a round may decide something new.  The value counts the rounds in a
        # row that changed nothing there but which flavors were tried.
        self.dirty_trees: dict[Node, int] = {}
        self.suspended: Round | None = None  # the round that waits for all workloads to be ready
        self.cycles = 0  # rounds run so far
        # By root, the queues with somebody pending; those that have nobody or moved away drop out when met.
        self._waiting: dict[Node, dict[ClusterQueueState, None]] = {}
        self._scheduled_requeues: dict[
            Node, None
        ] = {}  # roots of the trees whose parked workloads are to be tried again
        self._quota_changes: dict[Node, int] = {}  # per root: how often limits below it changed
        self._now = 0.0  # the latest moment anybody told

    # Trees.

    def is_active(self, queue: ClusterQueueState) -> bool:
        """Whether the queue may admit: nothing keeps it, and its cohorts do not form a loop."""
        return not queue.inactive_reasons and not self.quota.is_looped(queue.node)

    def queues_below(self, node: Node) -> Iterator[ClusterQueueState]:
        if self.quota.queues.get(node.name) is node:
            yield self.cluster_queues[node.name]
        for child in node.children:
            yield from self.queues_below(child)

    def queues_with_pending(self, root: Node) -> list[ClusterQueueState]:
        """The cluster queues of a tree in which somebody is pending."""
        members = self._waiting.get(root, {})
        for queue in [queue for queue in members if queue.pending.is_empty or queue.node.root is not root]:
            del members[queue]
        return list(members)

    def note_pending(self, queue: ClusterQueueState) -> None:
        self._waiting.setdefault(queue.node.root, {})[queue] = None

    def note_root_change(self, node: Node) -> None:
        """``node`` may have another root now, and with it all below."""
        for queue in self.queues_below(node):
            if not queue.pending.is_empty:
                self.note_pending(queue)

    def generation(self, queue: ClusterQueueState) -> int:
        """Grows when a workload leaves the queue and when quota in its tree changes."""
        return queue.generation + self._quota_changes.get(queue.node.root, 0)

    def note_quota_change(self, node: Node) -> None:
        """Limits or edges at ``node`` changed: whoever waits in its tree may have a chance now."""
        root = node.root
        self._quota_changes[root] = self._quota_changes.get(root, 0) + 1
        self.preemption_history.forget(root)
        self.schedule_requeue(node)

    def note_external_change(self, queue: ClusterQueueState) -> None:
        """Something happened from outside that may help workloads of ``queue``, or of its tree."""
        self.preemption_history.forget(queue.node.root)
        self.schedule_requeue(queue.node)

    def schedule_requeue(self, node: Node) -> None:
        self._scheduled_requeues[node.root] = None
        self.mark_dirty(node)

    def mark_dirty(self, node: Node) -> None:
        """Something happened that a round must look at, though it helps nobody who is parked."""
        self.dirty_trees[node.root] = 0

    def flush_requeues(self) -> None:
        """Carry out the wake-ups noted since the last time: many events cost one pass over a tree."""
        for root in self._scheduled_requeues:
            for queue in self.queues_with_pending(root):
                queue.pending.queue_inadmissible(queue.matching_namespaces(self.namespaces))
        self._scheduled_requeues.clear()

    # Entries.

    def add_entry(self, workload: Workload) -> None:
        entry = Entry(workload, self.shapes.of(workload), queue_order(workload, self.configuration))
        self.entries[entry.key] = entry
        self.local_queue(entry.local_queue).entries[entry.key] = entry
        self._enqueue(entry)

    def drop_entry(self, entry: Entry) -> None:
        self._dequeue(entry)
        del self.entries[entry.key]
        del self.local_queues[entry.local_queue].entries[entry.key]
        self.drop_if_unused(entry.local_queue)

    def replace_entry(self, entry: Entry, workload: Workload) -> None:
        """Take in a newer form of a pending workload; it keeps its place unless what counts changed."""
        old = entry.workload
        if workload.spec.queue_name != old.spec.queue_name:
            self.drop_entry(entry)
            self.add_entry(workload)
            return
        entry.workload = workload
        if affects_scheduling(old, workload):
            self.reevaluate(entry)
            return
        queue = self.cluster_queues.get(entry.cluster_queue)
        if queue is None:
            return
        pending = queue.pending
        if entry.key in pending.backing_off and not c.is_backing_off(workload, self._now):
            if find_condition(workload.status.conditions, c.REQUEUED) is None:
                self.reevaluate(entry)  # others released it, so nothing but this tells of its return
                return
            # The backoff ended, but nothing says that it is worth a try: it waits for the next event.
            del pending.backing_off[entry.key]
            pending.park(entry)

    def reevaluate(self, entry: Entry) -> None:
        """Queue ``entry`` as if it came only now, by what it asks for now; one in flight stays there."""
        queue = self.cluster_queues.get(entry.cluster_queue)
        is_in_flight = queue is not None and queue.pending.in_flight is entry
        is_sticky = queue is not None and queue.pending.sticky is entry
        if not is_in_flight:
            self._dequeue(entry)
        entry.shape = self.shapes.of(entry.workload)
        entry.order = queue_order(entry.workload, self.configuration)
        entry.preempting_assignment = None
        if not is_in_flight:
            self._enqueue(entry)
        if is_sticky and queue is not None:
            queue.pending.sticky = entry

    def _enqueue(self, entry: Entry) -> None:
        """Put ``entry`` where it belongs in the cluster queue of its local queue, if both take it."""
        local_queue = self.local_queues[entry.local_queue]
        queue = self.cluster_queues.get(local_queue.cluster_queue)
        if queue is None or not local_queue.is_running:
            return
        entry.cluster_queue = queue.name
        self.note_pending(queue)
        if c.is_backing_off(entry.workload, self._now):
            queue.pending.backing_off[entry.key] = entry
        elif queue.pending.push(entry):
            self.mark_dirty(queue.node)

    def _dequeue(self, entry: Entry) -> None:
        if entry.cluster_queue:
            queue = self.cluster_queues[entry.cluster_queue]
            queue.pending.remove(entry)
            entry.cluster_queue = ""
            if queue.is_strict:
                self.mark_dirty(queue.node)  # it may have been the head that all others wait behind

    def enqueue_all(self, local_queue: LocalQueueState) -> None:
        for entry in local_queue.entries.values():
            if not entry.cluster_queue:
                self._enqueue(entry)

    def dequeue_all(self, local_queue: LocalQueueState) -> None:
        for entry in local_queue.entries.values():
            self._dequeue(entry)

    def requeue(self, entry: Entry, reason: RequeueReason, requeues_before: int) -> bool:
        """Put back a head that was not admitted; whether it is active again.

        ``requeues_before`` is the queue's count of wake-ups when the head was popped: if something happened
        since, the verdict may be out of date, and it is tried again.
        """
        queue = self.cluster_queues.get(entry.cluster_queue)
        if queue is None or queue.pending.in_flight is not entry:
            return False  # it left while in flight
        pending, gates = queue.pending, self.configuration.gates
        pending.in_flight = None
        if c.is_backing_off(entry.workload, self._now):
            pending.backing_off[entry.key] = entry
            return False
        has_untried_flavors = entry.last_assignment is not None and entry.last_assignment.has_untried_flavors
        if (
            reason.is_immediate(strict=queue.is_strict)
            or has_untried_flavors
            or pending.requeues > requeues_before
        ):
            return pending.push(entry)
        if reason is RequeueReason.NAMESPACE_MISMATCH:
            pending.namespace_mismatched[entry.key] = entry
        elif reason.holds_for_shape and not queue.is_strict and gates.scheduling_equivalence_hashing:
            pending.block(entry)
        else:
            pending.park(entry)
        return False

    def local_queue(self, key: Key) -> LocalQueueState:
        return self.local_queues.setdefault(key, LocalQueueState())

    def drop_if_unused(self, key: Key) -> None:
        queue = self.local_queues[key]
        if queue.object is None and not queue.entries and not queue.totals.reserving:
            del self.local_queues[key]

    def consumed_usage(self, key: Key) -> float:
        """What the local queue ``key`` used of late, by which it takes turns with others."""
        rules, queue = self.configuration.admission_fair_sharing, self.local_queues.get(key)
        return 0.0 if rules is None or queue is None else queue.consumed_usage.value(queue.weight, rules)

    def sample_consumed_usage(self, now: float) -> float | None:
        """Bring past use up to date where it is due; when that will be again, if it matters to anybody."""
        rules = self.configuration.admission_fair_sharing
        if rules is None:
            return None
        due: list[float] = []
        for queue in self.local_queues.values():
            cluster_queue = self.cluster_queues.get(queue.cluster_queue)
            if cluster_queue is None or not cluster_queue.uses_admission_fair_sharing:
                continue
            if queue.consumed_usage.is_due(rules, now):
                queue.consumed_usage.sample(queue.totals.admitted_usage, rules, now)
            if len(cluster_queue.pending):
                due.append(now + rules.usage_sampling_interval_s)
        return min(due, default=None)

    # Reservations.

    def assume(self, entry: Entry, admission: Admission, usage: Usage, *, admitted: bool) -> None:
        """Count a reservation that is decided but not written."""
        reservation = Reservation.of_entry(entry, admission, usage, admitted=admitted)
        self.drop_entry(entry)
        self.add_reservation(reservation)
        rules = self.configuration.admission_fair_sharing
        queue = self.cluster_queues[admission.cluster_queue]
        if rules is not None and queue.uses_admission_fair_sharing:
            consumed_usage = self.local_queues[reservation.local_queue].consumed_usage
            consumed_usage.penalise(reservation.key, usage, rules)

    def add_reservation(self, reservation: Reservation) -> None:
        key = reservation.key
        self.reservations[key] = reservation
        if key in self.replacement_slices:
            reservation.usage = {}
        replaced = replaced_slice(reservation.workload)
        if replaced is not None:
            self.replacement_slices[replaced] = key
            self._recount(replaced)
        if not reservation.ready:
            self.unready.add(reservation)
        self.local_queue(reservation.local_queue).totals.count(reservation, 1)
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        if queue is not None:
            self.count_reservation(queue, reservation)

    def replace_reservation(self, old: Reservation, new: Reservation) -> None:
        """Take in a newer form of a reservation."""
        queue = self.cluster_queues.get(new.admission.cluster_queue)
        if new.key in self.replacement_slices:
            new.usage = {}
        same_queues = old.admission.cluster_queue == new.admission.cluster_queue and (
            old.workload.spec.queue_name == new.workload.spec.queue_name
        )
        if not same_queues or old.usage != new.usage or old.admitted != new.admitted:
            self.drop_reservation(old)
            self.add_reservation(new)
            return
        key = new.key
        self.reservations[key] = new  # no sum changes, which is what nearly always happens
        if queue is not None:
            queue.reservations[key] = new
        if new.ready and not old.ready:
            self._no_longer_unready(old)
        elif old.ready and not new.ready:
            self.unready.add(new)

    def drop_reservation(self, reservation: Reservation) -> None:
        key = reservation.key
        del self.reservations[key]
        self._no_longer_unready(reservation)
        self.local_queues[reservation.local_queue].totals.count(reservation, -1)
        self.drop_if_unused(reservation.local_queue)
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        if queue is not None:
            self.uncount_reservation(queue, reservation)
        replaced = replaced_slice(reservation.workload)
        if replaced is not None and self.replacement_slices.get(replaced) == key:
            del self.replacement_slices[replaced]
            self._recount(replaced)

    def _recount(self, key: Key) -> None:
        """Count a reservation anew, as one that is replaced now, or is no longer."""
        reservation = self.reservations.get(key)
        if reservation is None:
            return
        counted = usage_of(reservation.workload, reservation.admission)
        usage = (
            {}
            if key in self.replacement_slices
            else {pair: amount for pair, amount in counted.items() if amount}
        )
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        totals = self.local_queues[reservation.local_queue].totals
        totals.count(reservation, -1)
        if queue is not None:
            self.uncount_reservation(queue, reservation)
        reservation.usage = usage
        totals.count(reservation, 1)
        if queue is not None:
            self.count_reservation(queue, reservation)

    @contextmanager
    def without_replaced_slice(self, workload: Workload, queue: ClusterQueueState) -> Iterator[None]:
        """As if the slice that ``workload`` is to replace in ``queue`` were not there."""
        replaced = replaced_slice(workload)
        aside = None if replaced is None else queue.reservations.get(replaced)
        if aside is None:
            yield
            return
        self.uncount_reservation(queue, aside)
        try:
            yield
        finally:
            self.count_reservation(queue, aside)

    def _no_longer_unready(self, reservation: Reservation) -> None:
        for queue in self.unready.discard(reservation):
            self.schedule_requeue(queue.node)

    def expect_eviction(self, reservation: Reservation, preemptor: Entry) -> bool:
        """Note that ``reservation`` is to be evicted for ``preemptor``; whether that has to be asked for.

        There is nothing to evict yet while the reservation is only assumed.  The preemptor is tried again
        as soon as it is written.
        """
        uid = reservation.workload.metadata.uid
        if reservation.evicted or uid in self.expected_evictions:
            return False
        if reservation.assumed is not None:
            reservation.wanted = True
            return False
        self.expected_evictions.add(uid)
        root = self.cluster_queues[reservation.admission.cluster_queue].node.root
        self.preemption_history.note(root, preemptor.workload.metadata.uid, uid)
        return True

    def release(self, reservation: Reservation) -> None:
        """The workload holds quota no longer: others may have it."""
        self.local_queues[reservation.local_queue].consumed_usage.penalties.pop(reservation.key, None)
        self.drop_reservation(reservation)
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        if queue is not None:
            queue.generation += 1
            if not c.is_preempted(reservation.workload):
                self.preemption_history.forget(queue.node.root)
            self.schedule_requeue(queue.node)

    def count_reservation(self, queue: ClusterQueueState, reservation: Reservation) -> None:
        queue.reservations[reservation.key] = reservation
        queue.totals.count(reservation, 1)
        tree.add_usage(queue.node, reservation.usage)

    def uncount_reservation(self, queue: ClusterQueueState, reservation: Reservation) -> None:
        del queue.reservations[reservation.key]
        queue.totals.count(reservation, -1)
        tree.remove_usage(queue.node, reservation.usage)
