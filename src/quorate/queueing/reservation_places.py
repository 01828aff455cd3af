"""What each reservation holds of quota and of nodes, and which places depend on where pods are bound."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from quorate.api.configuration import Configuration
from quorate.api.kueue import Admission, Workload
from quorate.api.meta import Key
from quorate.api.names.kueue import ELASTIC_JOB
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation, usage_of
from quorate.queueing.local_queues import LocalQueues
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.occupants import Owner
from quorate.queueing.nodes.places import (
    NO_PLACES,
    Domains,
    Places,
    has_places,
    recorded_places,
    without_places,
)
from quorate.queueing.nodes.pod_templates import template_of
from quorate.queueing.pending.shape import Shape, ShapeRegistry
from quorate.queueing.topology.pod_set_updates import UpdateConflict, with_updates
from quorate.queueing.topology.shrunk_places import domains_without_ended, domains_without_members
from quorate.queueing.workload_slices import replaced_slice
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, Usage


class ReservationPlaces(LocalQueues):
    """All reservations of quota, with the places of each."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.shapes = ShapeRegistry(configuration.resources, configuration.gates)
        self.topology = TopologyModel(configuration.topology_gates, configuration.node_fit.mode)
        self.reservations: dict[Key, Reservation] = {}  # exactly of the workloads that hold quota
        # By the key of a replaced workload slice: the slice that holds quota in its place.
        self.replacement_slices: dict[Key, Key] = {}
        # Exactly the reservations with places that depend on where pods are bound: those with
        # ``reclaimablePods``, and those of Volcano pod groups.
        self._depending_on_pods: set[Key] = set()
        self._of_group: dict[Key, Key] = {}  # the latter by pod group

    def replaced_places(self, workload: Workload, queue: ClusterQueueState) -> Reservation | None:
        """Return the slice of ``queue`` that ``workload`` replaces, if its pods keep their places."""
        is_on = self.topology.is_on and self.topology.gates.elastic_slices
        if not is_on or workload.metadata.annotations.get(ELASTIC_JOB) != "true":
            return None
        replaced = replaced_slice(workload, self.configuration.gates)
        reservation = None if replaced is None else self.reservations.get(replaced)
        return reservation if reservation and reservation.admission.cluster_queue == queue.name else None

    def usage_of(self, workload: Workload, admission: Admission) -> dict[FlavorResource, int]:
        """Return what a workload with quota uses, without amounts of 0.

        The replacement of a slice counts all pods, so that the slice itself uses nothing.  A replacement that
        is not observed yet may be refused: until then the slice uses the amounts that the replacement does
        not count.
        """
        recorded = usage_of(workload, admission, self.configuration.gates)
        key = self.replacement_slices.get(workload.metadata.key)
        replacement = None if key is None else self.reservations.get(key)
        counted: Usage = {}
        if replacement is not None and replacement.assumed is None:
            return {}
        if replacement is not None and replacement.admission.cluster_queue == admission.cluster_queue:
            counted = replacement.usage
        beyond = {pair: amount - counted.get(pair, 0) for pair, amount in recorded.items()}
        return {pair: amount for pair, amount in beyond.items() if amount > 0}

    def count_reservation(self, queue: ClusterQueueState, reservation: Reservation) -> None:
        queue.reservations[reservation.key] = reservation
        queue.reservation_changes += 1
        queue.totals.count(reservation, 1)
        tree.add_usage(queue.node, reservation.usage)
        if reservation.places.all:
            reservation.places.count(1)

    def uncount_reservation(self, queue: ClusterQueueState, reservation: Reservation) -> None:
        del queue.reservations[reservation.key]
        queue.reservation_changes += 1
        queue.totals.count(reservation, -1)
        tree.remove_usage(queue.node, reservation.usage)
        if reservation.places.all:
            reservation.places.count(-1)

    @contextmanager
    def without(self, reservations: Iterable[Reservation]) -> Iterator[None]:
        """Leave ``reservations`` out of all sums and out of their cluster queues."""
        removed: list[tuple[ClusterQueueState, Reservation]] = []
        for reservation in reservations:
            queue = self.cluster_queues.get(reservation.admission.cluster_queue)
            if queue is not None:
                self.uncount_reservation(queue, reservation)
                removed.append((queue, reservation))
        try:
            yield
        finally:
            for queue, reservation in removed:
                self.count_reservation(queue, reservation)

    def holds_places(self, reservation: Reservation) -> bool:
        """Return True if places are recorded, even if a replacing slice counts all, or no pod needs one."""
        return self.topology.is_on and (bool(reservation.places.all) or has_places(reservation.admission))

    def held_places(self, reservation: Reservation, shape: Shape | None = None) -> Places:
        """Return the places of ``reservation``, including places that an unwritten second pass leaves."""
        places = self.places_of(reservation.workload, reservation.admission, shape)
        if reservation.replaced_admission is None:
            return places
        replaced = self.places_of(reservation.workload, reservation.replaced_admission, shape)
        return Places(
            self.topology, (*places.all, *without_places(replaced.all, places.all)), reservation.key
        )

    def places_of(self, workload: Workload, admission: Admission, shape: Shape | None = None) -> Places:
        """Return the places of the pods of a workload, with the requests that they have now.

        With the gate ElasticJobsViaWorkloadSlicesWithTAS the places of a replaced slice count only if its
        replacement has not got them.  ``shape``: the shape of the workload, if the caller has it.
        """
        if not self.topology.is_on or not has_places(admission):
            return NO_PLACES
        if shape is None:
            shape = self.shapes.shape_of(workload)
        per_pod = {pod_set.name: pod_set.on_node for pod_set in shape.pod_sets}
        updated = with_updates(workload)
        pod_sets = (workload if isinstance(updated, UpdateConflict) else updated).spec.pod_sets
        templates = {
            pod_set.name: template_of(workload.metadata.namespace, pod_set.template) for pod_set in pod_sets
        }
        needed: dict[str, Domains] = {}
        if (group := c.pod_group_of(workload)) is not None:
            needed = domains_without_members(admission, partial(self.topology.bound_members, group))
        elif self.configuration.gates.reclaimable_pods and workload.status.reclaimable_pods:
            needed = domains_without_ended(workload, admission, self.topology.bound_pods)
        places = recorded_places(self.topology, admission, per_pod, templates, needed, workload.metadata.key)
        replacement_key = self.replacement_slices.get(workload.metadata.key)
        replacement = None if replacement_key is None else self.reservations.get(replacement_key)
        if replacement is None or not self.topology.gates.elastic_slices:
            return places
        left = without_places(places.all, replacement.places.all)
        return Places(self.topology, left, workload.metadata.key)

    def note_dependence(self, reservation: Reservation) -> None:
        """Record whether the places of ``reservation`` depend on where its pods are bound."""
        key, workload = reservation.key, reservation.workload
        group = c.pod_group_of(workload) if has_places(reservation.admission) else None
        if group is not None:
            self._of_group[group] = key
        if group is not None or (workload.status.reclaimable_pods and has_places(reservation.admission)):
            self._depending_on_pods.add(key)
        else:
            self._depending_on_pods.discard(key)

    def forget_dependence(self, reservation: Reservation) -> None:
        """Record that the places of ``reservation`` count no more."""
        key = reservation.key
        if key in self._depending_on_pods:
            self._depending_on_pods.remove(key)
            group = c.pod_group_of(reservation.workload)
            if group is not None and self._of_group.get(group) == key:
                del self._of_group[group]

    def workload_of_pod(self, pod: Key) -> Key | None:
        """Return the workload of a bound pod with or without a place of its own; None: unknown."""
        owner = self.topology.owner_of(pod)
        if owner is None or owner.kind == "workload":
            return None if owner is None else owner.key
        return self._of_group.get(owner.key)

    def has_group_places(self, group: Key | None) -> bool:
        """Return True if the workload of a Volcano pod group has places."""
        return group in self._of_group

    def node_changed(self, node: str | None = None) -> None:
        """Count the places that are needed, where pods decide that, after a change of a node, or of all."""
        for key in sorted(self._depending_on_pods):
            group = c.pod_group_of(self.reservations[key].workload)
            owner = Owner("workload", key) if group is None else Owner("group", group)
            if node is None or node in self.topology.nodes_of(owner):
                self.pods_changed(key)

    def pods_changed(self, workload: Key) -> frozenset[str]:
        """Count the places that the workload needs after a change of its bound pods.

        Returns the flavors of places that are free now.
        """
        if workload not in self._depending_on_pods:
            return frozenset()
        reservation = self.reservations[workload]
        old = reservation.places.all
        self.update_places(reservation)
        freed = without_places(old, reservation.places.all) if reservation.places.all != old else ()
        return frozenset(flavor for place in freed for flavor in place.flavors)

    def update_places(self, reservation: Reservation) -> None:
        """Count the places of ``reservation`` with the requests that its pods have now."""
        queue = self.cluster_queues.get(reservation.admission.cluster_queue)
        old = reservation.places
        reservation.places = self.held_places(reservation)
        if queue is not None and reservation.places.all != old.all:
            old.count(-1)
            reservation.places.count(1)
            self.note_freed_room()
