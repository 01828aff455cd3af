"""The owner of a pod group: a job with a controller that creates the members, or the group itself."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.core import Resources
from quorate.api.meta import Uid
from quorate.api.names.volcano import EVERY_ROLE, MEMBER_REQUESTS, REPLACES_FAILED
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import GROUP as VOLCANO_JOBS
from quorate.placement.resources import Amounts, in_base_units
from quorate.quota.amount import PODS

UNSEEN: Final = Uid("")
NO_REQUESTS: Final[Mapping[str, Amounts]] = {}


@dataclass(frozen=True, slots=True)
class GroupOwner:
    """What the owner of a pod group tells of the members."""

    uid: Uid = UNSEEN  # the owner of the group's workload, if a cluster queue admits it
    creates_members: bool = False  # whether a controller owns the group, which creates missing members
    replaces_failed: bool = True  # whether members that failed are replaced
    has_one_template: bool = False  # whether all members have one, which is known of some owners
    # What one member of each role requests, in base units, with 1 of ``pods``; empty if that is not known.
    # ``EVERY_ROLE`` stands for all members of a group that has one list of resources for them.
    member_requests: Mapping[str, Amounts] | None = None

    def requests_of(self, role: str) -> Amounts | None:
        """Return what a member of ``role`` requests; None if that is not known."""
        return (self.member_requests or NO_REQUESTS).get(role)

    def requests_of_each(self, members: int, min_resources: Amounts | None) -> Amounts | None:
        """Return what each of ``members`` requests, which have ``min_resources``; None if they may differ."""
        requests = self.requests_of(EVERY_ROLE)
        if requests is not None:
            return {name: amount for name, amount in requests.items() if amount > 0}
        if not self.has_one_template or min_resources is None:
            return None
        shared = {name: amount // members for name, amount in min_resources.items() if name != PODS}
        return {name: amount for name, amount in shared.items() if amount > 0} | {PODS: 1}


NO_OWNER: Final = GroupOwner()


def group_owner(group: PodGroup) -> GroupOwner:
    metadata = group.metadata
    controller = metadata.controller
    return GroupOwner(
        uid=metadata.uid if controller is None else controller.uid,
        creates_members=controller is not None,
        replaces_failed=metadata.annotations.get(REPLACES_FAILED) != "false",
        has_one_template=_has_one_template(group),
        member_requests=_member_requests(metadata.annotations.get(MEMBER_REQUESTS)),
    )


def _has_one_template(group: PodGroup) -> bool:
    """Return True if the group stands for a Job, or for one task of a Volcano Job."""
    owner = group.metadata.controller
    if owner is None or owner.kind != "Job":
        return False
    api_group = owner.api_version.partition("/")[0]
    return api_group == "batch" or (api_group == VOLCANO_JOBS and len(group.spec.min_task_member) == 1)


def _member_requests(text: str | None) -> Mapping[str, Amounts] | None:
    if text is None:
        return None
    by_role: Mapping[str, Resources] = {}
    try:
        by_role = codec.decode(dict[str, Resources], text)
    except msgspec.DecodeError:
        with suppress(msgspec.DecodeError):
            by_role = {EVERY_ROLE: codec.decode(Resources, text)}
    return {role: in_base_units(requests) | {PODS: 1} for role, requests in by_role.items()}
