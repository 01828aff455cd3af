"""quorate.dev/v1alpha1: the kind Reservation, which keeps quota or nodes for a time."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Final, Literal

from quorate.api.core import Resources
from quorate.api.meta import Condition, Int32, Int64, Key, LabelSelector, ObjectMeta, Struct, matches_selector

GROUP: Final = "quorate.dev"
VERSION: Final = "v1alpha1"

# Conditions of a Reservation.
SCHEDULED: Final = "Scheduled"
ACTIVE: Final = "Active"
CONFLICTING: Final = "Conflicting"
ENDED: Final = "Ended"

Purpose = Literal["Workloads", "Maintenance"]
AtStart = Literal["Drain", "Evict"]


class ReservedAmounts(Struct):
    """How much quota of ``flavor`` a Reservation keeps for its owners: a quantity for each resource."""

    flavor: str
    resources: Resources = {}


class ReservedNodes(Struct):
    """Nodes by name, by label, or ``count`` of them; without names and selector, of all nodes."""

    names: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    count: Int32 | None = None


class ReservationOwners(Struct):
    """The owners: workloads of any of these queues and namespaces."""

    cluster_queues: tuple[str, ...] = ()
    local_queues: tuple[Key, ...] = ()
    namespaces: tuple[str, ...] = ()


class ReservationSpec(Struct):
    start: datetime
    purpose: Purpose = "Workloads"
    amounts: tuple[ReservedAmounts, ...] = ()
    nodes: ReservedNodes | None = None
    owners: ReservationOwners = ReservationOwners()
    end: datetime | None = None
    duration_seconds: Int64 | None = None
    recurrence: str = ""  # RFC 5545, without "RRULE:"
    at_start: AtStart = "Drain"
    notice_seconds: Int32 = 0


class ReservationStatus(Struct):
    start: datetime | None = None  # of the window that is active or comes next
    end: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class Reservation(Struct):
    metadata: ObjectMeta
    spec: ReservationSpec
    status: ReservationStatus = ReservationStatus()


Labels = Mapping[str, str]


def reserved_nodes(reserved: ReservedNodes, nodes: Iterable[tuple[str, Labels]]) -> frozenset[str]:
    """Return the names of the nodes that are meant, of ``nodes`` with their names and labels.

    Of a number of nodes they are the first in the order of their names.
    """
    if reserved.names or (reserved.selector is None and reserved.count is None):
        return frozenset(reserved.names)
    selector = reserved.selector
    selected: Iterator[str] = (
        name for name, labels in sorted(nodes) if selector is None or matches_selector(selector, labels)
    )
    return frozenset(selected if reserved.count is None else islice(selected, max(0, reserved.count)))
