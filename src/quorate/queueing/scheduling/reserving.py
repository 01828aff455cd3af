"""What the assignment of a head reserves: its admission, and the quota that it keeps from later heads."""

from quorate.api.kueue import Admission, PodSetAssignment
from quorate.api.kueue.topology import topology_assignment
from quorate.queueing.assignment import Assignment
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.conditions import executed_s, queued_since, restarted
from quorate.queueing.decisions import Reserve
from quorate.queueing.inadmissible_reasons import Shortage
from quorate.queueing.pending.entry import Entry
from quorate.queueing.scheduling.pod_sets_to_place import unplaced_pods
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, Unlimited, Usage, as_quantity
from quorate.quota.tree import Node


def quota_to_reserve(
    queue: ClusterQueueState, assignment: Assignment, *, is_preemptor: bool
) -> dict[FlavorResource, int]:
    """Return the quota to reserve, for the rest of a round, for a head without preemption candidates.

    Otherwise later heads would take quota the head is entitled to.  A queue with ``reclaimWithinCohort: Any``
    reserves nothing, because it can reclaim the quota, unless the head waits for its preemption targets.
    """
    if queue.spec.preemption.reclaim_within_cohort == "Any" and not is_preemptor:
        return {}
    node = queue.node

    def entitled(pair: FlavorResource, amount: int) -> int:
        borrowing_limit = tree.limits(node, pair).borrowing
        unused = tree.nominal(node, pair) - tree.used(node, pair)
        if assignment.borrowing_level == 0:
            return max(0, min(amount, unused))
        if isinstance(borrowing_limit, Unlimited):
            return amount  # all of it, even if less is unused
        return max(0, min(amount, unused + borrowing_limit))

    return {pair: entitled(pair, amount) for pair, amount in assignment.usage.items()}


def shortages_at(node: Node, usage: Usage) -> tuple[Shortage, ...]:
    """Return the shortages that keep ``usage`` from fitting at ``node``, sorted; empty if it fits."""
    if tree.fits(node, usage):
        return ()
    shortages = [
        Shortage(
            pair.flavor,
            pair.resource,
            amount,
            max(0, tree.available(node, pair)),
            tree.potential_available(node, pair),
        )
        for pair, amount in sorted(usage.items())
    ]
    return tuple(shortage for shortage in shortages if shortage.short_by > 0)


def admission_of(cluster_queue: str, assignment: Assignment, *, by_host_prefix: bool) -> Admission:
    places = {
        pod_set.name: topology_assignment(pod_set.levels, pod_set.domains, by_host_prefix=by_host_prefix)
        for pod_set in assignment.placement.pod_sets
    }
    return Admission(
        cluster_queue=cluster_queue,
        pod_set_assignments=tuple(
            [
                PodSetAssignment(
                    name=pods.name,
                    flavors=pods.flavors,
                    resource_usage={
                        resource: as_quantity(resource, amount) for resource, amount in pods.requests.items()
                    },
                    count=pods.count,
                    topology_assignment=places.get(pods.name),
                    delayed_topology_request="Pending" if pods.name in assignment.delayed else None,
                )
                for pods in assignment.pod_sets
            ]
        ),
    )


def reserve(
    state: State, queue: ClusterQueueState, entry: Entry, assignment: Assignment, now: float
) -> Reserve:
    """Count the quota and the places of ``assignment`` as reserved; return the decision to write."""
    metadata, topology = entry.workload.metadata, state.ledger.topology
    by_host_prefix = topology.gates.host_prefix_slices
    admission = admission_of(queue.name, assignment, by_host_prefix=by_host_prefix)
    ready = {check.name for check in entry.workload.status.admission_checks if check.state == "Ready"}
    checks = queue.checks_for(admission)
    admitted = not assignment.delayed and ready.issuperset(checks)
    replaced = queue.reservations.get(entry.shape.replaces)
    since = queued_since(entry.workload) if restarted(entry.workload, now) is None else now
    decision = Reserve(
        key=entry.key,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        cluster_queue=queue.name,
        admission=admission,
        admitted=admitted,
        checks=checks,
        waited_s=max(0.0, now - since),
        cluster="" if replaced is None else replaced.workload.status.cluster_name,
        executed_s=None if replaced is None else executed_s(replaced.workload, now),
        unplaced=unplaced_pods(state, queue, entry, assignment),
    )
    if assignment.borrowing_level and queue.node.root in state.ledger.awaiting_room:
        state.ledger.assume_loan(entry, admission, assignment.usage, admitted=admitted)
    else:
        state.ledger.assume(entry, admission, assignment.usage, admitted=admitted)
    return decision
