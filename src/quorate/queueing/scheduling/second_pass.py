"""The second pass: workloads with quota that lack places of their pods get them, or wait, or are evicted.

They come before all other workloads of a cycle (Kueue, v0.19).
"""

from typing import Self

from msgspec.structs import replace

from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.decisions import AssignTopology, CycleFault, Decision, Evict, SecondPassFailed
from quorate.queueing.inadmissible_reasons import AwaitingPreemption, InadmissibleReason, inadmissible_message
from quorate.queueing.nodes.places import Places
from quorate.queueing.nodes.topology_flavors import runs_elsewhere
from quorate.queueing.preemption.candidates import Target, preemption_decision
from quorate.queueing.preemption.simulation import UsageSimulation
from quorate.queueing.scheduling.preemption_search import PreemptionSearch
from quorate.queueing.scheduling.second_pass_places import FoundPlaces, SecondPassPlaces
from quorate.queueing.state import State


class SecondPass:
    """The second pass of one cycle.

    Until the context ends, the places that preemption targets will leave are kept from other workloads.
    """

    def __init__(self, state: State, now: float) -> None:
        """``now`` is in epoch seconds."""
        self._state = state
        self._ledger = state.ledger
        self._now = now
        self._held: list[Places] = []
        self.faults: list[CycleFault] = []
        self.next_at: float | None = None  # when the next one is due, epoch seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for places in self._held:
            places.count(-1)
        self._held.clear()

    def decide(self) -> list[Decision]:
        """Decide about each workload that is due, in queue order; none while the nodes are not known."""
        if not self._ledger.topology.has_nodes:
            return []
        decisions: list[Decision] = []
        queue, due = self._ledger.second_pass, []
        queue.begin_delays(self._now)
        for key in queue.due(self._now):
            reservation = self._ledger.reservations.get(key)
            if reservation is None or reservation.assumed is not None or reservation.evicted:
                queue.remove(key)  # it comes back when it is observed
            else:
                due.append(reservation)
        for reservation in sorted(due, key=lambda queued: (queued.order, queued.key)):
            try:
                decisions += self._decide(reservation)
            except Exception as error:  # of a bug: it must not keep all other workloads pending
                self.faults.append(CycleFault(reservation.key, error))
                queue.fail(reservation.key, self._now)
        self.next_at = queue.next_at()
        return decisions

    def _decide(self, reservation: Reservation) -> list[Decision]:
        workload, ledger, key = reservation.workload, self._ledger, reservation.key
        need = ledger.second_pass.need(key)
        failed = frozenset(need.failed)
        if reservation.admission.cluster_queue not in ledger.cluster_queues:
            ledger.second_pass.fail(key, self._now)  # its places do not count until the queue is back
            return []
        if need.is_delayed and not self._has_ready_checks(reservation):
            ledger.second_pass.fail(key, self._now)  # the object will tell of its checks
            return []
        identity = (key, workload.metadata.uid, workload.metadata.resource_version)
        if failed and self._keeps_hosts(reservation):
            ledger.second_pass.remove(key)
            return [AssignTopology(*identity, admission=reservation.admission)]
        search = SecondPassPlaces(self._state, reservation, failed)
        outcome = search.find()
        if isinstance(outcome, FoundPlaces):
            ledger.second_pass.remove(key)
            admission = replace(reservation.admission, pod_set_assignments=outcome.assignments)
            ledger.assume_places(reservation, admission)
            return [AssignTopology(*identity, admission=admission)]
        if failed and ledger.topology.gates.evict_without_replacement:
            ledger.second_pass.remove(key)
            return [Evict(*identity, reason=c.NODE_FAILURES, message=self._why_evicted(reservation, failed))]
        queue = ledger.cluster_queues.get(reservation.admission.cluster_queue)
        targets = () if queue is None else self._targets(search, reservation, queue, is_empty=not failed)
        reasons: tuple[InadmissibleReason, ...] = outcome
        decisions: list[Decision] = []
        if targets and queue is not None:
            reasons = (*outcome, AwaitingPreemption(tuple(target.reservation.key for target in targets)))
            decisions += [
                preemption_decision(workload, queue, target)
                for target in targets
                if ledger.expect_eviction(target.reservation, workload.metadata.uid)
            ]
        if ledger.second_pass.fail(key, self._now, [target.reservation.key for target in targets]):
            decisions.append(SecondPassFailed(*identity, message=inadmissible_message(reasons)))
        return decisions

    def _has_ready_checks(self, reservation: Reservation) -> bool:
        """Return True if the pods may get places here."""
        queue = self._ledger.cluster_queues.get(reservation.admission.cluster_queue)
        checks = reservation.workload.status.admission_checks
        ready = {check.name for check in checks if check.state == "Ready"}
        if queue is None or runs_elsewhere(queue.spec, self._state.checks):
            return False
        return ready.issuperset(queue.checks_for(reservation.admission))

    def _keeps_hosts(self, reservation: Reservation) -> bool:
        """Return True if nothing can replace the pods of a failed host: a single pod that has started."""
        is_skipped = self._state.configuration.gates.skip_reassignment_for_pod_owned_workloads
        workload = reservation.workload
        return is_skipped and c.is_admitted(workload) and c.is_of_single_pod(workload)

    def _why_evicted(self, reservation: Reservation, failed: frozenset[str]) -> str:
        message = "Workload was evicted as there was no replacement for unhealthy node(s): "
        if self._are_taken(reservation, failed):
            message = "Workload was evicted as other pods took its place and no other node has room: "
        return message + ", ".join(node.name for node in reservation.workload.status.unhealthy_nodes)

    def _are_taken(self, reservation: Reservation, failed: frozenset[str]) -> bool:
        """Return True if the hosts, of flavors without a topology, are nodes that take pods."""
        model = self._ledger.topology
        names = {
            name
            for assignment in reservation.admission.pod_set_assignments
            for name in assignment.flavors.values()
        }
        tree = None if any(map(model.is_topology_flavor, names)) else model.host_tree(names)
        return tree is not None and all(tree.leaf_of((host,)) is not None for host in failed)

    def _targets(
        self, search: SecondPassPlaces, reservation: Reservation, queue: ClusterQueueState, *, is_empty: bool
    ) -> tuple[Target, ...]:
        """Return what to preempt so that the pods have places, and keep these for the rest of the cycle.

        ``is_empty``: only if the pods had places if no pods had been placed.
        """
        if is_empty and not isinstance(search.find(is_empty=True), FoundPlaces):
            return ()
        flavors = search.flavors
        pairs = frozenset(pair for pair in reservation.usage if pair.flavor in flavors)
        preemption = PreemptionSearch(self._state, queue, reservation.workload, reservation.order)
        with self._ledger.without((reservation,)):
            reservation.places.count(1)  # only its quota: the pods that have places keep them
            try:
                targets = preemption.targets(
                    reservation.usage, pairs, lambda: isinstance(search.find(), FoundPlaces)
                )
            finally:
                reservation.places.count(-1)
        if targets:
            with UsageSimulation() as simulation:
                for target in targets:
                    simulation.remove(target.reservation, target.queue.node)
                outcome = search.find()
            if isinstance(outcome, FoundPlaces):
                held = Places(self._ledger.topology, outcome.added)
                held.count(1)
                self._held.append(held)
        return targets
