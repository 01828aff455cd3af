"""The search for preemption targets of one workload, by the configured policy."""

from collections.abc import Callable, Collection

from quorate.api.kueue import Workload
from quorate.queueing.assignment import Assignment, AssignmentMode
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.limits import TIMESTAMP_BUFFER_S
from quorate.queueing.pending.ordering import QueueOrder
from quorate.queueing.preemption.candidates import Preemptor, Target
from quorate.queueing.preemption.classical import classical_targets
from quorate.queueing.preemption.fair_sharing import fair_sharing_targets
from quorate.queueing.preemption.simulation import UsageSimulation
from quorate.queueing.scheduling.flavor_assigner import FlavorCandidate
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, Usage

_Request = tuple[frozenset[tuple[FlavorResource, int]], frozenset[FlavorResource]]


class PreemptionSearch:
    """The search for preemption targets of one head, by the configured policy."""

    def __init__(
        self,
        state: State,
        queue: ClusterQueueState,
        workload: Workload,
        order: QueueOrder,
        *,
        is_allowed: bool = True,
    ) -> None:
        """If preemption is not ``is_allowed``, no search finds a target."""
        self._is_allowed = is_allowed
        self._state = state
        self._queue = queue
        self._order = order
        self._uid = workload.metadata.uid
        # The oracle is called for one resource at a time, which is often all that the workload requests.
        self._cache: dict[_Request, tuple[Target, ...]] = {}

    def targets_of(self, assignment: Assignment) -> tuple[Target, ...]:
        """Return what to preempt for an assignment of which no pods need places."""
        if not assignment.mode.needs_preemption:
            return ()
        return self.targets(assignment.usage, assignment.pairs_needing_preemption)

    def finds_none(self, usage: Usage, pairs_needing_preemption: frozenset[FlavorResource]) -> bool:
        """Return True if it is known that no candidates suffice, wherever the pods have places."""
        return self._cache.get((frozenset(usage.items()), pairs_needing_preemption)) == ()

    def targets(
        self,
        usage: Usage,
        pairs_needing_preemption: frozenset[FlavorResource],
        has_places: Callable[[], bool] | None = None,
    ) -> tuple[Target, ...]:
        """Return what to preempt so that ``usage`` fits; empty if no set of candidates is enough."""
        if has_places is not None:
            return self._search(usage, pairs_needing_preemption, has_places)
        key = frozenset(usage.items()), pairs_needing_preemption
        if key not in self._cache:
            self._cache[key] = self._search(usage, pairs_needing_preemption)
        return self._cache[key]

    def _search(
        self,
        usage: Usage,
        pairs_needing_preemption: frozenset[FlavorResource],
        has_places: Callable[[], bool] | None = None,
    ) -> tuple[Target, ...]:
        if not self._is_allowed:
            return ()
        configuration, ledger, node = self._state.configuration, self._state.ledger, self._queue.node
        fair_sharing, gates = configuration.fair_sharing, configuration.gates
        within_quota = not tree.borrows_any(node, usage)
        excluded = ledger.preemption_history.excluded_victims(node.root, self._uid, within_quota=within_quota)
        preemptor = Preemptor(
            self._queue,
            self._order,
            usage,
            pairs_needing_preemption,
            TIMESTAMP_BUFFER_S if gates.scheduler_timestamp_preemption_buffer else 0.0,
            excluded - ledger.expected_evictions,
            has_places,
        )
        if fair_sharing is not None:
            return fair_sharing_targets(
                preemptor,
                ledger.queues_below,
                fair_sharing.preemption_strategies,
                reclaims=gates.fair_sharing_preempt_within_nominal,
            )
        return classical_targets(preemptor, ledger.queues_below)

    def simulate(self, pair: FlavorResource, amount: int) -> FlavorCandidate:
        """Implement ``PreemptionOracle``."""
        targets = self.targets({pair: amount}, frozenset((pair,)))
        if not targets:
            return FlavorCandidate(AssignmentMode.NO_CANDIDATES, 0)
        with UsageSimulation(counts_places=False) as simulation:  # it reads quota only
            for target in targets:
                simulation.remove(target.reservation, target.queue.node)
            borrowing_level = tree.borrowing_level(self._queue.node, pair, amount).height
        return FlavorCandidate(self.mode_of(targets), borrowing_level)

    def mode_of(self, targets: Collection[Target]) -> AssignmentMode:
        """Return how a request is satisfied that preempts ``targets``."""
        if not targets:
            return AssignmentMode.NO_CANDIDATES
        in_own_queue = any(target.queue is self._queue for target in targets)
        return AssignmentMode.PREEMPT if in_own_queue else AssignmentMode.RECLAIM
