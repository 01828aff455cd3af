"""The second pass: workloads with quota of which some hosts have failed get other hosts, or are evicted.

They come before all other workloads of a cycle.  Flavors and counts stay (Kueue, v0.19).
"""

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from quorate.api.kueue import PodSetAssignment
from quorate.api.kueue.topology import topology_assignment
from quorate.placement.topology.counting import Capacity
from quorate.placement.topology.request import Profile
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import Reservation
from quorate.queueing.decisions import Evict, ReplaceHosts
from quorate.queueing.pending.shape import PodSetShape
from quorate.queueing.state import State
from quorate.queueing.topology.placing import PodSetToPlace, limited_request, pod_set_request
from quorate.queueing.topology.pod_set_updates import UpdateConflict, with_updates
from quorate.queueing.topology.pod_templates import Template
from quorate.queueing.topology.replacement import replace_hosts

_Assumed = dict[tuple[str, ...], dict[str, int]]  # by recorded values: what replaced pods will use


def second_pass(state: State) -> Iterator[ReplaceHosts | Evict]:
    """Yield a decision about each workload with failed hosts that has not been decided on yet."""
    ledger = state.ledger
    waiting, ledger.failed_hosts = sorted(ledger.failed_hosts), {}
    for key in waiting:
        reservation = ledger.reservations.get(key)
        if reservation is not None and not reservation.evicted and reservation.assumed is None:
            decision = _decide(state, reservation)
            if decision is not None:
                yield decision


def _decide(state: State, reservation: Reservation) -> ReplaceHosts | Evict | None:
    workload, gates = reservation.workload, state.ledger.topology.gates
    metadata, failed = workload.metadata, [each.name for each in workload.status.unhealthy_nodes]
    identity = (metadata.key, metadata.uid, metadata.resource_version)
    if state.configuration.gates.skip_reassignment_for_pod_owned_workloads and _is_pod(reservation):
        return ReplaceHosts(*identity, admission=reservation.admission)
    assignments = _assignments(state, reservation, frozenset(failed))
    if assignments is None:
        if not gates.evict_without_replacement:
            state.ledger.failed_hosts[metadata.key] = None  # tried again in the next cycle
            return None
        message = "Workload was evicted as there was no replacement for unhealthy node(s): "
        if _are_taken(state, reservation, failed):
            message = "Workload was evicted as other pods took its place and no other node has room: "
        message += ", ".join(failed)
        return Evict(*identity, reason=c.NODE_FAILURES, message=message)
    admission = replace(reservation.admission, pod_set_assignments=assignments)
    state.ledger.update_reservation(
        reservation, Reservation(workload, admission, reservation.usage, reservation.order)
    )
    return ReplaceHosts(*identity, admission=admission)


def _are_taken(state: State, reservation: Reservation, failed: Collection[str]) -> bool:
    """Return True if the hosts, of flavors without a topology, are nodes that take pods."""
    model = state.ledger.topology
    names = {name for each in reservation.admission.pod_set_assignments for name in each.flavors.values()}
    tree = None if any(map(model.is_topology_flavor, names)) else model.host_tree(names)
    return tree is not None and all(tree.leaf_of((host,)) is not None for host in failed)


def _is_pod(reservation: Reservation) -> bool:
    owner = reservation.workload.metadata.controller
    return owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod")


def _assignments(
    state: State, reservation: Reservation, failed: frozenset[str]
) -> tuple[PodSetAssignment, ...] | None:
    """Return the assignments of all pod sets with other hosts for the failed ones; None if there are none."""
    workload = with_updates(reservation.workload)
    if isinstance(workload, UpdateConflict):
        return None
    shapes = {each.name: each for each in state.ledger.shapes.shape_of(workload).pod_sets}
    namespace = workload.metadata.namespace
    templates = {each.name: Template(namespace, each.template) for each in workload.spec.pod_sets}
    assumed: _Assumed = {}
    result: list[PodSetAssignment] = []
    for assigned in reservation.admission.pod_set_assignments:
        places = assigned.topology_assignment
        if places is None or not any(values[-1] in failed for values, _ in places.domains()):
            result.append(assigned)
            continue
        template, running = templates[assigned.name], {}
        for host in failed:
            running[host] = state.ledger.topology.running_on(reservation.key, assigned.name, host)
        new = _replaced(state, assigned, shapes[assigned.name], template, running, assumed)
        if new is None:
            return None
        result.append(new)
    return tuple(result)


def _replaced(
    state: State,
    assigned: PodSetAssignment,
    shape: PodSetShape,
    template: Template,
    failed: Mapping[str, int],
    assumed: _Assumed,
) -> PodSetAssignment | None:
    """Return the assignment with other hosts for the ``failed`` ones, where so many pods run; None: no room.

    Pods of flavors without a topology stay where they run, if the node still takes pods.
    """
    model, places = state.ledger.topology, assigned.topology_assignment
    assert places is not None, f"{assigned.name} has no places"
    names = frozenset(assigned.flavors.values())
    with_topology = frozenset(filter(model.is_topology_flavor, names))
    tree = model.tree(min(with_topology)) if with_topology else model.host_tree(names)
    if tree is None:
        return None
    by_leaf = {
        leaf: amounts for values, amounts in assumed.items() if (leaf := tree.leaf_of(values)) is not None
    }
    before = dict(places.domains())
    on_hosts = not with_topology
    pod_set = PodSetToPlace(shape, sum(before.values()), with_topology or names, on_hosts, template)
    gates, capacity = model.gates, Capacity(tree, by_leaf)
    staying = {
        values[-1]: min(failed[values[-1]], count) if on_hosts and tree.leaf_of(values) is not None else 0
        for values, count in before.items()
        if values[-1] in failed
    }
    missing = {host: count - staying[host] for (*_, host), count in before.items() if host in staying}
    found = replace_hosts(
        capacity,
        limited_request(model, pod_set, capacity, missing) if on_hosts else pod_set_request(model, pod_set),
        tuple(before.items()),
        failed,
        Profile(gates.mixed_profile, gates.balanced_placement, gates.preferred_affinity),
        staying,
    )
    if isinstance(found, str):
        return None
    for values, count in found:
        more = count - staying.get(values[-1], before.get(values, 0))
        amounts = assumed.setdefault(values, {})
        for resource, amount in shape.on_node.items():
            amounts[resource] = amounts.get(resource, 0) + amount * more
    new = topology_assignment(tree.recorded_levels, found, by_host_prefix=gates.host_prefix_slices)
    return replace(assigned, topology_assignment=new)
