"""What a workload gets of its cluster queue, or would get: flavors, quota, and places of its pods."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, Self

import msgspec

from quorate.api.kueue import ResourceFlavor
from quorate.queueing.cluster_queue import ClusterQueueState, FlavorGroup
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
    flavors: dict[str, str]  # by resource; without requests: those of its topology group
    requests: dict[str, int]  # for all pods, of the requested resources that have a flavor


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
    def pods(self) -> int:
        return sum(pod_set.count for pod_set in self.pod_sets)

    @property
    def needs_room(self) -> bool:
        """Return True if more room on nodes may help, for all of its pods or for fewer."""
        return self.fewer_need_room or self.has_no_room

    @property
    def has_no_room(self) -> bool:
        """Return True if pods have no places, or the nodes no room, as a refusal says."""
        for reason in self.reasons:  # noqa: SIM110  called for each head, where any() costs more
            if isinstance(reason, (PlacementRefused, NodesLackRoom)):
                return True
        return False


class KeptAssignment(NamedTuple):
    """An assignment that is used again later, with the flavors and flavor groups that it was made from."""

    assignment: Assignment
    groups: Mapping[str, FlavorGroup]  # of the cluster queue, by resource
    flavors: tuple[tuple[str, ResourceFlavor], ...]  # that it uses, with their names

    @classmethod
    def of(
        cls, assignment: Assignment, queue: ClusterQueueState, flavors: Mapping[str, ResourceFlavor]
    ) -> Self:
        names = {name for pods in assignment.pod_sets for name in pods.flavors.values()}
        return cls(assignment, queue.groups, tuple((name, flavors[name]) for name in names))

    def is_of(self, queue: ClusterQueueState, flavors: Mapping[str, ResourceFlavor]) -> bool:
        """Return True if neither the flavor groups of the queue nor the flavors have changed since."""
        if self.groups is not queue.groups:
            return False
        for name, flavor in self.flavors:  # noqa: SIM110  called for each comparison, where all() costs more
            if flavors.get(name) is not flavor:
                return False
        return True
