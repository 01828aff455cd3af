"""Nodes as hosts of places: labels, taints, allocatable resources and whether they are ready.

The queueing controllers keep every node of a cluster, so little is kept of each.
"""

from datetime import datetime
from functools import lru_cache
from sys import intern

import msgspec

from quorate.api.core.scheduling import Node, NodeStatus
from quorate.api.interning import CACHE_SIZE, intern_strings
from quorate.api.meta import Condition, ConditionStatus, ObjectMeta, find_condition


class HostNode(Node):
    """A node without what no place depends on; of the conditions it has ``Ready``, without its message."""

    def __post_init__(self) -> None:
        metadata, status = self.metadata, self.status
        trimmed = ObjectMeta(
            name=intern(metadata.name),
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            labels=intern_strings(metadata.labels),
        )
        msgspec.structs.force_setattr(self, "metadata", trimmed)
        ready = find_condition(status.conditions, "Ready")
        conditions = () if ready is None else _ready(ready.status, ready.reason, ready.last_transition_time)
        kept = NodeStatus(allocatable=status.allocatable, conditions=conditions)
        msgspec.structs.force_setattr(self, "status", kept)


@lru_cache(maxsize=CACHE_SIZE)
def _ready(status: ConditionStatus, reason: str, since: datetime | None) -> tuple[Condition, ...]:
    return (Condition(type="Ready", status=status, reason=reason, last_transition_time=since),)
