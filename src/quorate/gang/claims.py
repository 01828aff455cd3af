"""What a pod group still has to come: of the nodes, and of the quotas of its namespace.

An admitted group has ``minResources`` reserved for it until its members use them.  What members already have
is inside the used amounts of nodes and quotas, so it is taken off the claim and nothing counts twice.
Source: the design note "Delay Pod Creation", made precise.
"""

from collections.abc import Mapping
from typing import Final

from quorate.gang.gang import Gang
from quorate.gang.quota import Subject, quota_claim
from quorate.quota.amount import PODS

NOTHING: Final[Mapping[str, int]] = {}


def claim_of(gang: Gang) -> Mapping[str, int]:
    """What of the nodes is still reserved for ``gang``, once it is active; only what is more than nothing.

    Members that are done consumed their part: a finished driver does not get its room again.  One that is
    on its way out did not, so that its replacement finds room.  Places among the pods are not reserved.
    """
    minimum = gang.min_resources
    if not minimum or gang.is_leaving:
        return NOTHING
    if not gang.tasks:
        return {name: amount for name, amount in minimum.items() if amount > 0 and name != PODS}
    claim = {}
    for name, amount in minimum.items():
        left = amount - gang.held.get(name, 0) - gang.consumed.get(name, 0)
        if left > 0 and name != PODS:
            claim[name] = left
    return claim


def quota_claim_of(gang: Gang) -> Mapping[str, int]:
    """What ``gang`` may still take of the quotas of its namespace, by normalised name.

    All members count, in whatever phase: the quota controller has counted each when it was created.
    """
    if gang.min_resources is None or gang.is_leaving:
        return NOTHING
    return quota_claim(gang.quota_minimum, gang.quota_used)


def subject_of(gang: Gang) -> Subject:
    """What scopes of quotas can know of pods that may not exist yet."""
    return Subject(gang.priority_class)
