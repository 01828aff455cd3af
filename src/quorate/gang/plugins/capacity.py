"""Queues say themselves what they deserve, borrow what others leave, and take back what they lent.

Unlike with ``proportion`` a queue may exceed what it deserves, up to its capability, while nobody else claims
the room; then others take it back, but never what is guaranteed.  With a hierarchy, queues form a tree, and
what holds for a queue holds for all below it together.  Source: the plugin of the same name of Volcano.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from quorate.api.scheduler_configuration import PluginEntry
from quorate.api.scheduler_configuration.plugins import CapacityArguments
from quorate.gang.gang import Gang
from quorate.gang.policy import Policy, QueueShare, Rank
from quorate.gang.queue import ROOT, Queue
from quorate.gang.queue_tree import BrokenTree, Entitlement, side_by_side, tree
from quorate.gang.session import Session
from quorate.gang.task import Task
from quorate.gang.tiers import Vote
from quorate.gang.verdicts import NoQueueTree, QueueNotOpen, QueueQuotaExceeded, Verdict
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


def capacity(session: Session, entry: PluginEntry) -> Policy:
    assert isinstance(entry.arguments, CapacityArguments), entry
    if not entry.hierarchy:
        entitlements = side_by_side(session.cluster.total, session.queues)
        return _policy(_Capacity(session, entitlements, 0), in_a_tree=False)
    found = tree(session.queues)
    if isinstance(found, BrokenTree):
        return _closed(found)
    inner = sorted({gang.queue for gang in session.gangs if not found[gang.queue].is_leaf})
    if inner:
        return _closed(BrokenTree(inner[0], "has pod groups, and queues below it"))
    return _policy(_Capacity(session, found, entry.arguments.ancestor_reclaim_level), in_a_tree=True)


def _policy(shares: "_Capacity", *, in_a_tree: bool) -> Policy:
    return Policy(
        queue_rank=shares.tree_rank if in_a_tree else shares.flat_rank,
        victim_queue_rank=shares.victim_queue_rank if in_a_tree else None,
        allocatable=shares.has_room,
        fillable=shares.has_room,
        claims=shares.claims,
        admits=shares.admits,
        admitted=shares.books.reserve,
        withdrawn=shares.books.withdraw,
        reclaimable=shares.reclaimable,
        yields=shares.yields,
        share=shares.share,
        took=shares.books.charge,
        gave_back=shares.books.discharge,
    )


def _closed(broken: BrokenTree) -> Policy:
    """Nothing is shared out by queues that are no tree."""
    verdict = NoQueueTree(broken.queue, broken.why)
    return Policy(
        allocatable=lambda queue, task: False,
        fillable=lambda queue, task: False,
        claims=lambda queue, task: False,
        admits=lambda gang: verdict,
        reclaimable=lambda claimant, candidates: (),
    )


class _Capacity:
    """What queues are entitled to, and how much of it they have got.

    ``levels``: of how many queues above a queue, its parent being the first, what they deserve counts too
    when others' tasks are taken back for it or its are for others.
    """

    def __init__(self, session: Session, entitlements: Mapping[str, Entitlement], levels: int) -> None:
        self._session = session
        self._entitled = entitlements
        self._levels = levels
        self.books = session.books(lambda queue: entitlements[queue].path)
        self._ages = self._oldest_below()

    def _oldest_below(self) -> dict[str, tuple[float, str]]:
        """Of each queue, the age of the oldest with gangs among those below it and itself."""
        ages: dict[str, tuple[float, str]] = {}
        for queue in {gang.queue for gang in self._session.gangs}:
            age = self._session.queues[queue].age_rank
            for each in self._entitled[queue].path:
                ages[each] = min(age, ages.get(each, age))
        return ages

    # Orders.

    def share(self, queue: Queue) -> QueueShare:
        entitlement = self._entitled[queue.name]
        share, _ = self._share_rank(queue.name)
        return QueueShare(entitlement.deserved, entitlement.ceiling.named, Fraction(share), share > 1)

    def _share_rank(self, queue: str) -> Rank:
        """By the part it has of what it deserves.  Who deserves nothing has it all, and goes after others."""
        deserved = self._entitled[queue].deserved
        if is_empty(deserved):
            return (1, 1)
        return (self.books.share(queue, deserved), 0)

    def flat_rank(self, queue: Queue) -> Rank:
        return (-queue.priority, *self._share_rank(queue.name))

    def tree_rank(self, queue: Queue) -> Rank:
        """Leaves compare where their paths part; departments that are equal there, by their oldest leaf."""
        entitlement = self._entitled[queue.name]
        steps = tuple(
            (*self._share_rank(each), self._ages.get(each, queue.age_rank)) for each in entitlement.path[1:]
        )
        return (-queue.priority, not entitlement.is_leaf, *steps)

    def victim_queue_rank(self, queue: Queue, claimant: Queue) -> Rank:
        """Whoever is nearer to the claimant in the tree gives first."""
        mine, others = self._above(claimant.name), self._above(queue.name)
        return (-sum(1 for left, right in zip(mine, others, strict=False) if left == right),)

    def _above(self, queue: str) -> tuple[str, ...]:
        return self._entitled[queue].path[:-1]

    # Limits.

    def admits(self, gang: Gang) -> Vote | Verdict:
        if not self._session.queue_of(gang).is_open:
            return QueueNotOpen(gang.queue)
        if gang.min_resources is None:
            return Vote.PERMIT
        for each in reversed(self._entitled[gang.queue].path):
            account = self.books.accounts[each]
            shortages = account.shortages(self.books.asked(gang), self._entitled[each].ceiling)
            if shortages:
                return QueueQuotaExceeded(each, shortages)
        return Vote.PERMIT

    def has_room(self, queue: Queue, task: Task) -> bool:
        return queue.is_open and all(
            self._entitled[each].ceiling.holds(self.books.allocated(each), task.request)
            for each in self._entitled[queue.name].path
        )

    # Taking back.

    def claims(self, queue: Queue, task: Task) -> bool:
        """Whether the task would stay within what the queue deserves of anything that it asks for."""
        ceiling = self._entitled[queue.name].ceiling
        if not queue.is_open or not ceiling.holds(self.books.allocated(queue.name), task.request):
            return False
        return any(
            less_equal_partly(
                plus(self.books.allocated(each), task.request), self._entitled[each].deserved, task.request
            )
            for each in (queue.name, *self._departments(queue.name))
        )

    def _nearest(self, queue: str) -> Sequence[str]:
        """The queues above that count, the nearest first, which may end with the root."""
        return self._above(queue)[::-1][: self._levels]

    def _departments(self, queue: str) -> Sequence[str]:
        return [each for each in self._nearest(queue) if each != ROOT]

    def reclaimable(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        home = self._session.gang_of(claimant).queue
        left: dict[str, Amounts] = {}
        victims = []
        for task in candidates:
            queue = self._session.gang_of(task).queue
            judged = [queue, *self._apart(queue, home)]
            allocated = {each: left.get(each, self.books.allocated(each)) for each in judged}
            if self._may_lose(queue, home, claimant, task, allocated):
                victims.append(task)
                left.update((each, minus(allocated[each], task.request)) for each in judged)
        return victims

    def _apart(self, queue: str, home: str) -> Sequence[str]:
        """The departments of ``queue`` that are not also, on the same level, one of ``home``."""
        theirs = self._nearest(home)
        return [
            each
            for level, each in enumerate(self._nearest(queue))
            if each != ROOT and theirs[level : level + 1] != (each,)
        ]

    def _may_lose(
        self, queue: str, home: str, claimant: Task, task: Task, allocated: Mapping[str, Amounts]
    ) -> bool:
        """Whether ``queue`` can lose ``task`` to a queue that wants room of the same kind.

        ``allocated``: what is left to the queue, and to each of its departments that is to agree.
        """
        if not _both(task.request, claimant.request) - {PODS}:
            return False
        if not less_equal(self._entitled[queue].guarantee, minus(allocated[queue], task.request)):
            return False
        if not self._deserves(queue, task) and self._would_take_turns(queue, home, claimant):
            return False
        return all(self._exceeds(each, has, task.request) for each, has in allocated.items())

    def _exceeds(self, queue: str, allocated: Amounts, of: Amounts) -> bool:
        """Whether the queue has more than it deserves of any of that, or deserves none of it."""
        deserved = self._entitled[queue].deserved
        return not _both(of, deserved) or greater_partly(allocated, deserved, of)

    def yields(self, gang: Gang, claimant: Queue) -> bool:
        """Whether its queue has more than it deserves, and without ``gang`` still what it is guaranteed."""
        if not less_equal(
            self._entitled[gang.queue].guarantee, minus(self.books.allocated(gang.queue), gang.held)
        ):
            return False
        judged = (gang.queue, *self._apart(gang.queue, claimant.name))
        return all(self._exceeds(each, self.books.allocated(each), gang.held) for each in judged)

    def _would_take_turns(self, queue: str, home: str, claimant: Task) -> bool:
        """Whether ``home`` has no more right to it than ``queue``, which has none, both in one department."""
        together = set(self._departments(queue)) & set(self._departments(home))
        return bool(together) and not self._deserves(home, claimant)

    def _deserves(self, queue: str, task: Task) -> bool:
        """Whether the queue deserves anything of what the task has."""
        return bool(_both(task.request, self._entitled[queue].deserved))


def _both(left: Amounts, right: Amounts) -> set[str]:
    """The resources of which there is something in both."""
    return set(resource_names(left)) & set(resource_names(right))
