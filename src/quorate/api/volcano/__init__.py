"""scheduling.volcano.sh/v1beta1: pod groups and queues.

Field meanings and defaults are Volcano's (1.15); ``maxPodGroups`` and the meaning of ``dequeueStrategy``
are ours.  Phases, states and strategies are text, not closed lists: the definitions that Volcano installs
accept any, so a reader decides what an unknown one means.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

import msgspec

from quorate.api.core import Resources
from quorate.api.meta import ConditionStatus, Int32, LabelSelector, ObjectMeta, Struct, always_encoded

GROUP: Final = "scheduling.volcano.sh"
VERSION: Final = "v1beta1"

# Phases of a pod group.  A new object has none, which means Pending.
PENDING: Final = "Pending"
INQUEUE: Final = "Inqueue"  # admitted: its pods may be created
RUNNING: Final = "Running"
UNKNOWN: Final = "Unknown"  # some members run, but the group as it is cannot be scheduled
COMPLETED: Final = "Completed"

# Types of conditions of a pod group, at most one entry each.
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULED: Final = "Scheduled"

# Reasons of an Unschedulable condition: Volcano's.
POD_FAILED: Final = "PodFailed"
POD_DELETED: Final = "PodDeleted"
NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"
NOT_ENOUGH_TASKS: Final = "NotEnoughTasks"
NOT_ENOUGH_PODS_OF_TASK: Final = "NotEnoughPodsOfTask"
# And ours, for groups that wait to be admitted or were sent back.
QUEUE_QUOTA_EXCEEDED: Final = "QueueQuotaExceeded"
NAMESPACE_QUOTA_EXCEEDED: Final = "NamespaceQuotaExceeded"
QUEUE_NOT_OPEN: Final = "QueueNotOpen"
QUEUE_POD_GROUP_LIMIT: Final = "QueuePodGroupLimit"
INQUEUE_TIMEOUT: Final = "InqueueTimeout"
# The reason text of a Scheduled condition.
READY_TO_BE_SCHEDULED: Final = "tasks in gang are ready to be scheduled"

# States of a queue.  A new object has none, which means Open.
OPEN: Final = "Open"
CLOSED: Final = "Closed"
CLOSING: Final = "Closing"  # closed to new pod groups while old ones are left
# UNKNOWN is the fourth.

ROOT_QUEUE: Final = "root"
DEFAULT_QUEUE: Final = "default"


class NetworkTopology(Struct):
    """How near each other the members must (hard) or should (soft) be placed.

    The highest tier is given as a number or by name, not both.
    """

    mode: Literal["hard", "soft"] = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(Struct):
    """Splits the members that ``label_selector`` picks into gangs of ``sub_group_size``."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: Int32 = 1
    min_sub_groups: Int32 = 0
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()


class PodGroupSpec(Struct):
    """``min_resources`` is None when nobody said what the group needs, and empty when it is nothing."""

    min_member: Int32 = always_encoded(int)
    min_task_member: dict[str, Int32] = {}  # by role
    queue: str = DEFAULT_QUEUE
    priority_class_name: str = ""
    min_resources: Resources | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(Struct):
    """``transition_id`` names the session that wrote the condition; it and the time alone are no news."""

    type: str = ""
    status: ConditionStatus = "Unknown"
    transition_id: str = msgspec.field(default="", name="transitionID")
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class PodGroupStatus(Struct):
    phase: str = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class PodGroup(Struct):
    """One gang.  Its definition has no status subresource: a status write is a write of the object."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class NodeGroupTerms(Struct):
    """Names of node groups that the pods of a queue must or should be on, or keep off."""

    required: tuple[str, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[str, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class QueueAffinity(Struct):
    node_group_affinity: NodeGroupTerms | None = None
    node_group_anti_affinity: NodeGroupTerms | None = None


class Guarantee(Struct):
    resource: Resources = {}


class ExtendCluster(Struct):
    name: str = ""
    weight: Int32 = 0
    capacity: Resources = {}


class QueueSpec(Struct):
    """Of resources that are not named, ``capability`` limits none and the other two grant none."""

    weight: Int32 = 1
    capability: Resources = {}
    deserved: Resources = {}  # a fair share that others may borrow and this queue takes back
    guarantee: Guarantee = Guarantee()  # never lent
    reclaimable: bool = True
    parent: str = ""  # "" is the root queue
    priority: Int32 = 0
    affinity: QueueAffinity | None = None
    type: str = ""
    extend_clusters: tuple[ExtendCluster, ...] = ()
    dequeue_strategy: str = "traverse"  # or "fifo"; what is neither is the first, as in Volcano
    max_pod_groups: Int32 | None = None  # of active ones; None is no limit


class Reservation(Struct):
    nodes: tuple[str, ...] = ()
    resource: Resources = {}


def _nothing() -> Resources:
    """A default that is written: Volcano's definition of a queue requires the field."""
    return {}


class QueueStatus(Struct):
    """Counts are of pod groups by phase."""

    state: str = ""
    unknown: Int32 = 0
    pending: Int32 = 0
    running: Int32 = 0
    inqueue: Int32 = 0
    completed: Int32 = 0
    reservation: Reservation = Reservation()
    allocated: Resources = msgspec.field(default_factory=_nothing)


class Queue(Struct):
    metadata: ObjectMeta
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


def find_condition(conditions: Iterable[PodGroupCondition], type_: str) -> PodGroupCondition | None:
    return next((condition for condition in conditions if condition.type == type_), None)
