"""Pending workloads and quota reservations of all queues, with every count and sum derived from them.

``State`` translates API objects into calls of the ledger.  The admission cycle reads the ledger and reserves
quota in it.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from quorate.api.configuration import Configuration
from quorate.api.kueue import Admission, Workload
from quorate.api.meta import Key, Uid, find_condition
from quorate.queueing import conditions as c
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.aging_queues import AgingQueues
from quorate.queueing.assignment import KeptAssignment
from quorate.queueing.cluster_queue import ClusterQueueState, LocalQueueState, Reservation
from quorate.queueing.nodes.places import NO_PLACES, has_places
from quorate.queueing.nodes.pod_templates import template_of
from quorate.queueing.pending.entry import Entry, LastAssignment, RequeueReason
from quorate.queueing.pending.ordering import affects_scheduling, queue_order
from quorate.queueing.pending.second_pass_queue import SecondPassQueue
from quorate.queueing.planning.announced_starts import AnnouncedStart, stored_announcement
from quorate.queueing.planning.bounds import BoundInputs
from quorate.queueing.pods_ready import UnreadyWorkloads
from quorate.queueing.windows import Windows
from quorate.queueing.workload_slices import replaced_slice
from quorate.quota import tree
from quorate.quota.amount import Usage
from quorate.quota.tree import Node


class Ledger(AgingQueues):
    """The pending workloads and quota reservations of all queues, and the counts and sums of these."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.second_pass = SecondPassQueue()
        self.entries: dict[Key, Entry] = {}  # exactly the workloads that may queue and hold no quota
        self._arrivals = 0  # how many entries were ever added
        # Pending workloads that became inadmissible with the outcome of another one, until this is reported.
        self.parked: dict[Key, None] = {}
        self.expected_evictions: set[Uid] = set()  # decided, but not yet observed
        self.refused_evictions: set[Uid] = set()  # refused by the API server, and not stored since
        # How often a head got quota, got preemption targets, became inadmissible, or left its queue.
        self.progress = 0
        # By cluster queue: the first workloads that wait for quota or places, in order, with planned starts.
        self.planned: dict[str, list[Entry]] = {}
        # What was told of planned starts; also of pending workloads of which that is to be taken back.
        self.announced: dict[Key, AnnouncedStart] = {}
        self.planned_assignments: dict[Key, KeptAssignment] = {}  # of ``announced``; none in a new process
        self._unplanned: dict[Key, None] = {}  # announced or planned before, and perhaps not planned any more
        self._unevaluated: dict[Key, None] = {}  # became inadmissible since, in queues that plan starts
        self.bound_inputs = BoundInputs(configuration.planned_starts)
        self.windows = Windows()  # of the Reservations
        self.unready = UnreadyWorkloads()  # exactly the reservations of unready workloads

    # Pending workloads.

    def take_parked(self) -> tuple[Key, ...]:
        """Return the workloads that became inadmissible without an evaluation since the last call."""
        parked = tuple(self.parked)
        self.parked.clear()
        return parked

    def add_entry(self, workload: Workload) -> None:
        order = queue_order(workload, self.configuration)
        entry = Entry(workload, self.shapes.shape_of(workload), order, self._arrivals)
        self._arrivals += 1
        entry.requests_version = self.shapes.version(entry.key.namespace)
        self.entries[entry.key] = entry
        self.ensure_local_queue(entry.local_queue).entries[entry.key] = entry
        self._enqueue(entry)

    def remove_entry(self, entry: Entry) -> None:
        self._dequeue(entry)
        self.parked.pop(entry.key, None)
        self.announced.pop(entry.key, None)
        del self.entries[entry.key]
        local_queue = entry.local_queue
        del self.local_queues[local_queue].entries[entry.key]
        self.remove_local_queue_if_unused(local_queue)

    def update_entry(self, entry: Entry, workload: Workload) -> None:
        """Replace the object of ``entry``; it is queued again only if the change affects scheduling."""
        old = entry.workload
        if workload.spec.queue_name != old.spec.queue_name:
            self.remove_entry(entry)
            self.add_entry(workload)
            return
        entry.workload = workload
        if affects_scheduling(old, workload):
            self.requeue_as_new(entry)
            return
        queue = self.cluster_queues.get(entry.cluster_queue)
        if queue is None:
            return
        pending = queue.pending
        if entry.key in pending.backing_off and not c.is_backing_off(workload, self.now):
            if find_condition(workload.status.conditions, c.REQUEUED) is None:
                # Another client released the workload; no other event announces its return.
                self.requeue_as_new(entry)
                return
            # The backoff ended but no Requeued condition is set: wait for the next event.
            del pending.backing_off[entry.key]
            pending.add_inadmissible(entry)

    def requeue_as_new(self, entry: Entry) -> None:
        """Queue ``entry`` as if it had just arrived, with its current requests; an entry in flight stays."""
        queue = self.cluster_queues.get(entry.cluster_queue)
        is_in_flight = queue is not None and queue.pending.in_flight is entry
        is_sticky = queue is not None and queue.pending.sticky is entry
        is_preemptor = queue is not None and queue.pending.preemptor is entry
        if not is_in_flight:
            self._dequeue(entry)
        entry.shape = self.shapes.shape_of(entry.workload)
        entry.requests_version = self.shapes.version(entry.key.namespace)
        entry.order = queue_order(entry.workload, self.configuration)
        entry.preempting_assignment = None
        if not is_in_flight:
            self._enqueue(entry)
        if queue is not None:
            queue.pending.sticky = entry if is_sticky else queue.pending.sticky
            queue.pending.preemptor = entry if is_preemptor else queue.pending.preemptor

    def update_requests(self, entry: Entry) -> bool:
        """Queue ``entry`` anew if its requests, or their bounds, have changed; return True if they have."""
        shapes, namespace = self.shapes, entry.key.namespace
        if (
            not shapes.are_bounds_out_of_date(entry.requests_version, namespace)
            and shapes.shape_of(entry.workload) is entry.shape
        ):
            entry.requests_version = shapes.version(namespace)
            return False
        self.requeue_as_new(entry)
        return True

    def _enqueue(self, entry: Entry) -> None:
        """Add ``entry`` to the cluster queue of its local queue, if both exist and the local queue runs."""
        local_queue = self.local_queues[entry.local_queue]
        queue = self.cluster_queues.get(local_queue.cluster_queue)
        if queue is None or not local_queue.is_running:
            return
        entry.cluster_queue = queue.name
        entry.is_explained = False
        for pod_set in entry.workload.spec.pod_sets:
            self.topology.constraints.expect(template_of(entry.key.namespace, pod_set.template))
        if queue.pending.aging is not None:
            queue.pending.note_arrival(entry, self.now)
        self.note_pending(queue)
        if queue.backfills and (announced := stored_announcement(entry.workload)) is not None:
            self.announced.setdefault(entry.key, announced)
            self._unplanned[entry.key] = None
        if c.is_backing_off(entry.workload, self.now):
            queue.pending.backing_off[entry.key] = entry
        elif self._push(queue, entry):
            self.mark_dirty(queue.node)

    def _push(self, queue: ClusterQueueState, entry: Entry) -> bool:
        """Make ``entry`` active, unless workloads of its shape are inadmissible; return True if it is."""
        is_active = queue.pending.push(entry)
        if not is_active and queue.backfills:
            self._unevaluated[entry.key] = None
        return is_active

    def take_unevaluated(self) -> tuple[Key, ...]:
        """Return what became inadmissible without an evaluation since the last call, and may get a plan."""
        unevaluated = tuple(self._unevaluated)
        self._unevaluated.clear()
        return unevaluated

    def _dequeue(self, entry: Entry) -> None:
        self.planned_assignments.pop(entry.key, None)
        if entry.cluster_queue:
            queue = self.cluster_queues[entry.cluster_queue]
            if queue.pending.in_flight is entry:
                self.progress += 1  # others may have lost to it
            queue.pending.remove(entry)
            self.end_plan(queue, entry)
            entry.cluster_queue = ""
            if queue.is_strict:
                self.mark_dirty(queue.node)  # it may have been the head that blocked the queue

    def end_plan(self, queue: ClusterQueueState, entry: Entry | None = None) -> None:
        """Keep nothing any more for ``entry``, or for all workloads of ``queue``, if they have plans."""
        planned = self.planned.get(queue.name)
        if planned is None or (entry is not None and entry not in planned):
            return
        self.set_planned(queue, [] if entry is None else [other for other in planned if other is not entry])
        self.schedule_requeue(queue.node)

    def set_planned(self, queue: ClusterQueueState, entries: list[Entry]) -> None:
        """Plan the starts of ``entries`` of a queue, and of no others."""
        for entry in self.planned.pop(queue.name, ()):
            if entry not in entries:
                self._unplanned[entry.key] = None
        if entries:
            self.planned[queue.name] = entries

    def take_unplanned(self) -> list[Key]:
        """Return the workloads with an announced start that have lost their plans since the last call."""
        keys, self._unplanned = self._unplanned, {}
        return [key for key in keys if key in self.announced and not self._is_planned(key)]

    def _is_planned(self, key: Key) -> bool:
        entry = self.entries.get(key)
        return entry is not None and entry in self.planned.get(entry.cluster_queue, ())

    def enqueue_all(self, local_queue: LocalQueueState) -> None:
        for entry in local_queue.entries.values():
            if not entry.cluster_queue:
                self._enqueue(entry)

    def dequeue_all(self, local_queue: LocalQueueState) -> None:
        for entry in local_queue.entries.values():
            self._dequeue(entry)

    def is_void(self, queue: ClusterQueueState, version: int, last: LastAssignment | None) -> bool:
        """Return True if a new evaluation of a head of ``queue`` may have another outcome.

        ``version`` is the version of its tree when its search for flavors began.  If the version has changed,
        an event happened since.  A search that lost a flavor to another head and ended has not seen whether
        the other head kept the flavor, and what else the workload can do.  The outcome is void once there was
        any progress.
        """
        if self.version(queue.node) != version:
            return True
        has_ended = last is not None and last.has_lost and not last.has_untried_flavors
        return has_ended and last is not None and last.progress != self.progress

    def requeue(self, entry: Entry, reason: RequeueReason, *, tries_again: bool) -> bool:
        """Put back a head that was not admitted; return True if it is active again.

        ``tries_again``: its outcome is void (see ``is_void``), or its search for flavors has not ended.
        """
        queue = self.cluster_queues.get(entry.cluster_queue)
        if queue is None or queue.pending.in_flight is not entry:
            return False  # it left the queue while in flight
        pending, gates = queue.pending, self.configuration.gates
        pending.in_flight = None
        if c.is_backing_off(entry.workload, self.now):
            pending.backing_off[entry.key] = entry
            return False
        if tries_again or reason.is_immediate(strict=queue.is_strict):
            return self._push(queue, entry)
        self.progress += 1
        if reason is RequeueReason.NAMESPACE_MISMATCH:
            pending.namespace_mismatched[entry.key] = entry
        elif queue.is_strict or not gates.scheduling_equivalence_hashing:
            pending.add_inadmissible(entry)
        elif reason is RequeueReason.RESERVED:
            pending.add_inadmissible_bound(entry)
        elif reason.holds_for_shape:
            pending.add_inadmissible_shape(entry)
        else:
            pending.add_inadmissible(entry)
        return False

    def misconfiguration(self, queue: ClusterQueueState, entry: Entry) -> r.Misconfiguration | None:
        """Return what makes the workload inadmissible in ``queue`` regardless of quota."""
        namespace = entry.key.namespace
        if not queue.matches_namespace(self.namespaces.get(namespace, {})):
            return r.NamespaceMismatched(namespace, queue.name)
        return self.pod_misconfiguration(entry)

    def pod_misconfiguration(self, entry: Entry) -> r.Misconfiguration | None:
        """Return what makes the workload inadmissible in every cluster queue."""
        if entry.shape.invalid_requests:
            return r.RequestsAboveLimits(entry.shape.invalid_requests)
        if entry.shape.uncounted_devices:
            return r.DevicesUncounted(entry.shape.uncounted_devices, entry.shape.missing_devices)
        if findings := self.shapes.limit_range_violations(entry.workload):
            return r.LimitRangeViolated(findings)
        return None

    # Reservations.

    def assume(self, entry: Entry, admission: Admission, usage: Usage, *, admitted: bool) -> None:
        """Count a reservation that is decided but not written."""
        reservation = Reservation.of_entry(entry, admission, usage, admitted=admitted)
        self.progress += 1
        self.remove_entry(entry)
        self.add_reservation(reservation)
        rules = self.configuration.admission_fair_sharing
        queue = self.cluster_queues[admission.cluster_queue]
        if rules is not None and queue.uses_admission_fair_sharing:
            consumed_usage = self.local_queues[reservation.local_queue].consumed_usage
            consumed_usage.add_penalty(reservation.key, usage, rules)

    def assume_loan(self, entry: Entry, admission: Admission, usage: Usage, *, admitted: bool) -> None:
        """Count a reservation that borrows while others of its tree wait for room.

        Of a queue or cohort that begins to borrow, those may be reclaimed, too, that have the room.
        """
        node = self.cluster_queues[admission.cluster_queue].node
        before = tree.borrowing_nodes(node, usage)
        self.assume(entry, admission, usage, admitted=admitted)
        if tree.borrowing_nodes(node, usage) != before:
            self.schedule_requeue(node)

    def add_reservation(self, reservation: Reservation) -> None:
        key = reservation.key
        self.note_usage_change(self.cluster_queues.get(reservation.admission.cluster_queue))
        self.reservations[key] = reservation
        if has_places(reservation.admission) or reservation.replaced_admission is not None:
            shape = None if reservation.assumed is None else reservation.assumed.shape
            reservation.places = self.held_places(reservation, shape)
            if self.holds_places(reservation):
                self.topology.set_has_places(key, True)
            self.note_dependence(reservation)
        if key in self.replacement_slices:
            reservation.usage = self.usage_of(reservation.workload, reservation.admission)
        replaced = replaced_slice(reservation.workload, self.configuration.gates)
        if replaced is not None:
            self.replacement_slices[replaced] = key
            self._recount(replaced)
        if not reservation.ready:
            self.unready.add(reservation)
        self.ensure_local_queue(reservation.local_queue).totals.count(reservation, 1)
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        if queue is not None:
            if queue.pending.aging is not None:
                self.order_reservation(queue, reservation)
            self.count_reservation(queue, reservation)

    def changes(self, root: Node | None = None) -> int:
        """Return a number that grows when something changes that plans in a tree rest on; None: in any tree.

        That is ``version``, and what has quota, uses it, or has places.
        """
        return self._changes.get(None if self.topology.placing else root, 0)

    def assume_places(self, reservation: Reservation, admission: Admission) -> None:
        """Count the places of a second pass that is not written yet, beside the places that it replaces."""
        if admission == reservation.admission:
            return  # the write cannot be told from the object before it
        new = Reservation(reservation.workload, admission, reservation.usage, reservation.order)
        new.replaced_admission = reservation.admission
        self.update_reservation(reservation, new)

    def update_reservation(self, old: Reservation, new: Reservation) -> None:
        """Replace ``old`` by ``new``, built from a newer object of the same workload."""
        queue = self.cluster_queues.get(new.admission.cluster_queue)
        if new.key in self.replacement_slices:
            new.usage = self.usage_of(new.workload, new.admission)
        same_queues = old.admission.cluster_queue == new.admission.cluster_queue and (
            old.workload.spec.queue_name == new.workload.spec.queue_name
        )
        if (
            old.places.all
            and old.replaced_admission is new.replaced_admission is None
            and old.admission.pod_set_assignments == new.admission.pod_set_assignments
            and old.workload.spec.pod_sets == new.workload.spec.pod_sets
            and old.workload.status.reclaimable_pods == new.workload.status.reclaimable_pods
        ):
            new.places = old.places
        elif has_places(new.admission) or new.replaced_admission is not None:
            new.places = self.held_places(new)
        if (
            not same_queues
            or old.usage != new.usage
            or old.admitted != new.admitted
            or (old.places is not new.places and old.places.all != new.places.all)
        ):
            self.remove_reservation(old)
            self.add_reservation(new)
            if old.places.all and old.places.all != new.places.all:
                self.note_freed_room()
            return
        key = new.key
        self.reservations[key] = new  # the common case: no sum changes
        owners = old.workload.metadata.owner_references
        if old.places is not new.places or new.workload.metadata.owner_references != owners:
            self.note_dependence(new)
        if queue is not None:
            if queue.pending.aging is not None:
                self.order_reservation(queue, new)
            queue.reservations[key] = new
            queue.reservation_changes += 1
        if old.assumed is not None:
            replaced = replaced_slice(new.workload, self.configuration.gates)
            if replaced is not None:
                self._recount(replaced)
        if new.ready and not old.ready:
            self._mark_ready(old)
        elif old.ready and not new.ready:
            self.unready.add(new)

    def remove_reservation(self, reservation: Reservation) -> None:
        key = reservation.key
        self.note_usage_change(self.cluster_queues.get(reservation.admission.cluster_queue))
        del self.reservations[key]
        self.forget_dependence(reservation)
        self._mark_ready(reservation)
        self.local_queues[reservation.local_queue].totals.count(reservation, -1)
        self.remove_local_queue_if_unused(reservation.local_queue)
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        if queue is not None:
            self.uncount_reservation(queue, reservation)
        if self.holds_places(reservation):
            self.topology.set_has_places(key, False)
        replaced = replaced_slice(reservation.workload, self.configuration.gates)
        if replaced is not None and self.replacement_slices.get(replaced) == key:
            del self.replacement_slices[replaced]
            self._recount(replaced)

    def release(self, reservation: Reservation) -> None:
        """Remove a reservation and schedule a requeue of workloads that may take its quota."""
        penalties = self.local_queues[reservation.local_queue].consumed_usage.penalties
        penalties.pop(reservation.key, None)
        self.remove_reservation(reservation)
        if reservation.places.all:
            self.note_freed_room()
        self.second_pass.remove(reservation.key)
        self.second_pass.released(reservation.key)
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        if queue is not None:
            queue.generation += 1
            if not c.is_preempted(reservation.workload):
                self.preemption_history.clear(queue.node.root)
            self.schedule_requeue(queue.node)

    def expect_eviction(self, reservation: Reservation, preemptor: Uid) -> bool:
        """Record that ``preemptor`` needs ``reservation`` evicted; return True if an eviction must be issued.

        An assumed reservation cannot be evicted yet: the preemptor is tried again as soon as it is written.
        """
        uid = reservation.workload.metadata.uid
        observed = self.reservations.get(reservation.key)
        if observed is not None and observed.workload.metadata.uid == uid:
            reservation = observed  # it may have been written since the search for targets
        if reservation.evicted or uid in self.expected_evictions:
            return False
        if reservation.assumed is not None:
            reservation.is_preemption_target = True
            return False
        self.progress += 1
        self.expected_evictions.add(uid)
        root = self.cluster_queues[reservation.admission.cluster_queue].node.root
        self.preemption_history.record(root, preemptor, uid)
        return True

    @contextmanager
    def without_replaced_slice(self, reservation: Reservation) -> Iterator[None]:
        """Leave a slice that is to be replaced out of all sums, with what its pods use outside of quota.

        What it uses beyond the quota of today is quota meanwhile: a job competes for what it adds only.  Its
        pods keep their places with the gate ElasticJobsViaWorkloadSlicesWithTAS: these stay counted.
        """
        places = reservation.places if self.topology.gates.elastic_slices else NO_PLACES
        queue = self.cluster_queues[reservation.admission.cluster_queue]
        with self.without((reservation,)), self.without_outside(queue, reservation.key):
            beyond_quota = tree.missing_quota(queue.node, reservation.usage)
            places.count(1)
            try:
                with tree.with_more_quota(queue.node, beyond_quota) if beyond_quota else nullcontext():
                    yield
            finally:
                places.count(-1)

    def _recount(self, key: Key) -> None:
        """Update the usage of a reservation that a slice has begun, or ceased, to replace."""
        reservation = self.reservations.get(key)
        if reservation is None:
            return
        usage = self.usage_of(reservation.workload, reservation.admission)
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        totals = self.local_queues[reservation.local_queue].totals
        totals.count(reservation, -1)
        if queue is not None:
            self.uncount_reservation(queue, reservation)
            self.schedule_requeue(queue.node)  # a slice may replace a larger one, or one of another queue
        if reservation.places.all:
            self.note_freed_room()
        self._mark_ready(reservation)  # in the flavors that it used so far
        reservation.usage = usage
        if not reservation.ready:
            self.unready.add(reservation)
        reservation.places = self.held_places(reservation)
        totals.count(reservation, 1)
        if queue is not None:
            self.count_reservation(queue, reservation)

    def _mark_ready(self, reservation: Reservation) -> None:
        for queue in self.unready.discard(reservation):
            self.schedule_requeue(queue.node)
