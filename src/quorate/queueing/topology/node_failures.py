"""Which nodes have failed for a workload with places on hosts, and what follows.

The rules are those of Kueue (v0.19).  A node can have failed for one workload and not for another: that
depends on the pods that still run there, and on the tolerations of the pod sets.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from quorate.api.batch import decode_template
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core import Taint, Toleration
from quorate.api.kueue import (
    Admission,
    PodSetAssignment,
    PodSetUpdate,
    ResourceFlavor,
    UnhealthyNode,
    Workload,
)
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import Condition
from quorate.placement.filters.taints import FILTERED_EFFECTS, first_untolerated
from quorate.queueing.conditions import transition_time
from quorate.queueing.topology.pod_set_updates import UpdateConflict, merge_updates

NOT_READY_S: Final = 30.0  # how long a node is not ready before it has failed, where the time decides

Tolerations = tuple[Toleration, ...]


class NodeHealth(NamedTuple):
    """What decides about a node that exists."""

    ready: Condition | None  # the condition Ready
    taints: tuple[Taint, ...] = ()

    @property
    def is_ready(self) -> bool:
        return self.ready is not None and self.ready.status == "True"

    @property
    def is_healthy(self) -> bool:
        """True if no workload can find the node failed."""
        return self.is_ready and not any(taint.effect in FILTERED_EFFECTS for taint in self.taints)


def hosts_by_pod_set(admission: Admission) -> dict[str, frozenset[str]]:
    """Return the hosts of the pods by pod set; only pod sets that are placed on hosts."""
    return {
        assigned.name: frozenset(values[-1] for values, _ in places.domains() if values)
        for assigned in admission.pod_set_assignments
        if (places := assigned.topology_assignment) is not None and places.levels[-1:] == (HOSTNAME,)
    }


class HostState(NamedTuple):
    """What a node is for one workload."""

    has_failed: bool = False
    admits_pods: bool = True  # False: pods that wait for the node are to be replaced
    check_at: float | None = None  # when the state changes by itself, epoch seconds


def host_state(
    node: NodeHealth | None,
    *,
    is_progressing: bool,
    tolerations: Sequence[Tolerations],
    gates: TopologyGates,
    now: float,
) -> HostState:
    """Return the state of the node of a host; ``node`` is None if there is none.

    ``is_progressing``: a pod of the workload is bound to the node and neither terminated nor being deleted.
    ``tolerations``: the tolerations of each pod set with pods on the host.
    """
    if node is None or node.ready is None:
        return HostState(has_failed=True, admits_pods=False)
    if not node.is_ready:
        due = transition_time(node.ready) + NOT_READY_S
        if gates.fail_after_delay and now >= due:
            return HostState(has_failed=True, admits_pods=False)
        if not gates.fail_after_pods:
            return HostState(now >= due, now < due, None if now >= due else due)
        return HostState(not is_progressing, False, due if gates.fail_after_delay else None)
    if not gates.fail_on_taints:
        return HostState()
    if any(first_untolerated(node.taints, of_pod) for of_pod in tolerations):
        return HostState(not (is_progressing and gates.fail_after_pods), False)
    for_good = [
        tuple(toleration for toleration in of_pod if toleration.toleration_seconds is None)
        for of_pod in tolerations
    ]
    if any(first_untolerated(node.taints, of_pod) for of_pod in for_good):
        return HostState(not is_progressing, False)
    return HostState()


def tolerations_of(
    workload: Workload, assigned: PodSetAssignment, flavors: Mapping[str, ResourceFlavor]
) -> Tolerations:
    """Return the tolerations of the pods of a pod set as they start.

    They come from the template, the assigned flavors and the admission checks that are Ready.
    """
    (template,) = (pod_set.template for pod_set in workload.spec.pod_sets if pod_set.name == assigned.name)
    tolerations = [*decode_template(template).spec.tolerations]
    for name in sorted(set(assigned.flavors.values())):
        if name in flavors:
            tolerations += flavors[name].spec.tolerations
    merged = merge_updates(PodSetUpdate(name=assigned.name, tolerations=tuple(tolerations)), workload)
    return tuple(tolerations) if isinstance(merged, UpdateConflict) else merged.tolerations


class NodeFailures(NamedTuple):
    """The failed nodes to record; with an ``eviction``, its message, they are too many to be replaced."""

    nodes: tuple[UnhealthyNode, ...]
    eviction: str = ""


def node_failures(workload: Workload, states: Mapping[str, HostState]) -> NodeFailures | None:
    """Return what follows from the states of hosts that the workload is assigned to; None: nothing.

    The first failed node is recorded, for its pods to get other places; a second one evicts the workload.
    Nodes that are recorded and have not failed any more are taken off.
    """
    recorded = [node.name for node in workload.status.unhealthy_nodes]
    kept = [name for name in recorded if name not in states or states[name].has_failed]
    failed = sorted(name for name, state in states.items() if state.has_failed and name not in kept)
    if not failed and kept == recorded:
        return None
    names = (*kept, *failed)
    message = ""
    if failed and len(names) > 1:
        listed = ", ".join(names)
        message = (
            f"Workload eviction triggered due to multiple TAS assigned node failures, including: {listed}"
        )
    return NodeFailures(tuple(UnhealthyNode(name=name) for name in names), message)
