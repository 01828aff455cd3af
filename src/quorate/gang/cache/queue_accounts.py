"""The sums over the gangs of each queue, from which plugins compute the shares of queues.

The *ledger* keeps the sums from session to session, together with the part of each gang, so that opening a
session compares every gang and adds up only those that changed.  The *accounts of a session* start as a copy
of the ledger and follow the moves of the session.

Source: the queue attributes of Volcano's plugins proportion and capacity.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from quorate.api.meta import Key
from quorate.api.volcano import INQUEUE
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.reservations import (
    elastic_of,
    missing_claim_of,
    reserved_for,
    reserved_on_admission,
    without_gated,
    without_pending,
)
from quorate.gang.cache.task import Task
from quorate.gang.deserved import dominant_share
from quorate.gang.shortage import Shortage
from quorate.placement.resources import EMPTY_AMOUNTS, Amounts, FractionalAmounts
from quorate.quota.amount import PODS, Amount


@dataclass(slots=True)
class Account:
    """The sums of one queue over the gangs that take part in sessions."""

    gangs: int = 0
    allocated: Counter[str] = field(default_factory=Counter)  # requests of tasks that have or await a node
    # The same and the requests of pending tasks.
    request: Counter[str] = field(default_factory=Counter)
    # The same, or what admitted gangs may allocate if that is more.
    demand: Counter[str] = field(default_factory=Counter)
    reserved: Counter[str] = field(default_factory=Counter)  # what admitted gangs may still allocate
    reserved_in_full: Counter[str] = field(default_factory=Counter)  # the same, but of Inqueue gangs all
    # What members may take that gangs lack while others hold nodes, and its part without pending tasks.
    missing: Counter[str] = field(default_factory=Counter)
    missing_pods: Counter[str] = field(default_factory=Counter)
    elastic: Counter[str] = field(default_factory=Counter)  # what gangs have beyond their minResources

    def add(self, other: "Account", factor: int = 1) -> None:
        self.gangs += other.gangs * factor
        add(self.allocated, other.allocated, factor)
        add(self.request, other.request, factor)
        add(self.demand, other.demand, factor)
        add(self.reserved, other.reserved, factor)
        add(self.reserved_in_full, other.reserved_in_full, factor)
        add(self.missing, other.missing, factor)
        add(self.missing_pods, other.missing_pods, factor)
        add(self.elastic, other.elastic, factor)

    def shortages(self, request: Amounts, limits: "ResourceLimits") -> tuple[Shortage, ...]:
        """Return what is missing within ``limits`` to reserve ``request`` for one more gang.

        Elastic amounts do not count: they can be reclaimed.
        """
        return limits.shortages(self._committed, request)

    def _committed(self, resource: str) -> int:
        return self.allocated[resource] + self.reserved[resource] - self.elastic[resource]


def add(sums: Counter[str], amounts: Mapping[str, int], factor: int = 1) -> None:
    """Add ``factor`` times ``amounts`` to ``sums``, which keeps no zeros."""
    for resource, amount in amounts.items():
        total = sums[resource] + amount * factor
        if total:
            sums[resource] = total
        else:
            del sums[resource]


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """A limit for each resource: in ``named``, or else ``default``."""

    named: Mapping[str, Amount]
    default: Amount = 0

    def of(self, resource: str) -> Amount:
        return self.named.get(resource, self.default)

    def allow(self, allocated: Amounts, request: Amounts) -> bool:
        """Return True if ``request`` fits in addition to ``allocated``, whatever the number of pods."""
        return all(
            allocated.get(resource, 0) + amount <= self.of(resource)
            for resource, amount in request.items()
            if amount > 0 and resource != PODS
        )

    def shortages(self, used: Callable[[str], int], request: Amounts) -> tuple[Shortage, ...]:
        """Return what is missing for ``request`` in addition to ``used``, by resource."""
        return tuple(
            Shortage(resource, amount, free, at_most)
            for resource, amount in sorted(request.items())
            if amount > 0 and resource != PODS
            for at_most in (self.of(resource),)
            if isinstance(at_most, int) and amount > (free := at_most - used(resource))
        )


class _Entry(NamedTuple):
    """What a gang adds to the account of its queue, and the state of the gang for which this was computed."""

    gang: Gang  # compared by identity: a gang that was created anew is another one
    generation: int
    phase: str
    takes_part: bool
    queue: str
    part: Account


class Ledger:
    """The accounts of all queues, kept from session to session."""

    def __init__(self) -> None:
        self._entries: dict[Key, _Entry] = {}
        self._accounts: dict[str, Account] = {}  # of queues with gangs; the sums of their entries

    def accounts(self, gangs: Collection[Gang], left_out: Collection[Gang] = ()) -> Mapping[str, Account]:
        """Return the accounts of the queues of ``gangs``, which are all gangs of a session.

        ``left_out``: the gangs that sessions leave out; what their pods occupy is allocated all the same.
        """
        entries = self._entries
        for listed, takes_part in ((gangs, True), (left_out, False)):
            for gang in listed:
                entry = entries.get(gang.key)
                if (
                    entry is None
                    or entry.generation != gang.generation
                    or entry.gang is not gang
                    or entry.phase != gang.phase
                    or entry.takes_part != takes_part
                ):
                    self._update(gang, takes_part=takes_part)
        if len(gangs) + len(left_out) < len(entries):
            present = {gang.key for listed in (gangs, left_out) for gang in listed}
            for key in [key for key in entries if key not in present]:
                self._subtract(entries.pop(key))
        return self._accounts

    def _update(self, gang: Gang, *, takes_part: bool) -> None:
        old = self._entries.get(gang.key)
        part = _part_of(gang) if takes_part else _occupied_part(gang)
        self._entries[gang.key] = _Entry(gang, gang.generation, gang.phase, takes_part, gang.queue, part)
        self._accounts.setdefault(gang.queue, Account()).add(part)
        if old is not None:
            self._subtract(old)

    def _subtract(self, entry: _Entry) -> None:
        account = self._accounts[entry.queue]
        account.add(entry.part, -1)
        if not account.gangs:
            del self._accounts[entry.queue]


def _part_of(gang: Gang) -> Account:
    reserved, missing = Counter(reserved_for(gang)), Counter(missing_claim_of(gang))
    occupied = gang.occupied
    return Account(
        gangs=1,
        allocated=occupied,
        request=occupied + gang.requests.pending,
        demand=occupied + (gang.requests.pending | reserved),
        reserved=reserved,
        reserved_in_full=Counter(reserved_on_admission(gang)) if gang.phase == INQUEUE else reserved,
        missing=missing,
        missing_pods=missing - gang.requests.pending,
        elastic=Counter(elastic_of(gang)),
    )


def _occupied_part(gang: Gang) -> Account:
    """Return the account of a gang that sessions leave out: only the requests of its pods on nodes count."""
    return Account(gangs=1, allocated=gang.occupied, request=gang.occupied, demand=gang.occupied)


Path = Callable[[str], Sequence[str]]


class SessionAccounts:
    """The accounts of one plugin in a session.

    A gang counts in all queues on the path of its queue.  ``path``: from a queue's name to the names of the
    queues above it and itself, the root first. ``request_of``: from a gang that is to be admitted to the
    amounts that it requests.  ``reserves_missing``: reserve what members may take that gangs lack.
    """

    def __init__(
        self,
        accounts: Mapping[str, Account],
        gangs: Mapping[Key, Gang],
        path: Path,
        request_of: Callable[[Gang], Amounts],
        *,
        reserves_missing: bool,
    ) -> None:
        self._gangs = gangs
        self._path = path
        self.request_of = request_of
        self._reserves_missing = reserves_missing
        self.by_queue: dict[str, Account] = {}  # of queues with gangs, in them or in queues below
        self._shares: dict[str, Fraction] = {}  # the results of ``share`` that are still valid
        self.renew(accounts)

    def renew(self, accounts: Mapping[str, Account]) -> None:
        """Start again with ``accounts``, of the gangs as they are now."""
        self.by_queue.clear()
        self._shares.clear()
        for queue, account in accounts.items():
            for on_path in self._path(queue):
                total = self.by_queue.setdefault(on_path, Account())
                total.add(account)
                if self._reserves_missing:
                    add(total.reserved, account.missing)
                    add(total.demand, account.missing_pods)

    def allocated(self, queue: str) -> Mapping[str, int]:
        account = self.by_queue.get(queue)
        return EMPTY_AMOUNTS if account is None else account.allocated

    def shortages(self, queue: str, limits: ResourceLimits, request: Amounts) -> tuple[Shortage, ...]:
        """Return what is missing within ``limits`` to allocate ``request`` now."""
        allocated = self.allocated(queue)
        return limits.shortages(lambda resource: allocated.get(resource, 0), request)

    def share(self, queue: str, deserved: FractionalAmounts) -> Fraction:
        """Return the dominant share of ``queue`` in ``deserved``; see ``deserved_changed``."""
        share = self._shares.get(queue)
        if share is None:
            share = self._shares[queue] = dominant_share(self.allocated(queue), deserved)
        return share

    def committed_share(self, queue: str, whole: FractionalAmounts) -> Fraction:
        """Return the dominant share in ``whole`` of what ``queue`` has and of what is reserved for it."""
        account = self.by_queue.get(queue)
        return Fraction(0) if account is None else dominant_share(account.allocated + account.reserved, whole)

    def on_allocate(self, task: Task) -> None:
        self._count(task, 1)

    def on_deallocate(self, task: Task) -> None:
        self._count(task, -1)

    def _count(self, task: Task, factor: int) -> None:
        for queue in self._path(self._gangs[task.gang].queue):
            self.charge(queue, task.request, factor)

    def charge(self, queue: str, amounts: Amounts, factor: int) -> None:
        """Add ``factor`` times ``amounts`` to what ``queue`` itself has allocated."""
        add(self.by_queue[queue].allocated, amounts, factor)
        self._shares.pop(queue, None)

    def reserve(self, gang: Gang) -> None:
        """Reserve what ``gang``, which is being admitted, requests."""
        self._reserve(gang, {} if gang.is_terminating else without_gated(gang, self.request_of(gang)), 1)

    def unreserve(self, gang: Gang) -> None:
        """End the reservation of ``gang``; to be called while it still has its phase."""
        self._reserve(gang, reserved_for(gang), -1)

    def _reserve(self, gang: Gang, amounts: Mapping[str, int], factor: int) -> None:
        without_pods = without_pending(gang, amounts)
        for queue in self._path(gang.queue):
            add(self.by_queue[queue].reserved, amounts, factor)
            add(self.by_queue[queue].demand, without_pods, factor)

    def deserved_changed(self) -> None:
        """Compute all shares again."""
        self._shares.clear()
