"""The local queues, and the samples of what they have consumed for admission fair sharing."""

import math
from typing import NamedTuple

from quorate.api.configuration import Configuration
from quorate.api.meta import Key
from quorate.queueing.cluster_queue import ClusterQueueState, LocalQueueState
from quorate.queueing.outside_quota import OutsideUsage
from quorate.quota.amount import Usage


class Samples(NamedTuple):
    """The local queues of which the consumed usage has just changed by a sample, and the next sample."""

    changed: tuple[Key, ...]
    next_at: float | None  # epoch seconds; None: never


class LocalQueues(OutsideUsage):
    """Every local queue that exists or that a known workload names."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__()
        self.configuration = configuration
        self.local_queues: dict[Key, LocalQueueState] = {}

    def ensure_local_queue(self, key: Key) -> LocalQueueState:
        queue = self.local_queues.get(key)
        if queue is None:
            queue = self.local_queues[key] = LocalQueueState()
        return queue

    def remove_local_queue_if_unused(self, key: Key) -> None:
        queue = self.local_queues[key]
        if queue.object is None and not queue.entries and not queue.totals.reserving:
            del self.local_queues[key]

    def consumed_usage(self, key: Key) -> float:
        """Return the decayed usage of the local queue ``key`` that admission fair sharing orders by."""
        rules, queue = self.configuration.admission_fair_sharing, self.local_queues.get(key)
        return 0.0 if rules is None or queue is None else queue.consumed_usage.value(queue.weight, rules)

    def sample_consumed_usage(self, now: float) -> Samples:
        """Sample the consumed usage of the local queues for which it is due.

        A sample applies the current usage to the whole time since the last one, so every interval needs one,
        also while no workload is pending.
        """
        rules = self.configuration.admission_fair_sharing
        if rules is None:
            return Samples((), None)
        sampled: list[Key] = []
        next_at = math.inf
        for key, queue in self.local_queues.items():
            cluster_queue = self.cluster_queues.get(queue.cluster_queue)
            if cluster_queue is None:
                continue
            consumed_usage = queue.consumed_usage
            if consumed_usage.is_due(rules, now):
                consumed_usage.sample(
                    self._sampled_usage(queue, cluster_queue), rules, now, cluster_queue.groups
                )
                if consumed_usage.changed_at == now:
                    sampled.append(key)
                    if cluster_queue.is_strict and not cluster_queue.pending.is_empty:
                        self.mark_dirty(cluster_queue.node)  # another workload may be the head by now
            next_at = min(next_at, consumed_usage.due_at(rules))
        return Samples(tuple(sampled), next_at if math.isfinite(next_at) else None)

    def _sampled_usage(self, queue: LocalQueueState, cluster_queue: ClusterQueueState) -> Usage:
        """Return the usage to sample: all reserved quota, or only the quota of admitted workloads."""
        anchored = self.configuration.gates.admission_fair_sharing_anchor_at_quota_reservation
        if anchored and cluster_queue.uses_admission_fair_sharing:
            return queue.totals.reserved_usage
        return queue.totals.admitted_usage
