"""Why a gang waits: typed reasons with amounts, and their messages.

Conditions, events, metrics and ``explain`` show the same value.  ``reason`` is the reason of the condition
(those of Volcano's PodGroup, and those that the design note adds, marked *design*), ``str`` its message.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import ClassVar

from quorate.api.meta import Key, at_epoch, utc_text
from quorate.api.volcano import QUEUE_NOT_FOUND
from quorate.gang.shortage import (
    MAX_RESOURCES_IN_MESSAGE,
    NEVER_FITS,
    Shortage,
    counted,
    rounded_down,
    rounded_up,
)
from quorate.gang.topology_reasons import HyperNodesTooSmall, NetworkTopologyUnsatisfied, NoSuchTier
from quorate.placement.diagnosis import Diagnosis


class _ShortageReason:
    """A reason that lists shortages of one ``source`` of resources."""

    __slots__ = ()
    reason: ClassVar[str]
    shortages: tuple[Shortage, ...]

    @property
    def source(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        omitted, named = len(self.shortages) - MAX_RESOURCES_IN_MESSAGE, self.shortages
        if omitted > 0:  # none that can never fit, if possible
            named = tuple(sorted(named, key=attrgetter("never_fits"), reverse=True))
        text = "; ".join(map(str, named[:MAX_RESOURCES_IN_MESSAGE]))
        if omitted > 0:
            text += f"; and {counted(omitted, 'resource')} more"
        # Only plugins reject a gang without naming a resource, and they speak for its queue.
        return f"{self.source}: {text or 'its share is used up'}"


@dataclass(frozen=True, slots=True)
class NotEnoughResources(_ShortageReason):
    """The nodes have too little left for the group's ``minResources``."""

    reason: ClassVar[str] = "NotEnoughResources"
    shortages: tuple[Shortage, ...]

    @property
    def source(self) -> str:
        return "cluster"


@dataclass(frozen=True, slots=True)
class NotEnoughNodes:
    """The nodes have enough left together, but not each member fits one of them (design)."""

    reason: ClassVar[str] = "NotEnoughResources"
    members: int
    fitting: int
    resource: str  # that is short for one more member
    needed: int
    best: int  # the most of it that a node has left beside the members that fit
    nodes: int
    never_fits: bool = False  # these members do not fit either if the nodes have no pods, as all numbers say

    def __str__(self) -> str:
        need, have = rounded_up(self.resource, self.needed), rounded_down(self.resource, max(0, self.best))
        amounts = f"{self.resource}: need {need}, have {have} on the best of {counted(self.nodes, 'node')}"
        if self.never_fits:
            fit = f"{self.fitting} of {self.members} members fit without any other pods"
            return f"nodes: {fit}: {amounts}, {NEVER_FITS}"
        return f"nodes: {self.fitting} of {self.members} members fit: {amounts}"


@dataclass(frozen=True, slots=True)
class QueueQuotaExceeded(_ShortageReason):
    """A limit of the queue, or of a queue above it, would be exceeded (design)."""

    reason: ClassVar[str] = "QueueQuotaExceeded"
    queue: str
    shortages: tuple[Shortage, ...]

    @property
    def source(self) -> str:
        return f"queue {self.queue}"


@dataclass(frozen=True, slots=True)
class NamespaceQuotaExceeded(_ShortageReason):
    """A ResourceQuota of the namespace leaves too little (design)."""

    reason: ClassVar[str] = "NamespaceQuotaExceeded"
    quota: str
    shortages: tuple[Shortage, ...]

    @property
    def source(self) -> str:
        return f"quota {self.quota}"


@dataclass(frozen=True, slots=True)
class InvalidQueueHierarchy:
    """The queue of the group, or a queue above it, has no place in the hierarchy where groups are served."""

    reason: ClassVar[str] = "InvalidQueueHierarchy"
    queue: str
    problem: str

    def __str__(self) -> str:
        return f"queue {self.queue} {self.problem}"


@dataclass(frozen=True, slots=True)
class QueueNotFound:
    """The group names a queue that does not exist, so that no session evaluates it (design)."""

    reason: ClassVar[str] = QUEUE_NOT_FOUND
    queue: str

    def __str__(self) -> str:
        return f"queue {self.queue} does not exist"


@dataclass(frozen=True, slots=True)
class QueueNotOpen:
    reason: ClassVar[str] = "QueueNotOpen"
    queue: str

    def __str__(self) -> str:
        return f"queue {self.queue} is not open"


@dataclass(frozen=True, slots=True)
class QueuePodGroupLimit:
    """The queue, or one above it, has as many active groups as it may (design)."""

    reason: ClassVar[str] = "QueuePodGroupLimit"
    queue: str
    active: int
    limit: int

    def __str__(self) -> str:
        text = f"queue {self.queue} holds {self.active} active pod groups, {self.limit} at most"
        return text if self.limit else f"{text}, {NEVER_FITS}"


@dataclass(frozen=True, slots=True)
class WorkloadNotAdmitted:
    """The group names a local queue, and the cluster queue has not admitted its Workload (design)."""

    reason: ClassVar[str] = "WorkloadNotAdmitted"

    def __str__(self) -> str:
        return "its Workload is not admitted by a cluster queue (quorate workload explain podgroup/NAME)"


@dataclass(frozen=True, slots=True)
class BeyondAdmission:
    """Members have no quota of the cluster queue, which admitted fewer pods or smaller ones."""

    reason: ClassVar[str] = "WorkloadNotAdmitted"
    admitted: int

    def __str__(self) -> str:
        return f"the cluster queue admitted {counted(self.admitted, 'pod')}, with minResources in all"


@dataclass(frozen=True, slots=True)
class InqueueTimeout:
    """The pods of an admitted group were not created or found no nodes in time (design)."""

    reason: ClassVar[str] = "InqueueTimeout"
    waited_s: float
    members: int
    needed: int

    def __str__(self) -> str:
        members = _members_exist(self.members, self.needed)
        return f"admitted {self.waited_s:.0f} s ago, {members} and no node was found for all"


@dataclass(frozen=True, slots=True)
class NotEnoughTasks:
    """Fewer pods exist than the gang needs."""

    reason: ClassVar[str] = "NotEnoughTasks"
    members: int
    needed: int
    ended: int = 0  # pods that have failed or are being deleted

    def __str__(self) -> str:
        text = _members_exist(self.members, self.needed)
        return f"{text}, {self.ended} more failed or being deleted" if self.ended else text


@dataclass(frozen=True, slots=True)
class NotEnoughPodsOfTask:
    """Fewer pods of one role exist than the gang needs of it."""

    reason: ClassVar[str] = "NotEnoughPodsOfTask"
    role: str
    members: int
    needed: int

    def __str__(self) -> str:
        return f"role {self.role}: {_members_exist(self.members, self.needed)}"


@dataclass(frozen=True, slots=True)
class NotEnoughSubGroups:
    """Fewer sub groups of one policy have all their pods than the gang needs."""

    reason: ClassVar[str] = "NotEnoughSubGroups"
    policy: str
    sub_groups: int
    needed: int
    size: int

    def __str__(self) -> str:
        return (
            f"sub groups {self.policy}: {self.sub_groups} of {self.needed} exist with all "
            f"{counted(self.size, 'member')}"
        )


@dataclass(frozen=True, slots=True)
class Cause:
    """Why members found no node: what the nodes lack for each shape, and what their queue lacks."""

    text: str  # with counts
    refusals: tuple[Diagnosis, ...] = field(default=(), compare=False)
    share: QueueQuotaExceeded | None = field(default=None, compare=False)
    exceeds_capability: bool = False  # the members needed request more than their queue may ever have

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class GangUnschedulable:
    """The pods exist, but no placement was found for enough of them at once."""

    reason: ClassVar[str] = "NotEnoughResources"
    missing: int  # members for which no node was found, of those needed
    needed: int
    cause: Cause
    never_fits: bool = False  # whether only other nodes can help, and neither time nor evictions

    def __str__(self) -> str:
        text = f"{self.missing} of {self.needed} members found no node: {self.cause}"
        return f"{text}, {NEVER_FITS}" if can_never_fit(self) else text


@dataclass(frozen=True, slots=True)
class FurtherMembersWait:
    """The gang has its minimum, and members beyond it found no node."""

    reason: ClassVar[str] = "NotEnoughResources"
    members: int
    cause: Cause

    def __str__(self) -> str:
        return f"{counted(self.members, 'pod')} beyond minMember found no node: {self.cause}"


@dataclass(frozen=True, slots=True)
class ReservedWindow:
    """Its members would have nodes now if the window of a Reservation kept none; they may run into it."""

    reason: ClassVar[str] = "ReservedWindow"
    reservation: str
    opens: float  # epoch seconds
    closes: float
    nodes: int  # that the members would have, and that windows keep
    missing: int  # members that found no node beside them, of those needed
    needed: int

    def __str__(self) -> str:
        return f"{self.window}; {self.missing} of {self.needed} members found no node beside it"

    @property
    def window(self) -> str:
        times = f"from {_moment(self.opens)} to {utc_text(self.closes)}"
        return f"reserved for {self.reservation} {times}: {counted(self.nodes, 'node')}"


# Why nodes have too little room for a group that is not admitted.
RoomReason = NotEnoughResources | NotEnoughNodes | NetworkTopologyUnsatisfied | ReservedWindow


@dataclass(frozen=True, slots=True)
class AwaitsEvictions:
    """Members are pipelined to nodes that other pods have yet to leave."""

    reason: ClassVar[str] = "NotEnoughResources"
    nodes: int
    leaving: int  # pods that are leaving these nodes

    def __str__(self) -> str:
        text = f"pipelined to {counted(self.nodes, 'node')}"
        return f"{text}, waits for {counted(self.leaving, 'pod')} to leave" if self.leaving else text


@dataclass(frozen=True, slots=True)
class ReservedForEarlierGroup:
    """The group might still run at the planned start of an earlier group, for which its room is kept."""

    reason: ClassVar[str] = "ReservedForEarlierPodGroup"
    group: Key
    at: float | None  # epoch seconds; None: it is not known, as a gang without a bound must end first
    shortages: tuple[Shortage, ...]  # without any, its members find too few nodes beside those that are kept
    is_of_namespace: bool  # the earlier group is of the same namespace: otherwise it is not named

    def __str__(self) -> str:
        text = "; ".join(map(str, self.shortages[:MAX_RESOURCES_IN_MESSAGE]))
        group = f"pod group {self.group.name}" if self.is_of_namespace else "an earlier pod group"
        until = "" if self.at is None else f", which starts at {utc_text(self.at)} at the latest"
        return f"nodes: reserved for {group}{until}: {text or 'no nodes for all members beside it'}"


@dataclass(frozen=True, slots=True)
class EndsTooLate:
    """It was admitted because it would end before a planned start, and has not started in time for that."""

    reason: ClassVar[str] = "ReservedForEarlierPodGroup"
    ends_by: float  # epoch seconds

    def __str__(self) -> str:
        by = utc_text(self.ends_by)
        return f"it was admitted to end by {by}, the planned start of an earlier group, and would not"


@dataclass(frozen=True, slots=True)
class AwaitsPlannedStart:
    """The nodes lack room for it now, and its start is planned."""

    unplanned: RoomReason
    at: float | None  # epoch seconds; None: not known

    @property
    def reason(self) -> str:
        return self.unplanned.reason

    def __str__(self) -> str:
        if self.at is None:
            return f"{self.unplanned}; what it needs is kept for it until gangs without a bound end"
        return f"{self.unplanned}; its start is planned for {utc_text(self.at)} at the latest"


class NotPlanned(StrEnum):
    """Why no start of a group is planned, although its queue plans starts."""

    SUB_GROUPS = "its sub groups need HyperNodes of their own"
    UNKNOWN_REQUESTS = "it needs one HyperNode, and the requests of its members are not known"
    HELD_BY_OTHERS = "what it needs would not be free if all other pod groups had ended"
    WINDOWS = "it may run into windows of Reservations whenever it starts"


@dataclass(frozen=True, slots=True)
class AwaitsUnplannedStart:
    """The nodes lack room for it now, and its start cannot be planned."""

    unplanned: RoomReason
    why: NotPlanned

    @property
    def reason(self) -> str:
        return self.unplanned.reason

    def __str__(self) -> str:
        return f"{self.unplanned}; its start is not planned: {self.why.value}"


@dataclass(frozen=True, slots=True)
class AwaitsVictimSearch:
    """Its pods fit no node, and no session has searched yet for pods to evict for it (design)."""

    reason: ClassVar[str] = "AwaitsVictimSearch"
    unplaced: GangUnschedulable
    searched: int  # groups for which this session searched for victims
    groups: int  # groups that were to be searched for

    def __str__(self) -> str:
        return (
            f"{self.unplaced}; pods to evict for it are searched for in a later session: "
            f"{self.searched} of {counted(self.groups, 'pod group')} had their turn"
        )


def _moment(at: float) -> str:
    return f"{at_epoch(at):%Y-%m-%d %H:%M:%S}"


def _members_exist(members: int, needed: int) -> str:
    return f"{members} of {needed} members exist"


def no_share_message(shortage: QueueQuotaExceeded | None) -> str:
    """Return why members that fit nodes get none.  ``shortage``: None if it has no amounts."""
    text = "their queue may not allocate more now"
    if shortage is None:
        return text
    amounts = "; ".join(
        resource_shortage.within_share for resource_shortage in shortage.shortages[:MAX_RESOURCES_IN_MESSAGE]
    )
    return f"{text} ({shortage.source}: {amounts})"


PendingReason = (
    NotEnoughResources
    | NotEnoughNodes
    | QueueQuotaExceeded
    | InvalidQueueHierarchy
    | NamespaceQuotaExceeded
    | QueueNotFound
    | QueueNotOpen
    | QueuePodGroupLimit
    | WorkloadNotAdmitted
    | BeyondAdmission
    | InqueueTimeout
    | NotEnoughTasks
    | NotEnoughPodsOfTask
    | NotEnoughSubGroups
    | NetworkTopologyUnsatisfied
    | HyperNodesTooSmall
    | NoSuchTier
    | GangUnschedulable
    | FurtherMembersWait
    | ReservedWindow
    | AwaitsEvictions
    | ReservedForEarlierGroup
    | AwaitsPlannedStart
    | AwaitsUnplannedStart
    | AwaitsVictimSearch
    | EndsTooLate
)


def first_reason(reasons: Iterable[PendingReason | None]) -> PendingReason | None:
    """Return the first of ``reasons``; None if there is none."""
    return next((reason for reason in reasons if reason is not None), None)


def can_never_fit(reason: PendingReason) -> bool:
    """Return True if the group requests more than would be available with everything else gone."""
    match reason:
        case NotEnoughResources() | QueueQuotaExceeded() | NamespaceQuotaExceeded():
            return any(shortage.never_fits for shortage in reason.shortages)
        case QueuePodGroupLimit():
            return reason.limit == 0
        case GangUnschedulable():
            return reason.never_fits or reason.cause.exceeds_capability
        case NotEnoughNodes() | NetworkTopologyUnsatisfied():
            return reason.never_fits
        case HyperNodesTooSmall() | NoSuchTier():
            return True
        case _:
            return False


def equivalence_key(reason: PendingReason) -> object:
    """Return the parts of ``reason`` that do not change with every pod that starts or ends.

    Reasons with equal keys need no new condition.
    """
    match reason:
        case NotEnoughResources() | QueueQuotaExceeded() | NamespaceQuotaExceeded():
            shortages = tuple(shortage.equivalence_key for shortage in reason.shortages)
            return (reason.reason, reason.source, shortages)
        case NotEnoughNodes():
            return (NotEnoughNodes, reason.members, reason.resource, reason.needed, reason.never_fits)
        case AwaitsEvictions():
            return (AwaitsEvictions, reason.nodes)
        case AwaitsPlannedStart():
            return (AwaitsPlannedStart, equivalence_key(reason.unplanned), reason.at)
        case AwaitsUnplannedStart():
            return (AwaitsUnplannedStart, equivalence_key(reason.unplanned), reason.why)
        case AwaitsVictimSearch():
            return (AwaitsVictimSearch, equivalence_key(reason.unplaced))
        case ReservedForEarlierGroup():
            shortages = tuple(shortage.equivalence_key for shortage in reason.shortages)
            return (ReservedForEarlierGroup, reason.group, reason.at, shortages)
        case NetworkTopologyUnsatisfied(never_fits=False):
            part = reason.sub_group, reason.beside_placed
            return (NetworkTopologyUnsatisfied, reason.limit, reason.needed, reason.hyper_nodes, part)
        case _:
            return reason
