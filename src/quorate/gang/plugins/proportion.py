"""Queues share a cluster by weight: who wants more than the others leave gets a part as large as its weight.

What a queue *deserves* is poured anew in every session (``gang.deserved``) from what all gangs ask for.  No
queue gets more, and what exceeds it, because others came later, goes back to them on demand.  Source: the
plugin of the same name of Volcano.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor

from quorate.api.scheduler_configuration import PluginEntry
from quorate.gang.deserved import Claim, deserved, real_capability
from quorate.gang.gang import Gang
from quorate.gang.policy import Policy, QueueShare, Rank
from quorate.gang.queue import Queue
from quorate.gang.queue_account import Ceiling, add
from quorate.gang.queue_tree import guaranteed_to
from quorate.gang.session import Session
from quorate.gang.task import Task
from quorate.gang.tiers import Vote
from quorate.gang.verdicts import QueueNotOpen, QueueQuotaExceeded
from quorate.placement.resources import Amounts, less_equal, minus


def proportion(session: Session, entry: PluginEntry) -> Policy:
    shares = _Shares(session)
    return Policy(
        queue_rank=shares.queue_rank,
        overused=shares.is_overused,
        allocatable=shares.has_room,
        fillable=shares.is_capable,
        claims=shares.has_room,
        admits=shares.admits,
        admitted=shares.books.reserve,
        withdrawn=shares.books.withdraw,
        reclaimable=shares.reclaimable,
        yields=shares.yields,
        share=shares.share,
        took=shares.books.charge,
        gave_back=shares.books.discharge,
    )


class _Shares:
    """What the queues that have gangs deserve, and how much of it they have got."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.books = session.books(lambda queue: (queue,))
        self._total = session.cluster.total
        self._guaranteed = guaranteed_to(session.queues.values())
        queues = [session.queues[name] for name in sorted(self.books.accounts)]
        self._real = {queue.name: self._at_most(queue) for queue in queues}
        self.deserved = deserved(self._total, {queue.name: self._claim(queue) for queue in queues})
        # Amounts are whole, so that a part of a unit grants nothing.
        self._limits = {
            name: Ceiling({resource: floor(amount) for resource, amount in amounts.items()})
            for name, amounts in self.deserved.items()
        }

    def _at_most(self, queue: Queue) -> Amounts:
        return real_capability(self._total, self._guaranteed, queue.guarantee, queue.capability)

    def _claim(self, queue: Queue) -> Claim:
        account = self.books.accounts[queue.name]
        return Claim(queue.weight, account.request, self._real[queue.name], queue.guarantee)

    def _deserved(self, queue: str) -> Mapping[str, Fraction]:
        return self.deserved.get(queue, {})

    def _share(self, queue: str) -> Fraction:
        return self.books.share(queue, self._deserved(queue))

    def queue_rank(self, queue: Queue) -> Rank:
        return (-queue.priority, self._share(queue.name))

    def share(self, queue: Queue) -> QueueShare:
        at_most = self._at_most(queue)
        return QueueShare(
            self._deserved(queue.name), at_most, self._share(queue.name), self.is_overused(queue)
        )

    def is_overused(self, queue: Queue) -> bool:
        """Whether it has of everything as much as it deserves.  One that asks for nothing has."""
        return less_equal(self._deserved(queue.name), self.books.allocated(queue.name))

    def has_room(self, queue: Queue, task: Task) -> bool:
        limit = self._limits.get(queue.name, _NONE)
        return queue.is_open and limit.holds(self.books.allocated(queue.name), task.request)

    def is_capable(self, queue: Queue, task: Task) -> bool:
        limit = Ceiling(self._real[queue.name])
        return queue.is_open and limit.holds(self.books.allocated(queue.name), task.request)

    def admits(self, gang: Gang) -> Vote | QueueNotOpen | QueueQuotaExceeded:
        queue = self._session.queue_of(gang)
        if not queue.is_open:
            return QueueNotOpen(queue.name)
        if gang.min_resources is None:
            return Vote.PERMIT
        account = self.books.accounts[queue.name]
        shortages = account.shortages(self.books.asked(gang), Ceiling(self._real[queue.name]))
        return QueueQuotaExceeded(queue.name, shortages) if shortages else Vote.PERMIT

    def reclaimable(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        left: dict[str, Counter[str]] = {}
        victims = []
        for task in candidates:
            queue = self._session.gang_of(task).queue
            allocated = left.setdefault(queue, Counter(self.books.allocated(queue)))
            if not less_equal(allocated, self._deserved(queue)):
                add(allocated, task.request, -1)
                victims.append(task)
        return victims

    def yields(self, gang: Gang, claimant: Queue) -> bool:
        """Whether its queue has more than it deserves, and without ``gang`` still what it is guaranteed."""
        queue = self._session.queue_of(gang)
        allocated = self.books.allocated(queue.name)
        if less_equal(allocated, self._deserved(queue.name)):
            return False
        return less_equal(queue.guarantee, minus(allocated, gang.held))


_NONE = Ceiling({})
