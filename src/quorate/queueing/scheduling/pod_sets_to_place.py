"""Which pod sets of a workload with flavors need places in topologies, and what they ask for."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from quorate.api.configuration.queueing import NodeFitMode
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.names.kueue import ELASTIC_JOB
from quorate.placement.topology.request import NO_TOPOLOGY
from quorate.queueing.assignment import Assignment, AssignmentMode
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.inadmissible_reasons import FLAVOR_ERROR, NodesLackRoom, PlacementRefused
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.pod_constraints import VOLUMES_UNKNOWN
from quorate.queueing.nodes.pod_templates import template_of
from quorate.queueing.nodes.topology_flavors import has_other_nodes
from quorate.queueing.pending.entry import Entry
from quorate.queueing.pending.shape import PodSetShape, Shape
from quorate.queueing.state import State
from quorate.queueing.topology.elastic_slices import previous_domains
from quorate.queueing.topology.placing import PodSetToPlace, lack_of_room, place_pod_sets
from quorate.queueing.topology.pod_set_updates import UpdateConflict, with_updates
from quorate.queueing.windows import KeptNodes


class RequestedPlaces(msgspec.Struct, frozen=True):
    """The pod sets that need places now, by their topology flavor, and pod sets that get places later."""

    pod_sets: list[PodSetToPlace]
    delayed: frozenset[str] = frozenset()  # names


def pod_sets_to_place(
    state: State, queue: ClusterQueueState, entry: Entry, assignment: Assignment
) -> RequestedPlaces | PlacementRefused:
    """Return which pod sets of a workload without quota need places, if the workload ``may_need_places``.

    A pod set of a flavor to which a ProvisioningRequest brings nodes gets places once the nodes exist.  A pod
    set of a queue that dispatches to worker clusters gets its places in the worker cluster.
    """
    model = state.ledger.topology
    if assignment.mode is AssignmentMode.NO_FIT:
        return RequestedPlaces([])
    workload, shape = entry.workload, entry.shape
    updated = with_updates(workload)
    if isinstance(updated, UpdateConflict):
        return PlacementRefused(updated.pod_set, updated.text)
    if updated is not workload:
        workload, shape = updated, state.ledger.shapes.shape_of(updated)
    result: list[PodSetToPlace] = []
    delayed: list[str] = []
    if model.requiring:
        result = pods_to_check(state, queue, workload, shape, assignment, "Require")
    is_elastic = model.gates.elastic_slices and workload.metadata.annotations.get(ELASTIC_JOB) == "true"
    replaced = state.ledger.replaced_places(workload, queue) if is_elastic else None
    for pods, assigned, pod_set in zip(
        shape.pod_sets, assignment.pod_sets, workload.spec.pod_sets, strict=True
    ):
        is_explicit = pods.topology.is_explicit
        if not assigned.count or not (is_explicit or model.is_topology_queue(queue.name, queue.groups)):
            continue
        named = "required" if pods.topology.required else "preferred" if pods.topology.preferred else ""
        if is_elastic and named:
            refusal = _refused(pods, f"{named} topology is not supported with ElasticJobsViaWorkloadSlices")
            return replace(refusal, is_unsupported=True)
        flavor = topology_flavor(model, pods, assigned.flavors)
        if isinstance(flavor, PlacementRefused):
            return flavor
        if has_other_nodes(queue.spec, flavor, state.checks):
            delayed.append(pods.name)
            continue
        previous = () if replaced is None else previous_domains(replaced.admission, pods.name, flavor)
        # Where leaves are hosts, no other constraint of the template is looked at.
        template = None
        if model.above_hosts and not model.above_hosts.isdisjoint(flavor):
            template = template_of(workload.metadata.namespace, pod_set.template)
        result.append(PodSetToPlace(pods, assigned.count, flavor, template=template, previous=previous))
    kept = kept_nodes(state, queue, workload) if result else None
    if kept is not None:
        result = [replace(pod_set, kept_hosts=kept.names) for pod_set in result]
    return RequestedPlaces(result, frozenset(delayed))


def kept_nodes(state: State, queue: ClusterQueueState, workload: Workload) -> KeptNodes | None:
    """Return the nodes that windows keep from ``workload``, by host name; None: it may use all."""
    ledger = state.ledger
    if not ledger.windows.keep_nodes:
        return None
    local_queue = Key(workload.metadata.namespace, workload.spec.queue_name)
    bound_s, model = queue.bound(workload).seconds, ledger.topology
    kept = ledger.windows.kept_nodes(local_queue, queue.name, ledger.now, bound_s, model.nodes)
    return None if kept is None else kept._replace(names=frozenset(map(model.host_name, kept.names)))


def topology_flavor(
    model: TopologyModel,
    pods: PodSetShape,
    flavors: Mapping[str, str],
) -> frozenset[str] | PlacementRefused:
    """Return the one topology flavor among the ``flavors`` of a pod set, as a set, or why there is none."""
    topology_flavors = frozenset([flavor for flavor in flavors.values() if model.is_topology_flavor(flavor)])
    if len(topology_flavors) == 1:
        return topology_flavors
    names = ", ".join(sorted(topology_flavors))
    return _refused(
        pods, f"more than one TAS flavor assigned: {names}" if topology_flavors else "no TAS flavor assigned"
    )


def _refused(pods: PodSetShape, problem: str) -> PlacementRefused:
    return PlacementRefused(pods.name, f"{FLAVOR_ERROR} {pods.name}: {problem}")


def may_need_places(state: State, entry: Entry) -> bool:
    """Return False if no pod set needs a place, or a flavor with a topology; True if some may."""
    model = state.ledger.topology
    if not model.is_on:
        return False
    if model.placing:
        return True
    for pod_set in entry.shape.pod_sets:  # called for each head: a generator would cost more
        if pod_set.topology is not NO_TOPOLOGY and pod_set.topology != NO_TOPOLOGY:
            return True
    return False


def pods_to_check(
    state: State,
    queue: ClusterQueueState,
    workload: Workload,
    of_workload: Shape,
    assignment: Assignment,
    mode: NodeFitMode,
) -> list[PodSetToPlace]:
    """Return the pod sets without a topology that are checked against nodes in the given mode."""
    result: list[PodSetToPlace] = []
    model = state.ledger.topology
    replaced = state.ledger.replaced_places(workload, queue)
    for shape, assigned, pod_set in zip(
        of_workload.pod_sets, assignment.pod_sets, workload.spec.pod_sets, strict=True
    ):
        names = frozenset(assigned.flavors.values())
        if (
            model.node_fit(names) == mode
            and assigned.count
            and not shape.topology.is_explicit
            and not has_other_nodes(queue.spec, names, state.checks)
        ):
            template = template_of(workload.metadata.namespace, pod_set.template)
            previous = () if replaced is None else previous_domains(replaced.admission, shape.name, names)
            result.append(
                PodSetToPlace(
                    shape, assigned.count, names, on_hosts=True, template=template, previous=previous
                )
            )
    return result


def unplaced_pods(
    state: State, queue: ClusterQueueState, entry: Entry, assignment: Assignment
) -> tuple[NodesLackRoom, ...]:
    """Return which pods of a workload that gets quota fit no node, where that is only reported.

    A cluster without nodes, which only tests and autoscalers have, reports nothing.
    """
    topology = state.ledger.topology
    if not (topology.reporting and topology.has_nodes and topology.nodes):
        return ()
    workload = with_updates(entry.workload)
    if isinstance(workload, UpdateConflict):
        return ()
    shape = entry.shape if workload is entry.workload else state.ledger.shapes.shape_of(workload)
    checked = pods_to_check(state, queue, workload, shape, assignment, "Report")
    if len(checked) == 1:  # the common case: where the pods would be makes no difference
        lack = lack_of_room(topology, checked[0])
        return () if lack is None or _is_unknown(lack) else (lack,)
    failures = place_pod_sets(topology, checked).failures
    return tuple(
        failure for failure in failures if isinstance(failure, NodesLackRoom) and not _is_unknown(failure)
    )


def _is_unknown(lack: NodesLackRoom) -> bool:
    """Return True if the volumes of the pods were not known yet: nothing is to be reported."""
    return any(reason == VOLUMES_UNKNOWN for reason, _ in lack.rejecting)
