"""The part of the queueing model that administrators decide: flavors, topologies, checks, queues and cohorts.

Each change is applied to the ledger, and the workloads that it may help are tried again.  Nodes and what is
on them go to ``nodes``, what adjusts the requests of pods to ``request_updates``.
"""

from collections.abc import Mapping
from functools import partial

from quorate.api.configuration import Configuration
from quorate.api.kueue import AdmissionCheck, ClusterQueue, Cohort, CohortSpec, LocalQueue, ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.api.meta import Key, epoch
from quorate.api.quantity import NANOS
from quorate.api.quorate import Reservation
from quorate.queueing.cluster_queue import (
    ClusterQueueState,
    flavor_groups,
    limits_of,
    spec_findings,
    weight_of,
)
from quorate.queueing.consumed_usage import ConsumedUsage
from quorate.queueing.inactive_reasons import inactive_reasons, is_terminating
from quorate.queueing.ledger import Ledger
from quorate.queueing.node_objects import NodeObjects
from quorate.queueing.nodes.topology_flavors import annotated_mode
from quorate.queueing.request_updates import RequestUpdates
from quorate.quota.tree import Node


class QueueObjects:
    """Applies flavors, topologies, checks, queues and cohorts to the ledger, and requeues workloads."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.ledger = Ledger(configuration)
        self.nodes = NodeObjects(self.ledger)
        self.request_updates = RequestUpdates(self.ledger)
        self.flavors: dict[str, ResourceFlavor] = {}
        self.ledger.topology.flavors = self.flavors
        self.checks: dict[str, AdmissionCheck] = {}
        self._cohorts: dict[str, CohortSpec] = {}  # exactly the cohorts that have an object

    # Flavors, admission checks, namespaces, and what adjusts the requests of pods.

    def put_flavor(self, flavor: ResourceFlavor) -> None:
        name = flavor.metadata.name
        old = self.flavors.get(name)
        self.flavors[name] = flavor
        if old is None or old.spec != flavor.spec or annotated_mode(old) != annotated_mode(flavor):
            self._flavor_changed(name)

    def remove_flavor(self, name: str) -> None:
        if self.flavors.pop(name, None) is not None:
            self._flavor_changed(name)

    def _flavor_changed(self, name: str) -> None:
        self.ledger.topology.flavor_changed(name)
        for queue in self.nodes.queues_with_flavors((name,)):
            self._update_inactive_reasons(queue)
            self.ledger.note_external_change(queue)

    def put_window(self, reservation: Reservation) -> None:
        if self.ledger.windows.put(reservation):
            self._windows_changed()

    def remove_window(self, name: str) -> None:
        if self.ledger.windows.remove(name):
            self._windows_changed()

    def advance_windows(self, now: float) -> float | None:
        """Retry workloads if a window has begun or ended; return when the next one does."""
        windows = self.ledger.windows
        if not windows:
            return None
        self.ledger.now = max(self.ledger.now, now)
        if windows.advance(now):
            self._windows_changed()
        return windows.next_boundary(now)

    def _windows_changed(self) -> None:
        for queue in self.ledger.cluster_queues.values():
            self.ledger.schedule_requeue(queue.node)

    def put_topology(self, topology: Topology) -> None:
        self.ledger.topology.put_topology(topology)
        self._topology_changed(topology.metadata.name)

    def remove_topology(self, name: str) -> None:
        self.ledger.topology.remove_topology(name)
        self._topology_changed(name)

    def _topology_changed(self, name: str) -> None:
        for flavor in self.flavors.values():
            if flavor.spec.topology_name == name:
                self._flavor_changed(flavor.metadata.name)

    def put_admission_check(self, check: AdmissionCheck) -> None:
        self.checks[check.metadata.name] = check
        self._check_changed(check.metadata.name)

    def remove_admission_check(self, name: str) -> None:
        if self.checks.pop(name, None) is not None:
            self._check_changed(name)

    def _check_changed(self, name: str) -> None:
        for queue in self.ledger.cluster_queues.values():
            rules = queue.spec.admission_checks_strategy.admission_checks
            if any(rule.name == name for rule in rules):
                self._update_inactive_reasons(queue)

    def put_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        ledger = self.ledger
        if ledger.namespaces.get(name) == labels:
            return
        old, ledger.namespaces[name] = ledger.namespaces.get(name, {}), labels
        self.nodes.constraints.put_namespace(name, labels)
        for queue in ledger.cluster_queues.values():
            if queue.matches_namespace(labels) != queue.matches_namespace(old):
                ledger.note_external_change(queue)  # its head may block others no more

    def remove_namespace(self, name: str) -> None:
        self.put_namespace(name, {})
        self.ledger.namespaces.pop(name, None)
        self.nodes.constraints.forget_namespace(name)

    # Queues and cohorts.

    def put_cluster_queue(self, cluster_queue: ClusterQueue) -> None:
        ledger, name = self.ledger, cluster_queue.metadata.name
        queue = ledger.cluster_queues.get(name)
        if queue is not None:
            old, rules = queue.object, queue.planned_start_rules
            queue.put_object(cluster_queue)
            if queue.planned_start_rules != rules:
                ledger.end_plan(queue)
                ledger.schedule_requeue(queue.node)
            ledger.read_aging(queue)
            if old.spec == cluster_queue.spec and is_terminating(old) == is_terminating(cluster_queue):
                return
        ledger.flush_requeues()  # those of the old tree
        old_root = None if queue is None else queue.node.root
        node = ledger.quota.put_queue(
            name, cluster_queue.spec.cohort_name, limits_of(cluster_queue.spec.resource_groups)
        )
        node.weight = weight_of(cluster_queue.spec.fair_sharing)
        if queue is None:
            queue = self._add_cluster_queue(cluster_queue, node)
        else:
            queue.groups = flavor_groups(cluster_queue.spec)
            queue.findings = spec_findings(cluster_queue.spec)
        by_usage = self.configuration.admission_fair_sharing is not None and queue.uses_admission_fair_sharing
        queue.pending.set_consumed_usage(ledger.consumed_usage if by_usage else None)
        if not queue.keeps_preemptor_first:
            queue.pending.sticky = None
        self._update_inactive_reasons(queue)
        ledger.note_root_change(node)
        ledger.note_quota_change(node)
        if old_root is not None and old_root is not node.root:
            ledger.note_quota_change(old_root)  # what the queue used there is free
            ledger.forget_former_roots(old_root, node)

    def _add_cluster_queue(self, cluster_queue: ClusterQueue, node: Node) -> ClusterQueueState:
        ledger, name = self.ledger, cluster_queue.metadata.name
        ledger.cluster_queues[name] = queue = ClusterQueueState(
            cluster_queue, node, ledger.parked, partial(ledger.version, node), ledger.bound_inputs
        )
        for reservation in ledger.reservations.values():
            if reservation.admission.cluster_queue == name:
                ledger.count_reservation(queue, reservation)
        ledger.read_aging(queue)
        ledger.count_outside(queue)
        for local_queue in ledger.local_queues.values():
            if local_queue.cluster_queue == name:
                ledger.enqueue_all(local_queue)
        return queue

    def remove_cluster_queue(self, name: str) -> None:
        ledger = self.ledger
        queue = ledger.cluster_queues.get(name)
        if queue is None:
            return
        ledger.flush_requeues()
        for local_queue in ledger.local_queues.values():
            if local_queue.cluster_queue == name:
                ledger.dequeue_all(local_queue)
        for reservation in list(queue.reservations.values()):
            ledger.uncount_reservation(queue, reservation)
        ledger.uncount_outside(queue)
        ledger.note_freed_room()  # their pods had places that other trees may use
        ledger.note_quota_change(queue.node)
        ledger.flush_requeues()
        root = queue.node.root
        ledger.forget_aging(queue)
        del ledger.cluster_queues[name]
        ledger.quota.remove_queue(name)
        ledger.forget_former_roots(queue.node, root)

    def put_cohort(self, cohort: Cohort) -> None:
        name, quota = cohort.metadata.name, self.ledger.quota
        if self._cohorts.get(name) == cohort.spec:
            return
        self._cohorts[name] = cohort.spec
        self.ledger.flush_requeues()
        former, cyclic = quota.cohorts.get(name), quota.cyclic
        root = former.root if former is not None else None
        node = quota.put_cohort(name, cohort.spec.parent_name, limits_of(cohort.spec.resource_groups))
        node.weight = weight_of(cohort.spec.fair_sharing)
        self._cohort_changed(node, root, cyclic)

    def remove_cohort(self, name: str) -> None:
        if self._cohorts.pop(name, None) is None:
            return
        self.ledger.flush_requeues()
        quota = self.ledger.quota
        node, cyclic = quota.cohorts[name], quota.cyclic
        root = node.root
        quota.remove_cohort(name)
        node.weight = weight_of(None)
        self._cohort_changed(node, root, cyclic)

    def _cohort_changed(self, node: Node, old_root: Node | None, old_cyclic: frozenset[Node]) -> None:
        """Update the ledger after the cohort ``node`` changed; the arguments describe the tree before."""
        ledger = self.ledger
        if node.root is not old_root:
            ledger.note_root_change(node)
            if old_root is not None:
                ledger.note_quota_change(old_root)
        ledger.note_quota_change(node)
        changed = old_cyclic ^ ledger.quota.cyclic
        for cohort in changed:
            ledger.note_root_change(cohort)
            ledger.note_quota_change(cohort)
        if node.root is not old_root or changed:
            for cohort in {node, *changed}:
                for queue in ledger.queues_below(cohort):
                    self._update_inactive_reasons(queue)
        ledger.forget_former_roots(node, *(() if old_root is None else (old_root,)), *changed)

    def put_local_queue(self, local_queue: LocalQueue) -> None:
        queue = self.ledger.ensure_local_queue(local_queue.metadata.key)
        before = queue.is_running, queue.cluster_queue
        queue.object = local_queue
        if queue.consumed_usage.sampled_at is None:
            _restore_consumed_usage(queue.consumed_usage, local_queue)
        if before != (queue.is_running, queue.cluster_queue):
            self.ledger.dequeue_all(queue)
            self.ledger.enqueue_all(queue)
            if self.ledger.windows:  # their owners may be in other trees now
                self._windows_changed()

    def remove_local_queue(self, key: Key) -> None:
        queue = self.ledger.local_queues.get(key)
        if queue is None:
            return
        self.ledger.dequeue_all(queue)
        queue.object = None
        self.ledger.remove_local_queue_if_unused(key)
        if self.ledger.windows:
            self._windows_changed()

    def _update_inactive_reasons(self, queue: ClusterQueueState) -> None:
        """Compute why ``queue`` is inactive; requeue its workloads if it has become active."""
        was_inactive = bool(queue.inactive_reasons)
        reasons = inactive_reasons(
            queue.object,
            queue.findings,
            self.flavors,
            self.checks,
            self.ledger.topology.topologies,
            self.ledger.quota.cycle_above(queue.node),
        )
        queue.inactive_reasons = tuple(reasons)
        if queue.inactive_reasons:
            self.ledger.end_plan(queue)
        if was_inactive and not queue.inactive_reasons:
            queue.pending.explain_again()
            self.ledger.note_external_change(queue)


def _restore_consumed_usage(consumed_usage: ConsumedUsage, local_queue: LocalQueue) -> None:
    """Continue from the consumed usage that an earlier process stored in the status.

    Without any usage the time of the last sample is not stored, so a new history begins.
    """
    sharing = local_queue.status.fair_sharing
    stored = sharing.admission_fair_sharing_status if sharing is not None else None
    if stored is None or stored.last_update is None:
        return
    consumed_usage.changed_at = epoch(stored.last_update)
    consumed_usage.consumed = {
        resource: quantity.nanos / NANOS for resource, quantity in stored.consumed_resources.items()
    }
    if any(consumed_usage.consumed.values()):
        consumed_usage.sampled_at = consumed_usage.changed_at
