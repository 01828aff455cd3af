"""What the heads that a round has processed take from later ones: quota, places and preemption targets."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from quorate.api.meta import Key
from quorate.queueing.assignment import Assignment
from quorate.queueing.cluster_queue import Reservation
from quorate.queueing.inadmissible_reasons import NoLongerFits, Shortage
from quorate.queueing.ledger import Ledger
from quorate.queueing.nodes.places import Places
from quorate.queueing.preemption.simulation import UsageSimulation
from quorate.queueing.scheduling.nomination import Nomination
from quorate.queueing.scheduling.reserving import shortages_at
from quorate.queueing.topology.placing import NO_PLACEMENT, Placement, fits
from quorate.quota import tree
from quorate.quota.amount import Usage
from quorate.quota.tree import Node


class EarlierHeads:
    """The heads of one round that have been processed, and what they reserved for the rest of the round.

    Reserved quota and places are counted in the ledger at once.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._usage: list[tuple[Node, Usage]] = []
        self._places: list[Places] = []
        # By root: the last workload that took quota, and the preemption targets, each with its preemptor.
        self.last_served: dict[Node, Key] = {}
        self._pending: set[Key] = set()  # of them: those for which quota is kept while they wait
        self.preemptors: dict[Node, dict[Key, Key]] = {}

    def count(self) -> None:
        """Count what is reserved, in a round that goes on."""
        for node, usage in self._usage:
            tree.add_usage(node, usage)
        for places in self._places:
            places.count(1)

    def uncount(self) -> None:
        """Leave what is reserved out of the ledger, in a round that ends or pauses."""
        for node, usage in self._usage:
            tree.remove_usage(node, usage)
        for places in self._places:
            places.count(-1)

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave what is reserved out of the ledger for a while."""
        self.uncount()
        try:
            yield
        finally:
            self.count()

    def shortages(self, nomination: Nomination, assignment: Assignment) -> tuple[Shortage, ...]:
        """Return the quota that is missing after the earlier decisions of the round, without all targets.

        A head that preempts nothing starts before the targets of earlier heads have released their quota.  It
        must fit beside these targets, too.
        """
        replaced = nomination.queue.reservations.get(nomination.entry.shape.replaces)
        if replaced is None:
            return self._shortages_after_decisions(nomination, assignment)
        with self._ledger.without_replaced_slice(replaced):
            return self._shortages_after_decisions(nomination, assignment)

    def _shortages_after_decisions(
        self, nomination: Nomination, assignment: Assignment
    ) -> tuple[Shortage, ...]:
        shortages = self._shortages_without_targets(nomination, assignment)
        if shortages or nomination.targets or nomination.queue.node.root not in self.preemptors:
            return shortages
        return self._shortages_beside_targets(nomination, assignment)

    def loss(self, nomination: Nomination, shortages: tuple[Shortage, ...] = ()) -> NoLongerFits:
        """Return the reason of a head that lacks what an earlier one took; without ``shortages``, places."""
        last = self.last_served.get(nomination.queue.node.root)
        return NoLongerFits(last, shortages, last in self._pending)

    def lost_places(self, nomination: Nomination, assignment: Assignment) -> bool:
        """Return True if the places of the nomination are no longer free.

        The places of a replaced slice are free: its pods keep them, or the ledger leaves them out.
        """
        entry, queue = nomination.entry, nomination.queue
        kept = self._ledger.replaced_places(entry.workload, queue)
        replaced = queue.reservations.get(entry.shape.replaces)
        if kept is not None or replaced is None:
            return self._have_lost_places(nomination, assignment, kept)
        with self._ledger.without_replaced_slice(replaced):
            return self._have_lost_places(nomination, assignment, None)

    def _have_lost_places(
        self, nomination: Nomination, assignment: Assignment, kept: Reservation | None
    ) -> bool:
        held = () if kept is None else kept.places.all
        if not nomination.targets:
            return not fits(self._ledger.topology, assignment.placement, held)
        with UsageSimulation() as simulation:
            self._remove_targets(simulation, self._targets(nomination))
            return not fits(self._ledger.topology, assignment.placement, held)

    def _targets(self, nomination: Nomination) -> tuple[Key, ...]:
        """Return the preemption targets of the earlier heads of its tree and of the head itself."""
        return (
            *self.preemptors.get(nomination.queue.node.root, ()),
            *(target.reservation.key for target in nomination.targets),
        )

    def _remove_targets(self, simulation: UsageSimulation, targets: Iterable[Key]) -> None:
        for key in targets:
            reservation = self._ledger.reservations.get(key)
            if reservation is not None:  # a target may be gone when a suspended round is resumed
                queue = self._ledger.cluster_queues[reservation.admission.cluster_queue]
                simulation.remove(reservation, queue.node)

    def _shortages_without_targets(
        self, nomination: Nomination, assignment: Assignment
    ) -> tuple[Shortage, ...]:
        node, targets = nomination.queue.node, self._targets(nomination)
        if not targets:
            return shortages_at(node, assignment.usage)
        with UsageSimulation(counts_places=False) as simulation:
            self._remove_targets(simulation, targets)
            return shortages_at(node, assignment.usage)

    def _shortages_beside_targets(
        self, nomination: Nomination, assignment: Assignment
    ) -> tuple[Shortage, ...]:
        for node, usage in self._usage:
            tree.remove_usage(node, usage)
        shortages = shortages_at(nomination.queue.node, assignment.usage)
        for node, usage in self._usage:
            tree.add_usage(node, usage)
        return shortages

    def reserve(self, nomination: Nomination, usage: Usage, placement: Placement = NO_PLACEMENT) -> None:
        """Keep later heads from taking ``usage`` and the places of ``placement``."""
        node = nomination.queue.node
        if placement.pod_sets:
            places = Places(self._ledger.topology, placement.places())
            self._places.append(places)
            places.count(1)
        self.last_served[node.root] = nomination.entry.key
        self._pending.add(nomination.entry.key)
        self._usage.append((node, usage))
        tree.add_usage(node, usage)
