"""What the gangs of each queue have, want and keep reserved: the sums by which queues share a cluster.

The *ledger* keeps the sums from session to session.  What each gang adds to them is written down too, so that
opening a session costs a look at every gang, and sums only for those that changed.  The *books* of a session
begin as a copy of it and follow what the session does.

Source: the queue attributes of Volcano's plugins proportion and capacity.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from quorate.api.meta import Key
from quorate.api.volcano import INQUEUE, RUNNING
from quorate.gang.deserved import dominant_share
from quorate.gang.gang import Gang
from quorate.gang.task import HOLDING, Task
from quorate.gang.verdicts import Shortage
from quorate.placement.resources import EMPTY_AMOUNTS, Amounts, FractionalAmounts
from quorate.quota.amount import PODS, Amount


@dataclass(slots=True)
class Account:
    """The sums of one queue.  None counts a gang that does not take part in sessions."""

    gangs: int = 0
    allocated: Counter[str] = field(default_factory=Counter)  # what tasks with a node hold
    request: Counter[str] = field(default_factory=Counter)  # that, and what tasks without a node ask for
    reserved: Counter[str] = field(default_factory=Counter)  # what admitted gangs may still take
    granted: Counter[str] = field(
        default_factory=Counter
    )  # the same, but of new ones all they were admitted for
    elastic: Counter[str] = field(default_factory=Counter)  # what gangs hold beyond what they need

    def add(self, other: "Account", factor: int = 1) -> None:
        self.gangs += other.gangs * factor
        add(self.allocated, other.allocated, factor)
        add(self.request, other.request, factor)
        add(self.reserved, other.reserved, factor)
        add(self.granted, other.granted, factor)
        add(self.elastic, other.elastic, factor)

    def shortages(self, asked: Amounts, ceiling: "Ceiling") -> tuple[Shortage, ...]:
        """What forbids to reserve ``asked`` for one more gang; empty when nothing does.

        What gangs hold beyond their need does not count: they will have to give it back.
        """
        return tuple(
            Shortage(resource, amount, free, at_most)
            for resource, amount in sorted(asked.items())
            if amount > 0 and resource != PODS
            for at_most in (ceiling.of(resource),)
            if isinstance(at_most, int) and amount > (free := at_most - self._committed(resource))
        )

    def _committed(self, resource: str) -> int:
        return self.allocated[resource] + self.reserved[resource] - self.elastic[resource]


def add(sums: Counter[str], amounts: Mapping[str, int], factor: int = 1) -> None:
    """``factor`` times ``amounts`` more, and nothing named of which nothing is left."""
    for resource, amount in amounts.items():
        left = sums[resource] + amount * factor
        if left:
            sums[resource] = left
        else:
            del sums[resource]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """How much there may be of each resource: ``named``, and ``others`` of what is not named there."""

    named: Mapping[str, Amount]
    others: Amount = 0

    def of(self, resource: str) -> Amount:
        return self.named.get(resource, self.others)

    def holds(self, taken: Amounts, asked: Amounts) -> bool:
        """Whether ``asked`` fits beside ``taken`` in all that is asked for but places for pods."""
        return all(
            taken.get(resource, 0) + amount <= self.of(resource)
            for resource, amount in asked.items()
            if amount > 0 and resource != PODS
        )


def reserved_for(gang: Gang) -> Mapping[str, int]:
    """What an admitted gang may still take: what it was admitted for and does not hold.

    A gang that runs with fewer members than it needs has nothing reserved: those that are done consumed
    their part.  Members behind scheduling gates need nothing until the gates are gone; but for the gates that
    go when the gang is admitted, as others must not be given what it was admitted for.
    """
    minimum = gang.min_resources
    if minimum is None or gang.phase not in (INQUEUE, RUNNING) or gang.is_leaving:
        return {}
    if gang.phase == RUNNING and sum(gang.tally.of[each] for each in HOLDING) < gang.min_member:
        return {}
    return _without_gated(gang, _clipped(minimum, gang.held))


def reserved_on_admission(gang: Gang) -> Mapping[str, int]:
    """What is reserved for a gang in the session that admits it: all that it needs."""
    return {} if gang.is_leaving else _without_gated(gang, gang.min_resources or {})


def asked_with_members(gang: Gang) -> Amounts:
    """All that the gang needs, also what members have already (profile ``compat``)."""
    return gang.min_resources or {}


def asked_beside_members(gang: Gang) -> Amounts:
    """What the gang needs and does not hold: members that have nodes already count once."""
    return _clipped(gang.min_resources or {}, gang.held)


def _without_gated(gang: Gang, amounts: Mapping[str, int]) -> Mapping[str, int]:
    return _clipped(amounts, gang.gated) if gang.gated else amounts


def elastic_of(gang: Gang) -> Mapping[str, int]:
    """What the gang holds beyond what it needs: all of it if nobody said what that is."""
    return _clipped(gang.held, gang.min_resources or {})


def _clipped(amounts: Mapping[str, int], taken: Mapping[str, int]) -> dict[str, int]:
    return {name: left for name, amount in amounts.items() if (left := amount - taken.get(name, 0)) > 0}


@dataclass(frozen=True, slots=True)
class _Entry:
    """What one gang adds to its queue, and what that was computed from."""

    gang: Gang  # another object when it was made again, however alike
    queue: str
    phase: str
    min_member: int
    min_resources: Mapping[str, int] | None
    is_leaving: bool
    changes: int
    part: Account

    def is_of(self, gang: Gang) -> bool:
        return (
            self.gang is gang
            and self.changes == gang.changes
            and self.phase == gang.phase
            and self.min_resources is gang.min_resources
            and self.queue == gang.queue
            and self.min_member == gang.min_member
            and self.is_leaving == gang.is_leaving
        )


class Ledger:
    """See the module."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}
        self._accounts: dict[str, Account] = {}  # of queues with gangs; the sums of their entries

    def accounts(self, gangs: Collection[Gang]) -> Mapping[str, Account]:
        """The accounts of all queues that have any of ``gangs``, in each of which a gang is there once."""
        entries = self._entries
        for gang in gangs:
            entry = entries.get(gang.key)
            if entry is None or not entry.is_of(gang):
                self._enter(gang)
        if len(gangs) < len(entries):
            present = {gang.key for gang in gangs}
            for key in [key for key in entries if key not in present]:
                self._drop(entries.pop(key))
        return self._accounts

    def _enter(self, gang: Gang) -> None:
        old = self._entries.get(gang.key)
        reserved = Counter(reserved_for(gang))
        part = Account(
            gangs=1,
            allocated=gang.held.copy(),
            request=gang.held + gang.wanted,
            reserved=reserved,
            granted=Counter(reserved_on_admission(gang)) if gang.phase == INQUEUE else reserved,
            elastic=Counter(elastic_of(gang)),
        )
        self._entries[gang.key] = _Entry(
            gang,
            gang.queue,
            gang.phase,
            gang.min_member,
            gang.min_resources,
            gang.is_leaving,
            gang.changes,
            part,
        )
        self._accounts.setdefault(gang.queue, Account()).add(part)
        if old is not None:
            self._drop(old)

    def _drop(self, entry: _Entry) -> None:
        account = self._accounts[entry.queue]
        account.add(entry.part, -1)
        if not account.gangs:
            del self._accounts[entry.queue]


Path = Callable[[str], Sequence[str]]


class Books:
    """The accounts of a session.  What a gang of a queue does counts in all queues on the path of that queue.

    ``path``: the queues above a queue and itself, the root first.  ``asked``: what a gang asks for that is to
    be admitted.
    """

    def __init__(
        self,
        accounts: Mapping[str, Account],
        gangs: Mapping[Key, Gang],
        path: Path,
        asked: Callable[[Gang], Amounts],
    ) -> None:
        self._gangs = gangs
        self._path = path
        self.asked = asked
        self.accounts: dict[str, Account] = {}  # of queues with gangs, in them or in queues below
        for queue, account in accounts.items():
            for each in path(queue):
                self.accounts.setdefault(each, Account()).add(account)
        self._shares: dict[str, Fraction] = {}  # of queues that were asked about and did not change since

    def allocated(self, queue: str) -> Mapping[str, int]:
        account = self.accounts.get(queue)
        return EMPTY_AMOUNTS if account is None else account.allocated

    def share(self, queue: str, whole: FractionalAmounts) -> Fraction:
        """The largest share it has of a resource of ``whole``, which is the same for it in all a session."""
        known = self._shares.get(queue)
        if known is None:
            known = self._shares[queue] = dominant_share(self.allocated(queue), whole)
        return known

    def charge(self, task: Task) -> None:
        self._count(task, 1)

    def discharge(self, task: Task) -> None:
        self._count(task, -1)

    def _count(self, task: Task, factor: int) -> None:
        for queue in self._path(self._gangs[task.gang].queue):
            add(self.accounts[queue].allocated, task.request, factor)
            self._shares.pop(queue, None)

    def reserve(self, gang: Gang) -> None:
        """``gang`` is admitted."""
        self._reserve(gang, {} if gang.is_leaving else _without_gated(gang, self.asked(gang)), 1)

    def withdraw(self, gang: Gang) -> None:
        """What is reserved for ``gang`` is not any more; to be told while it is still in its phase."""
        self._reserve(gang, reserved_for(gang), -1)

    def _reserve(self, gang: Gang, amounts: Mapping[str, int], factor: int) -> None:
        for queue in self._path(gang.queue):
            add(self.accounts[queue].reserved, amounts, factor)
