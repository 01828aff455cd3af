"""What the witness finds: the use of each queue and node, and where it is above a limit."""

from dataclasses import dataclass
from enum import StrEnum

from quorate.api.meta import Key
from quorate.api.quantity import Quantity
from quorate.witness.limits import FlavorResource, Holder


class Reason(StrEnum):
    """Why pods are outside of a limit.  The first four are faults of a controller, or of a tenant."""

    OVER_LIMIT = "OverLimit"
    OUTSIDE_QUOTA = "OutsideQuota"  # the pods of one workload use more than its admission counts
    OVER_ALLOCATABLE = "OverAllocatable"
    WITHOUT_ADMISSION = "WithoutAdmission"  # of pods that have, or had, a workload
    LIMIT_LOWERED = "LimitLowered"  # by an administrator, after the admission of what runs
    BEFORE_START = "BeforeStart"  # what ran already when the witness started: the limit may have been higher

    @property
    def is_fault(self) -> bool:
        return self not in (Reason.LIMIT_LOWERED, Reason.BEFORE_START)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where pods use too much: a cluster queue, a cohort or a node, and the resource."""

    kind: str  # ClusterQueue, Cohort, Workload or Node; LocalQueue or Namespace of pods without an admission
    name: str  # of a local queue or workload: namespace/name
    flavor: str  # "" of a node
    resource: str


@dataclass(frozen=True, slots=True)
class Difference:
    place: Place
    reason: Reason
    used: int  # in nano-units
    limit: int
    pods: tuple[Key, ...]  # those that use the resource, the newest first

    @property
    def excess(self) -> int:
        return self.used - self.limit

    @property
    def message(self) -> str:
        """Return the difference as one sentence."""
        place = self.place
        names = ", ".join(str(key) for key in self.pods[:NAMED])
        more = f" and {len(self.pods) - NAMED} more" if len(self.pods) > NAMED else ""
        if self.reason is Reason.WITHOUT_ADMISSION:
            return f"pods run although their workload has no quota: {names}{more}"
        what = f"{place.resource} of flavor {place.flavor}" if place.flavor else place.resource
        bound = BOUNDS.get(self.reason, "the limit")
        return (
            f"running pods use {Quantity(self.used)} {what}, {Quantity(self.excess)} more than {bound} of "
            f"{Quantity(self.limit)}: {names}{more}"
        )


BOUNDS = {Reason.OVER_ALLOCATABLE: "allocatable", Reason.OUTSIDE_QUOTA: "the admitted amount"}
NAMED = 5
"""The most pods that a message names."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of one resource of one flavor by the running pods of one holder."""

    holder: Holder
    of: FlavorResource
    used: int


@dataclass(frozen=True, slots=True)
class Report:
    usage: tuple[Usage, ...]
    differences: tuple[Difference, ...]
    lasting: tuple[Difference, ...]  # those of ``differences`` that last longer than the grace
    uncounted: tuple[
        str, ...
    ] = ()  # resources of which a device is in no ResourceSlice: its counters are not known
