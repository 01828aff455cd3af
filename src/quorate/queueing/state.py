"""The mutable model of the queueing core: what is queued, who holds quota, what may be tried.

It is told the newest form of each object, in any order and as often as one likes, and derives the rest.
Everything durable is in the objects; the one thing known only here are reservations that a cycle decided
and that are not yet seen written ("assumed").  A cluster queue counts quota for every workload that
reserves, evicted ones included, until the reservation is released, finished, deactivated or deleted.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from quorate.api.configuration import Configuration
from quorate.api.core import LimitRange, Resources, RuntimeClass
from quorate.api.kueue import (
    Admission,
    AdmissionCheck,
    ClusterQueue,
    ClusterQueueStatus,
    Cohort,
    LocalQueue,
    LocalQueueStatus,
    ResourceFlavor,
    Workload,
)
from quorate.api.meta import Key, find_condition, is_true
from quorate.queueing import conditions as c
from quorate.queueing import queue_status
from quorate.queueing.causes import BackingOff, Cause, QueueInactive, QueueMissing
from quorate.queueing.decisions import Hold
from quorate.queueing.lifecycle import ClusterQueueView, LocalQueueView, QueueView
from quorate.queueing.order import changed_what_counts, may_queue, order_of
from quorate.queueing.pending import Entry, Requeue
from quorate.queueing.queues import (
    ChecksInactive,
    ChecksMissing,
    ClusterQueueState,
    FlavorsMissing,
    Inactivity,
    LocalQueueState,
    Reservation,
    Stopped,
    Terminating,
    groups_of,
    limits_of,
    usage_of,
)
from quorate.queueing.requests import Defaults, defaults_of
from quorate.queueing.shape import Shape, Shapes
from quorate.quota import tree
from quorate.quota.amount import Usage
from quorate.quota.tree import Node, QuotaTree

if TYPE_CHECKING:
    from quorate.queueing.cycle import Round

_NO_DEFAULTS: Final = Defaults()


class Waiting(msgspec.Struct, frozen=True):
    """The pending workloads of a cluster queue, each list in queue order."""

    active: tuple[Key, ...]
    inadmissible: tuple[Key, ...]


class State:
    """See the module.  Nothing here decides: ``queueing.cycle`` does."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.quota = QuotaTree()
        self.flavors: dict[str, ResourceFlavor] = {}
        self.checks: dict[str, AdmissionCheck] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}  # the labels of each
        self.cluster_queues: dict[str, ClusterQueueState] = {}
        # Every local queue that exists or that a workload known here names.
        self.local_queues: dict[Key, LocalQueueState] = {}
        self.entries: dict[Key, Entry] = {}  # exactly the workloads that may queue and hold no quota
        self.reservations: dict[Key, Reservation] = {}  # exactly those that hold quota; disjoint from entries
        self.unready: dict[Key, None] = {}  # exactly the reservations whose pods are not all ready
        # Roots of the trees in which a round may decide something new; the value counts the rounds in a
        # row that changed nothing there but which flavors were tried.
        self.restless: dict[Node, int] = {}
        self.suspended: Round | None = None  # the round that waits for all workloads to be ready
        self.cycles = 0  # single-head rounds run so far
        self._woken: dict[Node, None] = {}  # roots of the trees whose parked workloads are to be tried again
        self._quota_changes: dict[Node, int] = {}  # per root: how often limits below it changed
        self._shapes = Shapes(configuration.resources)
        self._overheads: dict[str, Resources] = {}  # of each runtime class
        self._limit_ranges: dict[Key, LimitRange] = {}
        self._defaults: dict[str, Defaults] = {}  # of each namespace that has limit ranges
        self._now = 0.0  # the latest moment anybody told

    # What queues are made of.

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
                self.wake(queue)

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
            strangers = queue.pending.strangers
            if any(key.namespace == name for key in strangers) and queue.welcomes(labels):
                self.wake(queue)

    def remove_namespace(self, name: str) -> None:
        self.namespaces.pop(name, None)

    def put_runtime_class(self, runtime_class: RuntimeClass) -> None:
        name, overhead = runtime_class.metadata.name, runtime_class.overhead.pod_fixed
        if self._overheads.get(name) != overhead:
            self._overheads[name] = overhead
            self._reshape("")

    def remove_runtime_class(self, name: str) -> None:
        if self._overheads.pop(name, None) is not None:
            self._reshape("")

    def put_limit_range(self, limit_range: LimitRange) -> None:
        self._limit_ranges[limit_range.metadata.key] = limit_range
        self._limit_range_changed(limit_range.metadata.namespace)

    def remove_limit_range(self, key: Key) -> None:
        if self._limit_ranges.pop(key, None) is not None:
            self._limit_range_changed(key.namespace)

    def _limit_range_changed(self, namespace: str) -> None:
        items = [
            item
            for key, limit_range in sorted(self._limit_ranges.items())
            if key.namespace == namespace
            for item in limit_range.spec.limits
        ]
        self._defaults[namespace] = defaults_of(items)
        self._reshape(namespace)

    def _reshape(self, namespace: str) -> None:
        """Judge the pending workloads of ``namespace`` (empty: of all) by their requests as they are now."""
        for entry in list(self.entries.values()):
            if namespace in ("", entry.key.namespace):
                self._replace_entry(entry, entry.workload, as_new=True)

    # Queues and cohorts.

    def put_cluster_queue(self, cluster_queue: ClusterQueue) -> None:
        name = cluster_queue.metadata.name
        queue = self.cluster_queues.get(name)
        if queue is None:
            self.settle_wakes()
            self.cluster_queues[name] = queue = ClusterQueueState(
                cluster_queue, self._put_node(cluster_queue)
            )
            for reservation in self.reservations.values():
                if reservation.admission.cluster_queue == name:
                    self._count_in(queue, reservation, 1)
            for local_queue in self.local_queues.values():
                if local_queue.cluster_queue == name:
                    self._enqueue_all(local_queue)
        else:
            old, queue.object = queue.object, cluster_queue
            was_leaving = old.metadata.deletion_timestamp is not None
            if old.spec == cluster_queue.spec and was_leaving == _is_leaving(cluster_queue):
                return
            self.settle_wakes()
            queue.groups = groups_of(cluster_queue.spec)
            self._put_node(cluster_queue)
        self._quota_changed(queue.node)
        self._set_inactivity(queue)
        self.wake(queue)

    def _put_node(self, cluster_queue: ClusterQueue) -> Node:
        spec = cluster_queue.spec
        return self.quota.put_queue(
            cluster_queue.metadata.name, spec.cohort_name, limits_of(spec.resource_groups)
        )

    def remove_cluster_queue(self, name: str) -> None:
        queue = self.cluster_queues.get(name)
        if queue is None:
            return
        self.settle_wakes()
        for entry in [*queue.pending.active(), *queue.pending.inadmissible()]:
            self._dequeue(entry)
        for reservation in list(queue.reservations.values()):
            self._count_in(queue, reservation, -1)
        self._quota_changed(queue.node)
        self.wake(queue)
        del self.cluster_queues[name]
        self.quota.remove_queue(name)

    def put_cohort(self, cohort: Cohort) -> None:
        self.settle_wakes()
        node = self.quota.put_cohort(
            cohort.metadata.name, cohort.spec.parent_name, limits_of(cohort.spec.resource_groups)
        )
        self._quota_changed(node)
        self._wake_tree(node)

    def remove_cohort(self, name: str) -> None:
        node = self.quota.cohorts.get(name)
        if node is None:
            return
        self.settle_wakes()
        children = list(node.children)
        self.quota.remove_cohort(name)
        for child in children:
            self._quota_changed(child)
            self._wake_tree(child)

    def put_local_queue(self, local_queue: LocalQueue) -> None:
        queue = self._local_queue(local_queue.metadata.key)
        was_running = queue.is_running
        queue.object = local_queue
        if queue.is_running and not was_running:
            self._enqueue_all(queue)
        elif was_running and not queue.is_running:
            self._dequeue_all(queue)

    def remove_local_queue(self, key: Key) -> None:
        queue = self.local_queues.get(key)
        if queue is None:
            return
        self._dequeue_all(queue)
        queue.object = None
        self._forget_if_unused(key)

    def _local_queue(self, key: Key) -> LocalQueueState:
        return self.local_queues.setdefault(key, LocalQueueState())

    def _forget_if_unused(self, key: Key) -> None:
        queue = self.local_queues[key]
        if queue.object is None and not queue.entries and not queue.tally.reserving:
            del self.local_queues[key]

    def _set_inactivity(self, queue: ClusterQueueState) -> None:
        """Work out anew what keeps ``queue`` from taking work; wake it if nothing does any more."""
        was_inactive = bool(queue.inactive)
        queue.inactive = tuple(self._inactivity(queue))
        if was_inactive and not queue.inactive:
            self.wake(queue)

    def _inactivity(self, queue: ClusterQueueState) -> Iterator[Inactivity]:
        if _is_leaving(queue.object):
            yield Terminating()
        if queue.spec.stop_policy != "None":
            yield Stopped()
        flavors = sorted({flavor for group in queue.groups.values() for flavor in group.flavors})
        missing = tuple(flavor for flavor in flavors if flavor not in self.flavors)
        if missing:
            yield FlavorsMissing(missing)
        checks = sorted(rule.name for rule in queue.spec.admission_checks_strategy.admission_checks)
        missing = tuple(check for check in checks if check not in self.checks)
        if missing:
            yield ChecksMissing(missing)
        inactive = tuple(
            check
            for check in checks
            if check in self.checks and not is_true(self.checks[check].status.conditions, queue_status.ACTIVE)
        )
        if inactive:
            yield ChecksInactive(inactive)

    def is_active(self, queue: ClusterQueueState) -> bool:
        """Whether the queue may admit: nothing keeps it, and its cohorts do not form a loop."""
        return not queue.inactive and not self.quota.is_looped(queue.node)

    def generation(self, queue: ClusterQueueState) -> int:
        return queue.generation + self._quota_changes.get(queue.node.root, 0)

    def _quota_changed(self, node: Node) -> None:
        root = node.root
        self._quota_changes[root] = self._quota_changes.get(root, 0) + 1

    # Workloads.

    def put_workload(self, workload: Workload, now: float) -> None:
        """Take in the newest object; an older one than is known changes nothing."""
        self._now = max(self._now, now)
        key = workload.metadata.key
        known = self._known(key)
        if known is not None and known.metadata.uid != workload.metadata.uid:
            self.remove_workload(key)
        elif known is not None and _is_older(workload, known):
            return
        admission = workload.status.admission
        holds_quota = c.is_reserving(workload) and workload.spec.active and not c.is_finished(workload)
        if holds_quota and admission is not None:
            self._put_reservation(workload, admission)
        elif may_queue(workload):
            self._put_pending(workload)
        else:
            self.remove_workload(key)

    def remove_workload(self, key: Key) -> None:
        """Forget a workload that is gone or finished, or that may not run."""
        entry = self.entries.get(key)
        if entry is not None:
            self._drop_entry(entry)
        if key in self.reservations:
            self._release(self.reservations[key])

    def assume(self, entry: Entry, admission: Admission, usage: Usage, *, admitted: bool) -> None:
        """Count a reservation that is decided but not written."""
        self._drop_entry(entry)
        reservation = Reservation(entry.workload, admission, usage, admitted=admitted, ready=False)
        reservation.assumed = entry
        self._count(reservation)

    def forget(self, key: Key) -> None:
        """Undo ``assume``: the reservation could not be written.  The workload is tried again at once."""
        reservation = self.reservations.get(key)
        if reservation is None or reservation.assumed is None:
            return  # the workload is gone meanwhile, or somebody else's write made it reserve
        self._release(reservation)
        self._put_pending(reservation.assumed.workload)

    def _known(self, key: Key) -> Workload | None:
        entry = self.entries.get(key)
        if entry is not None:
            return entry.workload
        reservation = self.reservations.get(key)
        if reservation is None:
            return None
        return reservation.workload if reservation.assumed is None else reservation.assumed.workload

    def _put_reservation(self, workload: Workload, admission: Admission) -> None:
        key = workload.metadata.key
        entry, old = self.entries.get(key), self.reservations.get(key)
        if entry is not None:
            self._drop_entry(entry)
        if old is not None:
            self._uncount(old)
        new = Reservation(
            workload,
            admission,
            usage_of(workload, admission),
            admitted=c.is_admitted(workload),
            ready=is_true(workload.status.conditions, c.PODS_READY),
        )
        self._count(new)
        queue = self.cluster_queues.get(admission.cluster_queue)
        if old is None or queue is None:
            return
        if _frees(old, new) or old.priority != new.priority:
            self.wake(queue)
        elif c.is_evicted(old.workload) != c.is_evicted(workload):
            self.restless[queue.node.root] = 0

    def _put_pending(self, workload: Workload) -> None:
        key = workload.metadata.key
        reservation = self.reservations.get(key)
        if reservation is not None:
            if reservation.assumed is not None:
                reservation.assumed.workload = workload  # to pend again with, should the write fail
                return
            self._release(reservation)
        entry = self.entries.get(key)
        if entry is not None:
            self._replace_entry(entry, workload, as_new=False)
            return
        entry = Entry(workload, self._shape(workload), order_of(workload, self.configuration))
        self.entries[key] = entry
        self._local_queue(entry.local_queue).entries[key] = entry
        self._enqueue(entry)

    def _shape(self, workload: Workload) -> Shape:
        namespace = workload.metadata.namespace
        return self._shapes.of(workload, self._overheads, self._defaults.get(namespace, _NO_DEFAULTS))

    # Queueing.

    def _replace_entry(self, entry: Entry, workload: Workload, *, as_new: bool) -> None:
        """Take in a newer form of a pending workload; ``as_new`` judges it afresh whatever changed."""
        old, old_local_queue = entry.workload, entry.local_queue
        entry.workload = workload
        queue = self.cluster_queues.get(entry.cluster_queue)
        if queue is not None and queue.pending.in_flight is entry:
            return  # it is being decided on; ``requeue`` takes the newest form
        as_new = as_new or changed_what_counts(old, workload)
        if entry.local_queue != old_local_queue:
            self._move(entry, old_local_queue)
        elif queue is None:
            self._reshape_entry(entry)
        elif as_new:
            sticks = queue.pending.sticky is entry
            self._dequeue(entry)
            self._reshape_entry(entry)
            self._enqueue(entry)
            if sticks:
                queue.pending.sticky = entry
        elif entry.key in queue.pending.backing_off and not c.is_parked(workload, self._now):
            del queue.pending.backing_off[entry.key]
            queue.pending.park(entry)

    def _move(self, entry: Entry, old_local_queue: Key) -> None:
        self._dequeue(entry)
        del self.local_queues[old_local_queue].entries[entry.key]
        self._forget_if_unused(old_local_queue)
        self._reshape_entry(entry)
        self._local_queue(entry.local_queue).entries[entry.key] = entry
        self._enqueue(entry)

    def _reshape_entry(self, entry: Entry) -> None:
        entry.shape = self._shape(entry.workload)
        entry.order = order_of(entry.workload, self.configuration)

    def _enqueue(self, entry: Entry) -> None:
        """Put ``entry`` where it belongs in the cluster queue of its local queue, if both take it."""
        local_queue = self.local_queues[entry.local_queue]
        queue = self.cluster_queues.get(local_queue.cluster_queue)
        if queue is None or not local_queue.is_running:
            return
        entry.cluster_queue = queue.name
        if c.is_parked(entry.workload, self._now):
            queue.pending.backing_off[entry.key] = entry
        elif queue.pending.push(entry):
            self.restless[queue.node.root] = 0

    def _dequeue(self, entry: Entry) -> None:
        if entry.cluster_queue:
            self.cluster_queues[entry.cluster_queue].pending.remove(entry)
            entry.cluster_queue = ""

    def _enqueue_all(self, local_queue: LocalQueueState) -> None:
        for entry in local_queue.entries.values():
            if not entry.cluster_queue:
                self._enqueue(entry)

    def _dequeue_all(self, local_queue: LocalQueueState) -> None:
        for entry in local_queue.entries.values():
            self._dequeue(entry)

    def _drop_entry(self, entry: Entry) -> None:
        self._dequeue(entry)
        del self.entries[entry.key]
        del self.local_queues[entry.local_queue].entries[entry.key]
        self._forget_if_unused(entry.local_queue)

    def requeue(self, entry: Entry, reason: Requeue, wakes_before: int) -> bool:
        """Put back a head that was not admitted; whether it is active again.

        ``wakes_before`` is the queue's count of wake-ups when the head was popped: if something happened
        since, the verdict may be out of date, and it is tried again.
        """
        queue = self.cluster_queues.get(entry.cluster_queue)
        if queue is None or queue.pending.in_flight is not entry:
            return False  # it left while in flight
        pending = queue.pending
        pending.in_flight = None
        self._reshape_entry(entry)
        if c.is_parked(entry.workload, self._now):
            pending.backing_off[entry.key] = entry
            return False
        has_untried = entry.resume is not None and entry.resume.has_untried
        if reason.is_immediate(strict=queue.is_strict) or has_untried or pending.wakes > wakes_before:
            return pending.push(entry)
        if reason is Requeue.NAMESPACE_MISMATCH:
            pending.strangers[entry.key] = entry
        elif reason.holds_for_shape and not queue.is_strict:
            pending.block(entry)
        else:
            pending.park(entry)
        return False

    def wake(self, queue: ClusterQueueState) -> None:
        """Something happened that may help workloads of ``queue``, or of any queue of its tree."""
        self._wake_tree(queue.node)

    def _wake_tree(self, node: Node) -> None:
        self._woken[node.root] = None
        self.restless[node.root] = 0

    def settle_wakes(self) -> None:
        """Carry out the wake-ups noted since the last time: many events cost one pass over a tree."""
        for root in self._woken:
            for queue in self.queues_below(root):
                queue.pending.wake(queue.welcomed(self.namespaces))
        self._woken.clear()

    def queues_below(self, node: Node) -> Iterator[ClusterQueueState]:
        if self.quota.queues.get(node.name) is node:
            yield self.cluster_queues[node.name]
        for child in node.children:
            yield from self.queues_below(child)

    # Reservations.

    def _count(self, reservation: Reservation) -> None:
        key = reservation.key
        self.reservations[key] = reservation
        if not reservation.ready:
            self.unready[key] = None
        self._local_queue(_local_queue_of(reservation)).tally.count(reservation, 1)
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        if queue is not None:
            self._count_in(queue, reservation, 1)

    def _uncount(self, reservation: Reservation) -> None:
        key = reservation.key
        del self.reservations[key]
        self.unready.pop(key, None)
        self.local_queues[_local_queue_of(reservation)].tally.count(reservation, -1)
        self._forget_if_unused(_local_queue_of(reservation))
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        if queue is not None:
            self._count_in(queue, reservation, -1)

    def _count_in(self, queue: ClusterQueueState, reservation: Reservation, sign: int) -> None:
        queue.tally.count(reservation, sign)
        if sign > 0:
            queue.reservations[reservation.key] = reservation
            tree.add_usage(queue.node, reservation.usage)
        else:
            del queue.reservations[reservation.key]
            tree.remove_usage(queue.node, reservation.usage)

    def _release(self, reservation: Reservation) -> None:
        self._uncount(reservation)
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        if queue is not None:
            queue.generation += 1
            self.wake(queue)

    # What others want to know.

    def cluster_queue_status(self, name: str, now: float) -> ClusterQueueStatus:
        return queue_status.cluster_queue_status(self.cluster_queues[name], now)

    def local_queue_status(self, key: Key, now: float) -> LocalQueueStatus:
        queue = self.local_queues[key]
        return queue_status.local_queue_status(queue, self.cluster_queues.get(queue.cluster_queue), now)

    def pending(self, cluster_queue: str) -> Waiting:
        """Who waits in ``cluster_queue``, in order."""
        self.settle_wakes()
        pending = self.cluster_queues[cluster_queue].pending
        return Waiting(
            tuple(entry.key for entry in pending.active()),
            tuple(entry.key for entry in pending.inadmissible()),
        )

    def waiting(self, key: Key) -> Hold | None:
        """Why a pending workload waits, as last judged; None while it was not judged, or does not wait."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        cause = self._obstacle(entry)
        if cause is None:
            queue = self.cluster_queues[entry.cluster_queue]
            hold = queue.pending.hold_of(entry)
            return hold if hold is None else msgspec.structs.replace(hold, **_identity(entry.workload))
        return Hold(
            **_identity(entry.workload),
            reason="Pending" if isinstance(cause, BackingOff) else "Inadmissible",
            causes=(cause,),
            requests=entry.shape.requests,
        )

    def _obstacle(self, entry: Entry) -> Cause | None:
        """What keeps ``entry`` from being tried at all."""
        local_queue = self.local_queues[entry.local_queue]
        name = local_queue.cluster_queue
        queue = self.cluster_queues.get(name)
        if local_queue.object is None:
            return QueueMissing("LocalQueue", entry.local_queue.name)
        if not local_queue.is_running:
            return QueueInactive("LocalQueue", entry.local_queue.name)
        if queue is None:
            return QueueMissing("ClusterQueue", name)
        if not self.is_active(queue):
            return QueueInactive("ClusterQueue", name)
        if entry.key in queue.pending.backing_off:
            evicted = find_condition(entry.workload.status.conditions, c.EVICTED)
            return BackingOff(c.requeue_at(entry.workload), evicted.reason if evicted is not None else "")
        return None

    def queue_view(self, workload: Workload) -> QueueView:
        """What ``lifecycle.decide_workload`` needs to know of the queues of ``workload``."""
        key = Key(workload.metadata.namespace, workload.spec.queue_name)
        local_queue = self.local_queues.get(key)
        found = local_queue is not None and local_queue.object is not None
        local_view = LocalQueueView(key.name, found)
        if local_queue is not None and local_queue.object is not None:
            local_view = LocalQueueView(key.name, found, local_queue.object.spec.stop_policy)
        admission = workload.status.admission
        if admission is not None:
            name = admission.cluster_queue
        elif found and local_queue is not None:
            name = local_queue.cluster_queue
        else:
            return QueueView(local_view, None)
        queue = self.cluster_queues.get(name)
        if queue is None:
            return QueueView(local_view, ClusterQueueView(name, found=False))
        return QueueView(
            local_view,
            ClusterQueueView(
                name,
                found=True,
                terminating=_is_leaving(queue.object),
                active=self.is_active(queue),
                stop_policy=queue.spec.stop_policy,
                checks=queue.checks_for(admission),
            ),
        )


def _identity(workload: Workload) -> dict[str, Any]:
    metadata = workload.metadata
    return {"key": metadata.key, "uid": metadata.uid, "resource_version": metadata.resource_version}


def _local_queue_of(reservation: Reservation) -> Key:
    workload = reservation.workload
    return Key(workload.metadata.namespace, workload.spec.queue_name)


def _is_leaving(cluster_queue: ClusterQueue) -> bool:
    return cluster_queue.metadata.deletion_timestamp is not None


def _is_older(one: Workload, other: Workload) -> bool:
    """Whether ``one`` was stored before ``other``; versions that are no numbers are taken as they come."""
    mine, theirs = one.metadata.resource_version, other.metadata.resource_version
    return mine.isdecimal() and theirs.isdecimal() and int(mine) < int(theirs)


def _frees(old: Reservation, new: Reservation) -> bool:
    return any(amount > new.usage.get(pair, 0) for pair, amount in old.usage.items())
