"""The cluster queues in which waiting raises priorities, and the steps at which it does."""

import math

from quorate.api.configuration import Configuration
from quorate.api.configuration.priority_aging import PRIORITY_AGING, annotated_aging
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.pending.ordering import queue_order
from quorate.queueing.reservation_places import ReservationPlaces


class AgingQueues(ReservationPlaces):
    """The ledger's part of priority ageing: it costs nothing while no cluster queue has a rule."""

    def __init__(self, configuration: Configuration) -> None:
        super().__init__(configuration)
        self.now = 0.0  # the latest time that a caller passed, epoch seconds
        self.aging: dict[ClusterQueueState, None] = {}  # exactly the cluster queues with a rule
        self._next_check_at = math.inf  # epoch seconds: before then no step begins

    def read_aging(self, queue: ClusterQueueState) -> None:
        """Read the rule of a cluster queue from its annotation, or else from the configuration."""
        text = queue.annotations.get(PRIORITY_AGING)
        rule, findings = annotated_aging(text, self.configuration.priority_aging)
        queue.aging_findings = tuple(map(str, findings))
        if rule == queue.pending.aging:
            return
        queue.pending.set_aging(rule, self.now)
        self.forget_aging(queue)
        if rule is not None:
            self.aging[queue] = None
            self._next_check_at = 0.0
        self._order_reservations(queue)
        self.note_external_change(queue)

    def forget_aging(self, queue: ClusterQueueState) -> None:
        self.aging.pop(queue, None)

    def age(self, now: float) -> float:
        """Take the steps that are due by ``now``; return when the next one is due, infinite if none is."""
        if not self.aging:
            return math.inf
        self.now = max(self.now, now)
        if now >= self._next_check_at:
            for queue in self.aging:
                self._take_step(queue, now)
            rules = [queue.pending.aging for queue in self.aging]
            self._next_check_at = min(
                float((rule.step_at(now) + 1) * rule.every_s) for rule in rules if rule is not None
            )
        return min(queue.pending.next_step_at for queue in self.aging)

    def _take_step(self, queue: ClusterQueueState, now: float) -> None:
        """Take a step if one is due, and evaluate again preemption, plans and heads, which it may change."""
        rises = queue.pending.next_step_at <= now
        if not queue.pending.age(now):
            return
        also_preempts = queue.pending.aging is not None and queue.pending.aging.also_preempts
        if also_preempts:
            self._order_reservations(queue)
        if rises and (also_preempts or queue.backfills):
            self.schedule_requeue(queue.node)
        elif rises and queue.is_strict:
            self.mark_dirty(queue.node)

    def _order_reservations(self, queue: ClusterQueueState) -> None:
        for reservation in queue.reservations.values():
            self.order_reservation(queue, reservation)

    def order_reservation(self, queue: ClusterQueueState, reservation: Reservation) -> None:
        """Update the order in which a workload with quota of ``queue`` is preempted."""
        order = queue_order(reservation.workload, self.configuration)
        reservation.order = queue.pending.reserved_order(order, reservation.reserved_at)
        queue.reservation_changes += 1
