"""scheduling.volcano.sh/v1beta1: pod groups and queues.

Fields and defaults are Volcano's (1.15); ``maxPodGroups`` and the meaning of ``dequeueStrategy`` are
Quorate's. Phases, states and strategies are text, not enumerations, because Volcano's CRDs accept any value;
the reader decides how to treat an unknown one.
"""

from datetime import datetime
from typing import Final, Literal

import msgspec

from quorate.api.core import Resources, check_number_of_resources
from quorate.api.meta import ConditionStatus, Int32, LabelSelector, ObjectMeta, Struct, always_encoded

GROUP: Final = "scheduling.volcano.sh"
VERSION: Final = "v1beta1"

# Phases of a pod group.  A new object has none, which means Pending.
PENDING: Final = "Pending"
INQUEUE: Final = "Inqueue"  # admitted: its pods may be created
RUNNING: Final = "Running"
UNKNOWN: Final = "Unknown"  # some members run, but the whole group cannot be scheduled
COMPLETED: Final = "Completed"

# Condition types of a pod group, at most one condition each.
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULED: Final = "Scheduled"

# Volcano's reasons of an Unschedulable condition.
POD_FAILED: Final = "PodFailed"
NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"
# Quorate's reasons, for groups that wait for admission or were rolled back.
NAMESPACE_QUOTA_EXCEEDED: Final = "NamespaceQuotaExceeded"
QUEUE_NOT_FOUND: Final = "QueueNotFound"
QUEUE_NOT_OPEN: Final = "QueueNotOpen"
QUEUE_POD_GROUP_LIMIT: Final = "QueuePodGroupLimit"
# The reason of a Scheduled condition.
READY_TO_BE_SCHEDULED: Final = "tasks in gang are ready to be scheduled"

# States of a queue.  A new object has none, which means Open.
OPEN: Final = "Open"
CLOSED: Final = "Closed"
CLOSING: Final = "Closing"  # closed to new pod groups, with old ones left
# The fourth state is UNKNOWN.

ROOT_QUEUE: Final = "root"
DEFAULT_QUEUE: Final = "default"


class NetworkTopology(Struct):
    """Whether members must (hard) or should (soft) be placed within a network tier.

    The highest tier is given either as a number or by name.
    """

    mode: Literal["hard", "soft"] = "hard"
    highest_tier_allowed: Int32 | None = None
    highest_tier_name: str = ""


class SubGroupPolicy(Struct):
    """Divides the members that match ``label_selector`` into gangs of ``sub_group_size``."""

    name: str = ""
    network_topology: NetworkTopology | None = None
    sub_group_size: Int32 = 1
    min_sub_groups: Int32 = 0
    label_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()


class PodGroupSpec(Struct):
    """``min_resources`` is None if the group's needs are unknown, and empty if it needs nothing."""

    min_member: Int32 = always_encoded(int)
    min_task_member: dict[str, Int32] = {}  # by role
    queue: str = DEFAULT_QUEUE
    priority_class_name: str = ""
    min_resources: Resources | None = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()

    def __post_init__(self) -> None:
        check_number_of_resources("minResources", self.min_resources)


class PodGroupCondition(Struct):
    """``transition_id`` identifies the writing session; its change alone is irrelevant."""

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
    """A gang.  Its CRD has no status subresource: a status write replaces the object."""

    metadata: ObjectMeta
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def queue_name(self) -> str:
        """Return the name of the queue of the group; an empty name in the spec is the default queue."""
        return self.spec.queue or DEFAULT_QUEUE


class NodeGroupTerms(Struct):
    """Names of node groups that a queue's pods must, should or must not use."""

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
    """Unlisted resources are unlimited in ``capability``, and zero in the other two."""

    weight: Int32 = 1
    capability: Resources = {}
    deserved: Resources = {}  # a share that other queues may borrow and this queue reclaims
    guarantee: Guarantee = Guarantee()  # never lent to other queues
    reclaimable: bool = True
    parent: str = ""  # "" means the root queue
    priority: Int32 = 0
    affinity: QueueAffinity | None = None
    type: str = ""
    extend_clusters: tuple[ExtendCluster, ...] = ()
    dequeue_strategy: str = "traverse"  # or "fifo"; other values mean traverse, as in Volcano
    max_pod_groups: Int32 | None = None  # active pod groups; None: no limit


class Reservation(Struct):
    nodes: tuple[str, ...] = ()
    resource: Resources = {}


def _nothing() -> Resources:
    """Return a default that is encoded, because Volcano's CRD requires the field."""
    return {}


class QueueStatus(Struct):
    """Counts are pod groups by phase."""

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

    @property
    def parent(self) -> str:
        """Return the name of the parent queue; empty for the root."""
        return "" if self.metadata.name == ROOT_QUEUE else self.spec.parent or ROOT_QUEUE


# The root of the queue tree, and the queue of pod groups that name none: every cluster has both.
BUILT_IN_QUEUES: Final = {
    ROOT_QUEUE: Queue(metadata=ObjectMeta(name=ROOT_QUEUE), spec=QueueSpec(reclaimable=False)),
    DEFAULT_QUEUE: Queue(metadata=ObjectMeta(name=DEFAULT_QUEUE), spec=QueueSpec(parent=ROOT_QUEUE)),
}
