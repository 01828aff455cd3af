"""Why a gang waits: typed, with numbers, and in words.

Conditions, events, metrics and ``explain`` render the same value.  ``reason`` is the word of the condition
(spec of Volcano's PodGroup; those of profile ``design`` are marked), ``str`` the sentence.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

from quorate.gang.quota import plain, said
from quorate.placement.diagnosis import Diagnosis
from quorate.quota.amount import Amount, counts_bytes

MOST_TOLD: Final = 16  # resources in one message, which is stored: a group may name any number


@dataclass(frozen=True, slots=True)
class Shortage:
    """Of one resource: what is needed, what is free of it now, and what there could ever be."""

    resource: str
    needed: int
    free: int
    at_most: Amount  # with everything else gone

    @property
    def never(self) -> bool:
        """Whether it could not be had with everything else gone."""
        return self.needed > self.at_most

    @property
    def lasting(self) -> tuple[object, ...]:
        """What of it does not change with every pod that comes or goes."""
        return (self.resource, self.needed, self.at_most if self.never else None)

    def __str__(self) -> str:
        name = self.resource
        text = f"{name}: need {_at_least(name, self.needed)}, have {_at_most(name, max(0, self.free))} now"
        if isinstance(self.at_most, int) and self.never:
            return f"{text} and {_at_most(name, self.at_most)} at most, so it can never fit"
        return text


def _at_least(name: str, amount: int) -> str:
    return said(name, amount + -amount % _grain(name, amount))


def _at_most(name: str, amount: int) -> str:
    return said(name, amount - amount % _grain(name, amount))


def _grain(name: str, amount: int) -> int:
    """To which part an amount is told: of gibibytes whole mebibytes, as nobody reads eleven digits."""
    return 1 << 20 if counts_bytes(plain(name)) and amount >= 1 << 30 else 1


def _said(shortages: tuple[Shortage, ...]) -> str:
    told = "; ".join(map(str, shortages[:MOST_TOLD]))
    others = len(shortages) - MOST_TOLD
    return f"{told}; and {_count(others, 'resource')} more" if others > 0 else told


@dataclass(frozen=True, slots=True)
class NotEnoughResources:
    """The nodes have too little left for the group's ``minResources``."""

    reason: ClassVar[str] = "NotEnoughResources"
    shortages: tuple[Shortage, ...]

    def __str__(self) -> str:
        return f"cluster: {_said(self.shortages)}"


@dataclass(frozen=True, slots=True)
class QueueQuotaExceeded:
    """The queue's share, capability or that of a queue above it would be exceeded (design)."""

    reason: ClassVar[str] = "QueueQuotaExceeded"
    queue: str
    shortages: tuple[Shortage, ...]

    def __str__(self) -> str:
        return f"queue {self.queue}: {_said(self.shortages) or 'its share is used up'}"


@dataclass(frozen=True, slots=True)
class NoQueueTree:
    """Queues are to form a tree and do not, so that none of them has a share."""

    reason: ClassVar[str] = "QueueQuotaExceeded"
    queue: str
    why: str

    def __str__(self) -> str:
        return f"no queue has a share: queue {self.queue} {self.why}"


@dataclass(frozen=True, slots=True)
class NamespaceQuotaExceeded:
    """A ResourceQuota of the namespace leaves too little (design)."""

    reason: ClassVar[str] = "NamespaceQuotaExceeded"
    quota: str
    shortages: tuple[Shortage, ...]

    def __str__(self) -> str:
        return f"quota {self.quota}: {_said(self.shortages)}"


@dataclass(frozen=True, slots=True)
class QueueNotOpen:
    reason: ClassVar[str] = "QueueNotOpen"
    queue: str

    def __str__(self) -> str:
        return f"queue {self.queue} is not open"


@dataclass(frozen=True, slots=True)
class QueuePodGroupLimit:
    """The queue, or one above it, holds as many active groups as it may (design)."""

    reason: ClassVar[str] = "QueuePodGroupLimit"
    queue: str
    active: int
    limit: int

    def __str__(self) -> str:
        return f"queue {self.queue} holds {self.active} active pod groups, {self.limit} at most"


@dataclass(frozen=True, slots=True)
class InqueueTimeout:
    """Admitted, but in all the time given its pods were not made, or found no nodes (design)."""

    reason: ClassVar[str] = "InqueueTimeout"
    waited_s: float
    members: int
    needed: int

    def __str__(self) -> str:
        members = f"{self.members} of {self.needed} members exist"
        return f"admitted {self.waited_s:.0f} s ago, {members} and no node was found for all"


@dataclass(frozen=True, slots=True)
class NotEnoughTasks:
    """Fewer pods exist than the gang needs."""

    reason: ClassVar[str] = "NotEnoughTasks"
    members: int
    needed: int

    def __str__(self) -> str:
        return f"{self.members} of {self.needed} members exist"


@dataclass(frozen=True, slots=True)
class NotEnoughPodsOfTask:
    """Fewer pods of one role exist than the gang needs of it."""

    reason: ClassVar[str] = "NotEnoughPodsOfTask"
    role: str
    members: int
    needed: int

    def __str__(self) -> str:
        return f"role {self.role}: {self.members} of {self.needed} members exist"


@dataclass(frozen=True, slots=True)
class GangUnschedulable:
    """Its pods exist, but no way was found to place enough of them at once."""

    reason: ClassVar[str] = "NotEnoughResources"
    missing: int  # members for which no node was found, of those needed
    needed: int
    because: str  # what the nodes said, by reason
    never: bool = False  # whether no waiting and no eviction helps: it takes other nodes

    def __str__(self) -> str:
        text = f"{self.missing} of {self.needed} members found no node: {self.because}"
        return f"{text}, so it can never fit" if self.never else text


@dataclass(frozen=True, slots=True)
class AwaitsRoom:
    """Members of it are promised nodes that others have still to leave."""

    reason: ClassVar[str] = "NotEnoughResources"
    nodes: int
    leaving: int  # pods on their way out there

    def __str__(self) -> str:
        text = f"promised {_count(self.nodes, 'node')}"
        return f"{text}, waits for {_count(self.leaving, 'pod')} to leave" if self.leaving else text


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


@lru_cache(maxsize=1_024)
def said_by_nodes(refusal: Diagnosis) -> str:
    """Why no node takes a pod, in words that users of kube-scheduler know: the most frequent reason first."""
    if not refusal.nodes:
        return "no nodes available to schedule pods"
    short = (
        f"{each.nodes} Insufficient {each.resource} (need {said(each.resource, each.need)}, "
        f"{said(each.resource, each.at_most)} at most)"
        for each in refusal.insufficient
    )
    barred = (f"{each.nodes} {each.reason}" for each in refusal.filtered)
    overdrawn = (
        [f"{refusal.overcommitted} node(s) gave away more than they have"] if refusal.overcommitted else []
    )
    return f"0/{refusal.nodes} nodes are available: {', '.join((*short, *barred, *overdrawn))}"


Verdict = (
    NotEnoughResources
    | QueueQuotaExceeded
    | NoQueueTree
    | NamespaceQuotaExceeded
    | QueueNotOpen
    | QueuePodGroupLimit
    | InqueueTimeout
    | NotEnoughTasks
    | NotEnoughPodsOfTask
    | GangUnschedulable
    | AwaitsRoom
)


def can_never_fit(verdict: Verdict) -> bool:
    """Whether the group asks for more than there could be with everything else gone."""
    match verdict:
        case NotEnoughResources() | QueueQuotaExceeded() | NamespaceQuotaExceeded():
            return any(shortage.never for shortage in verdict.shortages)
        case QueuePodGroupLimit():
            return verdict.limit == 0
        case GangUnschedulable():
            return verdict.never
        case _:
            return False


def lasting(verdict: Verdict) -> object:
    """What of ``verdict`` does not change with every pod that comes or goes: equal ones are no news."""
    match verdict:
        case NotEnoughResources():
            return (verdict.reason, tuple(shortage.lasting for shortage in verdict.shortages))
        case QueueQuotaExceeded():
            return (verdict.reason, verdict.queue, tuple(each.lasting for each in verdict.shortages))
        case NamespaceQuotaExceeded():
            return (verdict.reason, verdict.quota, tuple(each.lasting for each in verdict.shortages))
        case AwaitsRoom():
            return (AwaitsRoom, verdict.nodes)
        case _:
            return verdict


def in_volcanos_words(verdict: Verdict) -> str:
    """What Volcano's plugins say when they refuse a group, which people's tools look for."""
    match verdict:
        case QueueQuotaExceeded():
            return f"queue resource quota insufficient: insufficient {_names(verdict.shortages)}"
        case NotEnoughResources():
            return f"resource in cluster is overused: overused {_names(verdict.shortages)}"
        case NamespaceQuotaExceeded():
            return f"resource quota insufficient, {'; '.join(map(_as_quota, verdict.shortages))}"
        case _:
            return str(verdict)


def _names(shortages: tuple[Shortage, ...]) -> str:
    return ", ".join(shortage.resource for shortage in shortages)


def _as_quota(shortage: Shortage) -> str:
    name, hard = shortage.resource, shortage.at_most
    assert isinstance(hard, int), f"{name} is short without a limit"

    def is_(amount: int) -> str:
        return f"{name}={said(name, amount)}"

    return f"requested: {is_(shortage.needed)}, used: {is_(hard - shortage.free)}, limited: {is_(hard)}"
