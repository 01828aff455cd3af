"""The places that a workload with quota lacks, searched in a second pass; flavors and counts stay.

A workload lacks hosts in place of failed hosts, or the first places of its pods, once an admission check has
brought the nodes.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from quorate.api.kueue import PodSetAssignment
from quorate.api.kueue.topology import HOSTNAME, topology_assignment
from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.tree import DomainTree, Path
from quorate.queueing.cluster_queue import Reservation
from quorate.queueing.inadmissible_reasons import NodesLackRoom, PlacementRefused
from quorate.queueing.nodes.places import Place, Places
from quorate.queueing.nodes.pod_templates import template_of
from quorate.queueing.pending.shape import PodSetShape
from quorate.queueing.scheduling.pod_sets_to_place import kept_nodes, topology_flavor
from quorate.queueing.state import State
from quorate.queueing.topology.elastic_slices import previous_domains
from quorate.queueing.topology.placing import (
    PodSetToPlace,
    limited_request,
    place_pod_sets,
    pod_set_request,
    without_kept_nodes,
)
from quorate.queueing.topology.pod_set_updates import UpdateConflict, with_updates
from quorate.queueing.topology.replacement import replace_hosts
from quorate.queueing.topology.shrunk_places import domains_without_ended

Failures = tuple[PlacementRefused | NodesLackRoom, ...]

_UNKNOWN = "workload requires Topology, but there is no TAS cache information"


class FoundPlaces(NamedTuple):
    assignments: tuple[PodSetAssignment, ...]  # of all pod sets
    added: tuple[Place, ...]  # what they use beyond the old places


class _Replaced(NamedTuple):
    assignment: PodSetAssignment
    added: list[Place]


class SecondPassPlaces:
    """The places that one workload lacks; ``find`` searches on the state at the time of the call."""

    def __init__(self, state: State, reservation: Reservation, failed: frozenset[str]) -> None:
        self._ledger = state.ledger
        self._model = state.ledger.topology
        self._reservation = reservation
        self._failed = failed
        self._conflict: PlacementRefused | None = None
        workload = with_updates(reservation.workload)
        if isinstance(workload, UpdateConflict):
            self._conflict = PlacementRefused(workload.pod_set, workload.text)
            workload = reservation.workload
        # Of the pod sets of which pods have ended for good: these need no other place.
        self._needed = domains_without_ended(workload, reservation.admission, self._model.bound_pods)
        shape = state.ledger.shapes.shape_of(workload)
        self._shapes = {pod_set.name: pod_set for pod_set in shape.pod_sets}
        namespace = workload.metadata.namespace
        self._templates = {
            pod_set.name: template_of(namespace, pod_set.template) for pod_set in workload.spec.pod_sets
        }
        queue = state.ledger.cluster_queues.get(reservation.admission.cluster_queue)
        self._replaced_slice = None if queue is None else state.ledger.replaced_places(workload, queue)
        kept = None if queue is None else kept_nodes(state, queue, workload)
        self._kept_hosts: frozenset[str] = frozenset() if kept is None else kept.names

    @property
    def flavors(self) -> frozenset[str]:
        """Return the flavors of the pods that lack places."""
        return frozenset(
            flavor
            for assigned in self._reservation.admission.pod_set_assignments
            if self._is_delayed(assigned) or self._has_failed(assigned)
            for flavor in assigned.flavors.values()
        )

    def find(self, *, is_empty: bool = False) -> FoundPlaces | Failures:
        """Return the places of all pods, or why some have none.

        ``is_empty``: as if no pods had been placed in any topology, for the first places only.
        """
        if self._conflict is not None:
            return (self._conflict,)
        new: dict[str, PodSetAssignment] = {}
        added: list[Place] = []
        assumed: dict[Path, dict[str, int]] = {}  # by recorded values: what replaced pods will use
        assignments = self._reservation.admission.pod_set_assignments
        lost = self._lost_groups()
        for assigned in assignments:
            if self._has_failed(assigned) and assigned.name not in lost:
                replaced = self._replace(assigned, self._shapes[assigned.name], assumed, new)
                if isinstance(replaced, PlacementRefused):
                    return (replaced,)
                new[assigned.name] = replaced.assignment
                added += replaced.added
        to_place = [pods for pods in assignments if self._is_delayed(pods) or pods.name in lost]
        if to_place:
            beside = Places(self._model, added)
            beside.count(1)
            try:
                placed = self._place(to_place, added, is_empty=is_empty)
            finally:
                beside.count(-1)
            if not isinstance(placed, dict):
                return placed
            new |= placed
        return FoundPlaces(
            tuple(new.get(assignment.name, assignment) for assignment in assignments), tuple(added)
        )

    def _is_delayed(self, assigned: PodSetAssignment) -> bool:
        is_known = assigned.name in self._shapes and assigned.topology_assignment is None
        return is_known and self._model.is_on and assigned.delayed_topology_request == "Pending"

    def _has_failed(self, assigned: PodSetAssignment) -> bool:
        return assigned.name in self._shapes and any(
            values[-1] in self._failed for values, _ in self._domains(assigned)
        )

    def _lost_groups(self) -> frozenset[str]:
        """Return the pod sets of groups of which all hosts have failed: each group is placed anew."""
        groups: dict[str, dict[str, set[str]]] = {}  # the hosts of each pod set
        for assigned in self._reservation.admission.pod_set_assignments:
            shape = self._shapes.get(assigned.name)
            hosts = {values[-1] for values, _ in self._domains(assigned)}
            if shape is not None and shape.topology.group and hosts:
                groups.setdefault(shape.topology.group, {})[assigned.name] = hosts
        return frozenset(
            name
            for hosts_of in groups.values()
            if len(hosts_of) > 1 and all(self._failed >= hosts for hosts in hosts_of.values())
            for name in hosts_of
        )

    def _domains(self, assigned: PodSetAssignment) -> Iterable[tuple[Path, int]]:
        """Return the places of the pods that may still run; none if there are no places yet."""
        places = assigned.topology_assignment
        if places is None:
            return ()
        return self._needed[assigned.name] if assigned.name in self._needed else places.domains()

    def _place(
        self, assignments: list[PodSetAssignment], added: list[Place], *, is_empty: bool
    ) -> dict[str, PodSetAssignment] | Failures:
        """Return ``assignments`` with places beside no earlier ones; the places are appended to ``added``."""
        to_place: list[PodSetToPlace] = []
        for assigned in assignments:
            pods = self._shapes[assigned.name]
            flavor = topology_flavor(self._model, pods, assigned.flavors)
            if isinstance(flavor, PlacementRefused):
                return (flavor,)
            all_pods = pods.count if assigned.count is None else assigned.count
            count = sum(count for _, count in self._domains(assigned)) or all_pods
            replaced = self._replaced_slice
            previous = () if replaced is None else previous_domains(replaced.admission, pods.name, flavor)
            if count:
                is_read = not self._model.above_hosts.isdisjoint(flavor)
                template = self._templates[pods.name] if is_read else None
                to_place.append(
                    PodSetToPlace(
                        pods, count, flavor, template=template, previous=previous, kept_hosts=self._kept_hosts
                    )
                )
        placement = place_pod_sets(self._model, to_place, is_empty=is_empty)
        if placement.failures:
            return placement.failures
        by_host_prefix = self._model.gates.host_prefix_slices
        places = {
            pod_set.name: topology_assignment(pod_set.levels, pod_set.domains, by_host_prefix=by_host_prefix)
            for pod_set in placement.pod_sets
        }
        added += placement.places()
        return {
            assigned.name: replace(
                assigned,
                topology_assignment=places.get(assigned.name),
                delayed_topology_request=assigned.delayed_topology_request and "Ready",
            )
            for assigned in assignments
        }

    def _replace(
        self,
        assigned: PodSetAssignment,
        shape: PodSetShape,
        assumed: dict[Path, dict[str, int]],
        replaced: Mapping[str, PodSetAssignment],
    ) -> _Replaced | PlacementRefused:
        """Return the assignment with other hosts for the failed ones, or why there are none.

        ``replaced`` are the assignments of earlier pod sets that were replaced.
        Pods of flavors without a topology stay where they run, if the node still takes pods.
        """
        model, places = self._model, assigned.topology_assignment
        assert places is not None, f"{assigned.name} has no places"
        names = frozenset(assigned.flavors.values())
        with_topology = frozenset(filter(model.is_topology_flavor, names))
        tree = model.tree(min(with_topology)) if with_topology else model.host_tree(names)
        if tree is None:
            return PlacementRefused(assigned.name, _UNKNOWN)
        by_leaf = {
            leaf: amounts for values, amounts in assumed.items() if (leaf := tree.leaf_of(values)) is not None
        }
        before = self._domains_before(assigned, tree)
        on_hosts = not with_topology
        template = self._templates[assigned.name]
        flavors, count = with_topology or names, sum(before.values())
        kept = self._kept_hosts - {host for *_, host in before}
        pod_set = PodSetToPlace(shape, count, flavors, on_hosts, template, kept_hosts=kept)
        capacity = Capacity(tree, by_leaf)
        staying = self._staying(assigned.name, before, on_hosts=on_hosts)
        staying = {host: pods if tree.leaf_of((host,)) is not None else 0 for host, pods in staying.items()}
        missing = {host: count - staying[host] for (*_, host), count in before.items() if host in staying}
        request = (
            limited_request(model, pod_set, capacity, missing)
            if on_hosts
            else pod_set_request(model, pod_set)
        )
        hosts = replace_hosts(
            capacity,
            without_kept_nodes(tree, pod_set, request),
            tuple(before.items()),
            self._failed,
            model.profile,
            staying,
            self._beside(shape, replaced),
        )
        if isinstance(hosts, str):
            return PlacementRefused(assigned.name, hosts)
        added: list[Place] = []
        for values, count in hosts:
            more = count - staying.get(values[-1], before.get(values, 0))
            amounts = {resource: amount * more for resource, amount in shape.on_node.items()}
            here = assumed.setdefault(values, {})
            for resource, amount in amounts.items():
                here[resource] = here.get(resource, 0) + amount
            if more:
                added.append(Place(tuple(sorted(names)), values, True, amounts, more, template))
        new = topology_assignment(tree.recorded_levels, hosts, by_host_prefix=model.gates.host_prefix_slices)
        return _Replaced(replace(assigned, topology_assignment=new), added)

    def _domains_before(self, assigned: PodSetAssignment, tree: DomainTree) -> dict[Path, int]:
        """Return the places of the pods that may still run, except for hosts on which all pods have ended.

        On a host that does not exist any more and has not failed, all pods have ended.
        """
        may_have_ended = assigned.name in self._needed
        return {
            values: count
            for values, count in self._domains(assigned)
            if not may_have_ended or values[-1] in self._failed or tree.leaf_of(values) is not None
        }

    def _beside(
        self, shape: PodSetShape, replaced: Mapping[str, PodSetAssignment]
    ) -> tuple[tuple[Path, int], ...]:
        """Return the healthy places of the other pod set of a group, a leader or its workers."""
        group = shape.topology.group
        for other in self._reservation.admission.pod_set_assignments if group else ():
            other_shape = self._shapes.get(other.name)
            new = replaced.get(other.name)
            places = None if new is None else new.topology_assignment
            domains = self._domains(other) if places is None else places.domains()
            if other_shape is not None and other_shape is not shape and other_shape.topology.group == group:
                return tuple(domain for domain in domains if domain[0][-1] not in self._failed)
        return ()

    def _staying(self, pod_set: str, before: Mapping[Path, int], *, on_hosts: bool) -> dict[str, int]:
        """Return how many pods run on each failed host and go on."""
        running = self._model.bound_pods(self._reservation.key, pod_set, (HOSTNAME,)) if on_hosts else {}
        return {
            host: min(running.get((host,), 0), count)
            for (*_, host), count in before.items()
            if host in self._failed
        }
