"""What a workload gets of its cluster queue, or would get: flavors, quota, and places of its pods."""

from enum import IntEnum

import msgspec

from quorate.queueing.inadmissible_reasons import NodesLackRoom, PlacementRefused, PodSetReason
from quorate.queueing.topology.placing import NO_PLACEMENT, Placement
from quorate.quota.amount import FlavorResource


class AssignmentMode(IntEnum):
    """How a request can be satisfied, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1  # preemption would help, but there are no candidates
    PREEMPT = 2  # by preemption within the own cluster queue, or there as well
    RECLAIM = 3  # by preemption in other cluster queues only
    FIT = 4

    @property
    def needs_preemption(self) -> bool:
        return AssignmentMode.NO_FIT < self < AssignmentMode.FIT


class PodSetFlavors(msgspec.Struct, frozen=True):
    name: str
    count: int
    flavors: dict[str, str]  # by resource
    requests: dict[str, int]  # for all pods, exactly of the resources that have a flavor


class Assignment(msgspec.Struct, frozen=True):
    pod_sets: tuple[PodSetFlavors, ...]  # up to the first that got no flavor
    mode: AssignmentMode  # the worst of all resources
    borrowing_level: int  # the highest of all resources
    usage: dict[FlavorResource, int]
    pairs_needing_preemption: frozenset[FlavorResource]
    reasons: tuple[PodSetReason, ...]  # every refusal, except those of groups in which a flavor fits
    last_tried_flavors: tuple[dict[str, int], ...]  # per pod set and resource: see ``LastAssignment``
    placement: Placement = NO_PLACEMENT  # of the pods that need places in a topology
    quota_mode: AssignmentMode = AssignmentMode.FIT  # the mode without regard to places
    delayed: frozenset[str] = frozenset()  # pod sets that get places once all admission checks are Ready
    fewer_need_room: bool = False  # fewer pods, with which it may start, have quota and no places

    @property
    def needs_room(self) -> bool:
        """Return True if more room on nodes may help, for all of its pods or for fewer."""
        return self.fewer_need_room or any(
            isinstance(reason, PlacementRefused | NodesLackRoom) for reason in self.reasons
        )
