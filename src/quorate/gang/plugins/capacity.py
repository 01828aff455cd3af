"""Plugin ``capacity``: queues state what they deserve, lend the rest, and reclaim it.

Unlike with ``proportion``, a queue may exceed what it deserves, up to its capability, while no other queue
claims the resources; then these can be reclaimed, but never what is guaranteed.  With ``enableHierarchy``
queues form a tree, and the amounts of a queue hold for all queues below it together.  Source: the plugin of
the same name of Volcano.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction

from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import CapacityArguments
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue import ROOT, Queue
from quorate.gang.cache.queue_accounts import Account
from quorate.gang.cache.task import Task
from quorate.gang.pending_reasons import PendingReason, QueueNotOpen, QueueQuotaExceeded
from quorate.gang.plugins.claimed_devices import ClaimedDevices, device_amounts
from quorate.gang.plugins.queue_hierarchy import Entitlement, flat_entitlements, hierarchical_entitlements
from quorate.gang.session.callbacks import PluginCallbacks, QueueShare, SortKey, Vote
from quorate.gang.session.session import Session
from quorate.placement.resources import (
    Amounts,
    greater_partly,
    is_empty,
    less_equal,
    less_equal_partly,
    minus,
    plus,
    resource_names,
)
from quorate.quota.amount import PODS

ShareOf = Callable[[str, Amounts], Fraction]  # of a queue, in what it deserves


def capacity(session: Session, entry: PluginEntry) -> PluginCallbacks:
    assert isinstance(entry.arguments, CapacityArguments), entry
    arguments, queues = entry.arguments, session.queues
    devices: Collection[str] = ()
    if arguments.devices:
        devices = device_amounts(queues.values(), with_capacities=arguments.device_capacities)
    if not entry.hierarchy:
        entitlements = flat_entitlements(session.cluster.total, queues, devices)
        return _callbacks(_QueueCapacity(session, entitlements, 0, devices), hierarchical=False)
    entitlements, levels = hierarchical_entitlements(queues), arguments.ancestor_reclaim_level
    return _callbacks(_QueueCapacity(session, entitlements, levels, devices), hierarchical=True)


def _callbacks(queues: "_QueueCapacity", *, hierarchical: bool) -> PluginCallbacks:
    order = queues.tree_order if hierarchical else queues.flat_order
    return PluginCallbacks(
        queue_order=lambda queue: order(queue, queues.accounts.share),
        queue_valid=queues.invalid_reason if hierarchical else None,
        admission_order=lambda queue: order(queue, queues.accounts.committed_share),
        victim_queue_order=queues.victim_queue_order if hierarchical else None,
        allocatable=queues.allocatable,
        share_shortage=queues.share_shortage,
        charge=lambda queue, task: queues.devices.charge(queue.name, task),
        backfillable=lambda queue, task: queues.allocatable(queue, queues.charge(queue.name, task)),
        preemptive=queues.preemptive,
        reclaims_back=queues.reclaims_back,
        job_enqueueable=queues.job_enqueueable,
        job_enqueued=queues.on_enqueue,
        job_dequeued=queues.accounts.unreserve,
        accounts_renewed=queues.renew,
        reclaimable=queues.reclaimable,
        beyond_share=queues.beyond_share,
        gang_reclaimable=queues.gang_reclaimable,
        queue_share=queues.queue_share,
        on_allocate=queues.on_allocate,
        on_deallocate=queues.on_deallocate,
    )


class _QueueCapacity:
    """What queues are entitled to, and what they have allocated of it.

    ``levels``: the number of *reclaim ancestors* of a queue, its parent being the first.  What these deserve
    counts too when tasks are reclaimed from the queue or for it.
    """

    def __init__(
        self,
        session: Session,
        entitlements: Mapping[str, Entitlement],
        levels: int,
        devices: Collection[str],
    ) -> None:
        self._session = session
        self._entitlements = entitlements
        self._levels = levels
        self.accounts = session.open_accounts(self._path_of)
        self.devices = ClaimedDevices(session.model, self.accounts, self._path_of, devices)
        self._oldest = self._oldest_in_subtree()

    def _oldest_in_subtree(self) -> dict[str, tuple[float, str]]:
        """Return for each queue the creation order of the oldest queue with gangs in its subtree."""
        oldest: dict[str, tuple[float, str]] = {}
        for name in {gang.queue for gang in self._session.gangs}:
            entitlement, creation_order = self._entitlements[name], self._session.queues[name].creation_order
            for on_path in entitlement.path if entitlement.invalid is None else ():
                oldest[on_path] = min(creation_order, oldest.get(on_path, creation_order))
        return oldest

    def _path_of(self, queue: str) -> Sequence[str]:
        return self._entitlements[queue].path

    # Accounts.

    def charge(self, queue: str, task: Task) -> Amounts:
        """Return what ``queue`` is charged for ``task``."""
        return self.devices.charge(queue, task)

    def on_allocate(self, task: Task) -> None:
        self.accounts.on_allocate(task)
        self.devices.count(task, 1)

    def on_deallocate(self, task: Task) -> None:
        self.accounts.on_deallocate(task)
        self.devices.count(task, -1)

    def on_enqueue(self, gang: Gang) -> None:
        self.accounts.reserve(gang)
        self.devices.admit(gang)

    def renew(self, accounts: Mapping[str, Account]) -> None:
        self.accounts.renew(accounts)
        self.devices.recount()

    # Orders.

    def queue_share(self, queue: Queue) -> QueueShare:
        entitlement = self._entitlements[queue.name]
        share, _ = self._share_key(queue.name, self.accounts.share)
        return QueueShare(entitlement.deserved, entitlement.limits.named, Fraction(share), share > 1)

    def _share_key(self, queue: str, share: ShareOf) -> SortKey:
        """Return a key by ``share`` of the deserved amounts; without deserved amounts it is the last."""
        deserved = self._entitlements[queue].deserved
        return (1, 1) if is_empty(deserved) else (share(queue, deserved), 0)

    def flat_order(self, queue: Queue, share: ShareOf) -> SortKey:
        return (-queue.priority, *self._share_key(queue.name, share))

    def tree_order(self, queue: Queue, share: ShareOf) -> SortKey:
        """Return a key that compares leaves where paths part; equal ancestors by oldest leaf."""
        entitlement = self._entitlements[queue.name]
        steps = tuple(
            (*self._share_key(on_path, share), self._oldest.get(on_path, queue.creation_order))
            for on_path in entitlement.path[1:]
        )
        return (-queue.priority, entitlement.invalid is not None, *steps)

    def victim_queue_order(self, queue: Queue, preemptor: Queue) -> SortKey:
        """Return a key by which queues nearer to the preemptor's in the tree lose tasks first."""
        ancestors, preemptor_ancestors = self._ancestors(queue.name), self._ancestors(preemptor.name)
        common = sum(1 for one, other in zip(preemptor_ancestors, ancestors, strict=False) if one == other)
        return (-common,)

    def _ancestors(self, queue: str) -> tuple[str, ...]:
        return self._entitlements[queue].path[:-1]

    # Limits.

    def invalid_reason(self, queue: Queue) -> PendingReason | None:
        return self._entitlements[queue.name].invalid

    def job_enqueueable(self, gang: Gang) -> Vote | PendingReason:
        if not self._session.queue_of(gang).is_open:
            return QueueNotOpen(gang.queue)
        if gang.min_resources is None:
            return Vote.PERMIT
        for on_path in reversed(self._entitlements[gang.queue].path):
            account, limits = self.accounts.by_queue[on_path], self._entitlements[on_path].limits
            shortages = account.shortages(self.accounts.request_of(gang), limits)
            shortages += self.devices.shortages(on_path, gang, limits)
            if shortages:
                return QueueQuotaExceeded(on_path, shortages)
        return Vote.PERMIT

    def allocatable(self, queue: Queue, request: Amounts) -> bool:
        return self._serves(queue) and all(
            self._entitlements[on_path].limits.allow(self.accounts.allocated(on_path), request)
            for on_path in self._entitlements[queue.name].path
        )

    def share_shortage(self, queue: Queue, request: Amounts) -> QueueQuotaExceeded | None:
        for on_path in reversed(self._entitlements[queue.name].path):
            shortages = self.accounts.shortages(on_path, self._entitlements[on_path].limits, request)
            if shortages:
                return QueueQuotaExceeded(on_path, shortages)
        return None

    def _serves(self, queue: Queue) -> bool:
        return queue.is_open and self._entitlements[queue.name].invalid is None

    # Reclaim.

    def preemptive(self, queue: Queue, request: Amounts) -> bool:
        """Return True if with ``request`` some requested resource stays within the deserved amount."""
        limits = self._entitlements[queue.name].limits
        if not self._serves(queue) or not limits.allow(self.accounts.allocated(queue.name), request):
            return False
        return any(
            less_equal_partly(
                plus(self.accounts.allocated(evaluated), request),
                self._entitlements[evaluated].deserved,
                request,
            )
            for evaluated in (queue.name, *self._reclaim_ancestors(queue.name))
        )

    def reclaims_back(self, queue: Queue, claim: Amounts, other: Queue, request: Amounts) -> bool:
        """Return True if ``queue`` deserves all of ``claim``, or ``other`` exceeds its share of ``request``.

        Otherwise nothing of ``other`` can be reclaimed for another resource of the claim either.
        """
        beyond = all(
            self._exceeds(evaluated, plus(self.accounts.allocated(evaluated), claim), claim)
            for evaluated in (queue.name, *self._reclaim_ancestors(queue.name))
        )
        return not beyond or any(
            self._exceeds(evaluated, self.accounts.allocated(evaluated), request)
            for evaluated in (other.name, *self._reclaim_ancestors(other.name))
        )

    def _nearest_ancestors(self, queue: str) -> Sequence[str]:
        """Return the first ``levels`` ancestors, the nearest first; the root may be the last."""
        return self._ancestors(queue)[::-1][: self._levels]

    def _reclaim_ancestors(self, queue: str) -> Sequence[str]:
        return [ancestor for ancestor in self._nearest_ancestors(queue) if ancestor != ROOT]

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        return self._take(preemptor, candidates, self._may_lose)

    def beyond_share(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Return the candidates beyond what queues deserve of what ``preemptor`` requests.

        Unlike in ``reclaimable``, of a resource that ``deserved`` does not name a queue deserves nothing, and
        nothing goes to a queue that exceeds another resource which the victim's queue does not exceed: that
        one could reclaim in turn.
        """
        return self._take(preemptor, candidates, self._exceeds_deserved)

    def _take(
        self,
        preemptor: Task,
        candidates: Sequence[Task],
        may_lose: Callable[[str, str, Task, Task, Mapping[str, Amounts]], bool],
    ) -> Sequence[Task]:
        """Return the candidates that may be evicted, in the order of ``candidates``.

        The queue of a candidate may lose the candidate after it has lost the candidates returned before.
        """
        preemptor_queue = self._session.gang_of(preemptor).queue
        left: dict[str, Amounts] = {}
        victims = []
        for task in candidates:
            queue = self._session.gang_of(task).queue
            evaluated = [queue, *self._separate_ancestors(queue, preemptor_queue)]
            allocated = {name: left.get(name, self.accounts.allocated(name)) for name in evaluated}
            if may_lose(queue, preemptor_queue, preemptor, task, allocated):
                victims.append(task)
                lost = self.charge(queue, task)
                left.update((name, minus(allocated[name], lost)) for name in evaluated)
        return victims

    def _exceeds_deserved(
        self, queue: str, preemptor_queue: str, preemptor: Task, task: Task, allocated: Mapping[str, Amounts]
    ) -> bool:
        lost, claim = self.charge(queue, task), self.charge(preemptor_queue, preemptor)
        shared = _common(lost, claim) - {PODS}
        beyond = self._beyond_all_deserved(preemptor_queue, queue, claim, shared)
        exceeded = [self._beyond_deserved(name, has, shared) for name, has in allocated.items()]
        if beyond - exceeded[0] or not all(resources - beyond for resources in exceeded):
            return False
        return less_equal(self._entitlements[queue].guarantee, minus(allocated[queue], lost))

    def _beyond_all_deserved(self, queue: str, other: str, claim: Amounts, of: Iterable[str]) -> set[str]:
        """Return the resources in ``of`` of which ``queue`` deserves less than ``claim``, by ancestors too.

        What a common ancestor deserves gives ``queue`` no right to what ``other`` has.
        """
        beyond = set(of)
        for level in (queue, *self._separate_ancestors(queue, other)):
            beyond = self._beyond_deserved(level, plus(self.accounts.allocated(level), claim), beyond)
        return beyond

    def _beyond_deserved(self, queue: str, amounts: Amounts, of: Iterable[str]) -> set[str]:
        deserved = self._entitlements[queue].deserved
        return {name for name in of if amounts.get(name, 0) > deserved.get(name, 0)}

    def _separate_ancestors(self, queue: str, preemptor_queue: str) -> Sequence[str]:
        """Return the reclaim ancestors of ``queue`` that ``preemptor_queue`` does not have at their level."""
        of_preemptor = self._nearest_ancestors(preemptor_queue)
        return [
            ancestor
            for level, ancestor in enumerate(self._nearest_ancestors(queue))
            if ancestor != ROOT and of_preemptor[level : level + 1] != (ancestor,)
        ]

    def _may_lose(
        self, queue: str, preemptor_queue: str, preemptor: Task, task: Task, allocated: Mapping[str, Amounts]
    ) -> bool:
        """Return True if ``queue`` can lose ``task``, and ``preemptor`` needs a resource of it.

        ``allocated``: what is left of ``queue``, and of each of its separate ancestors.
        """
        lost = self.charge(queue, task)
        if not _common(lost, self.charge(preemptor_queue, preemptor)) - {PODS}:
            return False
        if not less_equal(self._entitlements[queue].guarantee, minus(allocated[queue], lost)):
            return False
        if not self._deserves_any(queue, task) and self._would_alternate(queue, preemptor_queue, preemptor):
            return False
        if not all(self._exceeds(name, has, lost) for name, has in allocated.items()):
            return False
        return not self._may_reclaim_back(queue, allocated[queue], task, preemptor_queue, preemptor)

    def _may_reclaim_back(
        self, queue: str, allocated: Amounts, task: Task, preemptor_queue: str, preemptor: Task
    ) -> bool:
        """Return True if ``task`` could reclaim in turn from ``preemptor``, and so on without end.

        Of several resources a queue may exceed what it deserves of one and reclaim for another.
        """
        lost, claim = self.charge(queue, task), self.charge(preemptor_queue, preemptor)
        within = less_equal_partly(allocated, self._entitlements[queue].deserved, lost)
        requested = plus(self.accounts.allocated(preemptor_queue), claim)
        return within and self._exceeds(preemptor_queue, requested, claim)

    def _exceeds(self, queue: str, allocated: Amounts, of: Amounts) -> bool:
        """Return True if the queue exceeds what it deserves of a resource in ``of``, or deserves nothing."""
        deserved = self._entitlements[queue].deserved
        return not _common(of, deserved) or greater_partly(allocated, deserved, of)

    def gang_reclaimable(self, gang: Gang, preemptor: Queue) -> bool:
        """Return True if its queue exceeds its share, and keeps its guarantee without ``gang``."""
        lost = self.devices.charge_of_gang(gang.queue, gang)
        without = minus(self.accounts.allocated(gang.queue), lost)
        if not less_equal(self._entitlements[gang.queue].guarantee, without):
            return False
        evaluated = (gang.queue, *self._separate_ancestors(gang.queue, preemptor.name))
        allocated = {name: self.accounts.allocated(name) for name in evaluated}
        if not all(self._exceeds(name, has, lost) for name, has in allocated.items()):
            return False
        if not self._have_common_ancestor(gang.queue, preemptor.name):
            return True
        # Only the common ancestor may deserve what the preemptor requests: either queue would evict in turn.
        shared = set(resource_names(lost)) - {PODS}
        beyond = self._beyond_all_deserved(preemptor.name, gang.queue, dict.fromkeys(shared, 1), shared)
        return all(self._beyond_deserved(name, has, shared) - beyond for name, has in allocated.items())

    def _would_alternate(self, queue: str, preemptor_queue: str, preemptor: Task) -> bool:
        """Return True if two queues that deserve nothing would reclaim from each other in turn.

        That is so if they have a common ancestor and the preemptor's queue does not deserve what it requests.
        """
        is_possible = self._have_common_ancestor(queue, preemptor_queue)
        return is_possible and not self._deserves_any(preemptor_queue, preemptor)

    def _have_common_ancestor(self, queue: str, other: str) -> bool:
        """Return True if the same queue is among the ancestors of both by which they reclaim."""
        return not set(self._reclaim_ancestors(queue)).isdisjoint(self._reclaim_ancestors(other))

    def _deserves_any(self, queue: str, task: Task) -> bool:
        """Return True if the queue deserves any resource that the task requests."""
        return bool(_common(self.charge(queue, task), self._entitlements[queue].deserved))


def _common(one: Amounts, other: Amounts) -> set[str]:
    """Return the resources that are above 0 in both."""
    return set(resource_names(one)) & set(resource_names(other))
