"""Plugin ``proportion``: divide the cluster among queues by weight.

What a queue *deserves* is computed anew in every session (``gang.deserved``) from the requests of all gangs.
No queue allocates more, and what exceeds it because other queues request more now can be reclaimed.  Source:
the plugin of the same name of Volcano.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor
from typing import NamedTuple

from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.queue import Queue
from quorate.gang.cache.queue_accounts import Account, ResourceLimits, add
from quorate.gang.cache.task import Task
from quorate.gang.deserved import QueueDemand, deserved, real_capability
from quorate.gang.pending_reasons import QueueNotOpen, QueueQuotaExceeded
from quorate.gang.plugins.queue_hierarchy import total_guarantee
from quorate.gang.session.callbacks import PluginCallbacks, QueueShare, SortKey, Vote
from quorate.gang.session.session import Session
from quorate.placement.resources import Amounts, less_equal, minus


def proportion(session: Session, entry: PluginEntry) -> PluginCallbacks:
    shares = _QueueShares(session)
    return PluginCallbacks(
        queue_order=shares.queue_order,
        admission_order=shares.admission_order,
        overused=shares.is_overused,
        allocatable=shares.allocatable,
        share_shortage=shares.share_shortage,
        backfillable=shares.backfillable,
        preemptive=shares.allocatable,
        job_enqueueable=shares.job_enqueueable,
        job_enqueued=shares.reserve,
        job_dequeued=shares.unreserve,
        accounts_renewed=shares.renew,
        reclaimable=shares.reclaimable,
        beyond_share=shares.reclaimable,
        gang_reclaimable=shares.gang_reclaimable,
        queue_share=shares.queue_share,
        on_allocate=shares.accounts.on_allocate,
        on_deallocate=shares.accounts.on_deallocate,
    )


class _Deserved(NamedTuple):
    """What queues deserve, by name, exactly and in whole units."""

    amounts: Mapping[str, Mapping[str, Fraction]]
    limits: Mapping[str, ResourceLimits]


class _QueueShares:
    """What the queues that have gangs deserve, and what they have allocated of it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.accounts = session.open_accounts(lambda queue: (queue,))
        self._total = session.cluster.total
        self._guaranteed = total_guarantee(session.queues.values())
        queues = [session.queues[name] for name in sorted(self.accounts.by_queue)]
        self._real_capability = {queue.name: self._real_capability_of(queue) for queue in queues}
        self._charges_claims = session.rules.charges_claims
        self._current: _Deserved | None = None  # None: to be computed

    @property
    def deserved(self) -> Mapping[str, Mapping[str, Fraction]]:
        return self._deserved_and_limits().amounts

    def _deserved_and_limits(self) -> "_Deserved":
        if self._current is None:
            queues = (self._session.queues[name] for name in sorted(self.accounts.by_queue))
            amounts = deserved(self._total, {queue.name: self._demand(queue) for queue in queues})
            # Amounts are integers, so that a fraction of a unit allows nothing.
            limits = {
                name: ResourceLimits({resource: floor(amount) for resource, amount in of_queue.items()})
                for name, of_queue in amounts.items()
            }
            self._current = _Deserved(amounts, limits)
        return self._current

    def reserve(self, gang: Gang) -> None:
        self.accounts.reserve(gang)
        self._demand_changed()

    def unreserve(self, gang: Gang) -> None:
        self.accounts.unreserve(gang)
        self._demand_changed()

    def renew(self, accounts: Mapping[str, Account]) -> None:
        self.accounts.renew(accounts)
        self._demand_changed()

    def _demand_changed(self) -> None:
        if self._charges_claims:
            self._current = None
            self.accounts.deserved_changed()

    def _real_capability_of(self, queue: Queue) -> Amounts:
        return real_capability(self._total, self._guaranteed, queue.guarantee, queue.capability)

    def _demand(self, queue: Queue) -> QueueDemand:
        account = self.accounts.by_queue[queue.name]
        real_capability = self._real_capability[queue.name]
        demand = account.demand if self._charges_claims else account.request
        return QueueDemand(queue.weight, demand, real_capability, queue.guarantee)

    def _deserved(self, queue: str) -> Mapping[str, Fraction]:
        return self.deserved.get(queue, {})

    def _share(self, queue: str) -> Fraction:
        return self.accounts.share(queue, self._deserved(queue))

    def queue_order(self, queue: Queue) -> SortKey:
        return (-queue.priority, self._share(queue.name))

    def admission_order(self, queue: Queue) -> SortKey:
        """Return a key by share of the cluster and weight: what a queue deserves depends on its gangs."""
        share = self.accounts.committed_share(queue.name, self._total)
        return (-queue.priority, not queue.weight, share / max(1, queue.weight))

    def queue_share(self, queue: Queue) -> QueueShare:
        return QueueShare(
            self._deserved(queue.name),
            self._real_capability_of(queue),
            self._share(queue.name),
            self.is_overused(queue),
        )

    def is_overused(self, queue: Queue) -> bool:
        """Return True if the queue has all that it deserves, which may be nothing."""
        return less_equal(self._deserved(queue.name), self.accounts.allocated(queue.name))

    def allocatable(self, queue: Queue, request: Amounts) -> bool:
        return queue.is_open and self._limits(queue).allow(self.accounts.allocated(queue.name), request)

    def share_shortage(self, queue: Queue, request: Amounts) -> QueueQuotaExceeded | None:
        shortages = self.accounts.shortages(queue.name, self._limits(queue), request)
        return QueueQuotaExceeded(queue.name, shortages) if shortages else None

    def _limits(self, queue: Queue) -> ResourceLimits:
        return self._deserved_and_limits().limits.get(queue.name, _NOTHING_ALLOWED)

    def backfillable(self, queue: Queue, task: Task) -> bool:
        limits = ResourceLimits(self._real_capability[queue.name])
        return queue.is_open and limits.allow(self.accounts.allocated(queue.name), task.request)

    def job_enqueueable(self, gang: Gang) -> Vote | QueueNotOpen | QueueQuotaExceeded:
        queue = self._session.queue_of(gang)
        if not queue.is_open:
            return QueueNotOpen(queue.name)
        if gang.min_resources is None:
            return Vote.PERMIT
        account = self.accounts.by_queue[queue.name]
        limits = ResourceLimits(self._real_capability[queue.name])
        shortages = account.shortages(self.accounts.request_of(gang), limits)
        return QueueQuotaExceeded(queue.name, shortages) if shortages else Vote.PERMIT

    def reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        left: dict[str, Counter[str]] = {}
        victims = []
        for task in candidates:
            queue = self._session.gang_of(task).queue
            allocated = left.setdefault(queue, Counter(self.accounts.allocated(queue)))
            if not less_equal(allocated, self._deserved(queue)):
                add(allocated, task.request, -1)
                victims.append(task)
        return victims

    def gang_reclaimable(self, gang: Gang, preemptor: Queue) -> bool:
        """Return True if its queue exceeds its share, and keeps its guarantee without ``gang``."""
        queue = self._session.queue_of(gang)
        allocated = self.accounts.allocated(queue.name)
        if less_equal(allocated, self._deserved(queue.name)):
            return False
        return less_equal(queue.guarantee, minus(allocated, gang.requests.allocated))


_NOTHING_ALLOWED = ResourceLimits({})
