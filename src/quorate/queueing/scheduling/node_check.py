"""The check of pods without a topology against the nodes, for workloads that get quota."""

from quorate.api.configuration.queueing import NodeFitMode
from quorate.api.kueue import Workload
from quorate.queueing.assignment import Assignment
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.inadmissible_reasons import NodesLackRoom
from quorate.queueing.nodes.pod_constraints import VOLUMES_UNKNOWN
from quorate.queueing.nodes.pod_templates import template_of
from quorate.queueing.nodes.topology_flavors import has_other_nodes
from quorate.queueing.pending.entry import Entry
from quorate.queueing.pending.shape import Shape
from quorate.queueing.state import State
from quorate.queueing.topology.elastic_slices import previous_domains
from quorate.queueing.topology.placing import PodSetToPlace, lack_of_room, place_pod_sets
from quorate.queueing.topology.pod_set_updates import UpdateConflict, with_updates


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
