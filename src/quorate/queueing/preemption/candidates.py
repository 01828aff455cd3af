"""What all preemption policies share: the preemptor, which workloads may be candidates, and their order.

The searches, *classical* and *fair sharing*, only simulate.  The cycle decides what is evicted.
Source: Kueue's preemption, KEP-1337 (borrowing), KEP-79 (hierarchical cohorts).
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from quorate.api.kueue import BorrowWithinCohort, Preemption, Workload
from quorate.api.meta import Uid
from quorate.api.names.kueue import JOB_UID
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.decisions import Preempt, PreemptionReason
from quorate.queueing.pending.ordering import QueueOrder
from quorate.queueing.preemption.simulation import UsageSimulation
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, Usage
from quorate.quota.tree import Node

_REASON_TEXT: Final[dict[PreemptionReason, str]] = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortFairSharing": "Fair Sharing within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
}

QueuesBelow = Callable[[Node], Iterable[ClusterQueueState]]  # the cluster queues at and below a node


class Preemptor(msgspec.Struct, frozen=True):
    """The workload that needs quota, and its request."""

    queue: ClusterQueueState
    order: QueueOrder
    usage: Usage  # the whole request
    pairs_needing_preemption: frozenset[FlavorResource]  # those of ``usage`` that do not fit
    # How much earlier it must have queued than a workload of equal priority in its own cluster queue.
    timestamp_buffer_s: float = 0.0
    excluded_victims: frozenset[Uid] = frozenset()  # see ``preemption.history``
    has_places: Callable[[], bool] | None = None  # whether its pods have places in their topologies now

    @property
    def policy(self) -> Preemption:
        return self.queue.spec.preemption

    def benefits_from(self, reservation: Reservation, queue: ClusterQueueState) -> bool:
        """Return True if evicting ``reservation`` of ``queue`` would help and is allowed.

        The preemption history may forbid it.  What an inactive cluster queue has admitted runs to its end.
        """
        return (
            reservation.is_readable
            and (reservation.evicted or queue is self.queue or not queue.inactive_reasons)
            and not self.pairs_needing_preemption.isdisjoint(reservation.usage)
            and (reservation.evicted or reservation.workload.metadata.uid not in self.excluded_victims)
        )


class Target(msgspec.Struct, frozen=True):
    """A workload to be preempted."""

    reservation: Reservation
    queue: ClusterQueueState
    reason: PreemptionReason

    @property
    def workload(self) -> Workload:
        """Return the workload that is to be preempted."""
        return self.reservation.workload


CandidateOrder = tuple[bool, bool, int, float, str]


def candidate_order(reservation: Reservation, *, same_queue: bool) -> CandidateOrder:
    """Return the sort key of candidates of different cluster queues; smaller is preempted first.

    The order is: workloads that are being evicted first, then workloads of other cluster queues than the
    preemptor's, then the lowest priority, then the most recent reservation.
    """
    return (
        not reservation.evicted,
        same_queue,
        -reservation.order[0],
        -reservation.reserved_at,
        reservation.order[2],
    )


def order_within_queue(
    reservation: Reservation, queue: ClusterQueueState
) -> tuple[bool, float, CandidateOrder]:
    """Return the sort key of candidates of one cluster queue, the preemptor's or another.

    With admission fair sharing the consumed usage of their local queues precedes the priority, the highest
    one first.
    """
    consumed_usage = queue.pending.consumed_usage
    return (
        not reservation.evicted,
        0.0 if consumed_usage is None else -consumed_usage(reservation.local_queue),
        candidate_order(reservation, same_queue=True),
    )


CandidateFilter = Callable[[Reservation], bool]


def no_candidate(reservation: Reservation) -> bool:
    return False


def any_candidate(reservation: Reservation) -> bool:
    return True


def within_cluster_queue_filter(preemptor: Preemptor) -> CandidateFilter:
    """Return which workloads of the same cluster queue ``withinClusterQueue`` allows to preempt."""
    priority, queued_at = preemptor.order[0], preemptor.order[1]  # priorities are negated there
    newer_than = queued_at + preemptor.timestamp_buffer_s
    match preemptor.policy.within_cluster_queue:
        case "Never":
            return no_candidate
        case "LowerPriority":
            return lambda other: other.order[0] > priority
        case "LowerOrNewerEqualPriority":
            return lambda other: (other.order[0], other.order[1]) > (priority, newer_than)


def reclaim_within_cohort_filter(preemptor: Preemptor) -> CandidateFilter:
    """Return which workloads of other cluster queues ``reclaimWithinCohort`` allows to preempt."""
    priority = preemptor.order[0]
    match preemptor.policy.reclaim_within_cohort:
        case "Never":
            return no_candidate
        case "LowerPriority":
            return lambda other: other.order[0] > priority
        case "Any":
            return any_candidate


def borrow_within_cohort_filter(preemptor: Preemptor) -> CandidateFilter:
    """Return which workloads of other cluster queues ``borrowWithinCohort`` allows to preempt and borrow."""
    priority = preemptor.order[0]
    match preemptor.policy.borrow_within_cohort:
        case BorrowWithinCohort(policy="Never"):
            return no_candidate
        case BorrowWithinCohort(max_priority_threshold=None):
            return lambda other: other.order[0] > priority
        case BorrowWithinCohort(max_priority_threshold=int(threshold)):
            return lambda other: other.order[0] > priority and other.order[0] >= -threshold
    raise AssertionError(f"{preemptor.policy.borrow_within_cohort} is no known policy")


def workload_fits(preemptor: Preemptor, simulation: UsageSimulation, *, allow_borrowing: bool) -> bool:
    """Return True if the request fits now; without ``allow_borrowing``, within nominal quota.

    Places are looked for only if there is quota: each search costs more than all else.
    """
    node = preemptor.queue.node
    has_quota = tree.fits(node, preemptor.usage) and (
        allow_borrowing
        or all(
            tree.used(node, pair) + amount <= tree.nominal(node, pair)
            for pair, amount in preemptor.usage.items()
        )
    )
    if not has_quota or preemptor.has_places is None:
        return has_quota
    simulation.count_places()
    return preemptor.has_places()


def fill_back(
    targets: list[Target], simulation: UsageSimulation, fits: Callable[[], bool]
) -> tuple[Target, ...]:
    """Return ``targets`` without unnecessary ones; try to restore them from the last to the first.

    The very last target made the request fit, so it is never restored.
    """
    for index in range(len(targets) - 2, -1, -1):
        target = targets[index]
        simulation.restore(target.reservation)
        if fits():
            targets[index] = targets[-1]
            targets.pop()
        else:
            simulation.remove(target.reservation, target.queue.node)
    return tuple(targets)


def preemption_decision(preemptor: Workload, queue: ClusterQueueState, target: Target) -> Preempt:
    """Return the decision to evict ``target`` for ``preemptor``, which is pending in ``queue``."""
    victim = target.workload.metadata
    uid, job_uid = preemptor.metadata.uid, preemptor.metadata.labels.get(JOB_UID)
    return Preempt(
        key=victim.key,
        uid=victim.uid,
        resource_version=victim.resource_version,
        reason=target.reason,
        message=(
            f"Preempted to accommodate a workload (UID: {uid or 'UNKNOWN'}, JobUID: {job_uid or 'UNKNOWN'}) "
            f"due to {_REASON_TEXT[target.reason]}; preemptor path: {_path(queue)}; "
            f"preemptee path: {_path(target.queue)}"
        ),
        preemptor=preemptor.metadata.key,
    )


def _path(queue: ClusterQueueState) -> str:
    """Return the path from the root: /cohort/.../cluster queue."""
    names = [queue.name, *[ancestor.name for ancestor in queue.node.path()], ""]
    return "/".join(reversed(names))
